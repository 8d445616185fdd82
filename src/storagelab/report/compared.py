"""What cells are compared by, in words: their time, their time per row, or of raw I/O requests a second. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from storagelab.findings.model import CellSummary, Findings, Sample
from storagelab.report import numbers

RAW_IO_COLUMNS: Mapping[str, str] = {
    "bytes_per_s": "MB/s", "latency_mean_s": "mean ms", "latency_p50_s": "p50 ms", "latency_p95_s": "p95 ms",
    "latency_p99_s": "p99 ms", "latency_p99.9_s": "p99.9 ms",
}  # fmt: skip
"""What a table tells of raw I/O beside IO/s: the run's counter -> the heading."""


def of_raw_io(findings: Findings) -> bool:
    return findings.compared == "time-per-request"


def by_rate(findings: Findings) -> bool:
    """Whether not the time of a run is compared but what it does in a second."""
    return findings.compared != "elapsed"


def per(findings: Findings) -> str:
    """What stands behind "less time"."""
    return {"elapsed": "", "time-per-row": " per row", "time-per-request": " per request"}[findings.compared]


def rate_unit(findings: Findings) -> str:
    return numbers.RATES["requests" if of_raw_io(findings) else "rows"]


def title(findings: Findings) -> str:
    """Of the part of a report that has every cell."""
    return "Requests and their latency" if of_raw_io(findings) else "Completion time"


def figure(findings: Findings, cell: CellSummary) -> Sample | None:
    """What a cell's chart and its table draw: runs of raw I/O all last as long as they were told to."""
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
    """The mean of a counter in the unit of its heading, with its interval where there are runs enough: 10^6 bytes to a MB."""
    # Cells are compared by their requests a second, so there the mean is that of the comparison.
    sample = cell.rows_per_s if counter == "ios_per_s" and counter in cell.raw_io else cell.raw_io.get(counter)
    if sample is None:
        return ""
    times = {"ios_per_s": 1.0, "bytes_per_s": 1e-6}.get(counter, 1e3)
    mean = sample.mean
    if mean.low is None or mean.high is None:
        return numbers.significant(mean.value * times)
    ends = (numbers.significant(end * times) for end in (mean.low, mean.high))
    return f"{numbers.significant(mean.value * times)} ({' to '.join(ends)})"
