"""The tables of a report as headings and texts, shared by terminal and Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from storagelab.findings.cautions.refused import Refused
from storagelab.findings.model import CellSummary, Findings, Sample
from storagelab.model.waits import TableRow, wait_table
from storagelab.report.words import compared
from storagelab.report.words.marks import difference_text, first_factor, verdict_mark
from storagelab.report.words.short import Names
from storagelab.servers.durability import BENIGN_WAITS
from storagelab.words.names import value_text
from storagelab.words.numbers import count, percent, seconds_number, significant

TextColumn = tuple[str, list[str]]
"""A heading and its cells."""

NINE_COLUMNS = (
    "WaitType", "Wait_S", "Resource_S", "Signal_S", "WaitCount", "Percentage", "AvgWait_S", "AvgRes_S", "AvgSig_S",
)  # fmt: skip
AGAINST = "against the best (joint 95 % CI)"
IN_SQL_SERVER = "In SQL Server"
"""The heading of the column of SQL Server's names."""
CELL_ID = "cell"
"""The heading of the column of ids, by which other verbs take cells."""
# Which columns a narrow terminal drops, the highest first; unnamed ones always stay.
CELL_RANKS = {
    AGAINST: 5, "sd": 4, "median s": 3, "rows/s": 2, "runs": 1,
    "p50 ms": 3, "p95 ms": 2, "p99.9 ms": 3, "mean ms": 1, "max ms": 4,
}  # fmt: skip
WAIT_RANKS = {
    IN_SQL_SERVER: 6, "AvgSig_S": 5, "AvgRes_S": 4, "AvgWait_S": 3, "WaitCount": 2, "Signal_S": 1, "Resource_S": 1,
}  # fmt: skip


def cells_shown(findings: Findings, most: int) -> tuple[list[CellSummary], int]:
    """The cells by data files (or the first factor), and how many were left out: the slowest ones beyond `most`."""
    cells = list(findings.cells)
    if len(cells) > most:
        cells = sorted(cells, key=lambda cell: _slowness(findings, cell))[:most]
    order = {factor.name: [level.value for level in factor.levels] for factor in findings.factors}
    names = factor_order(findings)

    def place(cell: CellSummary) -> list[int]:
        return [order[name].index(cell.levels[name]) if cell.levels.get(name) in order[name] else -1 for name in names]

    return sorted(cells, key=place), len(findings.cells) - len(cells)


def _slowness(findings: Findings, cell: CellSummary) -> float:
    figure, by_rate = compared.figure(findings, cell), compared.set_time(findings)
    slowness = (0.0 if by_rate else float("inf")) if figure is None else figure.mean.value
    return -slowness if by_rate else slowness


def factor_order(findings: Findings) -> list[str]:
    """Names of the factors, the one that orders tables first."""
    first = first_factor(findings)
    return sorted((factor.name for factor in findings.factors), key=lambda name: name != first)


def cell_columns(findings: Findings, cells: Sequence[CellSummary]) -> list[TextColumn]:
    """The table of cells: id, a column per factor, then times, throughput, spread, runs and verdict."""
    names, short = factor_order(findings), Names(findings)
    columns: list[TextColumn] = [
        (CELL_ID, [cell.cell_id for cell in cells]),
        *(
            (short.heading(name), [value_text(cell.levels[name]) if name in cell.levels else "" for cell in cells])
            for name in names
        ),
    ]
    if compared.of_raw_io(findings):
        if compared.of_both_kinds(findings):
            columns.append(("provenance", [str(cell.provenance or "") for cell in cells]))
        return [*columns, *_raw_io_columns(cells), *_judged_columns(findings, cells)]
    if compared.set_time(findings) or compared.by_latency(findings):
        return [*columns, *_rate_columns(findings, cells), *latency_columns(cells), *_judged_columns(findings, cells)]
    decimals = compared.decimals([cell.elapsed_s for cell in cells if cell.elapsed_s])
    return [
        *columns,
        ("median s", [seconds_number(cell.elapsed_s.median if cell.elapsed_s else None, decimals) for cell in cells]),
        ("mean s (95 % CI)", [_mean(cell.elapsed_s, decimals) for cell in cells]),
        (
            compared.rate_unit(findings),
            [significant(cell.work_per_s.mean.value) if cell.work_per_s else "" for cell in cells],
        ),
        *_refused_column(findings, cells),
        ("sd", [percent(compared.spread(cell.elapsed_s)) for cell in cells]),
        *latency_columns(cells),
        *_judged_columns(findings, cells),
    ]


def _raw_io_columns(cells: Sequence[CellSummary]) -> list[TextColumn]:
    rates = [compared.raw_io_text(cell, "ios_per_s") for cell in cells]
    columns = [
        (heading, [compared.raw_io_text(cell, counter).split(" (")[0] for cell in cells])
        for counter, heading in compared.raw_io_columns(cells).items()
    ]
    return [("IO/s (95 % CI)", rates), *columns]


def _rate_columns(findings: Findings, cells: Sequence[CellSummary]) -> list[TextColumn]:
    unit = compared.rate_unit(findings)
    texts = [
        compared.estimate_text(findings, cell.work_per_s.mean, rate=True) if cell.work_per_s else "" for cell in cells
    ]
    rates = [text.replace(f" {unit}", "").replace("95 % CI ", "") for text in texts]
    columns: list[TextColumn] = [(f"{unit} (95 % CI)", rates)]
    if compared.by_latency(findings):
        columns.append(("judged (95 % CI)", [compared.figure_text(findings, cell) for cell in cells]))
    return [*columns, *_refused_column(findings, cells)]


def _refused_column(findings: Findings, cells: Sequence[CellSummary]) -> list[TextColumn]:
    """The share of transactions that were refused or made again, where that is a caution."""
    return [
        ("refused", [percent(one.shares[cell.cell_id]) if cell.cell_id in one.shares else "" for cell in cells])
        for one in findings.cautions
        if isinstance(one, Refused)
    ]


def latency_columns(cells: Sequence[CellSummary]) -> list[TextColumn]:
    """The figures of all operations of each cell, if they were timed one by one."""
    return [
        (heading, [compared.latency_text(cell, name).split(" (")[0] for cell in cells])
        for name, heading in compared.latency_columns(cells).items()
    ]


def _judged_columns(findings: Findings, cells: Sequence[CellSummary]) -> list[TextColumn]:
    return [
        ("runs", [runs_text(cell) for cell in cells]),
        ("verdict", [verdict_mark(findings, cell.cell_id) or "-" for cell in cells]),
        (AGAINST, [difference_text(findings, cell.cell_id) for cell in cells]),
    ]


def _mean(sample: Sample | None, decimals: int) -> str:
    if sample is None:
        return ""
    mean = sample.mean
    if mean.low is None or mean.high is None:
        return f"{seconds_number(mean.value, decimals)} (no interval)"
    return f"{seconds_number(mean.value, decimals)} ({mean.low:,.{decimals}f} to {mean.high:,.{decimals}f})"


def runs_text(cell: CellSummary) -> str:
    """Runs with figures out of runs planned, and what went wrong: "5", "4/5", "4/5 1 failed"."""
    usable = cell.runs_ok + cell.runs_unverified
    text = str(usable) if usable == cell.runs_planned else f"{usable}/{cell.runs_planned}"
    return text + (f" ({cell.runs_failed} failed)" if cell.runs_failed else "")


# ---------------------------------------------------------------------------------------------------------------------
# Waits
# ---------------------------------------------------------------------------------------------------------------------


def waits_of(cell: CellSummary, uncut: bool) -> tuple[TableRow, ...]:
    """The nine columns of the mean run: all waits, or those of the top 95 % without the benign ones."""
    if uncut:
        return wait_table(cell.waits, share=1.0)
    return wait_table(cell.waits, benign=BENIGN_WAITS)


def wait_columns(rows: Sequence[TableRow]) -> list[TextColumn]:
    """The nine columns under their exact names, then SQL Server's if there are any. Unknown figures stay empty."""
    seconds = 2 if max((row.wait_s for row in rows), default=0.0) >= 1 else 4
    average = 4 if max((row.avg_wait_s or 0.0 for row in rows), default=0.0) >= 0.01 else 6
    texts = (
        (
            row.wait_type, *(seconds_number(one, seconds) for one in (row.wait_s, row.resource_s, row.signal_s)),
            count(row.wait_count), f"{row.percentage:.2f}",
            *(seconds_number(one, average) for one in (row.avg_wait_s, row.avg_resource_s, row.avg_signal_s)),
        )
        for row in rows
    )  # fmt: skip
    columns = [(name, list(column)) for name, column in zip(NINE_COLUMNS, zip(*texts, strict=True), strict=True)]
    return [*columns, (IN_SQL_SERVER, [row.analogue for row in rows])] if are_likened(rows) else columns


def are_likened(rows: Iterable[TableRow]) -> bool:
    """Whether any wait has a name in SQL Server that is not its own."""
    return any(row.analogue not in ("", row.wait_type) for row in rows)
