"""`storagelab report`, `waits` and `export`: what is stored, judged anew and written."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Sequence
from pathlib import Path

from storagelab import screen
from storagelab.errors import SpecError
from storagelab.findings import FitKind
from storagelab.findings.analysis import analyse
from storagelab.findings.model import Findings
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.report import writing
from storagelab.report.text import terminal
from storagelab.run import stored
from storagelab.run.store import FILE_NAME
from storagelab.spec.naming import find_cell
from storagelab.words.names import factor_labels


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without Python's search for unused cycles: all that is read stays to the end, and that would look through it in vain,
    which took a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_uncollected()
def report(
    name: str, results: Path, format_: str, output: Path | None, fit: FitKind, *, chart: str = "", embed_data: bool
) -> None:
    drawn = format_ in ("png", "svg")
    if chart and not drawn:
        raise SpecError("a chart is a picture", key="--chart", hint="add --format png or --format svg")
    folder, experiment, expanded, runs, findings = _stored(name, results, fit, whole=embed_data)
    if chart:
        writing.write_chart(chart, output, folder, format_, findings, runs)
    elif drawn:
        writing.write_charts(output, folder, format_, findings, runs)
    elif format_ == "html" and output is None:
        file = writing.write_report(folder, experiment, expanded, runs, findings, embed_data=embed_data)
        writing.tell(file)
        _say_where(folder, experiment.name)
    else:
        writing.deliver(writing.render(format_, experiment, expanded, runs, findings, embed_data=embed_data), output)


def _say_where(folder: Path, name: str) -> None:
    """Where everything else lies, beside the page."""
    screen.say(f"raw data: {folder / FILE_NAME}; as JSON: storagelab export {name}")
    screen.say(f"charts as files: storagelab report {name} --format png (or svg); one of them: --chart completion-time")


@_uncollected()
def waits(name: str, cells: Sequence[str], results: Path, *, uncut: bool) -> None:
    _, _, _, _, findings = _stored(name, results)
    labels = factor_labels(findings.factors)
    asked = [find_cell(cell, findings.cells, labels) for cell in cells]
    terminal.print_waits(screen.out(), findings, asked or [cell.cell_id for cell in findings.cells], uncut)


@_uncollected()
def export(name: str, results: Path, format_: str, output: Path | None, fit: FitKind, *, salvage: bool) -> None:
    if salvage:
        folder, experiment, expanded, runs, findings = _salvaged(name, results, fit)
    else:
        folder, experiment, expanded, runs, findings = _stored(name, results, fit, whole=True)
    if format_ == "sqlite":
        writing.write_tables(output, folder, experiment, expanded, runs, findings)
        return
    writing.deliver(writing.render(format_, experiment, expanded, runs, findings), output)


def _stored(
    name: str, results: Path, fit: FitKind = "robust", *, whole: bool = False
) -> tuple[Path, Experiment, Plan, tuple[Run, ...], Findings]:
    folder, experiment, expanded, runs = stored.read(name, results, whole=whole)
    return folder, experiment, expanded, runs, analyse(experiment, expanded, runs, fit)


def _salvaged(
    name: str, results: Path, fit: FitKind = "robust"
) -> tuple[Path, Experiment, Plan, tuple[Run, ...], Findings]:
    """Like `_stored`, but reads what is left of a damaged store, and says what is lost."""
    (folder, experiment, expanded, runs), lost = stored.salvage(name, results)
    screen.say(f"{len(runs)} runs can be read of the {len(expanded.runs)} that the spec asks for")
    for one in lost:
        screen.say(f"lost: {one}")
    return folder, experiment, expanded, runs, analyse(experiment, expanded, runs, fit)
