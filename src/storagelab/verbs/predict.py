"""`storagelab predict`: what a captured server would do on other volumes or with another layout."""

from __future__ import annotations

from pathlib import Path

from storagelab import screen
from storagelab.predicting.prediction import as_text
from storagelab.predicting.reckoning import predict as reckoned
from storagelab.report import writing
from storagelab.report.text.markdown import markdown
from storagelab.report.text.terminal import print_document
from storagelab.report.words.predicted import predicted_paper

HTML_FILE = "prediction.html"


def predict(capture: Path, volumes: Path, format_: str, output: Path | None) -> None:
    found = reckoned(capture, volumes)
    paper = predicted_paper(found)
    if format_ == "json":
        writing.deliver(as_text(found), output)
    elif format_ == "html":
        from storagelab.report.page.html import page_of  # here, because only this format needs templates

        file = output or Path(HTML_FILE)
        if writing.write(file, page_of(paper)):
            writing.tell(file)
    elif format_ == "text" and output is None:
        print_document(screen.out(), paper)
    else:
        writing.deliver(markdown(paper), output)
