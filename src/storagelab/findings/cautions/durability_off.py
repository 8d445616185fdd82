"""A caution about settings with which a crash loses data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from storagelab.findings.basis import Evidence
from storagelab.findings.model import Caution, Findings, Severity
from storagelab.model.durability import Loss

_RISKS: Mapping[Loss, str] = {
    "everything": "nothing is forced to the disk, not even commits and checkpoints, and a crash of the machine can "
    "corrupt the whole database",
    "last commits": "commits do not wait for the disk, and a crash can lose the last of them; the database stays sound",
    "last second of commits": "commits do not wait for the disk, and a crash can lose the last second of them; "
    "the database stays sound",
    "commits not in the log": "commits do not wait for the log, and a crash can lose the last of them",
    "commits not in the binary log": "commits do not wait for the binary log, and a crash can lose the last of them, "
    "because the server drops those that the log lacks",
    "pages not in the log": "the log holds no whole pages, so less is written, and a crash in the middle of a page's "
                            "write can corrupt that page; commits wait for the disk as usual",
    "pages not written twice": "no page is written twice, so less is written, and a crash in the middle of a page's "
                               "write can corrupt that page; commits wait for the disk as usual",
}  # fmt: skip


class DurabilityOff(Caution):
    """With this value of a setting, a crash loses data."""

    kind, group, first_of_used = "durability-off", "drive", True
    severity: Severity = "note"
    setting: str
    value: str
    loses: Loss

    def sentence(self, findings: Findings) -> str:
        way = "turn it on" if self.value == "off" else "choose a safe value"
        return (
            f"With {self.setting} = {self.value}{self.where(findings)}, {_RISKS[self.loses]}. Compare such times only "
            f"with each other, or {way}."
        )

    def brief(self, findings: Findings) -> str:
        return f"{self.setting} = {self.value} gives up safety"


def check_durability(evidence: Evidence) -> Iterator[DurabilityOff]:
    """Gives one caution for each setting with which a crash loses data."""
    cells: dict[tuple[str, str, Loss], set[str]] = defaultdict(set)
    for cell_id, _, m in evidence.measurements():
        for setting in m.durability.settings if m.durability is not None else ():
            if setting.loses is not None:
                cells[setting.name, setting.value.lower(), setting.loses].add(cell_id)
    for (name, value, loses), of_cells in cells.items():
        yield DurabilityOff(cells=evidence.named(of_cells), setting=name, value=value, loses=loses)
