"""An upper bound on the gain from faster storage: layouts that wait for no drive, compared with the layout that waits
for one. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.findings.basis import Evidence, ratio_of, volumes_of
from storagelab.findings.model import Estimate, Finding, Findings
from storagelab.model.measurement import Run
from storagelab.words.names import capital, level_alone
from storagelab.words.numbers import ratio_estimate

SMALL = 1.1
"""If no bound's interval reaches this gain, storage is not what limits the load."""


class Ceiling(Finding, use_attribute_docstrings=True):
    """A layout that waits for no drive. No faster volume gains more than this layout."""

    kind, about, weight = "ceiling", "use", -10
    meaning = (
        "The layouts in memory, or without syncs, if only one layout is neither. Each is an upper bound on the gain "
        "from a faster volume."
    )
    cell_id: str
    """The layout that waits for no drive."""
    on_drives: str
    """The one that does."""
    gain: Estimate
    """The time of that one over its own, with the joint interval."""

    @classmethod
    def line(cls, findings: Findings) -> str:
        found = cls.of(findings)
        bounds = ", ".join(f"{_name(findings, one.cell_id)} {ratio_estimate(one.gain)}" for one in found)
        small = all((one.gain.high or SMALL) < SMALL for one in found)
        start = "Storage is not what limits this load" if small else "No faster volume can gain more with this load"
        return f"{start}: {bounds} times as fast." if found else ""

    @classmethod
    def sentences(cls, findings: Findings) -> list[str]:
        return [
            f"{capital(_name(findings, one.cell_id))} is a bound and no layout to use, as a crash of the machine loses "
            f"it. It is {ratio_estimate(one.gain)} times as fast as {_name(findings, one.on_drives)}."
            for one in cls.of(findings)
        ]


def _name(findings: Findings, cell_id: str) -> str:
    return ", ".join(level_alone(name, level) for name, level in findings.cell(cell_id).levels.items())


def find(evidence: Evidence) -> Iterator[Ceiling]:
    free = {run.cell_id for run in evidence.runs if _waits_for_no_drive(run)}
    on_drives = [cell.cell_id for cell in evidence.plan.cells if cell.cell_id not in free]
    for cell_id in sorted(free) if len(on_drives) == 1 else ():
        gain = ratio_of(evidence.basis, evidence.plan, cell_id, on_drives[0])
        if gain is not None:
            yield Ceiling(cell_id=cell_id, on_drives=on_drives[0], gain=gain)


def _waits_for_no_drive(run: Run) -> bool:
    """Whether it has files in memory, or its commits and checkpoints don't wait for a sync."""
    found = run.measurement
    if found is None:
        return False
    places = [facts for name, facts in volumes_of(found) if name in run.config.volumes_used]
    settings = found.durability.settings if found.durability is not None else ()
    return any(one.get("filesystem") in ("tmpfs", "ramfs") for one in places) or any(
        one.loses == "everything" for one in settings
    )
