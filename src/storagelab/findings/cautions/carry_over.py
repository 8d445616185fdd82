"""What a run leaves behind makes the next one slower."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from storagelab.findings.evidence import Evidence
from storagelab.findings.model import Caution, Findings
from storagelab.model.values import JsonValue
from storagelab.words.names import cell_text, labels_of, noun
from storagelab.words.numbers import MANY_TIMES, percent, significant


class CarryOver(Caution):
    """Runs after one of `levels` took longer than others, whatever ran: a `change` of 0.12 means 12 % longer."""

    kind, place, weight = "carry-over", 85, 35
    levels: Mapping[str, JsonValue]
    change: float
    p_value: float
    corrected: bool
    """Whether times are without it."""
    balanced: bool
    """Whether the order was, so that it hits all alike."""

    def sentence(self, findings: Findings) -> str:
        layouts, before = noun(findings.factors, 2), cell_text(self.levels, labels_of(findings.factors))
        if self.corrected:
            so = "That is taken out of the times, and intervals are as much wider as it is uncertain."
        elif self.balanced:
            so = f"In this order it hits all {layouts} about alike, and intervals are wider for it."
        else:
            so = (
                f"In this order it hits the other {layouts} more often, so a gain may be due to it: "
                "run it under a new name."
            )
        return (
            f"Runs after {before} take {_longer(self.change)}, whatever the {noun(findings.factors)}: a run "
            f"leaves something behind, such as dirty pages or a drive's work. {so} For times without it, let the drive "
            "rest before each run (between_runs.pause_s), prepare it anew, or make more repetitions."
        )

    def brief(self, findings: Findings) -> str:
        return f"after some {noun(findings.factors, 2)}, runs take {_longer(self.change)}"


def _longer(change: float) -> str:
    if change >= MANY_TIMES:
        return f"{significant(1 + change, 2)} times as long"
    return f"{percent(abs(change))} {'longer' if change > 0 else 'less time'}"


def check_carry_over(evidence: Evidence) -> Iterator[CarryOver]:
    found = evidence.basis.carried
    if found is not None:
        yield CarryOver(
            levels=found.levels,
            change=found.change,
            p_value=found.p_value,
            corrected=found.corrected,
            balanced=evidence.experiment.balanced,
        )
