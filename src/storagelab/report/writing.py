"""Writes a report in any of its forms.

write_report(folder, ...)                writes report.html into the experiment's results folder
render("md", ...)                        returns the report in one form, as text
write_brief(None, folder, ...)           writes one page for decision-makers
write_charts(None, folder, "png", ...)   writes each chart to a file
write_chart("waits", file, ...)          writes one chart
write(file, content)                     writes any content to a file, a link, a device or a pipe
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from storagelab import __version__, screen
from storagelab.errors import StoragelabError, escaped
from storagelab.findings.model import Findings, WaitChange, WaitTrend
from storagelab.machine.descriptors import descriptor_of, write_whole
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.model.waits import WaitStat
from storagelab.report.charts import wide_specs
from storagelab.report.document import Document
from storagelab.report.drawing.vega import Spec, to_png, to_svg
from storagelab.report.export.as_json import json_pieces, to_json
from storagelab.report.export.tables import all_of, csv_of, sqlite_file
from storagelab.report.sections.contents import brief, document
from storagelab.report.text.markdown import markdown
from storagelab.report.text.terminal import as_text, print_document

FORMATS = ("html", "md", "text", "csv", "waits-csv", "json")
REPORT_FILE = "report.html"
BRIEF_FILE = "brief.html"
TABLES_FILE = "tables.sqlite"
CHARTS_FOLDER = "charts"
STDOUT = Path("-")


class SoFar(NamedTuple):
    """The status of an unfinished campaign, which its page shows. The page reloads itself after `reload_s` seconds; 0
    means never.
    """

    text: str
    reload_s: int


class How(NamedTuple):
    """Options of a report.

    `embed_data`: the page has all raw data, however large. `sql_server_names`: waits also have SQL Server's names.
    `so_far`: the status of an unfinished campaign. `limit`: the reader's limit, in seconds or as a rate.
    """

    embed_data: bool = False
    sql_server_names: bool = False
    so_far: SoFar | None = None
    limit: float | None = None


PLAIN = How()


def render(
    format_: str, experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings, *, how: How = PLAIN
) -> str:
    """Returns the report in one form: "html", "md", "text" or, for programs, "csv" (runs), "waits-csv" or "json" (the
    export). Raises StoragelabError if the form is unknown.
    """
    shown = findings if how.sql_server_names else own_names_only(findings)
    if format_ == "html":
        made_by = {"report made by": f"storagelab {__version__}"}
        from storagelab.report.page.html import page  # here, because most verbs need no templates

        return page(
            experiment, plan, runs, shown, json_pieces(experiment, plan, runs, findings), made_by,
            embed_data=how.embed_data, so_far=how.so_far, limit=how.limit,
        )  # fmt: skip
    if format_ in ("md", "text"):
        of = document(experiment, plan, runs, shown, limit=how.limit)
        return markdown(of) if format_ == "md" else as_text(of)
    if format_ in ("csv", "waits-csv"):
        return csv_of(all_of(experiment, plan, runs, findings)["runs" if format_ == "csv" else "waits"]())
    if format_ == "json":
        return to_json(experiment, plan, runs, findings)
    raise StoragelabError(f"unknown report format {format_!r}\n  known formats: {', '.join(FORMATS)}")


def write_report(
    folder: Path, experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings, *, how: How = PLAIN
) -> Path:
    """Write report.html into `folder` and return its path. A program that reads it meanwhile gets the old or the new
    page, never a part.
    """
    file = folder / REPORT_FILE
    page = render("html", experiment, plan, runs, findings, how=how)
    write(file, page, within=folder, elsewhere=f": storagelab report {folder} --output FILE")
    return file


def write_brief(
    output: Path | None, folder: Path, runs: Sequence[Run], findings: Findings, limit: float | None = None
) -> None:
    """Write a page with only the answer, by default into `folder`, and print its path."""
    from storagelab.report.page.html import page_of  # here, because most verbs need no templates

    _write_and_tell(output, folder, BRIEF_FILE, page_of(brief(findings, runs, limit=limit)))


def write_tables(
    output: Path | None, folder: Path, experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings
) -> None:
    """Write a SQLite file with the tables runs, waits, series and cells, by default into `folder`, and print its
    path."""
    tables = {name: make() for name, make in all_of(experiment, plan, runs, findings).items()}
    _write_and_tell(output, folder, TABLES_FILE, sqlite_file(tables))


def write_charts(output: Path | None, folder: Path, format_: str, findings: Findings, runs: Sequence[Run]) -> None:
    """Write each chart that has data to a file of its own ("png" or "svg"), in reading order, and print its path. The
    files are in the folder `output`; by default, it is a folder in `folder`. Raises StoragelabError if it is no folder.
    """
    place = output or folder / CHARTS_FOLDER
    if place == STDOUT or (os.path.lexists(place) and not place.is_dir()):
        hint = "name a folder with --output, or write one chart alone: --chart cells"
        raise StoragelabError(f"{place} is not a folder, and each chart is a file\n  {hint}")
    for name, spec in wide_specs(findings, runs).items():
        file = place / f"{name}.{format_}"
        write(file, _drawn(spec, format_), within=folder if output is None else place)
        tell(file)


def write_chart(
    name: str, output: Path | None, folder: Path, format_: str, findings: Findings, runs: Sequence[Run]
) -> None:
    """Write one chart, and print its path. Raises StoragelabError if no chart has that name; it lists the charts."""
    specs = wide_specs(findings, runs)
    if name not in specs:
        known = ", ".join(specs) or "none, because nothing was measured"
        raise StoragelabError(f"this experiment has no chart {name!r}\n  its charts: {known}")
    _write_and_tell(output, folder, f"{CHARTS_FOLDER}/{name}.{format_}", _drawn(specs[name], format_))


def _drawn(spec: Spec, format_: str) -> str | bytes:
    return to_png(spec) if format_ == "png" else to_svg(spec)


def _write_and_tell(output: Path | None, folder: Path, name: str, content: str | bytes) -> None:
    """Write to `output`, or to the file `name` in `folder` if `output` is None. `output` may be anywhere."""
    file = output or folder / name
    if write(file, content, within=folder if output is None else None):
        tell(file)


def deliver(text: str, output: Path | None) -> None:
    """Write to the file `output`, and print its path on stderr. If `output` is None, write to stdout."""
    if write(output or STDOUT, text):
        screen.say(f"written: {output}")


def deliver_paper(
    of: Document, as_json: Callable[[], str], format_: str, output: Path | None, html_file: str
) -> None:  # fmt: skip
    """Write a short report to `output`. If `output` is None, text goes to the terminal, a page goes to `html_file`, and
    other formats go to stdout.
    """
    if format_ == "text" and output is None:
        print_document(screen.out(), of)
    elif format_ == "html":
        from storagelab.report.page.html import page_of  # here, because only this format needs templates

        file = output or Path(html_file)
        if write(file, page_of(of)):
            tell(file)
    else:
        deliver(as_json() if format_ == "json" else markdown(of) if format_ == "md" else as_text(of), output)


def tell(file: Path) -> None:
    """Print the path of a written file on stdout."""
    screen.say(str(file), stdout=True)


def write(file: Path, content: str | bytes, *, within: Path | None = None, elsewhere: str = " with --output") -> bool:
    """Write a file completely or not at all. "-" means stdout; devices and pipes are written directly. Returns False if
    the data went to stdout or stderr, because then no message may be mixed with them.

    Links in the folder `within` must not lead out of it, because another user may have made them. `elsewhere` is the
    part of an error that says how to name another place. Raises StoragelabError if the file can't be written.
    """
    data = escaped(content).encode() if isinstance(content, str) else content
    number = 1 if file == STDOUT else descriptor_of(file)
    if isinstance(content, bytes) and number is not None and os.isatty(number):
        raise StoragelabError(
            "a terminal can't show this data\n  name a file with --output, or pipe the data into a program"
        )
    if file == STDOUT:
        screen.write(content)
        return False
    try:
        write_whole(file, [data], within=within)
    except BrokenPipeError:
        raise  # the reading program ended
    except OSError as error:
        reason = error.strerror or str(error)
        hint = f"make room, or name another place{elsewhere}"
        raise StoragelabError(f"{file} can't be written: {reason}\n  {hint}") from None
    return number not in (1, 2)


# --- findings with only the engine's own names of waits ---------------------------------------------------------------
#
# For a wait of another engine, storagelab gives the closest wait of SQL Server. This helps only readers who know SQL
# Server. So reports contain these names only on request; the export always contains them.

_Named = TypeVar("_Named", WaitStat, WaitChange, WaitTrend)


def own_names_only(findings: Findings) -> Findings:
    """Returns the findings without SQL Server's names for the waits of other engines."""
    cells = tuple(
        cell.model_copy(
            update={"waits": _own(cell.waits), "spent": tuple(replace(one, analogue="") for one in cell.spent)}
        )
        for cell in findings.cells
    )
    changed = {"cells": cells, "wait_changes": _own(findings.wait_changes), "wait_trends": _own(findings.wait_trends)}
    return findings.model_copy(update=changed)


def _own(rows: Iterable[_Named]) -> tuple[_Named, ...]:
    return tuple(row.model_copy(update={"analogue": ""}) if row.analogue else row for row in rows)
