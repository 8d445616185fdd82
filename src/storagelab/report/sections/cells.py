"""Makes the table of all cells, in the order of the ladder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from storagelab.findings.cautions.unverified import Refused
from storagelab.findings.model import CellSummary, DriveState, Estimate, Findings
from storagelab.findings.times import FIGURES, WITH_SYNC, figures_beside, is_synced, latency_of
from storagelab.model.plan import Factor
from storagelab.report.document import Bar, Content, Heading, Link, Table
from storagelab.report.drawing.arrange import recommended
from storagelab.report.sections.waits import cell_anchor, cells_with_parts
from storagelab.report.words import compared, ladder
from storagelab.report.words.answer import Names
from storagelab.report.words.waiting import IDLE
from storagelab.spec.naming import in_order as levels_in_order
from storagelab.words import numbers
from storagelab.words.names import DATA_FILES, is_number, value_text

MAX_ROWS = 1_000
MAX_DRIVES = 2
RATIO = "time / fastest (joint 95 % CI)"
"""The heading of the column that compares each cell with the fastest."""
_BESIDE: Mapping[str, str] = {
    "bytes_per_s": "MB/s", WITH_SYNC: "mean with sync ms", "sync_latency_p50_s": "sync p50 ms",
    "sync_latency_p99_s": "sync p99 ms", **{f"latency_{name}_s": f"{name} ms" for name in FIGURES},
    "late_p50_s": "late p50 ms", "late_p99_s": "late p99 ms", "late_longest_s": "latest ms",
}  # fmt: skip
"""Maps a quantity of raw I/O, or of single timed operations, to the heading of its column."""
Key = float | str | None
"""A row's sort key in a column. A row with None comes last."""
Entry = tuple[Key, Content]
_Value = TypeVar("_Value", float, str)
_UNKNOWN: Entry = (None, "")


@dataclass(frozen=True)
class Column:
    """A column of the table. `of` returns a cell's sort key and content. A narrow terminal drops the columns with the
    highest `rank` first.
    """

    heading: Heading
    of: Callable[[CellSummary], Entry]
    rank: int = 0


@dataclass(frozen=True)
class CellsTable:
    """The cells, their table, and `keys`: each cell's sort key in each column, for the page's script."""

    cells: Sequence[CellSummary]
    table: Table
    keys: Sequence[Sequence[Key]]


def cells_table(findings: Findings) -> CellsTable:
    """Returns a table with a row for each cell: its mean, interval and verdict, its levels, and related figures. A
    column is left out if no cell has an entry in it.
    """
    cells = ladder.in_order(findings, findings.cells)[:MAX_ROWS]
    columns = [one for one in _columns(findings, cells) if any(one.of(cell)[0] is not None for cell in cells)]
    picks = recommended(findings)
    caption = f"Every cell, in the order of the ladder ({findings.provenance or 'no result yet'})"
    if len(findings.cells) > MAX_ROWS:
        caption += f", the first {numbers.count(MAX_ROWS)} of {numbers.count(len(findings.cells))}"
    entries = [[column.of(cell) for column in columns] for cell in cells]
    table = Table(
        [column.heading for column in columns],
        [[content for _, content in row] for row in entries],
        caption,
        {column.heading.text: column.rank for column in columns if column.rank},
        [ladder.verdict_of(findings, cell.cell_id).kind + " recommended" * (cell.cell_id in picks) for cell in cells],
        name="cells-table",
    )
    return CellsTable(cells, table, [[key for key, _ in row] for row in entries])


def _entry(value: _Value | None, show: Callable[[_Value], Content]) -> Entry:
    return _UNKNOWN if value is None else (value, show(value))


def _columns(findings: Findings, cells: Sequence[CellSummary]) -> Iterator[Column]:
    raw_io = compared.of_raw_io(findings)
    linked = {cell.cell_id for cell in cells_with_parts(findings)}

    def identity(cell_id: str) -> Content:
        """Returns the cell's id, as a link to the cell's fold if there is one."""
        return Link(cell_id, cell_anchor(cell_id)) if cell_id in linked else cell_id

    def verdict(cell: CellSummary) -> Entry:
        mark = ladder.verdict_of(findings, cell.cell_id)
        return mark.text or None, mark

    yield Column(Heading("cell", "text"), lambda cell: _entry(cell.cell_id, identity))
    yield from _figure_columns(findings, cells)
    yield Column(Heading(RATIO, "text"), partial(_ratio, findings), rank=6)
    yield Column(Heading("verdict", "text"), verdict)
    yield Column(Heading("price a month"), lambda cell: _entry(cell.price_per_month, numbers.price))
    sizes = {cell.cell_id: cell.capacity_bytes for cell in findings.cells if cell.capacity_bytes}
    if len(set(sizes.values())) > 1:
        yield Column(Heading("capacity", meaning="of the data's volumes"), partial(_of, sizes, numbers.capacity), 8)
    yield from _factor_columns(findings)
    if compared.of_both_kinds(findings):
        yield Column(Heading("provenance", "text"), lambda cell: _entry(cell.provenance, str))
    if not raw_io:
        meaning = "the largest wait except for the client, and its share of session time (connections × elapsed)"
        yield Column(Heading("top wait", "text", meaning), _top_wait, rank=7)
    yield from _columns_beside(findings, cells)
    for one in findings.cautions:
        if isinstance(one, Refused):  # its shares are the fractions of transactions that were refused or retried
            yield Column(Heading("refused"), partial(_of, one.shares, numbers.percent))
    if not (compared.set_time(findings) or raw_io):
        yield from _run_columns(findings)
    yield Column(Heading("runs"), lambda cell: (cell.runs_ok + cell.runs_unverified, _runs(cell)), rank=1)
    yield from _drive_columns(findings)


def _of(values: Mapping[str, float], show: Callable[[float], str], cell: CellSummary) -> Entry:
    return _entry(values.get(cell.cell_id), show)


def _factor_columns(findings: Findings) -> Iterator[Column]:
    """Yields a column for each factor; the number of data files comes first."""
    names = Names(findings)
    for factor in sorted(findings.factors, key=lambda factor: factor.name != DATA_FILES):
        numeric = all(is_number(level.value) for level in factor.levels)
        order = {repr(value): rank for rank, value in enumerate(levels_in_order(factor))}
        heading = Heading(names.heading(factor.name), "number" if numeric else "text")
        yield Column(heading, partial(_level, factor, order))


def _level(factor: Factor, order: Mapping[str, int], cell: CellSummary) -> Entry:
    if factor.name not in cell.levels:
        return _UNKNOWN
    level = cell.levels[factor.name]
    return order.get(repr(level)), value_text(level)


def _figure_columns(findings: Findings, cells: Sequence[CellSummary]) -> Iterator[Column]:
    """Yields columns with the mean by which cells are compared, its interval, and a drawing of both. The drawings of
    all cells have one scale.
    """
    known = [sample for cell in cells if (sample := compared.judged(findings, cell)) is not None]
    rate = compared.by_rate(findings)
    unit, times = compared.unit(findings), compared.times(findings)
    decimals = compared.decimals(known)
    ends = [end for one in known for end in (one.mean.low, one.mean.value, one.mean.high) if end is not None]

    def number(value: float) -> str:
        return numbers.seconds_number(value, decimals) if unit == "s" else numbers.significant(times * value)

    def interval(mean: Estimate) -> str:
        return "" if mean.low is None or mean.high is None else f"{number(mean.low)} to {number(mean.high)}"

    def place(value: float | None) -> float | None:
        return None if value is None else round(3 + 94 * (value - min(ends)) / ((max(ends) - min(ends)) or 1.0), 1)

    def bar(mean: Estimate) -> Bar:
        return Bar(place(mean.value) or 0.0, place(mean.low), place(mean.high))

    def of(show: Callable[[Estimate], Content], cell: CellSummary) -> Entry:
        sample = compared.judged(findings, cell)
        shown = "" if sample is None else show(sample.mean)
        return (sample.mean.value, shown) if sample and shown else _UNKNOWN

    heading = unit if rate else f"mean {compared.quantity(findings)}, {unit}".replace("completion ", "")
    yield Column(Heading(heading), partial(of, lambda mean: number(mean.value)))
    yield Column(Heading("95 % CI"), partial(of, interval), rank=2)
    yield Column(Heading("mean, drawn", "text"), partial(of, bar))


def _ratio(findings: Findings, cell: CellSummary) -> Entry:
    ratio, found = ladder.ratio_of(findings, cell.cell_id), ladder.comparison_of(findings, cell.cell_id)
    if ratio is None or (found is None and not ladder.verdict_of(findings, cell.cell_id).text):
        return _UNKNOWN
    is_tested = found is None or found.tested or (found.across_blocks and ladder.apart_by_blocks(findings))
    shown = numbers.ratio_estimate(ratio, ladder.ratio_decimals(findings)) + ("" if is_tested else " (not tested)")
    return ratio.value, shown


def _top_wait(cell: CellSummary) -> Entry:
    idle = cell.idle_waits
    waits = sorted((row for row in cell.waits if row.is_wait and row.wait_s > 0), key=lambda row: row.wait_type in idle)
    if not waits or not cell.available_s:
        return _UNKNOWN
    share = numbers.percent(waits[0].wait_s / cell.available_s)
    return (text := f"{waits[0].wait_type} {share}{IDLE if waits[0].wait_type in idle else ''}"), text


def _run_columns(findings: Findings) -> Iterator[Column]:
    """Yields columns with the rate, the median time, and the scatter of the runs."""
    if not compared.by_rate(findings):
        rates = {cell.cell_id: cell.work_per_s.mean.value for cell in findings.cells if cell.work_per_s}
        yield Column(Heading(compared.rate_unit(findings)), partial(_of, rates, numbers.significant), rank=3)
    timed = {cell.cell_id: cell.elapsed_s for cell in findings.cells if cell.elapsed_s}
    medians, decimals = {one: sample.median for one, sample in timed.items()}, compared.decimals([*timed.values()])
    spreads = {cell_id: one for cell_id, sample in timed.items() if (one := compared.spread(sample)) is not None}
    shown = partial(numbers.seconds_number, decimals=decimals)
    yield Column(Heading("median, s"), partial(_of, medians, shown), rank=4)
    meaning = "standard deviation over the runs, as a share of the mean"
    yield Column(Heading("sd", meaning=meaning), partial(_of, spreads, lambda sd: numbers.percent(sd, 1)), rank=5)


def _columns_beside(findings: Findings, cells: Sequence[CellSummary]) -> Iterator[Column]:
    """Yields a column for each figure of raw I/O and of latency that any cell has, and one for the final checkpoint.
    The compared figure is left out, because it already has a column.
    """
    synced = is_synced(findings.cells)
    known = {cell.cell_id: figures_beside(findings, cell) for cell in cells}
    by = latency_of(findings.compared)
    meaning = "the mean over the runs, as for the compared figure" if by else ""
    meaning = "an fsync or fdatasync comes after it and is left out; a dsync is part of it" if synced else meaning
    for name, heading in _BESIDE.items():
        times = 1e-6 if name == "bytes_per_s" else 1e3
        figures = {cell_id: times * figures[name].value for cell_id, figures in known.items() if name in figures}
        if name != f"latency_{by}_s":
            of_request = name.startswith("latency_")  # these go before those of the syncs: alone, they would mislead
            rank = 0 if heading == ("mean with sync ms" if synced else "p99 ms") else 3 + (synced and of_request)
            said = meaning if of_request else ""
            yield Column(Heading(heading, meaning=said), partial(_of, figures, numbers.significant), rank)
    after = {cell.cell_id: cell.checkpoint_s.mean.value for cell in cells if cell.checkpoint_s is not None}
    meaning = "the final checkpoint, which writes what the load left in memory; not in the run's time"
    yield Column(Heading("checkpoint, s", meaning=meaning), partial(_of, after, numbers.significant), rank=8)


def _drive_columns(findings: Findings) -> Iterator[Column]:
    names = drives(findings)
    for drive in names:
        for what, show in (("write_amplification", "{:.2f}".format), ("utilisation", numbers.percent)):
            heading = Heading(f"{what.replace('_', ' ')}{f' of {drive}' if len(names) > 1 else ''}")
            means = {cell.cell_id: one.mean.value for cell in findings.cells if (one := state_of(cell, drive, what))}
            yield Column(heading, partial(_of, means, show), rank=9)


def drives(findings: Findings) -> list[str]:
    """Returns the names of the drives with a known state. If there are many, only the drives whose write amplification
    differs most between cells are included.
    """

    def spread(drive: str) -> float:
        known = [one.mean.value for cell in findings.cells if (one := state_of(cell, drive, "write_amplification"))]
        return max(known, default=0.0) - min(known, default=0.0)

    names = list(dict.fromkeys(state.drive for cell in findings.cells for state in cell.drive_states))
    moving = sorted(names, key=spread, reverse=True)[:MAX_DRIVES]
    return [name for name in names if name in moving]


def state_of(cell: CellSummary, drive: str, quantity: str) -> DriveState | None:
    return next((one for one in cell.drive_states if (one.drive, one.quantity) == (drive, quantity)), None)


def _runs(cell: CellSummary) -> str:
    usable = cell.runs_ok + cell.runs_unverified
    text = str(usable) if usable == cell.runs_planned else f"{usable} of {cell.runs_planned}"
    wrong = [(cell.runs_failed, "failed"), (cell.runs_unverified, "unverified")]
    return ", ".join([text, *(f"{number} {what}" for number, what in wrong if number)])
