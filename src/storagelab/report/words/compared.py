"""Texts on the compared figure: time, latency, or, if all runs last equally long, work per second. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from storagelab.findings.answer import layout_of
from storagelab.findings.kinds.race import RaceSummary
from storagelab.findings.model import CellSummary, Compared, Dependence, Effect, Estimate, Findings, Sample
from storagelab.findings.times import judged_by
from storagelab.spec.factors import is_load
from storagelab.words import numbers
from storagelab.words.names import level_alone, level_text, phrase, short_text

_AT: Mapping[Compared, str] = {
    "latency-mean": " on average", "latency-p50": " at the median", "latency-p95": " at the 95th percentile",
    "latency-p99": " at the 99th percentile", "latency-p99.9": " at the 99.9th percentile",
    "latency-max": " at the longest",
}  # fmt: skip
PER: Mapping[Compared, str] = {
    "elapsed": "", "time-per-row": " per row", "time-per-request": " per request",
    "time-per-transaction": " per transaction", **_AT,
}  # fmt: skip
"""Maps the compared figure to the text that follows "less time"."""


def load_noun(findings: Findings, count: int = 1) -> str:
    """Returns the word for what layouts are compared under: "load", or "condition" if more than the workload varies."""
    given = [factor for factor in findings.factors if findings.loads and factor.name in findings.loads[0].load]
    return ("load" if all(map(is_load, given)) else "condition") + "s" * (count != 1)


def of_raw_io(findings: Findings) -> bool:
    return findings.unit == "requests"


def of_both_kinds(findings: Findings) -> bool:
    """Whether there are both simulated and measured cells."""
    return findings.provenance == "measured and simulated"


def in_parts_of_cycles(findings: Findings) -> tuple[str, ...]:
    """Returns the ids of the cells that are not compared because their runs contain incomplete checkpoint cycles."""
    found = [one.cells for one in findings.cautions if one.kind == "checkpoint-cycles" and one.is_unable(findings)]
    return found[0] or tuple(cell.cell_id for cell in findings.cells) if found else ()


def layouts_run(findings: Findings) -> int:
    """Returns the number of layouts that have a result."""
    return len({short_text(layout_of(findings, cell), {}) for cell in findings.cells if cell.elapsed_s is not None})


def set_time(findings: Findings) -> bool:
    """Whether cells are compared by the work that they do in a set time."""
    return findings.compared in ("time-per-request", "time-per-transaction")


def timed(findings: Findings) -> bool:
    """Whether the duration of a run is a result. If the spec sets the duration of all runs, it is not."""
    return not (findings.set_time or set_time(findings))


def quantity(findings: Findings) -> str:
    """Returns the name of the compared figure: "completion time", "p99 latency"."""
    if by_latency(findings):
        return f"{findings.compared.removeprefix('latency-')} latency"
    return "completion time" if findings.compared == "elapsed" else f"time{per(findings)}"


def spender(findings: Findings) -> str:
    """Returns the word for the thing to whose time the seconds of waits add up: "transaction" or "session"."""
    return "transaction" if any(cell.each_s is not None for cell in findings.cells) else "session"


def by_latency(findings: Findings) -> bool:
    return findings.compared in _AT


def by_rate(findings: Findings) -> bool:
    """Whether cells are compared by their rate, not by the time of a run or by a latency."""
    return findings.compared != "elapsed" and not by_latency(findings)


def per(findings: Findings) -> str:
    """Returns the text that follows "less time" for the compared figure."""
    return PER[findings.compared]


def rate_unit(findings: Findings) -> str:
    return numbers.RATES["requests" if of_raw_io(findings) else findings.unit]


def unit(findings: Findings) -> str:
    """Returns the unit in which a report shows the compared figure."""
    return rate_unit(findings) if by_rate(findings) else "ms" if by_latency(findings) else "s"


def times(findings: Findings) -> float:
    """Returns the factor that converts the compared figure, a rate or a number of seconds, to its `unit`."""
    return 1e3 if by_latency(findings) else 1.0


def judged(findings: Findings, cell: CellSummary) -> Sample | None:
    """Returns the sample by which a cell is compared: its time, its latency, or its rate. Rates are compared if cells
    do different amounts of work, or if all runs last equally long.
    """
    return judged_by(cell, findings.compared)


def judged_text(findings: Findings, cell: CellSummary) -> str:
    """Writes the mean by which a cell is compared, with its unit and interval."""
    found = judged(findings, cell)
    if found is None:
        return ""
    if by_rate(findings):
        return numbers.rows_per_s_estimate(found.mean, rate_unit(findings))
    return milliseconds(found.mean) if by_latency(findings) else numbers.seconds_estimate(found.mean)


def milliseconds(latency: Estimate) -> str:
    """Writes a latency, given in seconds, with its unit and interval: "8.1 ms (95 % CI 7.9 to 8.3)"."""

    def text(value: float) -> str:
        return numbers.significant(1e3 * value)

    return f"{text(latency.value)} ms{numbers.ends_in_brackets(latency, text, '95 % CI ')}"


def decimals(samples: Sequence[Sample]) -> int:
    """Returns the number of decimals for a column, so that decimal points align. It is what the narrowest interval
    needs.
    """
    return max((numbers.decimals_for([one.mean.value], one.mean.half_width) for one in samples), default=2)


def spread(sample: Sample | None) -> float | None:
    """Returns the standard deviation as a fraction of the mean."""
    return None if sample is None or sample.sd is None or not sample.mean.value else sample.sd / sample.mean.value


def ends(findings: Findings) -> tuple[str | None, str | None]:
    """Returns the ids of the cells with the smallest and the largest time; None if no cell has a time. The cells need
    not be judged.
    """
    fastest = findings.fastest or next(iter(findings.best), None)
    return fastest, findings.worst if findings.worst != fastest else None


def slowest_text(findings: Findings, worst: str) -> str:
    """Describes the cell `worst`, the last one of a ladder. It need not have the slowest mean: a cell that may be the
    fastest can have a slower one.
    """
    inside = next(load.cells for load in findings.by_load if worst in load.cells)
    means = {one: sample.mean.value for one in inside if (sample := judged(findings, findings.cell(one))) is not None}
    last = (min if by_rate(findings) else max)(means, key=means.__getitem__)
    return "the slowest" if worst == last else "the slowest that is surely slower"


# --- changes of the compared figure -----------------------------------------------------------------------------------

_APART = {
    "as-listed": "in another place of each round", "cell-by-cell": "run at another time",
    "randomised": "in another block",
}  # fmt: skip


def change_text(findings: Findings, ratio: Estimate) -> str:
    return numbers.change_estimate(ratio, per(findings))


def told(findings: Findings, effects: Iterable[Effect], *, at: bool) -> list[Effect]:
    """Returns the effects over all cells. With `at`, returns the effects at levels of other factors instead.

    Of a race, only effects that differ from chance are included. Effects use only the few rounds in which all layouts
    ran, and the ladder is more precise.
    """
    raced = bool(RaceSummary.of(findings))
    return [one for one in effects if bool(one.at) is at and (one.distinguishable or not raced)]


def moves_throughput(findings: Findings, effect: Effect | Dependence) -> bool:
    """Whether cells are compared by their rate, and the factor is a condition such as the number of connections. More
    connections do more work per second, but the inverse of this rate is not the time of any connection.
    """
    return by_rate(findings) and all(one.name != effect.factor for one in findings.layout_factors)


def at_levels(findings: Findings, effect: Effect) -> list[Effect]:
    """Returns the effects of the same level at each level of other factors, without duplicates."""
    at = [one for one in (*findings.speed_ups, *findings.effects) if one.at]
    same = [one for one in at if (one.factor, repr(one.level)) == (effect.factor, repr(effect.level))]
    return list({level_text(one.at): one for one in same}.values())


def effect_change(findings: Findings, effect: Effect) -> str:
    """Describes the change by an effect. If a level has opposite effects at levels of other factors, the text has both
    extremes, because their mean would be meaningless.
    """
    if effect.reverses:
        at = [one for one in at_levels(findings, effect) if one.distinguishable]
        ends = [pick(at, key=lambda one: one.ratio.value) for pick in (min, max)]
        return ", but ".join([f"{effect_change(findings, one)} with {level_text(one.at)}" for one in ends])
    if moves_throughput(findings, effect):
        rate = effect.ratio.inverse
        interval = numbers.ends_in_brackets(rate, numbers.significant, "joint 95 % CI ") or " (not tested)"
        return f"{numbers.significant(rate.value)} times the {rate_unit(findings)}{interval}"
    if effect.tested:
        return change_text(findings, effect.ratio)
    apart = "parts of checkpoint cycles" if in_parts_of_cycles(findings) else _APART[findings.order]
    why = apart if effect.across_blocks else "too few runs"
    return f"{numbers.change(effect.ratio.value, per=per(findings))} (not tested: {why})"


def of_choices(findings: Findings, effects: Iterable[Effect], *, at: bool) -> list[Effect]:
    """Returns effects as `told` does, but without effects of conditions on rates. An effect that reverses is replaced
    by its effects at levels of other factors, because a mean of opposite effects is meaningless.
    """
    found = (one for one in told(findings, effects, at=at) if not moves_throughput(findings, one))
    each = (told(findings, at_levels(findings, one), at=True) if one.reverses else [one] for one in found)
    return [one for parts in each for one in parts]


def largest(effects: Iterable[Effect]) -> Effect | None:
    """Returns the largest effect that can be told apart from chance; None if there is none."""
    differ = [effect for effect in effects if effect.distinguishable]
    return max(differ, key=lambda effect: abs(math.log(effect.ratio.value)), default=None)


def largest_text(findings: Findings, effects: Sequence[Effect]) -> str:
    """States the largest effect, or says why there is none."""
    if (most := largest(effects)) is None:
        tested = any(effect.tested for effect in effects)
        return "No level can be told apart from the first." if tested else "None is tested."
    at = f" with {level_text(most.at)}" if most.at else ""
    level, baseline = level_alone(most.factor, most.level), phrase(most.factor, [most.baseline])
    return f"The largest effect: {level} took {effect_change(findings, most)} against {baseline}{at}."
