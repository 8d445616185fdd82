"""Changes of times that don't depend on the current layout: carry-over from the previous run, and drifts or jumps
during the experiment.
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
    """Runs after one of `levels` took longer than others, in every layout: a `change` of 0.12 means 12 % longer."""

    kind, group = "carry-over", "time"
    levels: Mapping[str, JsonValue]
    change: float
    p_value: float
    corrected: bool
    """Whether times are corrected for it."""
    balanced: bool
    """Whether the order was balanced, so that it affects all layouts equally."""

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


DRIFT_LEAST = 0.02
DRIFT_P_VALUE = 0.01


class Drift(Caution):
    """Times drifted, in every layout. A `change` of 0.05 means times 5 % longer at the end; `null` if unknown."""

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
                f"Times changed steadily from run to run{block}, whatever the {which}; the runs made don't tell by how "
                f"much in all. {so}"
            )
        return f"Times {_moved(self.change)} from the first run{block} to the last, whatever the {which}. {so}"

    def brief(self, findings: Findings) -> str:
        change = self.change
        return f"times {'changed steadily' if change is None else _moved(change)} over the campaign"


class Step(Caution):
    """Times jumped at number `run` of `runs`, counted from 1."""

    kind, group = "step", "time"
    change: float
    p_value: float
    run: int
    runs: int
    order: Order
    blocks: int

    def sentence(self, findings: Findings) -> str:
        moved = f"{percent(abs(self.change))} {'longer' if self.change > 0 else 'shorter'}"
        if self.change >= MANY_TIMES:
            moved = f"{significant(1 + self.change, 2)} times as long"
        return (
            f"Times jumped at run {count(self.run)} of {count(self.runs)}: from then on they are {moved}, whatever "
            f"the {noun(findings.factors)}. Check what happened to the machine then (run.log and the time series have "
            f"the time of each run). {_so(self, findings)}"
        )

    def brief(self, findings: Findings) -> str:
        return f"times {_moved(self.change)} over the campaign"


def _moved(change: float) -> str:
    if change >= MANY_TIMES:
        return f"became {significant(1 + change, 2)} times as long"
    return f"{'grew' if change > 0 else 'fell'} by {percent(abs(change))}"


def _so(found: Drift | Step, findings: Findings) -> str:
    """The consequence of a change during the experiment for the verdict, and a remedy."""
    if findings.provenance == "simulated" and found.order == "randomised":
        return "The drives' history caused it; the order was random, so on average it affects all alike."
    if findings.provenance == "simulated":
        return (
            "Late runs may owe their times to the drives' history as well as to their layouts: "
            'order = "randomised" and between_runs.burn_in separate the two.'
        )
    rest = "rest the drive between runs (between_runs.pause_s)"
    if found.blocks > 1:
        return f"A late block looks different for that reason alone, so blocks are not compared; {rest}."
    if found.order == "randomised":
        return (
            "The order was random and cells are compared within each repetition, so the verdict hardly suffers; for "
            f"steadier times, {rest}."
        )
    return f'Late cells look different for that reason alone. Use order = "randomised", and {rest}.'


def check_changes(evidence: Evidence) -> Iterator[Drift | Step]:
    """Finds drifts and steps. For a single block in random order, such changes are only a note, because its rounds
    absorb them."""
    at: dict[tuple[str, str], int] = {}  # each host by itself: a slower host is not a change over time
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
    """The length of a block in places of the order, from its first run made to its last. Missing runs of a stopped
    campaign don't count, because times may not continue in the same way.
    """
    places: dict[int, list[int]] = defaultdict(list)
    for run in evidence.runs:
        places[run.block].append(run.sequence)
    return float(max(max(of_block) - min(of_block) for of_block in places.values()))
