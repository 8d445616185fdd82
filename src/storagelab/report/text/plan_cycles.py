"""Whether runs of a set time are long enough for the checkpoint cycles of their servers, for `plan`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from storagelab.findings.cycles import ENOUGH
from storagelab.model.loads.base import GeneratedLoad
from storagelab.model.plan import Plan
from storagelab.words.numbers import bytes_, duration

if TYPE_CHECKING:
    from storagelab.targets import CheckpointCycle


def too_short(plan: Plan, cycles: Mapping[str, CheckpointCycle], log_rates: Mapping[str, float]) -> Iterator[str]:
    """A sentence for each kind of run that is too short for its server's cycle. `log_rates`: bytes of log that stored
    runs wrote in a second, by cell.
    """
    sentences = (
        _sentence(cell.config.generated_load, cycles[cell.cell_id], log_rates.get(cell.cell_id))
        for cell in plan.cells if cell.cell_id in cycles
    )  # fmt: skip
    yield from dict.fromkeys(sentence for sentence in sentences if sentence)


def before_full(plan: Plan, rooms: Mapping[str, float], log_rates: Mapping[str, float]) -> Iterator[str]:
    """A sentence for each kind of run that may count before its server's redo log is full. `rooms`: the bytes of log
    until then, by cell.
    """
    sentences = (
        _until_full(cell.config.generated_load, rooms[cell.cell_id], log_rates.get(cell.cell_id))
        for cell in plan.cells if cell.cell_id in rooms
    )  # fmt: skip
    yield from dict.fromkeys(sentence for sentence in sentences if sentence)


def _until_full(load: GeneratedLoad, room: float, log_rate: float | None) -> str:
    warm_up_s = load.longest_warm_up_s
    if log_rate is not None and room / log_rate <= warm_up_s:
        return ""
    start = (
        f"the redo log has room for {bytes_(room)} (innodb_log_file_size), and until it is full "
        "the server need not write"
    )
    if log_rate is None:
        least = f"writes {bytes_(room / warm_up_s)} of log in a second" if warm_up_s else "fills it at once"
        return f"{start} changed pages: unless a load {least}, runs count times that are shorter than they stay"
    full_s = room / log_rate
    return (
        f"{start} changed pages. At the {bytes_(log_rate)} of log that stored runs wrote in a second that takes "
        f'{duration(full_s)}, longer than the warm-up: set workload.warm_up = "{math.ceil(full_s)}s", or choose a '
        "smaller log"
    )


def _sentence(load: GeneratedLoad, cycle: CheckpointCycle, log_rate: float | None) -> str:
    """The first checkpoint after storagelab's own comes after one cycle, and a whole one after two."""
    assert load.longest_s is not None
    fits_s = load.longest_s / 2 if load.warm_up_is_found else load.duration_s / ENOUGH
    by_log_s = cycle.log_bytes / log_rate if log_rate else None
    cycle_s = min(cycle.longest_s, by_log_s) if by_log_s else cycle.longest_s
    if cycle_s <= fits_s:
        return ""
    if log_rate is None:
        least = bytes_(cycle.log_bytes / fits_s)
        far = (
            f"up to {duration(cycle_s)} apart ({cycle.time_setting}), unless runs write {least} "
            "of log in a second or more"
        )
        far += f" ({cycle.log_setting})"
    else:
        far = f"about {duration(cycle_s)} apart, at the {bytes_(log_rate)} of log that stored runs wrote in a second"
    if load.warm_up_is_found:
        least_s = 2.2 * cycle_s - load.duration_s
        return (
            f"checkpoints come {far}: within {duration(load.longest_s)} a run may count no whole cycle, "
            "and is then not "
            f'compared with runs that do; set workload.warm_up_at_most = "{least_s:.0f}s"'
        )
    return (
        f"checkpoints come {far}: a run that counts {duration(load.duration_s)} holds a part of a cycle, "
        "so layouts whose "
        'checkpoints come at different moments may seem to differ; set workload.warm_up = "auto", which counts whole '
        "cycles, "
        f'or, with sysbench, workload.duration = "{math.ceil(ENOUGH * cycle_s)}s"'
    )
