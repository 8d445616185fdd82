"""The parts of single cells: wait tables in nine columns, who waited for what, counters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import CountedCrowd, Measurement, Run, WaitingTask
from storagelab.model.waits import Method, TableRow
from storagelab.report.drawing import arrange, palette
from storagelab.report.page.pieces import Content, PageTable, Swatch, View
from storagelab.report.text.tables import IN_SQL_SERVER, NINE_COLUMNS, are_likened, wait_columns, waits_of
from storagelab.report.words import compared, waiting
from storagelab.report.words.marks import verdict_mark
from storagelab.report.words.table import Heading
from storagelab.words import numbers
from storagelab.words.names import cell_entry
from storagelab.words.numbers import quantity_text

MAX_CELLS_SHOWN = 110
"""As many cells as the largest experiment of the articles has, so that each of its cells has a wait table."""
CELLS_OF_A_LARGE_EXPERIMENT = 20
_MARKS: dict[Method, str] = {"counter": "", "sampled": "~ ", "derived": "* "}
_TITLES = {
    "Wait_S": "seconds waited, summed over connections: Resource_S + Signal_S",
    "Resource_S": "waiting for the thing itself",
    "Signal_S": "the thing was ready, waiting for a CPU",
    "Percentage": "of all waits of the run, before the cut",
}
_HEADINGS = [
    Heading(NINE_COLUMNS[0], "text"),
    *(Heading(name, meaning=_TITLES.get(name, "")) for name in NINE_COLUMNS[1:]),
    Heading(IN_SQL_SERVER, "text", "the wait type that a SQL Server DBA would look for"),
    Heading("Method", "text", "counted by the engine, sampled, or derived from other figures"),
]


def cells_with_parts(findings: Findings) -> list[CellSummary]:
    """All cells or, if there are very many, those that most deserve a section."""
    if len(findings.cells) <= MAX_CELLS_SHOWN:
        return list(findings.cells)
    return arrange.notable_cells(findings, CELLS_OF_A_LARGE_EXPERIMENT)


def cells_view(findings: Findings, runs: Sequence[Run], colours: Mapping[str, str]) -> View:
    """A part for each cell: those to look at first are open, the others folded. `colours` are those that the chart
    gave to wait types.
    """
    by_cell: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_cell[run.cell_id].append(run)
    chosen = arrange.chosen_cells(findings)
    first = {cell.cell_id for cell in chosen}
    rest = [cell for cell in cells_with_parts(findings) if cell.cell_id not in first]
    folds = bool(chosen) and len(rest) > 1
    return {
        "note": _which(findings) if folds else "",
        "open": [_part(cell, findings, by_cell[cell.cell_id], colours, is_open=True) for cell in chosen],
        "folded": numbers.plural(len(rest), "other cell") if folds else "",
        "others": [_part(cell, findings, by_cell[cell.cell_id], colours, is_open=False) for cell in rest],
    }


def _which(findings: Findings) -> str:
    """A sentence on which cells are open, and where the others are."""
    x = arrange.arrange(findings).x_title
    shown = {cell.cell_id for cell in (*cells_with_parts(findings), *arrange.chosen_cells(findings))}
    left_out = len(findings.cells) - len(shown)
    first = f"the cells with the first, the best and the last {x} beside the fastest cell, and the slowest cell"
    words = f"Shown open: {first}."
    if not left_out:
        return words
    return (
        f"{words} Of {numbers.count(len(findings.cells))} cells, those at the ends of each factor and some between "
        f"them are below; the other {numbers.count(left_out)} are in the raw data, uncut."
    )


def _part(
    cell: CellSummary, findings: Findings, runs: Sequence[Run], colours: Mapping[str, str], is_open: bool
) -> View:
    name, rows = cell.text, waits_of(cell, uncut=False)
    headings = [one for one in _HEADINGS if one.text != IN_SQL_SERVER or are_likened(rows)]
    caption = waiting.waits_title(findings, cell, uncut=False)
    notes = [*waiting.audit_sentences(cell), *waiting.wait_footnotes(rows, analogues=False), *_no_split_reasons(runs)]
    return {
        "anchor": cell_anchor(cell),
        "is_open": is_open,
        "name": cell_entry(cell.cell_id, name),
        "mark": verdict_mark(findings, cell.cell_id),
        "time": compared.figure_text(findings, cell) or "no time measured",
        "waits": PageTable(caption, headings, _nine_columns(rows, colours)) if rows else None,
        "no_waits": "" if rows else waiting.no_waits_sentence(cell),
        "notes": notes if rows else [],
        **crowds(runs),
        "counters": _counters(cell, runs),
    }


def cell_anchor(cell: CellSummary) -> str:
    """The id of a cell's section. storagelab makes cell ids, but a stored one may contain anything."""
    return "cell-" + "".join(char if char.isalnum() and char.isascii() else "-" for char in cell.cell_id)


def _nine_columns(rows: Sequence[TableRow], colours: Mapping[str, str]) -> list[list[Content]]:
    """Wait tables as DBAs know them, then the analogue and the method. Unknown figures stay empty and never show as
    0.
    """
    texts = zip(*(cells for _, cells in wait_columns(rows)), strict=True)
    return [
        [
            Swatch(name, colours.get(row.wait_type, palette.CATEGORY[row.category])),
            *figures,
            f"{_MARKS[row.method]}{waiting.method_text(row.method)}",
        ]
        for row, (name, *figures) in zip(rows, texts, strict=True)
    ]


def _no_split_reasons(runs: Sequence[Run]) -> list[str]:
    """Why Resource and Signal are empty, in the words of the target."""
    reasons = {
        run.measurement.waits.no_split_reason: None
        for run in runs
        if run.measurement is not None and run.measurement.waits is not None
    }
    return [f"No split into Resource and Signal: {reason}" for reason in reasons if reason]


def mean_counters(runs: Sequence[Run]) -> dict[tuple[str, str], float]:
    """(group, name) -> the mean of a counter over the runs that have it; those that are always 0 are left out."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        for group, counters in run.measurement.counters.items() if run.measurement is not None else ():
            for name, value in counters.items():
                values[group, name].append(value)
    return {key: sum(found) / len(found) for key, found in values.items() if any(found)}


def _counters(cell: CellSummary, runs: Sequence[Run]) -> PageTable | None:
    known = mean_counters(runs)
    if not known:
        return None
    headings = [Heading("counter", "text"), Heading("of", "text"), Heading("mean of a run")]
    rows = [[name, group, quantity_text(name, mean)] for (group, name), mean in known.items()]
    caption = f"Counters of server and devices, differences over a run, of {cell.name}; zeros left out"
    return PageTable(caption, headings, rows, folded="Counters of server and devices")


MAX_KINDS = 8
_Key = tuple[str, str]
"""(wait type, kind of thing)"""
_NAMES = [Heading("waiting for", "prose"), Heading("WaitType", "text")]


def crowds(runs: Sequence[Run]) -> View:
    """A sentence on the largest crowd seen on one thing, and a table: the most crowded kinds of things first."""
    counted = [run.measurement for run in runs if run.usable and not run.burn_in and run.measurement is not None]
    counted = [one for one in counted if one.crowds]
    kinds = _seen(runs)
    if counted:
        return {
            "crowd": waiting.crowd_sentence(*_most_crowded(kinds)) if kinds else "",
            "crowds": _counted_table(counted),
        }
    # The looks of a simulated run keep only its longest queues, so their sum says nothing.
    if not kinds or any(run.measurement is not None and run.measurement.provenance == "simulated" for run in runs):
        return {"crowd": "", "crowds": None}
    moments = len({moment for kind in kinds.values() for moment in kind.sessions})
    crowd, thing = _most_crowded(kinds)
    seen = len(kinds[crowd.wait_type, thing].sessions)
    return {
        "crowd": waiting.crowd_sentence(crowd, thing, (seen, moments)),
        "crowds": _seen_table(kinds, moments, len(runs)),
    }


# --- counted ---------------------------------------------------------------------------------------------------------


def _counted_table(runs: Sequence[Measurement]) -> PageTable:
    """Means over the time of all runs, so that shares are those of the cell's wait table over connections x elapsed."""
    together: dict[_Key, list[tuple[Measurement, CountedCrowd]]] = defaultdict(list)
    for run in runs:
        for crowd in run.crowds:
            together[crowd.wait_type, crowd.kind].append((run, crowd))
    time_s = sum(run.elapsed_s for run in runs)
    available_s = sum(run.waits.connections * run.elapsed_s for run in runs if run.waits is not None)
    rows = []
    for (wait_type, thing), found in together.items():
        sessions_s = sum(crowd.sessions_mean * run.elapsed_s for run, crowd in found)
        any_s = sum(crowd.time_share * run.elapsed_s for run, crowd in found)
        most = max(crowd.sessions_most for _, crowd in found)
        shares = [numbers.percent(sessions_s / available_s) if available_s else "", numbers.percent(any_s / time_s)]
        rows.append((sessions_s, [thing, wait_type, f"{sessions_s / time_s:.1f}", numbers.count(most), *shares]))
    rows.sort(key=lambda row: (-row[0], row[1]))
    headings = [
        *_NAMES,
        Heading("sessions, mean", meaning="over the whole run"),
        Heading("most at once"),
        Heading("share of session time", meaning="sessions, mean / connections: as in the chart of waits"),
        Heading("share of the run", meaning="the time in which at least one session waited so"),
    ]
    caption = f"Who waited for what: all sessions, counted at every wait of {numbers.plural(len(runs), 'run')}"
    return PageTable(f"{caption}{_rest(len(rows))}", headings, [row for _, row in rows[:MAX_KINDS]])


# --- seen ------------------------------------------------------------------------------------------------------------


@dataclass
class _Kind:
    """Waits of one type for one kind of thing, over all runs of a cell."""

    tasks: list[WaitingTask] = field(default_factory=list)
    sessions: Counter[tuple[int, float]] = field(default_factory=Counter)
    """The sort key of a moment: number of the run, seconds since its start."""


def _seen(runs: Sequence[Run]) -> dict[_Key, _Kind]:
    kinds: dict[_Key, _Kind] = defaultdict(_Kind)
    for number, run in enumerate(runs):
        for task in run.measurement.waiting_tasks if run.measurement is not None else ():
            kind = kinds[task.wait_type, task.resource.kind]
            kind.tasks.append(task)
            kind.sessions[number, task.at_s] += task.sessions
    return kinds


def _most_crowded(kinds: dict[_Key, _Kind]) -> tuple[WaitingTask, str]:
    """The largest number of sessions seen on one thing, and the kind of that thing."""
    tasks = ((task, key) for key, kind in kinds.items() for task in kind.tasks)
    task, key = max(tasks, key=lambda crowd: (crowd[0].sessions, -crowd[0].at_s))
    return task, key[1]


def _seen_table(kinds: dict[_Key, _Kind], moments: int, runs: int) -> PageTable:
    ranked = sorted(kinds.items(), key=lambda item: (-item[1].sessions.total(), item[0]))
    headings = [*_NAMES, Heading("moments"), Heading("of all moments"), Heading("sessions then, mean"), Heading("most"),
               Heading("held by", "prose")]  # fmt: skip
    rows = [[thing, wait_type, *_figures(kind, moments)] for (wait_type, thing), kind in ranked[:MAX_KINDS]]
    sampled = f"{numbers.plural(moments, 'moment')} sampled over {numbers.plural(runs, 'run')}"
    caption = f"Who waited for what: the largest crowds of {sampled}{_rest(len(ranked))}"
    return PageTable(caption, headings, rows)


def _figures(kind: _Kind, moments: int) -> list[str]:
    """How often, and by how many sessions, the kind was waited for. At each moment all its sessions count, whatever
    the thing.
    """
    holders = [task.held_by for task in kind.tasks if task.held_by]
    holder = max(set(holders), key=lambda text: (holders.count(text), text)) if holders else ""
    sessions = kind.sessions
    return [
        numbers.count(len(sessions)), numbers.percent(len(sessions) / moments),
        f"{sessions.total() / len(sessions):.1f}", numbers.count(max(sessions.values())), holder,
    ]  # fmt: skip


def _rest(kinds: int) -> str:
    left_out = kinds - MAX_KINDS
    return f"; {numbers.plural(left_out, 'other kind')} in the raw data" if left_out > 0 else ""
