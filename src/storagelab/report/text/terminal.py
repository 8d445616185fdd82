"""Findings and plans on a terminal: plain lines in a pipe, colour only where there is one to see it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from storagelab.errors import StoragelabError
from storagelab.findings.model import CellSummary, Findings
from storagelab.model.plan import Cell, Experiment, Plan
from storagelab.model.waits import TableRow
from storagelab.report.text.columns import Column, emit, print_paragraph, print_table
from storagelab.report.text.plan_facts import PlanFacts, VolumeFacts
from storagelab.report.text.tables import CELL_RANKS, WAIT_RANKS, cell_columns, cells_shown, wait_columns, waits_of
from storagelab.report.words import compared
from storagelab.report.words.doubts import caution_sentence
from storagelab.report.words.headline import headline, verdict_mark
from storagelab.report.words.names import cell_text, factor_text, level_text, listed, value_text
from storagelab.report.words.numbers import bytes_, count, duration, plural
from storagelab.report.words.sentences import sentences
from storagelab.report.words.waiting import audit_sentences, no_waits_sentence, wait_footnotes, waits_title

_CELLS_SHOWN = 40
_WIDE = 140  # from here on the SQL Server names stand in the table, not below it
_FIRST_RUNS_SHOWN = 6
_NUMBER = re.compile(r"[\d.,]+ ?\w{0,3}")
"""A level that is one, with its unit."""
_LONG_LEVEL = 16
_WORDS = 32
"""Characters of a line that words of levels may have before other columns go."""
_LEFT = ("verdict", "against the best (joint 95 % CI)", "WaitType", "In SQL Server")
_MARKS = {"counter": "", "sampled": "~", "derived": "*"}


def print_findings(console: Console, findings: Findings) -> None:
    """The whole verdict: headline, sentences, the table of cells, waits of best and worst, doubts."""
    print_paragraph(console, headline(findings), style="bold")
    _blank(console)
    for sentence in sentences(findings):
        print_paragraph(console, sentence, first="- ")
    _print_cells(console, findings)
    if compared.of_raw_io(findings):
        _print_doubts(console, findings)
        return
    # With several loads, the ends are those of the load under which layouts are furthest apart.
    best = () if findings.loads else findings.best[:1]
    ends = [cell_id for cell_id in (*best, findings.fastest, findings.worst) if cell_id is not None]
    print_waits(console, findings, list(dict.fromkeys(ends)), uncut=False)
    _print_doubts(console, findings)


def _blank(console: Console) -> None:
    emit(console, Text(""))


def _print_cells(console: Console, findings: Findings) -> None:
    cells, left_out = cells_shown(findings, _CELLS_SHOWN)
    if not any(cell.elapsed_s for cell in cells):
        return
    _blank(console)
    columns = [
        Column(name, texts, rank=CELL_RANKS.get(name, 0), right=name not in _LEFT and _is_numeric(name, texts))
        for name, texts in cell_columns(findings, cells)
    ]
    if sum(column.width + 2 for column in columns if not column.rank) > console.width:
        levels = Column("cell", [level_text(cell.levels) for cell in cells], right=False, wraps=True)
        count = len(findings.factors)
        columns = [*_narrow(columns[:count], levels), *columns[count:]]
    styles = [_STYLES.get(verdict_mark(findings, cell.cell_id).split(" ")[0], "") for cell in cells]
    print_table(console, columns, rows_styled=styles)
    if left_out:
        print_paragraph(console, f"... and {left_out} slower cells; the report has them all.", first="  ")


def _narrow(factors: Sequence[Column], together: Column) -> list[Column]:
    """The columns of factors where they are too wide: up to two of long words are wrapped, more become one column."""
    long = [column for column in factors if column.width > _LONG_LEVEL]
    if not 1 <= len(long) <= 2 or sum(column.width for column in factors if column not in long) > _WORDS:
        return [together]
    least = _WORDS // len(long)
    return [replace(column, right=False, wraps=True, least=least) if column in long else column for column in factors]


_STYLES = {"best": "green", "tied": "green", "slower": ""}


def _is_numeric(name: str, texts: Sequence[str]) -> bool:
    """Whether a column lines up to the right: everything but a factor whose levels are words."""
    return name in CELL_RANKS or name.startswith("mean") or all(_NUMBER.fullmatch(text) for text in texts if text)


def _print_doubts(console: Console, findings: Findings) -> None:
    if not findings.cautions:
        return
    _blank(console)
    emit(console, Text("To bear in mind", style="bold"))
    for caution in sorted(findings.cautions, key=lambda caution: caution.severity != "caution"):
        serious = caution.severity == "caution"
        text = caution_sentence(caution, findings)
        print_paragraph(console, text, first="! " if serious else "- ", style="yellow" if serious else "")


# ---------------------------------------------------------------------------------------------------------------------
# Waits
# ---------------------------------------------------------------------------------------------------------------------


def print_waits(console: Console, findings: Findings, cell_ids: Sequence[str], uncut: bool) -> None:
    """The nine columns for each cell, best first as given. `uncut` shows all waits, not just those of the top 95 %."""
    known = {cell.cell_id: cell for cell in findings.cells}
    unknown = [cell_id for cell_id in cell_ids if cell_id not in known]
    if unknown:
        raise StoragelabError(f"no cell {listed(unknown)} in {findings.experiment}\n  cells: {', '.join(known)}")
    noted: dict[str, TableRow] = {}
    for cell_id in cell_ids:
        rows = waits_of(known[cell_id], uncut)
        noted.update((row.wait_type, row) for row in rows)
        _blank(console)
        _print_waits_of(console, findings, known[cell_id], rows, uncut)
    if noted:
        _blank(console)
    for line in wait_footnotes(list(noted.values()), analogues=console.width < _WIDE):
        print_paragraph(console, line, first="  ", style="dim")


def _print_waits_of(
    console: Console, findings: Findings, cell: CellSummary, rows: Sequence[TableRow], uncut: bool
) -> None:
    print_paragraph(console, waits_title(findings, cell, uncut), style="bold")
    if not rows:
        print_paragraph(console, no_waits_sentence(cell), first="  ")
    else:
        _print_wait_rows(console, rows)
    for line in audit_sentences(cell):
        print_paragraph(console, line, first="  ")


def _print_wait_rows(console: Console, rows: Sequence[TableRow]) -> None:
    marks = [_MARKS[row.method] for row in rows]
    columns = [
        Column(name, texts, rank=WAIT_RANKS.get(name, 0), right=name not in _LEFT) for name, texts in wait_columns(rows)
    ]
    if any(marks):
        columns.insert(1, Column("", marks, right=False))
    print_table(console, columns if console.width >= _WIDE else columns[:-1])


# ---------------------------------------------------------------------------------------------------------------------
# Plan
# ---------------------------------------------------------------------------------------------------------------------


def print_plan(console: Console, experiment: Experiment, plan: Plan, facts: PlanFacts, whole: bool = False) -> None:
    """What `run` would do: cells, runs and their order, server, disk space, time. Nothing is touched to know it.

    Shows the first of many cells, and the first few runs; `whole` shows all cells, and every run in its order.
    """
    question = f": {experiment.question}" if experiment.question else ""
    print_paragraph(console, experiment.name + question, style="bold")
    _blank(console)
    pairs = [
        ("Runs", _runs_text(experiment, plan, facts)),
        ("Order", _order_text(experiment, plan)),
        ("First", "" if whole else _first_runs_text(plan)),
        ("Server", facts.server),
        *(("Durable", line) for line in facts.durability),
        ("Time", _time_text(plan, facts)),
    ]
    for name, text in pairs:
        if text:
            print_paragraph(console, text, first=f"{name:<8}")
    _print_planned_cells(console, experiment, plan, len(plan.cells) if whole else _CELLS_SHOWN)
    if whole:
        _print_planned_runs(console, experiment, plan)
    _print_volumes(console, [VolumeFacts(*volume) for volume in facts.volumes])
    if facts.warnings:
        _blank(console)
    for warning in facts.warnings:
        print_paragraph(console, warning, first="! ", style="yellow")


def _runs_text(experiment: Experiment, plan: Plan, facts: PlanFacts) -> str:
    text = (
        f"{plural(len(plan.cells), 'cell')} x {plural(experiment.repetitions, 'repetition')} "
        + (f"+ {plural(burn_in, 'burn-in run')} " if (burn_in := sum(run.burn_in for run in plan.runs)) else "")
        + f"= {plural(len(plan.runs), 'run')}"
    )
    if not facts.runs_stored:
        return text
    left = len(plan.runs) - facts.runs_stored
    return f"{text}; {count(facts.runs_stored)} stored already, {count(left)} to go"


def _order_text(experiment: Experiment, plan: Plan) -> str:
    blocks = len({run.block for run in plan.runs})
    text = {
        "randomised": f"randomised with seed {experiment.seed}",
        "as-listed": "as listed in the spec",
        "cell-by-cell": "as listed in the spec, all repetitions of a cell before the next",
    }[experiment.order]
    if blocks > 1:
        costly = listed([factor_text(name) for name in _constant_in_blocks(plan)])
        text += f", in {blocks} blocks" + (f", one for each {costly}" if costly else "")
    return text


def _constant_in_blocks(plan: Plan) -> list[str]:
    """The factors that have one level in each block."""
    levels = {cell.cell_id: cell.levels for cell in plan.cells}
    seen: dict[tuple[str, int], set[str]] = {}
    for run in plan.runs:
        for name, level in levels[run.cell_id].items():
            seen.setdefault((name, run.block), set()).add(str(level))
    return [name for name in plan.cells[0].levels if all(len(one) == 1 for (at, _), one in seen.items() if at == name)]


def _first_runs_text(plan: Plan) -> str:
    levels = {cell.cell_id: cell.levels for cell in plan.cells}
    order = list(dict.fromkeys(run.cell_id for run in plan.runs if run.cell_id in levels))
    repeated = any(one.cell_id == other.cell_id for one, other in itertools.pairwise(plan.runs))
    shown = order if repeated else [run.cell_id for run in plan.runs if run.cell_id in levels]
    first = [cell_text(levels[cell_id]) for cell_id in shown[:_FIRST_RUNS_SHOWN]]
    more = " ..." if len(shown) > len(first) else ""
    return "; ".join(first) + more if len(plan.cells) > 1 else ""


def _time_text(plan: Plan, facts: PlanFacts) -> str:
    if facts.runs_stored >= len(plan.runs):
        return "none: every run is stored"
    basis = f" ({facts.estimate_basis})" if facts.estimate_basis else ""
    if facts.estimate_s is None:
        return f"no estimate{basis or ' until a run has finished'}"
    return f"about {duration(facts.estimate_s)}{basis}"


def _print_planned_cells(console: Console, experiment: Experiment, plan: Plan, most: int) -> None:
    cells = plan.cells[:most]
    _blank(console)
    identity = Column("cell", [cell.cell_id for cell in cells], right=False, style="dim")
    _print_levels(console, experiment, [identity], cells)
    if len(plan.cells) > len(cells):
        more = count(len(plan.cells) - len(cells))
        print_paragraph(console, f"... and {more} more; --all lists them, and every run in its order", first="  ")


def _print_planned_runs(console: Console, experiment: Experiment, plan: Plan) -> None:
    """Every run in its order, and the block it is in where there are several."""
    cells = {cell.cell_id: cell for cell in plan.cells}
    columns = [
        Column("run", [count(number) for number in range(1, len(plan.runs) + 1)]),
        Column("block", [count(run.block + 1) for run in plan.runs]),
        Column("repetition", ["burn-in" if run.burn_in else count(run.repetition) for run in plan.runs]),
        Column("cell", [run.cell_id for run in plan.runs], right=False, style="dim"),
    ]
    if len({run.block for run in plan.runs}) == 1:
        del columns[1]
    _blank(console)
    _print_levels(console, experiment, columns, [cells[run.cell_id] for run in plan.runs])


def _print_levels(console: Console, experiment: Experiment, before: Sequence[Column], cells: Sequence[Cell]) -> None:
    """A row for each of `cells`: the columns `before`, then its levels, wrapped where they are too wide."""
    factors = [
        Column(factor_text(factor.name), texts, right=_is_numeric("", texts))
        for factor in experiment.factors
        if (texts := [_level_of(cell, factor.name) for cell in cells])
    ]
    columns = [*before, *factors]
    if sum(column.width + 2 for column in columns) > console.width:
        levels = Column("levels", [level_text(cell.levels) for cell in cells], right=False, wraps=True)
        columns = [*before, *_narrow(factors, levels)]
    print_table(console, columns)


def _level_of(cell: Cell, name: str) -> str:
    return value_text(cell.levels[name]) if name in cell.levels else ""


def _print_volumes(console: Console, volumes: Sequence[VolumeFacts]) -> None:
    if not volumes:
        return
    _blank(console)
    columns = [
        Column("volume", [volume.name for volume in volumes], right=False),
        Column("needs", [bytes_(volume.needed_bytes) for volume in volumes]),
        Column("free", [bytes_(volume.free_bytes) for volume in volumes]),
        Column("", ["not enough" if volume.lacks_space else "" for volume in volumes], right=False),
        Column("path", [volume.path for volume in volumes], right=False, wraps=True),
        Column("device", [volume.device for volume in volumes], right=False, wraps=True, rank=1),
    ]
    lacking = [column for column in columns if column.heading or any(column.cells)]
    print_table(console, lacking, rows_styled=["red" if volume.lacks_space else "" for volume in volumes])
