"""Cautions about changes of times that don't depend on the current layout: carry-over from the previous run, and drifts
or jumps during the experiment.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping

from storagelab.findings.basis import Evidence
from storagelab.findings.model import Caution, Findings, Severity
from storagelab.findings.times import blocks_of
from storagelab.model.measurement import host_of
from storagelab.model.plan import Order
from storagelab.model.values import JsonValue
from storagelab.stats import order as runs_in_order
from storagelab.words.names import cell_text, labels_of, noun
from storagelab.words.numbers import MANY_TIMES, count, percent, significant


class CarryOver(Caution):
    """Runs that came after a run of `levels` took longer than others, in every layout. A `change` of 0.12 means 12 %
    longer."""

    kind, group = "carry-over", "time"
    levels: Mapping[str, JsonValue]
    change: float
    p_value: float
    corrected: bool
    """Whether times are corrected for this effect."""
    balanced: bool
    """Whether the order was balanced, so that the effect is the same for all layouts."""

    def sentence(self, findings: Findings) -> str:
        layouts, before = noun(findings.factors, 2), cell_text(self.levels, labels_of(findings.factors))
        if self.corrected:
            so = "Times are corrected for this effect, and intervals include the error of the correction."
        elif self.balanced:
            so = f"In this order, the effect is about the same for all {layouts}, and it makes intervals wider."
        else:
            so = (
                f"In this order, more runs of the other {layouts} are affected, so a gain may be due to it. "
                "Run the experiment again under a new name."
            )
        return (
            f"Runs after {before} take {_longer(self.change)}, whatever the {noun(findings.factors)}. A run affects "
            f"the next one, for example by dirty pages or unfinished work of a drive. {so} To avoid the effect, pause "
            "before each run (between_runs.pause_s) or prepare the drive anew. More repetitions reduce it."
        )

    def brief(self, findings: Findings) -> str:
        return f"after some {noun(findings.factors, 2)}, runs take {_longer(self.change)}"


def _longer(change: float, less: str = "less time") -> str:
    if change >= MANY_TIMES:
        return f"{significant(1 + change, 2)} times as long"
    return f"{percent(abs(change))} {'longer' if change > 0 else less}"


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


DRIFT_LEAST = 0.02
DRIFT_P_VALUE = 0.01


class Drift(Caution):
    """Times changed steadily in all layouts. A `change` of 0.05 means that times were 5 % longer at the end; `null` if
    unknown."""

    kind, group = "drift", "time"
    change: float | None
    p_value: float
    order: Order
    blocks: int

    def sentence(self, findings: Findings) -> str:
        block = " of a block" if self.blocks > 1 else ""
        which, so = noun(findings.factors), _so(self, findings)
        if self.change is None:
            return (
                f"Times changed steadily from run to run{block}, whatever the {which}. The runs don't show the size of "
                f"the whole change. {so}"
            )
        return f"Times {_moved(self.change)} from the first run{block} to the last, whatever the {which}. {so}"

    def brief(self, findings: Findings) -> str:
        change = self.change
        return f"times {'changed steadily' if change is None else _moved(change)} over the campaign"


class Step(Caution):
    """Times jumped at run number `run` of `runs`, counted from 1."""

    kind, group = "step", "time"
    change: float
    p_value: float
    run: int
    runs: int
    order: Order
    blocks: int

    def sentence(self, findings: Findings) -> str:
        moved = _longer(self.change, "shorter")
        return (
            f"Times jumped at run {count(self.run)} of {count(self.runs)}. From then on, they are {moved}, whatever "
            f"the {noun(findings.factors)}. Check what happened to the machine at that time (run.log and the time "
            f"series have the time of each run). {_so(self, findings)}"
        )

    def brief(self, findings: Findings) -> str:
        return f"times {_moved(self.change)} over the campaign"


def _moved(change: float) -> str:
    if change >= MANY_TIMES:
        return f"became {significant(1 + change, 2)} times as long"
    return f"{'grew' if change > 0 else 'fell'} by {percent(abs(change))}"


def _so(found: Drift | Step, findings: Findings) -> str:
    """A text on how a change during the experiment affects the verdict, and on how to avoid it."""
    if findings.provenance == "simulated" and found.order == "randomised":
        return "The drives' history caused it. The order was random, so on average it affects all alike."
    if findings.provenance == "simulated":
        return (
            "The times of late runs may be due to the drives' history and not only to their layouts. To separate the "
            'two, set order = "randomised" and between_runs.burn_in.'
        )
    rest = "pause between runs (between_runs.pause_s)"
    if found.blocks > 1:
        return f"A late block looks different for that reason alone, so blocks are not compared. To avoid it, {rest}."
    if found.order == "randomised":
        return (
            "The order was random and cells are compared within each repetition, so the verdict is hardly affected. "
            f"For steadier times, {rest}."
        )
    return f'Late cells look different for that reason alone. Use order = "randomised", and {rest}.'


def check_changes(evidence: Evidence) -> Iterator[Drift | Step]:
    """Finds drifts and jumps. If there is only one block in random order, they are only notes, because cells are
    compared within rounds."""
    at: dict[tuple[str, str], int] = {}  # separate for each host, because a slower host is no change over time
    left_out = set(evidence.basis.left_out)
    whole = evidence.basis.compared == "elapsed"  # otherwise runs differ in their amount of work
    rows = [
        (
            math.log(max(m.elapsed_s, 1e-9) / (1 if whole else max(m.work.amount, 1))),
            at.setdefault((cell_id, host_of(run)), len(at)),
            float(run.sequence),
        )
        for cell_id, run, m in evidence.measurements()
        if (cell_id, run.repetition) not in left_out
    ]
    if len(rows) < 6:
        return
    log_s, cells, sequence = zip(*rows, strict=True)
    order, blocks = evidence.experiment.order, len(set(blocks_of(evidence.plan)))
    drift = runs_in_order.drift(log_s, cells, sequence, _longest_block(evidence))
    step = runs_in_order.step(log_s, cells, sequence)
    severity: Severity = "note" if order == "randomised" and blocks == 1 else "caution"
    drifted = (
        drift is not None
        and drift.p_value < DRIFT_P_VALUE
        and (drift.change is None or abs(drift.change) > DRIFT_LEAST)
    )
    jumped = step is not None and step.p_value < DRIFT_P_VALUE and abs(step.change) > DRIFT_LEAST
    if step is not None and jumped and not (drifted and drift is not None and drift.explained >= step.explained):
        yield Step(
            severity=severity, change=step.change, p_value=step.p_value, order=order, blocks=blocks,
            run=1 + sum(place <= step.after for place in sequence), runs=len(rows),
        )  # fmt: skip
    elif drift is not None and drifted:
        yield Drift(severity=severity, change=drift.change, p_value=drift.p_value, order=order, blocks=blocks)


def _longest_block(evidence: Evidence) -> float:
    """The length of the longest block, in places of the order, from its first stored run to its last. Runs that a
    stopped campaign has not made don't count, because the change may not continue in the same way.
    """
    places: dict[int, list[int]] = defaultdict(list)
    for run in evidence.runs:
        places[run.block].append(run.sequence)
    return float(max(max(of_block) - min(of_block) for of_block in places.values()))
