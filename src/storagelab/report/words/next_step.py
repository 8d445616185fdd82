"""What to do next, in words. Pure."""

from __future__ import annotations

from storagelab.findings.answer_kinds import Next
from storagelab.findings.model import Findings
from storagelab.words.numbers import count, percent, plural


def next_text(findings: Findings, step: Next) -> str:
    """Such as "23 repetitions tell 5 % apart"."""
    if step.step == "runs":
        left = findings.runs_planned - findings.runs_stored
        return f"make the {plural(left, 'run')} that {'is' if left == 1 else 'are'} missing: storagelab run SPEC"
    if step.step != "repetitions" or step.repetitions is None:
        return next(one.next_step for one in findings.cautions if one.kind == step.step)
    if step.effect is None:
        return f"make {count(step.repetitions)} repetitions"
    return f"{count(step.repetitions)} repetitions tell {percent(step.effect)} apart"
