"""What to do next, so that the runs of an experiment say more: from its cautions, its ties and the scatter of its runs.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from storagelab.findings.answer_kinds import Choice, Next
from storagelab.findings.cautions.few_repetitions import REPETITIONS_SOUND
from storagelab.findings.kinds.race import RaceSummary
from storagelab.findings.kinds.scatter import Scatter
from storagelab.findings.model import Caution, Findings
from storagelab.findings.power import EFFECTS, repetitions_for

MATTERS = 0.03
"""More repetitions are not advised for smaller differences, unless the spec says that they matter (`indifferent`)."""
REPETITIONS_MOST = 100
"""Nobody makes more, so they are not advised."""


def next_step(findings: Findings, choices: Sequence[Choice], weighed: Sequence[Caution]) -> Next | None:
    """The step that helps most; None if there is nothing to do. `weighed` = the cautions, the most serious first."""
    if findings.runs_stored < findings.runs_planned and not RaceSummary.of(findings):
        return Next(step="runs")
    for one in weighed:
        if one.next_step and (one.severity == "caution" or one.is_unable(findings)):
            return Next(step=one.kind)
    if findings.verdict == "too-few-runs":
        return Next(step="repetitions", repetitions=REPETITIONS_SOUND)
    return _more_repetitions(findings, choices)


def _more_repetitions(findings: Findings, choices: Sequence[Choice]) -> Next | None:
    """How many repetitions would tell apart what is tied now: what matters to the reader, or the largest usual
    difference that may still be hidden.
    """
    hidden = [choice.at_most_slower for choice in choices if choice.verdict != "winner" and not choice.same]
    scatter = next(iter(Scatter.of(findings)), None)
    if not hidden or scatter is None or RaceSummary.of(findings):
        return None
    bounds = [bound - 1 for bound in hidden if bound is not None]
    most = max(bounds) if len(bounds) == len(hidden) else float("inf")
    margin = findings.indifferent
    effects = [margin] if margin else [effect for effect in reversed(EFFECTS) if MATTERS <= effect < most]
    made = max(cell.runs_planned for cell in findings.cells)
    for effect in effects:
        sizes = [len(load.cells) for load in findings.loads if len(load.cells) > 1] or [len(findings.cells)]
        needed = repetitions_for(effect, scatter, max(sizes), len(sizes))
        if needed is None or needed > REPETITIONS_MOST:
            return None
        if needed > made:
            return Next(step="repetitions", repetitions=needed, effect=effect)
    return None
