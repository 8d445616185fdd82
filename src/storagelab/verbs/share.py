"""`storagelab share`: a campaign for a public gallery, without names."""

from __future__ import annotations

import sys
from pathlib import Path

from storagelab import screen
from storagelab.errors import StoragelabError
from storagelab.findings.analysis import analyse
from storagelab.gallery.pages import FILE_NAME, as_json, folder_name, question_of
from storagelab.gallery.sharing import entry_of
from storagelab.report import writing
from storagelab.run import stored
from storagelab.run.store import FILE_NAME as STORE


def share(name: str, results: Path, output: Path, *, yes: bool) -> None:
    """Shows what is left of the campaign, and writes it into a folder of its own below `output` if the user agrees."""
    whole = Path(name).resolve()
    of = stored.read(*((whole.name, whole.parent) if (whole / STORE).is_file() else (name, results)))
    entry = entry_of(of.experiment, of.plan, of.runs, analyse(of.experiment, of.plan, of.runs))
    text, file = as_json(entry), output / folder_name(entry) / FILE_NAME
    screen.say(text, stdout=True)
    screen.say(f"This is all that would be shared, under: {question_of(entry)}")
    if not yes and not _agreed(file):
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"{file.parent} can't be made: {error.strerror}"
        raise StoragelabError(f"{problem}\n  name another folder with --output") from None
    writing.write(file, text)
    screen.say(f"written: {file}; commit its folder, and send it as a pull request")


def _agreed(file: Path) -> bool:
    if not sys.stdin.isatty():
        raise StoragelabError(
            "nothing was written, as nobody was there to agree\n  read the text above, then add --yes"
        )
    screen.say(f"Write it to {file}? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
