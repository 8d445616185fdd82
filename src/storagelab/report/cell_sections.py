"""What there is to say of single cells: wait tables in nine columns, what sessions were seen waiting for, counters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run, WaitingTask
from storagelab.model.values import JsonValue
from storagelab.model.waits import Method, TableRow
from storagelab.report import arrange, compared, numbers, palette, wording
from storagelab.report.figures import plural, swatch
from storagelab.report.markup import Child, Column, Markup, fold, table, tag
from storagelab.report.tables import NINE_COLUMNS, wait_columns, waits_of

MAX_CELLS_SHOWN = 110
"""As many as the largest of the articles' experiments has: each of its cells has its wait table."""
CELLS_OF_A_LARGE_EXPERIMENT = 20
MAX_TASKS = 8
_MARKS: dict[Method, str] = {"counter": "", "sampled": "~ ", "derived": "* "}
_TITLES = {
    "Wait_S": "seconds waited, summed over connections: Resource_S + Signal_S",
    "Resource_S": "waiting for the thing itself",
    "Signal_S": "the thing was ready, waiting for a CPU",
    "Percentage": "of all waits of the run, before the cut",
}
_COLUMNS = [
    Column(NINE_COLUMNS[0], "text"),
    *(Column(name, title=_TITLES.get(name, "")) for name in NINE_COLUMNS[1:]),
    Column("In SQL Server", "text", "the wait type that a SQL Server DBA would look for"),
    Column("Method", "text", "counted by the engine, sampled, or derived from other figures"),
]


def cells_shown(findings: Findings) -> list[CellSummary]:
    """All cells, or those worth a section of their own where there are very many."""
    if len(findings.cells) <= MAX_CELLS_SHOWN:
        return list(findings.cells)
    return arrange.notable_cells(findings, CELLS_OF_A_LARGE_EXPERIMENT)


def sections(findings: Findings, runs: Sequence[Run], colours: Mapping[str, str]) -> Markup:
    """A part for each cell: those to look at first open, the rest folded away. `colours` are those that the chart gave
    to wait types."""
    by_cell: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_cell[run.cell_id].append(run)
    chosen = arrange.chosen_cells(findings)
    first = {cell.cell_id for cell in chosen}
    rest = [cell for cell in cells_shown(findings) if cell.cell_id not in first]
    parts = [_section(cell, findings, by_cell[cell.cell_id], colours, is_open=True) for cell in chosen]
    others = [_section(cell, findings, by_cell[cell.cell_id], colours, is_open=False) for cell in rest]
    if chosen and len(others) > 1:
        return Markup("".join([_which(findings), *parts, fold(f"{plural(len(others), 'other cell')}", others)]))
    return Markup("".join([*parts, *others]))


def _which(findings: Findings) -> Markup:
    """Why these cells are open, and what became of the others."""
    x = arrange.arrange(findings).x_title
    left_out = len(findings.cells) - len(
        {cell.cell_id for cell in (*cells_shown(findings), *arrange.chosen_cells(findings))}
    )
    words = f"Open are the first, the best and the last of {x} beside the fastest cell, and the slowest cell."
    if left_out:
        words += (
            f" Of {numbers.count(len(findings.cells))} cells those at the ends of each factor and a spread between them are "
            f"below; the other {numbers.count(left_out)} are in the raw data, uncut."
        )
    return tag("p", words, class_="note")


def _section(
    cell: CellSummary, findings: Findings, runs: Sequence[Run], colours: Mapping[str, str], is_open: bool
) -> Markup:
    mark = wording.verdict_mark(findings, cell.cell_id)
    time = compared.figure_text(findings, cell) or "no time measured"
    name = wording.cell_text(cell.levels)
    summary: list[Child] = [
        tag("h3", name[0].upper() + name[1:]),
        tag("span", mark, class_=f"mark {mark.split(' ')[0]}") if mark else None,
        tag("span", time, class_="quiet"),
    ]
    parts = [_waits(cell, findings, runs, colours), _waiting_tasks(runs), _counters(cell, runs)]
    return fold(summary, *parts, open_=is_open, class_="cell", id=cell_anchor(cell))


def cell_anchor(cell: CellSummary) -> str:
    """The id of a cell's section. Cell ids are storagelab's own, but may hold anything."""
    return "cell-" + "".join(char if char.isalnum() and char.isascii() else "-" for char in cell.cell_id)


# ---------------------------------------------------------------------------------------------------------------------
# Waits
# ---------------------------------------------------------------------------------------------------------------------


def _waits(cell: CellSummary, findings: Findings, runs: Sequence[Run], colours: Mapping[str, str]) -> Markup:
    rows = waits_of(cell, uncut=False)
    if not rows:
        return tag("p", wording.no_waits_sentence(cell), class_="note")
    notes = [*wording.audit_sentences(cell), *wording.wait_footnotes(rows, analogues=False), *no_split_reasons(runs)]
    caption = wording.waits_title(findings, cell, uncut=False)
    return Markup(
        table(caption, _COLUMNS, nine_columns(rows, colours))
        + tag("ul", [tag("li", note) for note in notes], class_="notes")
    )


def nine_columns(rows: Sequence[TableRow], colours: Mapping[str, str]) -> list[list[Child]]:
    """Wait tables as DBAs know them, then the analogue and the method. What is not known is left empty, never 0."""
    texts = zip(*(cells for _, cells in wait_columns(rows)), strict=True)
    return [
        [
            [swatch(colours.get(row.wait_type, palette.CATEGORY[row.category])), name],
            *figures,
            f"{_MARKS[row.method]}{wording.method_text(row.method)}",
        ]
        for row, (name, *figures) in zip(rows, texts, strict=True)
    ]


def no_split_reasons(runs: Sequence[Run]) -> list[str]:
    """Why Resource and Signal are empty, in the words of the target."""
    reasons = {
        run.measurement.waits.no_split_reason: None
        for run in runs
        if run.measurement is not None and run.measurement.waits is not None
    }
    return [f"No split into Resource and Signal: {reason}" for reason in reasons if reason]


# ---------------------------------------------------------------------------------------------------------------------
# Waiting tasks
# ---------------------------------------------------------------------------------------------------------------------


@dataclass
class _Kind:
    """Waits of one type for one kind of thing, over all runs of a cell."""

    tasks: list[WaitingTask] = field(default_factory=list)
    sessions: Counter[tuple[int, float]] = field(default_factory=Counter)
    """By moment: number of the run, seconds from its start."""


def _waiting_tasks(runs: Sequence[Run]) -> Markup | None:
    """What sessions were seen waiting for, over all runs of the cell: the most crowded kinds of things first."""
    kinds: dict[tuple[str, str], _Kind] = defaultdict(_Kind)
    for number, run in enumerate(runs):
        for task in run.measurement.waiting_tasks if run.measurement is not None else ():
            kind = kinds[task.wait_type, task.resource.kind]
            kind.tasks.append(task)
            kind.sessions[number, task.at_s] += task.sessions
    if not kinds:
        return None
    moments = len({moment for kind in kinds.values() for moment in kind.sessions})
    ranked = sorted(kinds.items(), key=lambda item: (-item[1].sessions.total(), item[0]))
    columns = [Column("waiting for", "prose"), Column("WaitType", "text"), Column("moments"), Column("of them"),
               Column("sessions, mean"), Column("most"), Column("held by", "prose")]  # fmt: skip
    rows = [[thing, wait_type, *_crowd(kind, moments)] for (wait_type, thing), kind in ranked[:MAX_TASKS]]
    rest = f"; {plural(len(ranked) - MAX_TASKS, 'other kind')} in the raw data" if len(ranked) > MAX_TASKS else ""
    sampled = f"{plural(moments, 'moment')} sampled over {plural(len(runs), 'run')}"
    caption = f"Who waited for what: the largest crowds of {sampled}{rest}"
    return Markup(tag("p", wording.crowd_sentence(*_most_crowded(kinds), moments)) + table(caption, columns, rows))


def _most_crowded(kinds: Mapping[tuple[str, str], _Kind]) -> tuple[WaitingTask, str, int]:
    """The largest crowd seen on one thing, the kind of that thing, and the moments in which anyone waited for the kind."""
    crowds = ((task, key) for key, kind in kinds.items() for task in kind.tasks)
    task, key = max(crowds, key=lambda crowd: (crowd[0].sessions, -crowd[0].at_s))
    return task, key[1], len(kinds[key].sessions)


def _crowd(kind: _Kind, moments: int) -> list[str]:
    """Of each moment all sessions that waited for the kind, on however many things."""
    holders = [task.held_by for task in kind.tasks if task.held_by]
    holder = max(set(holders), key=lambda text: (holders.count(text), text)) if holders else ""
    sessions = kind.sessions
    return [
        numbers.count(len(sessions)), numbers.percent(len(sessions) / moments),
        f"{sessions.total() / len(sessions):.1f}", numbers.count(max(sessions.values())), holder,
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Counters
# ---------------------------------------------------------------------------------------------------------------------


def _counters(cell: CellSummary, runs: Sequence[Run]) -> Markup | None:
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        for group, counters in run.measurement.counters.items() if run.measurement is not None else ():
            for name, value in counters.items():
                values[group, name].append(value)
    known = {key: sum(found) / len(found) for key, found in values.items() if any(found)}
    if not known:
        return None
    columns = [Column("counter", "text"), Column("of", "text"), Column("mean of a run")]
    rows = [[name, group, figure_text(name, mean)] for (group, name), mean in known.items()]
    caption = (
        f"Counters of server and devices, differences over a run, of {wording.cell_text(cell.levels)}; zeros left out"
    )
    return fold("Counters of server and devices", table(caption, columns, rows))


def figure_text(name: str, value: JsonValue | None) -> str:
    """A figure by the unit at the end of its name: `write_bytes` -> "512 MB", `busy_s` -> "1.50 s", and a drive's
    `usable_bytes` as its maker tells it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return wording.value_text(value)
    if name == "usable_bytes":
        return numbers.capacity(value)
    if name.endswith("bytes"):
        return numbers.bytes_(value)
    if name.endswith("_s"):
        return numbers.seconds(value)
    return numbers.count(value) if value == round(value) or abs(value) >= 100 else f"{value:.3g}"


def top_wait(cell: CellSummary) -> tuple[str, float] | None:
    """The cell's largest wait and its share of connections x elapsed."""
    largest = next((row for row in cell.waits if row.is_wait and row.wait_s > 0), None)
    return None if largest is None or not cell.available_s else (largest.wait_type, largest.wait_s / cell.available_s)
