"""Write a report, in any of its forms.

write_report(folder, ...)     report.html in the experiment's results folder
render("md", ...)             the same findings in another form, as text
write_charts(folder, "png")   each chart as a file
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Sequence
from pathlib import Path

from storagelab import screen
from storagelab.errors import StoragelabError
from storagelab.findings.model import Findings
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.report.charts import wide_specs
from storagelab.report.drawing.vega import to_png, to_svg
from storagelab.report.export.as_csv import csv_runs, csv_waits
from storagelab.report.export.as_json import to_json
from storagelab.report.export.as_sqlite import sqlite_file
from storagelab.report.export.tables import all_of
from storagelab.report.text.markdown import markdown
from storagelab.spec.characters import escaped
from storagelab.version import __version__

FORMATS = ("html", "md", "csv", "waits-csv", "json")
REPORT_FILE = "report.html"
TABLES_FILE = "tables.sqlite"


def render(
    format_: str,
    experiment: Experiment,
    plan: Plan,
    runs: Sequence[Run],
    findings: Findings,
    *,
    embed_data: bool = False,
) -> str:
    """The report in one form: "html", "md"; for programs "csv" (runs), "waits-csv" and "json" (the export).

    `embed_data`: an HTML page carries its raw data, however large.
    """
    if format_ == "html":
        made_by = {"report made by": f"storagelab {__version__}"}
        from storagelab.report.page.html import page  # here, because most verbs need no templates

        return page(experiment, plan, runs, findings, manifest=made_by, embed_data=embed_data)
    if format_ == "md":
        return markdown(experiment, plan, runs, findings)
    if format_ == "csv":
        return csv_runs(experiment, plan, runs)
    if format_ == "waits-csv":
        return csv_waits(experiment, plan, runs)
    if format_ == "json":
        return to_json(experiment, plan, runs, findings)
    raise StoragelabError(f"unknown report format {format_!r}\n  known formats: {', '.join(FORMATS)}")


def write_report(
    folder: Path,
    experiment: Experiment,
    plan: Plan,
    runs: Sequence[Run],
    findings: Findings,
    *,
    embed_data: bool = False,
) -> Path:
    """Write report.html into `folder` and return its path. A concurrent reader sees the old page or the new one."""
    file = folder / REPORT_FILE
    write_atomically(file, render("html", experiment, plan, runs, findings, embed_data=embed_data))
    return file


def write_tables(file: Path, experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings) -> None:
    """Write a SQLite file for queries, with the tables runs, waits, series and cells."""
    tables = {name: make() for name, make in all_of(experiment, plan, runs, findings).items()}
    write_atomically(file, sqlite_file(tables))


def write_charts(folder: Path, format_: str, findings: Findings, runs: Sequence[Run]) -> list[Path]:
    """Write each chart that has data into `folder`, as "png" or "svg"; return the files, in reading order."""
    files = []
    for name, spec in wide_specs(findings, runs).items():
        file = folder / f"{name}.{format_}"
        write_atomically(file, to_png(spec) if format_ == "png" else to_svg(spec))
        files.append(file)
    return files


def deliver(text: str, output: Path | None) -> None:
    """Write to a file or to stdout."""
    if output is None:
        screen.write(text)
    else:
        write_atomically(output, text)
        screen.say(f"written: {output}")


def write_atomically(file: Path, content: str | bytes) -> None:
    """Write `file` completely or not at all: write a temporary file beside it, then rename that.

    Raises StoragelabError if the folder can't be written.
    """
    data = escaped(content).encode() if isinstance(content, str) else content
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        _remove_half_written(file)
        path = file.with_name(f".{file.name}.{os.getpid()}")
        path.unlink(missing_ok=True)
        with path.open("xb") as temporary:  # never through an existing link
            try:
                temporary.write(data)
                temporary.flush()
                os.fsync(temporary.fileno())
                path.chmod(0o644)
                path.replace(file)
            except BaseException:
                with contextlib.suppress(OSError):
                    path.unlink()
                raise
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "make room, or name another place with --output"
        raise StoragelabError(f"{file} can't be written: {reason}\n  {hint}") from None


def _remove_half_written(file: Path) -> None:
    """What processes left that were killed amid this: each wrote beside the file, under its own number."""
    for left in file.parent.glob(f".{glob.escape(file.name)}.*"):
        number = left.suffix.removeprefix(".")
        if number.isdecimal() and not Path(f"/proc/{number}").exists():
            left.unlink(missing_ok=True)
