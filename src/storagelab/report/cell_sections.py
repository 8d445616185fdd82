"""What there is to say of single cells: wait tables in nine columns, what sessions were seen waiting for, counters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from storagelab.findings import CellSummary, Findings
from storagelab.model import Run, WaitingTask
from storagelab.report import arrange, numbers, palette, wording
from storagelab.report.figures import plural, swatch
from storagelab.report.markup import Child, Column, Markup, fold, table, tag
from storagelab.report.tables import NINE_COLUMNS, wait_columns, waits_of
from storagelab.values import JsonValue
from storagelab.waits import Method, TableRow

MAX_CELLS_SHOWN = 60
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
    """A part for each cell, the fastest and the slowest open. `colours` are those the chart gave to wait types."""
    by_cell: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_cell[run.cell_id].append(run)
    open_ids = arrange.ends(findings)
    shown = cells_shown(findings)
    left_out = len(findings.cells) - len(shown)
    note = (
        f"Of {numbers.count(len(findings.cells))} cells the fastest, the slowest, those at the ends of each factor and "
        f"a spread between them are shown here; the other {numbers.count(left_out)} are in the download, uncut."
    )
    only = len(findings.cells) == 1
    return Markup(
        (tag("p", note, class_="note") if left_out else "")
        + "".join(
            _section(cell, findings, by_cell[cell.cell_id], colours, only or cell.cell_id in open_ids) for cell in shown
        )
    )


def _section(
    cell: CellSummary, findings: Findings, runs: Sequence[Run], colours: Mapping[str, str], is_open: bool
) -> Markup:
    mark = wording.verdict_mark(findings, cell.cell_id)
    time = numbers.seconds_estimate(cell.elapsed_s.mean) if cell.elapsed_s else "no time measured"
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
        if run.measurement is not None and run.measurement.waits is not None and run.measurement.waits.form == "sampled"
    }
    return [f"No split into Resource and Signal: {reason}" for reason in reasons if reason]


# ---------------------------------------------------------------------------------------------------------------------
# Waiting tasks
# ---------------------------------------------------------------------------------------------------------------------


def _waiting_tasks(runs: Sequence[Run]) -> Markup | None:
    """What sessions were seen waiting for, over all runs of the cell: the most crowded first."""
    seen: dict[tuple[str, str, int | None], list[WaitingTask]] = defaultdict(list)
    for run in runs:
        for task in run.measurement.waiting_tasks if run.measurement is not None else ():
            seen[task.wait_type, task.resource, task.data_file].append(task)
    if not seen:
        return None
    ranked = sorted(seen.items(), key=lambda item: (-sum(task.sessions for task in item[1]), item[0][:2]))
    crowded = max((task for tasks in seen.values() for task in tasks), key=lambda task: task.sessions)
    columns = [Column("waiting for", "prose"), Column("WaitType", "text"), Column("times seen"),
               Column("sessions, mean"), Column("most"), Column("held by", "prose")]  # fmt: skip
    rows = [[_resource(key[1], key[2]), key[0], *_crowd(tasks)] for key, tasks in ranked[:MAX_TASKS]]
    rest = f"; {plural(len(ranked) - MAX_TASKS, 'other resource')} in the download" if len(ranked) > MAX_TASKS else ""
    at_most = plural(crowded.sessions, "session")
    sentence = (
        f"At the most crowded moment seen, {at_most} waited for {crowded.wait_type} on "
        f"{_resource(crowded.resource, crowded.data_file)}."
    )
    caption = f"Who waited for what, in moments sampled over {plural(len(runs), 'run')}{rest}"
    return Markup(tag("p", sentence) + table(caption, columns, rows))


def _resource(resource: str, data_file: int | None) -> str:
    return resource if data_file is None or "data file" in resource else f"{resource} (data file {data_file})"


def _crowd(tasks: Sequence[WaitingTask]) -> list[str]:
    holders = [task.held_by for task in tasks if task.held_by]
    holder = max(set(holders), key=lambda text: (holders.count(text), text)) if holders else ""
    mean = sum(task.sessions for task in tasks) / len(tasks)
    return [numbers.count(len(tasks)), f"{mean:.1f}", numbers.count(max(task.sessions for task in tasks)), holder]


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
    """A figure by the unit at the end of its name: `write_bytes` -> "512 MB", `busy_s` -> "1.50 s"."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return wording.value_text(value)
    if name.endswith("bytes"):
        return numbers.bytes_(value)
    if name.endswith("_s"):
        return numbers.seconds(value)
    return numbers.count(value) if value == round(value) or abs(value) >= 100 else f"{value:.3g}"


def top_wait(cell: CellSummary) -> tuple[str, float] | None:
    """The cell's largest wait and its share of connections x elapsed."""
    largest = next((row for row in cell.waits if row.is_wait and row.wait_s > 0), None)
    return None if largest is None or not cell.available_s else (largest.wait_type, largest.wait_s / cell.available_s)
