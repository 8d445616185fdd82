"""Turns an outcome of the core (crates/sim/src/outcome.rs) into a Measurement. Pure.

**Scale.** At a scale of 64, a simulation has 1/64 of the rows, pages and bytes, and lasts 1/64 of the time. Its rates,
cores, connections and latencies are the real server's. The Measurement is life-size: counts, bytes and sums of time are
multiplied by the scale. Rates and mean latencies are not. Waits, CPU time, the time after an early finish, and elapsed
time are all multiplied by the same factor. So waits + CPU + time after an early finish remain equal to connections x
elapsed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from storagelab.model.measurement import (
    PFS_PAGE,
    CountedCrowd,
    Measurement,
    Page,
    Resource,
    TimeSeries,
    WaitingTask,
    resource_of,
)
from storagelab.model.plan import Cell
from storagelab.model.waits import NS, Category, CountedWait, CountedWaits

_CATEGORIES: dict[str, Category] = {
    "PAGEIOLATCH_EX": "data-read", "PAGEIOLATCH_SH": "data-read", "WRITELOG": "commit", "LOGBUFFER": "log-buffer",
    "SLEEP_BPOOL_FLUSH": "data-write", "WRITE_COMPLETION": "data-write", "PAGELATCH_UP": "allocation",
    "PAGELATCH_SH": "page-latch", "PAGELATCH_EX": "page-latch", "SOS_SCHEDULER_YIELD": "cpu-queue",
}  # fmt: skip
"""PAGELATCH_UP is an allocation wait, because only allocation pages are latched in this mode."""
_PAGES = {"PFS": PFS_PAGE, "GAM": "a GAM page", "data": "a data page"}
_NO_PAGE = "(no page)"
_LOG_FILE = 2
"""The server's number of the log file. The data files have the numbers 1, 3, 4 and so on."""
_NOT_COUNTS = ("read_latency_ns", "write_latency_ns", "write_amplification")
_OF_THE_SIMULATION = ("fingerprint", "events")


def measurement(outcome: Mapping[str, Any], cell: Cell, environment: Mapping[str, object]) -> Measurement:
    """The measurement of one run, life-size. `outcome` is the parsed outcome of the core."""
    scale = cell.config.target.world_scale
    taken, looks = _series(outcome["series"], scale, cell), outcome["waiting_tasks"]
    series, kept = thinned(taken), kept_looks(looks)
    return Measurement(
        provenance="simulated", elapsed_s=outcome["elapsed_ns"] * scale * NS, rows=outcome["rows"] * scale,
        waits=_waits(outcome, scale), waiting_tasks=tuple(_waiting_tasks(kept, scale)), crowds=tuple(_crowds(outcome)),
        counters=_counters(outcome, scale, cell) | {"stored in part": left_out(taken, series, len(looks), len(kept))},
        series=series, environment=dict(environment),
    )  # fmt: skip


def _waits(outcome: Mapping[str, Any], scale: int) -> CountedWaits:
    elapsed_ns, connections = outcome["elapsed_ns"] * scale, outcome["connections"]
    return CountedWaits(
        connections=connections,
        elapsed_s=elapsed_ns * NS,
        busy_s=(connections * elapsed_ns - outcome["finished_early_ns"] * scale) * NS,
        rows=tuple(
            CountedWait(
                wait_type=row["wait_type"],
                analogue=row["wait_type"],
                category=_CATEGORIES.get(row["wait_type"], "latch" if "LATCH" in row["wait_type"] else "other"),
                wait_ns=(row["resource_ns"] + row["signal_ns"]) * scale,
                signal_ns=row["signal_ns"] * scale,
                wait_count=row["count"] * scale,
            )
            for row in outcome["waits"]
        ),
        cpu_s=outcome["cpu_ns"] * scale * NS,
    )


def _waiting_tasks(samples: list[dict[str, Any]], scale: int) -> Iterator[WaitingTask]:
    for sample in samples:
        for task in sample["tasks"]:
            resource = _resource(task["resource"])
            page = resource.page
            yield WaitingTask(
                at_s=sample["at_ns"] * scale * NS, wait_type=task["wait_type"], resource=resource,
                sessions=task["workers"], data_file=page and (page.file_id - (page.file_id > _LOG_FILE)),
            )  # fmt: skip


def _crowds(outcome: Mapping[str, Any]) -> Iterator[CountedCrowd]:
    """The numbers of sessions at latches, with their shares of time. Both are the same at any scale."""
    for row in outcome["crowds"]:
        yield CountedCrowd(
            wait_type=row["wait_type"],
            kind=_PAGES.get(row["kind"], row["kind"] or _NO_PAGE),
            sessions_mean=row["sessions_ns"] / outcome["elapsed_ns"] if outcome["elapsed_ns"] else 0.0,
            sessions_most=row["most"],
            time_share=row["any_ns"] / outcome["elapsed_ns"] if outcome["elapsed_ns"] else 0.0,
        )


def _resource(decoded: str) -> Resource:
    """The object of a wait. `decoded` is the core's text: for a page, for example, "PFS 5:1:1520544"."""
    kind, _, place = decoded.partition(" ")
    if kind not in _PAGES:
        return resource_of(decoded or _NO_PAGE)
    return Resource(kind=_PAGES[kind], page=Page(*map(int, place.split(":"))))


def _counters(outcome: Mapping[str, Any], scale: int, cell: Cell) -> dict[str, dict[str, float]]:
    table = outcome["counters"]
    return {
        "engine": _counted({name: value for name, value in table.items() if name not in _OF_THE_SIMULATION}, scale),
        "background": {
            "cpu_s": outcome["background_cpu_ns"] * scale * NS,
            **{
                f"{row['wait_type']}_s": (row["resource_ns"] + row["signal_ns"]) * scale * NS
                for row in outcome["background_waits"]
            },
            **{f"{row['wait_type']}_count": row["count"] * scale for row in outcome["background_waits"]},
        },
        "simulation": {"events": table["events"]},
        **device_counters(outcome, scale, cell),
    }


def device_counters(outcome: Mapping[str, Any], scale: int, cell: Cell) -> dict[str, dict[str, float]]:
    """The work of drives and volumes, life-size: group -> name -> value.

    Each volume and each drive has a group. Identical drives that the spec declares together have one group.
    """
    singles = cell.config.single_drives
    groups: dict[str, dict[str, float]] = {}
    for group, counters in _of_devices(outcome, scale).items():
        kind, _, name = group.partition(" ")
        alike = f"{kind} {singles.get(name, name)}" if kind == "drive" else group
        groups[alike] = _together(groups[alike], counters) if alike in groups else counters
    for name, drive in cell.config.drives.items():
        if drive.count > 1 and "utilisation" in groups.get(f"drive {name}", {}):
            groups[f"drive {name}"]["utilisation"] /= sum(singles.get(one["name"]) == name for one in outcome["drives"])
    return groups


def _together(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """The sums of the counters of drives. Write amplification is calculated from the sums."""
    both = {name: value + other[name] for name, value in one.items()}
    if "write_amplification" in both:
        written = both["host_flash_pages"]
        both["write_amplification"] = 1 + both["moved_flash_pages"] / written if written else 1.0
    return both


def _of_devices(outcome: Mapping[str, Any], scale: int) -> dict[str, dict[str, float]]:
    groups: dict[str, dict[str, float]] = {}
    for drive in outcome["drives"]:
        if own := drive.get("disk") or drive.get("device"):
            groups[f"drive {drive['name']}"] = _counted(own, scale)
            continue
        groups[f"drive {drive['name']}"] = {
            "utilisation": drive["utilisation"], "write_amplification": drive["write_amplification"],
            "host_flash_pages": drive["host_pages"] * scale, "moved_flash_pages": drive["moved_pages"] * scale,
            "map_in_host_bytes": drive["host_ram_bytes"], "dies_busy_s": drive["die_busy_ns"] * scale * NS,
            "cleaning_bursts": drive["cleaning_bursts"],
        }  # fmt: skip
    for volume in outcome.get("volumes", ()):
        counts = {name: value for name, value in volume.items() if name not in {"name", "lost_drives"}}
        groups[f"volume {volume['name']}"] = {**_counted(counts, scale), "lost_drives": volume["lost_drives"]}
    return groups


def _counted(counts: Mapping[str, float], scale: int) -> dict[str, float]:
    """The counts of the scaled simulation, converted to life-size. Times are in seconds."""
    life_size = {name: value if name in _NOT_COUNTS else value * scale for name, value in counts.items()}
    return dict(
        (f"{name.removesuffix('_ns')}_s", value * NS) if name.endswith("_ns") else (name, value)
        for name, value in life_size.items()
    )


def _series(series: Mapping[str, list[float]], scale: int, cell: Cell) -> TimeSeries:
    """The time series of a run. If all data files are on one volume, the columns of I/O have its name. Otherwise, they
    are for all data volumes together and have the name `data`.
    """
    volumes = cell.config.data_volumes
    data = f"volume.{volumes[0] if len(volumes) == 1 else 'data'}"
    log = f"volume.{cell.config.log_volume}"
    beside, written, log_written = log == data, series["written_bytes_per_s"], series["log_bytes_per_s"]
    columns: dict[str, list[float]] = {
        "rows_per_s": series["rows_per_s"], f"{data}.read_bytes_per_s": series["read_bytes_per_s"],
        f"{data}.write_bytes_per_s": [a + b for a, b in zip(written, log_written, strict=True)] if beside else written,
        "log_bytes_per_s": log_written, **{name: series[name] for name in ("write_amplification", "utilisation")},
        "dirty_pages": [pages * scale for pages in series["dirty_pages"]],
        **{name: series[name] for name in ("runnable", "io_in_progress")},
    }  # fmt: skip
    if not beside:
        columns[f"{log}.write_bytes_per_s"] = log_written
    return TimeSeries(
        at_s=tuple(at_ns * scale * NS for at_ns in series["at_ns"]),
        columns={name: tuple(values) for name, values in columns.items()},
    )


# --- thinning --------------------------------------------------------------------------------------------------------
#
# Reduces the data of a run to about 20 kB for the store. The core samples so often that even short runs are recorded in
# detail. So long runs have thousands of points. Their intervals are merged into longer intervals with the same means.
# Of the samples of waiting tasks, only every nth is kept, with its longest queues. Sums over the run, such as waits and
# counters, are not changed. Pure.


POINTS_MOST = 100
LOOKS_MOST = 30
LINES_MOST = 4
_DIGITS = 6
"""The number of digits of a stored mean."""


def thinned(series: TimeSeries) -> TimeSeries:
    """The run's series in at most `POINTS_MOST` intervals. Each value is the time-weighted mean of the merged ones."""
    count = len(series.at_s)
    merged = math.ceil(count / POINTS_MOST)
    if merged <= 1:
        return series
    starts, widths_s = list(range(0, count, merged)), np.diff([0.0, *series.at_s])

    def means(values: Sequence[float | None]) -> Iterator[float | None]:
        """The mean of each merged interval, over the time with known values. Returns None if no value is known."""
        known = np.array(values, dtype=float)
        there = ~np.isnan(known)
        sums = np.add.reduceat(np.where(there, known, 0.0) * widths_s, starts)
        for total, time_s in zip(sums, np.add.reduceat(there * widths_s, starts), strict=True):
            yield float(f"{total / time_s:.{_DIGITS}g}") if time_s > 0 else None

    return TimeSeries(
        at_s=tuple(series.at_s[min(start + merged, count) - 1] for start in range(0, count, merged)),
        columns={name: tuple(means(values)) for name, values in series.columns.items()},
    )


def kept_looks(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most `LOOKS_MOST` of the core's samples of waiting tasks. They are evenly spaced. Each sample has only its
    longest queues.
    """
    every = max(1, math.ceil(len(samples) / LOOKS_MOST))
    return [{**sample, "tasks": sample["tasks"][:LINES_MOST]} for sample in samples[every - 1 :: every]]


def left_out(taken: TimeSeries, stored: TimeSeries, looks: int, looks_stored: int) -> dict[str, float]:
    """Counters that say how much of a run's data was recorded, and how much of the recorded data is stored."""
    return {
        "series_points_taken": len(taken.at_s), "series_points_stored": len(stored.at_s), "waiting_looks_taken": looks,
        "waiting_looks_stored": looks_stored, "waiting_queues_of_a_look": LINES_MOST,
    }  # fmt: skip
