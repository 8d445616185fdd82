"""Shows how each cell spent its time: a wait table of nine columns, the objects waited for, and counters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import CountedCrowd, Measurement, Run, WaitingTask
from storagelab.model.waits import Method, TableRow, wait_table
from storagelab.report.document import Fold, Heading, Part, Swatch, Table, listed
from storagelab.report.drawing import arrange, palette
from storagelab.report.words import compared, waiting
from storagelab.report.words.ladder import verdict_of
from storagelab.servers.durability import BENIGN_WAITS
from storagelab.words import numbers
from storagelab.words.names import cell_entry, in_brackets
from storagelab.words.numbers import count, quantity_text, seconds_number

MAX_CELLS_SHOWN = 110
"""The largest number of cells that all have a wait table. The articles' largest experiment has this many cells."""
CELLS_OF_A_LARGE_EXPERIMENT = 20
_MARKS: dict[Method, str] = {"counter": "", "sampled": "~ ", "derived": "* "}
NINE_COLUMNS = (
    "WaitType", "Wait_S", "Resource_S", "Signal_S", "WaitCount", "Percentage", "AvgWait_S", "AvgRes_S", "AvgSig_S",
)  # fmt: skip
IN_SQL_SERVER = "In SQL Server"
"""The heading of the column of SQL Server's names."""
_MEANINGS = {
    "Wait_S": "seconds waited, summed over connections: Resource_S + Signal_S",
    "Resource_S": "waiting for the thing itself",
    "Signal_S": "the thing was ready, waiting for a CPU",
    "Percentage": "of all waits of the run, before the cut",
}
_RANKS = {
    IN_SQL_SERVER: 6, "AvgSig_S": 5, "AvgRes_S": 4, "AvgWait_S": 3, "WaitCount": 2, "Signal_S": 1, "Resource_S": 1,
}  # fmt: skip
_HEADINGS = [
    Heading(NINE_COLUMNS[0], "text"),
    *(Heading(name, meaning=_MEANINGS.get(name, "")) for name in NINE_COLUMNS[1:]),
    Heading("method", "text", "counted by the engine, sampled, or derived from other figures"),
]


def cells_with_parts(findings: Findings) -> list[CellSummary]:
    """Returns all cells or, if there are very many, only the notable ones."""
    if len(findings.cells) <= MAX_CELLS_SHOWN:
        return list(findings.cells)
    return arrange.notable_cells(findings, CELLS_OF_A_LARGE_EXPERIMENT)


def cell_folds(findings: Findings, runs: Sequence[Run], colours: Mapping[str, str]) -> list[Part]:
    """Returns a fold for each cell. The cells to look at first are open. `colours` maps wait types to their colours in
    the chart.
    """
    by_cell: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_cell[run.cell_id].append(run)
    chosen = [cell.cell_id for cell in arrange.chosen_cells(findings)]
    cells = sorted(cells_with_parts(findings), key=lambda cell: cell.cell_id not in chosen)
    left_out = len(findings.cells) - len(cells)
    more = [f"{numbers.plural(left_out, 'more cell')} in the raw data, uncut."] if left_out else []
    return [*(_fold(cell, findings, by_cell[cell.cell_id], colours, cell.cell_id in chosen) for cell in cells), *more]


def _fold(
    cell: CellSummary, findings: Findings, runs: Sequence[Run], colours: Mapping[str, str], is_open: bool
) -> Fold:
    waits = [] if compared.of_raw_io(findings) else wait_parts(findings, cell, uncut=False, colours=colours)
    crowd, crowded = crowds(runs, cell.idle_waits)
    counters = _counters(cell, runs)
    return Fold(
        title=cell_entry(cell.cell_id, cell.text),
        parts=[
            *waits, *listed(_no_split_reasons(runs)),
            *([crowd] if crowd else []), *([crowded] if crowded else []), *([counters] if counters else []),
        ],
        holds=compared.judged_text(findings, cell) or "no time measured",
        mark=verdict_of(findings, cell.cell_id),
        anchor=cell_anchor(cell.cell_id),
        is_open=is_open,
    )  # fmt: skip


def wait_parts(
    findings: Findings, cell: CellSummary, *, uncut: bool, colours: Mapping[str, str] | None = None
) -> list[Part]:
    """Returns the wait table of a cell's mean run, and notes on it. The table has all waits if `uncut`, else the top
    95 %.
    """
    rows = waits_of(cell, uncut)
    notes = [*waiting.audit_sentences(cell), *waiting.wait_footnotes(rows)]
    if not rows:
        return [waiting.no_waits_sentence(cell), *listed(notes)]
    runs, verdict = cell.runs_ok + cell.runs_unverified, verdict_of(findings, cell.cell_id).text
    mean = f", mean of {runs} runs" if runs > 1 else ""
    title = f"Waits of {cell.cell_id}, {cell.text}{in_brackets(verdict)}{mean}: {'all' if uncut else 'the top 95 %'}"
    return [wait_columns(rows, colours or {}).called(title), *listed(notes)]


def waits_of(cell: CellSummary, uncut: bool) -> tuple[TableRow, ...]:
    """Returns the rows of a cell's wait table: all waits if `uncut`, else the top 95 % without benign waits."""
    return wait_table(cell.waits, share=1.0) if uncut else wait_table(cell.waits, benign=BENIGN_WAITS)


def wait_columns(rows: Sequence[TableRow], colours: Mapping[str, str]) -> Table:
    """Returns a wait table: the nine columns under their exact names, the method that gave each row's figures, and SQL
    Server's names if there are any. Unknown figures are empty, never 0.
    """
    second = 2 if max((row.wait_s for row in rows), default=0.0) >= 1 else 4
    average = 4 if max((row.avg_wait_s or 0.0 for row in rows), default=0.0) >= 0.01 else 6
    likened = any(row.analogue not in ("", row.wait_type) for row in rows)
    like = [Heading(IN_SQL_SERVER, "text", "the wait type that a SQL Server DBA would look for")] if likened else []
    return Table(
        [*_HEADINGS, *like],
        [
            [
                Swatch(row.wait_type, colours.get(row.wait_type, palette.CATEGORY[row.category])),
                *(seconds_number(one, second) for one in (row.wait_s, row.resource_s, row.signal_s)),
                count(row.wait_count), f"{row.percentage:.2f}",
                *(seconds_number(one, average) for one in (row.avg_wait_s, row.avg_resource_s, row.avg_signal_s)),
                f"{_MARKS[row.method]}{waiting.METHODS[row.method]}", *([row.analogue] if likened else []),
            ]
            for row in rows
        ],
        ranks=_RANKS,
    )  # fmt: skip


def run_anchor(cell_id: str, repetition: int) -> str:
    """Returns the target of a link to a run. If a reader follows it, the page's script shows the run's series."""
    return f"run-{cell_id}-{repetition}"


def cell_anchor(cell_id: str) -> str:
    """Returns the id of a cell's section on a page. A stored cell id may contain anything, so characters other than
    letters and digits are replaced.
    """
    return "cell-" + "".join(char if char.isalnum() and char.isascii() else "-" for char in cell_id)


def _no_split_reasons(runs: Sequence[Run]) -> list[str]:
    """Returns the targets' reasons why Resource and Signal are empty."""
    reasons = {
        run.measurement.waits.no_split_reason: None
        for run in runs
        if run.measurement is not None and run.measurement.waits is not None
    }
    return [f"No split into Resource and Signal: {reason}" for reason in reasons if reason]


def mean_counters(runs: Sequence[Run]) -> dict[tuple[str, str], float]:
    """Maps (group, name) to the mean of a counter over the runs that have it, without counters that are always 0."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        for group, counters in run.measurement.counters.items() if run.measurement is not None else ():
            for name, value in counters.items():
                values[group, name].append(value)
    return {key: sum(found) / len(found) for key, found in values.items() if any(found)}


def _counters(cell: CellSummary, runs: Sequence[Run]) -> Table | None:
    known = mean_counters(runs)
    if not known:
        return None
    headings = [Heading("counter", "text"), Heading("of", "text"), Heading("mean of a run")]
    rows = [[name, group, quantity_text(name, mean)] for (group, name), mean in known.items()]
    caption = (
        f"Counters of server and devices, differences over a run, of {cell.name}; zeros left out; arithmetic means, "
        "while cells are compared by geometric means"
    )
    return Table(headings, rows, caption, folded="Counters of server and devices")


MAX_KINDS = 8
_Key = tuple[str, str]
"""(wait type, kind of object)"""
_NAMES = [Heading("waiting for", "prose"), Heading("WaitType", "text")]


def crowds(runs: Sequence[Run], idle: Collection[str] = ()) -> tuple[str, Table | None]:
    """Returns a sentence on the longest queue for one object in a sample, and a table of waits by kind of object.
    Sessions in the `idle` waits are no queue.
    """
    counted = [run.measurement for run in runs if run.usable and not run.burn_in and run.measurement is not None]
    counted = [one for one in counted if one.crowds]
    kinds = _seen(runs)
    if counted:
        return _longest_queue(kinds, idle), _counted_table(counted)
    # A simulated run keeps only the longest of its sampled queues, so a sum of them would be meaningless.
    if not kinds or any(run.measurement is not None and run.measurement.provenance == "simulated" for run in runs):
        return "", None
    moments = len({moment for kind in kinds.values() for moment in kind.sessions})
    return _longest_queue(kinds, idle), _seen_table(kinds, moments, len(runs), idle)


# --- waits that the server counts -------------------------------------------------------------------------------------


def _counted_table(runs: Sequence[Measurement]) -> Table:
    """Returns a table of means over the time of all runs. Shares of session time are fractions of connections x
    elapsed, as in the cell's wait table.
    """
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
        Heading("most at once", meaning="for all objects of the kind together"),
        Heading("share of session time", meaning="mean sessions / connections, as in the chart of waits"),
        Heading("share of the run", meaning="the time with at least one such waiting session"),
    ]
    caption = f"Who waited for what: all sessions, counted at every wait of {numbers.plural(len(runs), 'run')}"
    return Table(headings, [row for _, row in rows[:MAX_KINDS]], f"{caption}{_rest(len(rows))}")


# --- waiting sessions that were sampled -------------------------------------------------------------------------------


@dataclass
class _Kind:
    """The waits of one type for one kind of object, over all runs of a cell."""

    tasks: list[WaitingTask] = field(default_factory=list)
    sessions: Counter[tuple[int, float]] = field(default_factory=Counter)
    """Counts the waiting sessions of each sample. A sample's key is the number of its run and its seconds since the
    run's start.
    """


def _seen(runs: Sequence[Run]) -> dict[_Key, _Kind]:
    kinds: dict[_Key, _Kind] = defaultdict(_Kind)
    for number, run in enumerate(runs):
        for task in run.measurement.waiting_tasks if run.measurement is not None else ():
            kind = kinds[task.wait_type, task.resource.kind]
            kind.tasks.append(task)
            kind.sessions[number, task.at_s] += task.sessions
    return kinds


def _longest_queue(kinds: Mapping[_Key, _Kind], idle: Collection[str]) -> str:
    """Describes the sample with the most sessions that wait for one object. Of equal samples, the earliest counts."""
    tasks = (task for (wait_type, _), kind in kinds.items() if wait_type not in idle for task in kind.tasks)
    longest = max(tasks, key=lambda one: (one.sessions, -one.at_s), default=None)
    return "" if longest is None else waiting.crowd_sentence(longest)


def _seen_table(kinds: dict[_Key, _Kind], moments: int, runs: int, idle: Collection[str]) -> Table:
    ranked = sorted(kinds.items(), key=lambda item: (item[0][0] in idle, -item[1].sessions.total(), item[0]))
    headings = [*_NAMES, Heading("moments"), Heading("of all moments"), Heading("sessions then, mean"), Heading("most"),
               Heading("held by", "prose")]  # fmt: skip
    rows = [
        [thing, wait_type + " (idle)" * (wait_type in idle), *_figures(kind, moments)]
        for (wait_type, thing), kind in ranked[:MAX_KINDS]
    ]
    sampled = f"{numbers.plural(moments, 'moment')} sampled over {numbers.plural(runs, 'run')}"
    caption = f"Who waited for what: the largest crowds of {sampled}{_rest(len(ranked))}"
    return Table(headings, rows, caption, {"of all moments": 2, "moments": 1})


def _figures(kind: _Kind, moments: int) -> list[str]:
    """Returns the cells of a row: how often, and by how many sessions, a kind of object was waited for. In each sample,
    the sessions that wait for any object of the kind are added up.
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
