"""Words the quantity that cells are compared by: their time, their time per row, or requests a second for raw I/O. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from storagelab.findings.model import CellSummary, Findings, Sample
from storagelab.report.words import numbers

RAW_IO_COLUMNS: Mapping[str, str] = {
    "bytes_per_s": "MB/s", "latency_mean_s": "mean ms", "latency_p50_s": "p50 ms", "latency_p95_s": "p95 ms",
    "latency_p99_s": "p99 ms", "latency_p99.9_s": "p99.9 ms",
}  # fmt: skip
"""The columns of raw I/O beside IO/s: a run's counter -> its heading."""


def of_raw_io(findings: Findings) -> bool:
    return findings.compared == "time-per-request"


def of_both_kinds(findings: Findings) -> bool:
    """Whether simulated cells stand beside measured ones."""
    return findings.provenance == "measured and simulated"


def by_rate(findings: Findings) -> bool:
    """Whether cells are compared by their rate rather than by the time of a run."""
    return findings.compared != "elapsed"


def per(findings: Findings) -> str:
    """The words that follow "less time"."""
    return {"elapsed": "", "time-per-row": " per row", "time-per-request": " per request"}[findings.compared]


def rate_unit(findings: Findings) -> str:
    return numbers.RATES["requests" if of_raw_io(findings) else "rows"]


def title(findings: Findings) -> str:
    """The title of the section with every cell."""
    return "Requests and their latency" if of_raw_io(findings) else "Completion time"


def figure(findings: Findings, cell: CellSummary) -> Sample | None:
    """The figure of a cell's row: its time, or its rate for raw I/O, whose runs all last equally long."""
    return cell.rows_per_s if of_raw_io(findings) else cell.elapsed_s


def figure_text(findings: Findings, cell: CellSummary) -> str:
    """The same with its interval, in words."""
    if of_raw_io(findings):
        return (
            numbers.rows_per_s_estimate(cell.rows_per_s.mean, rate_unit(findings))
            if cell.rows_per_s is not None
            else ""
        )
    return numbers.seconds_estimate(cell.elapsed_s.mean) if cell.elapsed_s is not None else ""


def raw_io_text(cell: CellSummary, counter: str) -> str:
    """The mean of a counter in the unit of its heading (1 MB = 10^6 bytes), with its interval if there are enough runs."""
    # Cells are compared by their requests a second, so that mean comes from the comparison.
    sample = cell.rows_per_s if counter == "ios_per_s" and counter in cell.raw_io else cell.raw_io.get(counter)
    if sample is None:
        return ""
    times = {"ios_per_s": 1.0, "bytes_per_s": 1e-6}.get(counter, 1e3)
    mean = sample.mean
    if mean.low is None or mean.high is None:
        return numbers.significant(mean.value * times)
    ends = (numbers.significant(end * times) for end in (mean.low, mean.high))
    return f"{numbers.significant(mean.value * times)} ({' to '.join(ends)})"


def ends(findings: Findings) -> tuple[str | None, str | None]:
    """Ids of the cells with the smallest and the largest time, judged or not; None if there is none."""
    fastest = findings.fastest or next(iter(findings.best), None)
    return fastest, findings.worst if findings.worst != fastest else None
