"""What a run's transactions did while nothing looked at its sessions, and while something did. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from storagelab.model.latency import Latency
from storagelab.model.measurement import Turns
from storagelab.targets.generators.transactions import Counted, joined


def in_turns(
    counted: Counted, unwatched: Sequence[Sequence[float]], start_s: float, end_s: float
) -> tuple[Latency | None, Turns | None]:
    """The latencies that count, and both kinds of stretches. Without transactions in both kinds, all of them count, and there
    is no comparison.

    A transaction belongs to the stretch in which it ended.
    """
    rests = [(max(begins_s, start_s), min(ends_s, end_s)) for begins_s, ends_s in unwatched]
    rests = [(begins_s, ends_s) for begins_s, ends_s in rests if begins_s < ends_s]
    if not rests:
        return counted.latency(), None
    looks = list(zip([start_s, *(end for _, end in rests)], [*(begin for begin, _ in rests), end_s], strict=True))
    free, seen = (joined([counted.log.within(*one) for one in stretches]) for stretches in (rests, looks))
    if not free.number or not seen.number:
        return counted.latency(), None
    free_s, seen_s = (sum(end - begin for begin, end in stretches) for stretches in (rests, looks))
    return free.latency(), Turns(
        unwatched_s=free_s, unwatched_transactions=free.number, watched_s=seen_s, watched_transactions=seen.number,
        watched_latency=seen.latency(),
    )  # fmt: skip
