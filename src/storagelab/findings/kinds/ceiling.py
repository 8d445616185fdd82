"""An upper bound on the gain from faster storage. It compares layouts that wait for no drive with the layout that waits
for one. The functions are pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from storagelab.findings.basis import Evidence, lost_in_crash, ratio_of
from storagelab.findings.model import Estimate, Finding, Findings
from storagelab.model.config import Config
from storagelab.model.measurement import Measurement
from storagelab.words.names import capital, level_alone
from storagelab.words.numbers import ratio_estimate, ratio_text

SMALL = 1.1
"""If no bound's interval reaches this gain, storage does not limit the load."""


class Ceiling(Finding, use_attribute_docstrings=True):
    """A layout that waits for no drive. A faster volume can't gain more than this layout."""

    kind, about, weight = "ceiling", "use", -10
    meaning = (
        "The layouts in memory, or without syncs, if only one layout is neither. Each is an upper bound on the gain "
        "from a faster volume."
    )
    cell_id: str
    """The layout that waits for no drive."""
    on_drives: str
    """The layout that waits for drives."""
    gain: Estimate
    """The time of the layout `on_drives` divided by the time of this layout, with the joint interval."""
    only_log: bool = False
    """Whether only the log is in memory. Then the layout is a bound for a faster volume for the log."""

    @classmethod
    def line(cls, findings: Findings) -> str:
        found: dict[str, list[Estimate]] = {}
        for one in cls.of(findings):
            found.setdefault(_name(findings, one.cell_id), []).append(one.gain)
        bounds = ", ".join(f"{name} {_range(gains)}" for name, gains in found.items())
        every = [gain for gains in found.values() for gain in gains]
        loads = "these loads" if len(findings.loads) > 1 else "this load"
        log = all(one.only_log for one in cls.of(findings))
        if all((gain.high or SMALL) < SMALL for gain in every):
            start = "The log's volume" if log else "Storage"
            return f"{start} is not what limits {loads}: {bounds} times as fast." if found else ""
        what = "volume for the log" if log else "volume"
        unsure = sum(gain.low is not None and gain.low <= 1 for gain in every)
        some = f" in {unsure} of {len(every)} comparisons" if len(every) > 1 else ""
        shown = f"; a gain is not shown{some}" if unsure else ""
        return f"No faster {what} can gain more with {loads}: {bounds} times as fast{shown}."

    @classmethod
    def sentences(cls, findings: Findings) -> list[str]:
        names = dict.fromkeys(_name(findings, one.cell_id) for one in cls.of(findings))
        why = "data or log are in memory or not synced, so a crash of the machine loses them"
        return [f"{capital(name)} is a bound and no layout to use: {why}." for name in names]


def _name(findings: Findings, cell_id: str) -> str:
    """The text of a cell's layout, without its load."""
    levels, names = findings.cell(cell_id).levels, (factor.name for factor in findings.layout_factors)
    return ", ".join(level_alone(name, levels[name]) for name in names if name in levels)


def _range(gains: Sequence[Estimate]) -> str:
    """The gain with its interval. If there are several loads, the smallest and the largest gain, with the lowest and
    the highest end of their intervals."""
    first, last = (pick(gains, key=lambda one: one.value) for pick in (min, max))
    if len(gains) == 1:
        return ratio_estimate(first)
    ends = [pick(end for one in gains for end in (one.low, one.high) if end) for pick in (min, max)]
    return f"{ratio_text(first.value)} to {ratio_text(last.value)} ({' to '.join(map(ratio_text, ends))})"


def find(evidence: Evidence) -> Iterator[Ceiling]:
    free = {cell.cell_id for cell in evidence.cells if cell.volatile}
    every = {cell.cell_id for cell in evidence.cells}
    configs = {cell.cell_id: cell.config for cell in evidence.plan.cells}
    only_log = {cell_id for cell_id, _, one in evidence.measurements() if _loses_only_log(configs[cell_id], one)}
    loads = [{*load.cells} for load in evidence.basis.stated.judged.loads] or [every]
    for load in loads if all(len(load - free) == 1 for load in loads) else ():
        (on_drives,) = load - free
        for cell_id in sorted(free & load):
            gain = ratio_of(evidence.basis, evidence.plan, cell_id, on_drives)
            if gain is not None:
                yield Ceiling(cell_id=cell_id, on_drives=on_drives, gain=gain, only_log=cell_id in only_log)


def _loses_only_log(config: Config, found: Measurement) -> bool:
    others = (*config.data_volumes, *config.placed.values())
    return lost_in_crash(config, found) == {config.log_volume} and config.log_volume not in others
