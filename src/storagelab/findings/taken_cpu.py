"""Doubts about runs that lost CPU time: to others, to the hypervisor, or to a quota of their control groups. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from storagelab.findings import caution_kinds as kinds
from storagelab.findings.evidence import Evidence
from storagelab.model.measurement import held_back

OTHERS_SHARE_MOST = 0.10
OTHERS_RUNS_MOST = 0.10
"""An occasional disturbed run is normal; more than a tenth of the runs means a busy machine."""
THROTTLED_MOST = 0.01


def busy_machine(evidence: Evidence) -> Iterator[kinds.BusyMachine]:
    """Others, or the hypervisor, took CPU time from the runs.

    A load average would not do: it can't separate others from the server under test. The share is of the time in the same
    counters, because they are read over a little more than the run.
    """
    shares: dict[str, float] = {}
    checked = runs = 0
    for cell_id, _, m in evidence.measurements():
        spent = m.counters.get("cpu", {})
        all_s = sum(spent.get(name, 0.0) for name in ("busy_s", "idle_s", "iowait_s", "steal_s"))
        if "others_s" not in spent or all_s <= 0:
            continue
        checked += 1
        share = (spent["others_s"] + spent.get("steal_s", 0.0)) / all_s
        if share > OTHERS_SHARE_MOST:
            runs += 1
            shares[cell_id] = max(share, shares.get(cell_id, 0.0))
    if runs > OTHERS_RUNS_MOST * checked:
        yield kinds.BusyMachine(
            cells=evidence.named(shares), others_share=max(shares.values()), limit=OTHERS_SHARE_MOST, runs=runs,
            checked=checked,
        )  # fmt: skip


def throttled(evidence: Evidence) -> Iterator[kinds.Throttled]:
    """One for each that a control group held back."""
    found: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for cell_id, _, m in evidence.measurements():
        for who, (held_s, share) in held_back(m.counters.get("cpu", {}), m.elapsed_s).items():
            if share > THROTTLED_MOST:
                found[who].append((share, held_s, cell_id))
    for who, of_runs in found.items():
        share, held_s, _ = max(of_runs)
        yield kinds.Throttled(
            cells=evidence.named(cell_id for _, _, cell_id in of_runs), who=who, throttled_s=held_s, share=share,
            limit=THROTTLED_MOST, runs=len(of_runs),
        )  # fmt: skip


CHECKS = (busy_machine, throttled)
