"""`storagelab report`: analyses the stored runs again and writes their report. Also writes the page of a capture."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from storagelab import screen, verbs
from storagelab.errors import SpecError
from storagelab.verbs import Given, Unused, Verb, when

app = Verb("Read", 1)


def _of_capture(*formats: str) -> Callable[[Given], bool]:
    def is_capture(given: Given) -> bool:
        from storagelab.capture import folder

        return folder.is_capture(Path(given["name"])) and (not formats or given["format_"] in formats)

    return is_capture


_A_CAPTURE = "is not for a capture", "Leave it out: a capture has a page and Markdown (--format md)."
_DRAWN = ("png", "svg")
UNUSED = (
    Unused("--results --fit --chart --embed-data --brief --sql-server-names", _of_capture(), *_A_CAPTURE),
    Unused("--format", _of_capture(*_DRAWN), *_A_CAPTURE),
    Unused("--chart", when("format_", "html", "md"), "is for a picture", "Add --format png or --format svg."),
    Unused("--brief", when("format_", "md", *_DRAWN), "is for a page", "Leave out --format, or write --format html."),
    Unused("--embed-data", when("format_", "md", *_DRAWN), "is for a page",
           "Leave it out; storagelab export writes all raw data."),
    Unused("--embed-data --sql-server-names", when("brief"), "is not for the brief page", "Leave it or --brief out."),
    Unused("--sql-server-names", when("format_", *_DRAWN), "is for a page, Markdown and text"),
)  # fmt: skip


@app.command(unused=UNUSED)
def report(
    name: verbs.NameArgument,
    results: verbs.ResultsOption = verbs.DEFAULT_RESULTS,
    format_: Annotated[
        Literal["html", "md", "text", "png", "svg"], Option("--format", help="Format of the report.")
    ] = "html",
    output: verbs.OutputOption = None,
    fit: verbs.FitOption = "robust",
    chart: Annotated[str, Option("--chart", metavar="CHART", help="png, svg: only this chart, such as cells.")] = "",
    embed_data: Annotated[bool, Option("--embed-data", help="html: include raw data of any size.")] = False,
    brief: Annotated[bool, Option("--brief", help="html: only the answer, on one printed sheet.")] = False,
    limit: Annotated[str, Option(metavar="LIMIT", help='Draw a limit: "10ms", or a rate: "900/s".')] = "",
    sql_server_names: verbs.SqlServerNamesOption = False,
) -> None:
    """Write the report of an experiment from its stored runs.

    html writes one file. png and svg write one file for each chart, or only one chart. md and text go to stdout. For a
    PDF, print the page. For data for other programs, use storagelab export.
    """
    from storagelab.capture import folder
    from storagelab.findings.analysis import analyse
    from storagelab.report import writing
    from storagelab.report.sections.contents import document
    from storagelab.report.text import terminal
    from storagelab.report.words.compared import by_rate
    from storagelab.run import stored
    from storagelab.run.store import FILE_NAME

    if folder.is_capture(Path(name)):
        _write_capture(Path(name), format_, output)
        return
    place, experiment, expanded, runs = stored.read(name, results, whole=embed_data)
    findings = analyse(experiment, expanded, runs, fit)
    most = _limit(limit, by_rate=by_rate(findings))
    how = writing.How(embed_data, sql_server_names, limit=most)
    if brief:
        writing.write_brief(output, place, runs, findings, most)
    elif chart:
        writing.write_chart(chart, output, place, format_, findings, runs)
    elif format_ in _DRAWN:
        writing.write_charts(output, place, format_, findings, runs)
    elif format_ == "html" and output is None:
        writing.tell(writing.write_report(place, experiment, expanded, runs, findings, how=how))
        shown = place.name if place.parent == verbs.DEFAULT_RESULTS else place
        screen.say(f"raw data: {place / FILE_NAME}; as JSON: storagelab export {shown}")
        screen.say(f"charts as files: storagelab report {shown} --format png (or svg); one of them: --chart cells")
    elif format_ == "text" and output is None:
        named = findings if sql_server_names else writing.own_names_only(findings)
        terminal.print_document(screen.out(), document(experiment, expanded, runs, named, limit=most))
    else:
        writing.deliver(writing.render(format_, experiment, expanded, runs, findings, how=how), output)


def _write_capture(path: Path, format_: str, output: Path | None) -> None:
    """Writes a page into the capture's folder, or Markdown to stdout."""
    from storagelab.capture import folder
    from storagelab.report import writing
    from storagelab.report.page.papers import capture_page
    from storagelab.report.text.markdown import markdown
    from storagelab.report.words.captured import capture_paper

    captured, name = folder.read(path), path.resolve().name
    if format_ == "md":
        writing.deliver(markdown(capture_paper(captured, name)), output)
    elif output is not None:
        writing.deliver(capture_page(captured, name), output)
    else:
        writing.write(path / writing.REPORT_FILE, capture_page(captured, name), within=path)
        writing.tell(path / writing.REPORT_FILE)


def _limit(text: str, *, by_rate: bool) -> float | None:
    """Returns the reader's limit, as seconds, or as a rate if the layouts are judged `by_rate`. Returns None if `text`
    is empty. Raises SpecError if `text` is not of this quantity.
    """
    from storagelab.spec.units import parse_seconds

    if not text:
        return None
    number, per, _ = text.partition("/s")
    try:
        limit = float(number.replace(",", "")) if per else parse_seconds(text)
    except ValueError:
        limit = 0.0
    if not 0 < limit < math.inf or by_rate != bool(per):
        judged, hint = ("throughput", "Give a rate: 900/s.") if by_rate else ("time", "Give a time: 10ms.")
        raise SpecError(f"{text!r} is no limit for layouts judged by {judged}", key="--limit", hint=hint)
    return limit
