"""`storagelab report`, `waits` and `export`: judge what is stored anew, and write it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from storagelab import screen
from storagelab.capture import folder
from storagelab.errors import SpecError
from storagelab.findings import FitKind
from storagelab.findings.analysis import analyse
from storagelab.report import writing
from storagelab.report.sections.contents import document
from storagelab.report.sections.waits import wait_parts
from storagelab.report.text import as_data, terminal
from storagelab.report.writing import own_names_only
from storagelab.run import stored
from storagelab.run.store import FILE_NAME
from storagelab.spec.naming import find_cell
from storagelab.spec.units import parse_seconds
from storagelab.verbs import capture
from storagelab.words.names import factor_labels


class Asked(NamedTuple):
    """What is asked of a report: its page with all raw data; the answer alone; with SQL Server's names of waits; with
    the reader's own limit, such as "10ms" or "900/s".
    """

    embed_data: bool = False
    brief: bool = False
    sql_server_names: bool = False
    limit: str = ""

    @property
    def page(self) -> writing.How:
        return writing.How(self.embed_data, self.sql_server_names, limit=limit_of(self.limit))


def report(
    name: str, results: Path, format_: str, output: Path | None, fit: FitKind, *, chart: str = "", asked: Asked
) -> None:
    if folder.is_capture(Path(name)):
        capture.report(Path(name), format_, output)
        return
    drawn = format_ in ("png", "svg")
    place, experiment, expanded, runs = stored.read(name, results, whole=asked.embed_data)
    findings = analyse(experiment, expanded, runs, fit)
    if asked.brief:
        writing.write_brief(output, place, runs, findings, limit_of(asked.limit))
    elif chart:
        writing.write_chart(chart, output, place, format_, findings, runs)
    elif drawn:
        writing.write_charts(output, place, format_, findings, runs)
    elif format_ == "html" and output is None:
        file = writing.write_report(place, experiment, expanded, runs, findings, how=asked.page)
        writing.tell(file)
        _say_where(place, experiment.name)
    elif format_ == "text" and output is None:
        of = document(experiment, expanded, runs, own_names_only(findings), limit=limit_of(asked.limit))
        terminal.print_document(screen.out(), of)
    else:
        writing.deliver(writing.render(format_, experiment, expanded, runs, findings, how=asked.page), output)


def limit_of(text: str) -> float | None:
    """A reader's limit, in seconds or as a rate; None if there is none. Raises SpecError."""
    if not text:
        return None
    number, per, _ = text.partition("/s")
    try:
        limit = float(number.replace(",", "")) if per else parse_seconds(text)
    except ValueError:
        limit = 0.0
    if not 0 < limit < math.inf:
        raise SpecError(
            f"{text!r} is no limit", key="--limit", hint='A time, such as "10ms", or a rate, such as "900/s".'
        )
    return limit


def _say_where(folder: Path, name: str) -> None:
    """Names the places of everything else beside the page."""
    screen.say(f"raw data: {folder / FILE_NAME}; as JSON: storagelab export {name}")
    screen.say(f"charts as files: storagelab report {name} --format png (or svg); one of them: --chart cells")


def waits(
    name: str, cells: Sequence[str], results: Path, *, uncut: bool, sql_server_names: bool, as_json: bool
) -> None:
    of = stored.read(name, results)
    findings = analyse(of.experiment, of.plan, of.runs)
    if not sql_server_names:
        findings = own_names_only(findings)
    labels = factor_labels(findings.factors)
    asked = [find_cell(cell, findings.cells, labels) for cell in cells]
    shown = asked or [cell.cell_id for cell in findings.cells]
    if as_json:
        screen.write(as_data.waits_json(findings, shown, uncut=uncut))
        return
    for cell_id in shown:
        for part in wait_parts(findings, findings.cell(cell_id), uncut=uncut):
            terminal.print_part(screen.out(), part)


def export(name: str, results: Path, format_: str, output: Path | None, fit: FitKind, *, salvage: bool) -> None:
    of = _salvaged(name, results) if salvage else stored.read(name, results, whole=True)
    findings = analyse(of.experiment, of.plan, of.runs, fit)
    if format_ == "sqlite":
        writing.write_tables(output, *of, findings)
        return
    writing.deliver(writing.render(format_, of.experiment, of.plan, of.runs, findings), output)


def _salvaged(name: str, results: Path) -> stored.Results:
    """Reads what is left of a damaged store, and reports what is lost."""
    of, lost = stored.salvage(name, results)
    screen.say(f"{len(of.runs)} runs can be read of the {len(of.plan.runs)} that the spec asks for")
    for one in lost:
        screen.say(f"lost: {one}")
    return of
