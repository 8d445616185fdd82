"""The effects of kills and signals on the campaigns of one kind."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

WRONG = ("lost", "repeated", "left", "unlike", "other")
"""The kinds of faults after kills. Each kind is a list of texts."""


@dataclass
class Found:
    """The faults, in words. Lists are empty if there are none. `phases`: how often kills and signals interrupted each
    step."""

    kills: int = 0
    lost: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    unlike: list[str] = field(default_factory=list)
    """Exports that differ from the export of an undisturbed campaign."""
    other: list[str] = field(default_factory=list)
    signals_took_s: list[float] = field(default_factory=list)
    """The times until the end, without the time in which other processes kept storagelab from a core."""
    waited_for_a_core_s: float = 0.0
    after_signals: list[str] = field(default_factory=list)
    phases: dict[str, int] = field(default_factory=dict)
    campaigns: int = 0

    def hit(self, phase: str) -> None:
        self.phases[phase] = self.phases.get(phase, 0) + 1

    @property
    def troubles(self) -> list[str]:
        return [text for name in WRONG for text in getattr(self, name)] + self.after_signals

    def add(self, more: Found) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, list):
                value.extend(getattr(more, one.name))
            elif isinstance(value, dict):
                for phase, times in getattr(more, one.name).items():
                    value[phase] = value.get(phase, 0) + times
            else:
                setattr(self, one.name, value + getattr(more, one.name))

    def as_data(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Found:
        return cls(**data)
