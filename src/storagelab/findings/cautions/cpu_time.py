"""Cautions about runs that lost CPU time to other programs or to a quota of their control groups, or that used all
CPUs."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator

from storagelab.findings.basis import Evidence, table_in
from storagelab.findings.comparable import others_share, steal_share
from storagelab.findings.limits import between_ends
from storagelab.findings.model import Caution, Findings, Severity
from storagelab.model.measurement import HELD_BACK, held_back
from storagelab.words.numbers import count, percent, plural, seconds

OTHERS_SHARE_MOST = 0.10
OTHERS_RUNS_MOST = 0.10
"""If more than this share of the runs is disturbed, the machine is busy. A single disturbed run is normal."""
THROTTLED_MOST = 0.01
CPU_SHARE_MOST = 0.9


class BusyMachine(Caution):
    """Other programs used the machine. They took up to `others_share` of all CPUs' time. In `runs` of `checked` runs,
    their share was above the `limit`."""

    kind, group, unable = "busy-machine", "machine", "busy-machine"
    next_step = "stop the other programs and run it under a new name"
    others_share: float
    limit: float
    runs: int
    checked: int

    def sentence(self, findings: Findings) -> str:
        loser = "the load" if findings.unit == "requests" else "the measured server"
        return (
            f"Other processes, or other guests of a virtual machine's host, took up to {percent(self.others_share)} "
            f"of the CPU time in {count(self.runs)} of {count(self.checked)} runs. So {loser} lost that time. "
            "They may have used the disk, too. Stop them and use a new name, or raise repetitions to average it out."
        )

    def is_unable(self, findings: Findings) -> bool:
        """False if a volume at its limit explains the difference, because then the busy CPUs do not explain it."""
        return between_ends(findings) is None

    def brief(self, findings: Findings) -> str:
        return f"the machine was busy (others took up to {percent(self.others_share)} of it)"


class Throttled(Caution):
    """A control group's CPU quota throttled `who`: "server", "load" (the load's own program) or "storagelab". In the
    worst of `runs`, it was throttled for the `share` of the run. `throttled_s` is the delay in this run, summed over
    CPUs.
    """

    kind, group = "throttled", "machine"
    next_step = "raise the CPU quota and run it under a new name"
    who: str
    throttled_s: float
    share: float
    limit: float
    runs: int

    def sentence(self, findings: Findings) -> str:
        return (
            f"A control group's CPU quota held {HELD_BACK[self.who]} back in "
            f"{plural(self.runs, 'run')}{self.where(findings)}, in one of them for {percent(self.share)} of its time "
            f"({seconds(self.throttled_s)} in all, over all CPUs). Such a run measures the quota as well as the "
            "layout. If the quota held it back for more than 10 % of its time, it is unverified. Raise the quota or "
            "remove it (cpu.max, or cpu.cfs_quota_us), and run the experiment under a new name."
        )

    def brief(self, findings: Findings) -> str:
        return f"a CPU quota took up to {percent(max(one.share for one in self.alike(findings)))} of a run"


class CpuSaturated(Caution):
    """The CPUs were busy, so storage was not the limit. `cpu_share` is the share of all CPUs' time that was busy; it is
    the highest of the cells' medians."""

    kind, group, unable = "cpu-saturated", "machine", "cpu-saturated"
    next_step = "spare the CPUs, which were the limit: more rows per transaction, or more cores"
    severity: Severity = "note"
    cpu_share: float
    cpu_count: int
    limit: float

    def sentence(self, findings: Findings) -> str:
        return (
            f"The connections{self.where(findings)} kept up to {percent(self.cpu_share)} of the CPU time busy "
            f"({plural(self.cpu_count, 'CPU')}). So the CPUs set the pace, not the storage, and this can hide "
            "differences between layouts. Use more cores or a workload that writes more per row."
        )

    def is_unable(self, findings: Findings) -> bool:
        """False if layouts in memory show how much of the time is due to storage. Then the CPUs are only the remaining
        limit."""
        return "ceiling" not in findings.found

    def brief(self, findings: Findings) -> str:
        return f"the CPUs were the limit ({percent(self.cpu_share)} busy){self.in_some(findings)}"


def check_busy_machine(evidence: Evidence) -> Iterator[BusyMachine]:
    """Finds runs that lost CPU time to other programs or to the hypervisor.

    If the hypervisor takes more time in the runs of one layout than in those of another (in the median), it works for
    the layout's own I/O. So this difference does not count.
    """
    usual = {cell_id: statistics.median(map(steal_share, of_cell)) for cell_id, of_cell in evidence.by_cell().items()}
    shares: dict[str, float] = {}
    checked = runs = 0
    for cell_id, _, m in evidence.measurements():
        taken = others_share(m)
        if taken is None:
            continue
        checked += 1
        share = taken - (usual[cell_id] - min(usual.values()))
        if share > OTHERS_SHARE_MOST:
            runs += 1
            shares[cell_id] = max(share, shares.get(cell_id, 0.0))
    if runs > OTHERS_RUNS_MOST * checked:
        yield BusyMachine(
            cells=evidence.named(shares), others_share=max(shares.values()), limit=OTHERS_SHARE_MOST, runs=runs,
            checked=checked,
        )  # fmt: skip


def check_throttled(evidence: Evidence) -> Iterator[Throttled]:
    """Gives one caution for each throttled program."""
    found: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for cell_id, _, m in evidence.measurements():
        for who, (held_s, share) in held_back(m.counters.get("cpu", {}), m.elapsed_s).items():
            if share > THROTTLED_MOST:
                found[who].append((share, held_s, cell_id))
    for who, of_runs in found.items():
        share, held_s, _ = max(of_runs)
        yield Throttled(
            cells=evidence.named(cell_id for _, _, cell_id in of_runs), who=who, throttled_s=held_s, share=share,
            limit=THROTTLED_MOST, runs=len(of_runs),
        )  # fmt: skip


def check_cpu_saturated(evidence: Evidence) -> Iterator[CpuSaturated]:
    shares: dict[str, float] = {}
    cpu_count = 0.0
    for cell_id, measurements in evidence.by_cell().items():
        of_runs = []
        for m in measurements:
            cpus = table_in(m.environment, "host").get("cpu_count")
            known = isinstance(cpus, int | float) and not isinstance(cpus, bool) and cpus
            if known and m.waits is not None and m.waits.cpu_s is not None and m.elapsed_s > 0:
                cpu_count = float(known)
                of_runs.append(m.waits.cpu_s / m.elapsed_s / cpu_count)
        if of_runs and (median := statistics.median(of_runs)) > CPU_SHARE_MOST:
            shares[cell_id] = median
    if shares:
        yield CpuSaturated(
            cells=evidence.named(shares), cpu_share=max(shares.values()), cpu_count=int(cpu_count), limit=CPU_SHARE_MOST
        )
