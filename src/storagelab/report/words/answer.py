"""The answer in at most eight lines of at most a hundred characters, whatever the experiment. Pure.

Lines are ranked by what they are worth to a decision: what this rests on, what to use, how sure that is, which to take of
those that tie, what each factor gains, why, and the cautions. A line that is too long is told more shortly, and names are
cut at last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from storagelab.findings.answer import answer as answer_of
from storagelab.findings.answer_kinds import Answer, Cause, Choice, Gain, Limit, Pick
from storagelab.findings.kinds.race import RaceSummary
from storagelab.findings.model import Estimate, Findings
from storagelab.model.values import JsonValue
from storagelab.report.words import compared
from storagelab.report.words.caution_texts import caution_text, unable_text
from storagelab.report.words.found import lines_among
from storagelab.report.words.hosts import host_lines
from storagelab.report.words.loads import load_noun
from storagelab.report.words.short import LINE, ROOMS, Names, Room, Telling, cut, fitting, listed_or, narrowing
from storagelab.words.names import is_counted, noun
from storagelab.words.numbers import (
    capacity,
    decimals_for,
    limit_text,
    percent,
    plural,
    rows_per_s,
    rows_per_s_estimate,
    seconds_estimate,
    seconds_range,
    signed_percent,
    significant,
)

LINES = 8
_CHOICES = 3
_LEAST = 1.0011
_REASONS = {
    "fewest-files": "fewest files", "most-capacity": "most capacity", "fewest-drives": "fewest drives",
    "baseline": "listed first", "fastest": "fastest",
}  # fmt: skip


About = Literal["head", "use", "gains", "why", "caution"]


class Line(NamedTuple):
    """A line, and what it is about: a report puts the evidence of that under it."""

    about: About
    text: str


def answer_lines(findings: Findings, found: Answer | None = None) -> list[Line]:
    """The lines, in the order in which they are read."""
    told = _Told(findings, found or answer_of(findings))
    ranked = [
        Line("head", told.head()),
        *(Line("use", text) for text in lines_among(findings, "use", chain(told.use(), host_lines(findings)))),
        *(Line("gains", text) for text in lines_among(findings, "gains", told.gains())),
        *(Line("why", text) for text in lines_among(findings, "why", told.why())),
    ]
    cautions = [Line("caution", text) for text in told.cautions()]
    return [*ranked[: LINES - len(cautions)], *cautions]


class _Told:
    def __init__(self, findings: Findings, found: Answer) -> None:
        self.findings, self.found, self.names = findings, found, Names(findings)

    # -----------------------------------------------------------------------------------------------------------------
    # What it rests on
    # -----------------------------------------------------------------------------------------------------------------

    def head(self) -> str:
        found = self.found
        if found.provenance is None or "nothing-measured" in found.unable:
            return f"NOTHING MEASURED: no run has given a time yet ({plural(found.runs_planned, 'run')} planned)."
        made = "" if found.runs == found.runs_planned else f"{found.runs} of "
        runs = f"{made}{plural(found.runs_planned, 'run')}"
        for race in RaceSummary.of(self.findings):
            runs += f" of a race ({race.runs_of_all} without one)"
        number = len(self.findings.loads)
        under = f" under {number} {load_noun(self.findings, number)}" if number else ""
        counts = f"{found.provenance.upper()}, {runs}, {found.layouts} {self._noun(found.layouts)}{under}"
        facts = [unable_text(fact, found, self.findings) for fact in found.unable]
        if not facts:
            return f"{counts}: no drive was measured." if found.provenance == "simulated" else f"{counts}."
        told = [facts, [re.sub(r" \([^)]*\)", "", fact) for fact in facts]]
        some = [_some(those, number) for number in range(len(facts), 0, -1) for those in told]
        return fitting(f"{counts}; not conclusive: {those}." for those in (*some, told[1][0]))

    # -----------------------------------------------------------------------------------------------------------------
    # What to use, how sure, and which of those
    # -----------------------------------------------------------------------------------------------------------------

    def use(self) -> Iterator[str]:
        choices = self.found.choices
        if not choices:
            yield from self._no_choice()
        elif len(choices) == 1:
            (choice,) = choices
            yield self._use(choice)
            yield self._sure(choice)
            if choice.verdict != "winner" and choice.pick is not None:
                yield self._pick(choice, choice.pick)
        else:
            shown = choices[: _CHOICES + 1] if len(choices) == _CHOICES + 1 else choices[:_CHOICES]
            yield from map(self._under, shown)
            if left := len(choices) - len(shown):
                yield f"For {left} more groups of {load_noun(self.findings, 2)} see the table of {self._noun(2)}."

    def _noun(self, number: int) -> str:
        return noun(self.findings.layout_factors, number)

    def _use(self, choice: Choice) -> str:
        forms = ((True, True), (True, False), (False, False))
        tellings = [self._using(choice, rest, others, full) for rest, others in forms for full in (True, False)]
        whole = (telling(room) for room in ROOMS if room == LINE for telling in tellings)
        return fitting(chain(whole, narrowing(*tellings)))

    def _using(self, choice: Choice, rest: bool, others: bool, full: bool) -> Telling:
        def told(room: Room) -> str:
            return f"{self._start(choice, room, full=full)}{self._rest(choice, room, others=others) if rest else ''}."

        return told

    def _start(self, choice: Choice, room: Room, *, full: bool = False) -> str:
        loads = len(choice.loads)
        under = (
            f"Under {'both' if loads == 2 else f'all {loads}'} {load_noun(self.findings, loads)} u"
            if loads > 1
            else "U"
        )
        if not choice.pattern.needed:
            any_of = "either" if choice.layouts == 2 else "any"
            return f"{under}se {any_of} of the {choice.layouts} {self._noun(choice.layouts)}"
        return f"{under}se {self._pattern(choice, room, full=full)}"

    def _pattern(self, choice: Choice, room: Room, *, full: bool = False) -> str:
        parts = {
            good.factor: self.names.levels(good.factor, good.levels, room, full=full) for good in choice.pattern.needed
        }
        counted = [text for name, text in parts.items() if is_counted(name)]
        others = [text for name, text in parts.items() if not is_counted(name)]
        return (
            f"{' and '.join(others)} with {' and '.join(counted)}"
            if others and counted
            else " and ".join(parts.values())
        )

    def _rest(self, choice: Choice, room: Room, *, others: bool = False) -> str:
        if choice.verdict == "winner":
            return f": faster than {'the other' if choice.layouts == 2 else 'every other'} {self._noun(1)}"
        if not choice.pattern.needed:
            return ": they can't be told apart" if choice.layouts == 2 else ": none can be told apart from the fastest"
        free = [self.names.factor(name, room) for name in choice.pattern.free]
        for good in choice.pattern.needed:
            free += self.names.unimportant(good.factor, good.levels, room)
        one = len(free) == 1 and not (choice.pattern.free and is_counted(choice.pattern.free[0]))
        visible = f"; {listed_or(free, 'and')} {'makes' if one else 'make'} no visible difference there" if free else ""
        left = len(choice.tied) - len(choice.meant)
        more = f"; {left} more tie{'s' * (left == 1)}" if left and others else ""
        return f"{visible}{more}"

    def _sure(self, choice: Choice) -> str:
        if choice.verdict == "winner":
            return self._sure_of_a_winner(choice)
        number = len(choice.meant) // max(1, len(choice.loads))
        which = "It" if number == 1 else "Both" if number == 2 else f"Those {number} {self._noun(number)}"
        of_all = f" (of {len(choice.tied)} tied)" if len(choice.tied) > len(choice.meant) and number > 1 else ""
        slower = self._slower(choice)
        if choice.lowest is None or choice.highest is None:
            return fitting([f"{which}: {slower}."])
        takes = ("takes" if number == 1 else "take") if not compared.by_rate(self.findings) else "do"
        span = self._span(choice.lowest, choice.highest)
        tied = ", tied" if number > 1 and not of_all else ""
        return fitting(
            [
                f"{which}{of_all} {takes} {span}{tied}; {slower}.",
                f"{which} {takes} {span}; {slower}.",
                f"{which}: {slower}.",
            ]
        )

    def _slower(self, choice: Choice) -> str:
        most, margin = choice.at_most_slower, self.found.indifferent
        if most is None:
            return "how much slower than the best is not known"
        each = "it is" if choice.layouts == 1 else "each"
        slower = f"{each} at most {_more(most)} than the best (95 %)"
        if margin is None:
            return slower
        if choice.same:
            return f"the same within {percent(margin)} (95 %)"
        return f"not shown to be the same within {percent(margin)}: {slower}"

    def _span(self, lowest: Estimate, highest: Estimate) -> str:
        if lowest == highest:
            return self._figure(lowest)
        if compared.by_rate(self.findings):
            span = f"{significant(lowest.value)} to {rows_per_s(highest.value, compared.rate_unit(self.findings))}"
        else:
            span = seconds_range(lowest.value, highest.value)
        first, _, last = span.partition(" to ")
        return last if last.split(" ")[0] == first else span

    def _figure(self, estimate: Estimate, *, interval: bool = True) -> str:
        if not interval:
            estimate = Estimate(value=estimate.value)
        if compared.by_rate(self.findings):
            return rows_per_s_estimate(estimate, compared.rate_unit(self.findings))
        return seconds_estimate(estimate).replace(" (no interval: too few runs)", "")

    def _sure_of_a_winner(self, choice: Choice) -> str:
        figure = choice.lowest
        does = "It does" if compared.by_rate(self.findings) else "It takes"
        start = f"{does} {self._figure(figure)}" if figure is not None else "It is the fastest"
        slower = choice.next_slower
        if slower is None or not choice.leads:
            return fitting([f"{start}."])
        ratio = choice.leads[0]
        saved = signed_percent(1 / ratio.value).removeprefix("-")
        ends = "" if ratio.low is None or ratio.high is None else f" ({_saved(ratio.low)} to {_saved(ratio.high)} %)"
        than = "than the other" if choice.layouts == 2 else "than the next"
        rest = f"{saved}{ends} less time {than}"
        levels = self.findings.cell(slower).levels
        return fitting(
            narrowing(
                lambda room: f"{start}; {rest}, {self.names.layout(levels, room)}.", lambda _: f"{start}; {rest}."
            )
        )

    def _pick(self, choice: Choice, pick: Pick) -> str:
        reasons = [_REASONS[one] for one in pick.decided_by]
        why = f" ({', '.join(reasons)})" if reasons else ""
        cell = self.findings.cell(pick.cell_id)
        sample = compared.judged(self.findings, cell)
        took = f" ({self._figure(sample.mean, interval=False)})" if sample is not None and len(choice.loads) < 2 else ""

        def named(room: Room) -> str:
            return self.names.layout(pick.levels, room)

        *keeps, none = _capacities(pick)
        tellings = [*((reason, kept) for kept in keeps for reason in (why, "")), (why, none), ("", none)]
        return fitting(
            narrowing(
                *(
                    lambda room, reason=reason, kept=kept: f"Default pick{reason}: {named(room)}{took}{kept}."
                    for reason, kept in tellings
                ),
                lambda room: f"Default pick: {named(room)}.",
            )
        )

    def _under(self, choice: Choice) -> str:
        """A choice of its own for some loads."""
        pick, most = choice.pick, choice.at_most_slower
        sure = "" if most is None or choice.verdict == "winner" else f", at most {_more(most)} than the best (95 %)"

        def default(room: Room) -> str:
            if pick is None or choice.verdict == "winner":
                return ""
            return f"; default {self.names.layout(pick.levels, room)}"

        def used(room: Room) -> str:
            if choice.pattern.needed:
                return self._pattern(choice, room)
            return f"{'either' if choice.layouts == 2 else 'any'} of the {choice.layouts}"

        lead = self._leads(choice)
        return fitting(
            narrowing(
                lambda room: f"With {self._loads(choice, room)}: {used(room)}{sure}{default(room)}{lead}.",
                lambda room: f"With {self._loads(choice, room)}: {used(room)}{sure}{lead}.",
                lambda room: f"With {self._loads(choice, room)}: {used(room)}{sure or lead}.",
                lambda room: f"With {self._loads(choice, room)}: {used(room)}.",
            )
        )

    def _leads(self, choice: Choice) -> str:
        """How far behind the next layout is that is told apart."""
        if not choice.leads:
            return ""
        texts = list(dict.fromkeys(f"{significant(one.value, 2)}" for one in choice.leads))
        the_other = "the other" if choice.layouts == 2 else "the next"
        if choice.leads[-1].value < 2:
            texts = list(dict.fromkeys(percent(one.value - 1).removesuffix(" %") for one in choice.leads))
            return f"; {the_other} is {' to '.join(texts)} % slower"
        return f"; {the_other} is {' to '.join(texts)} times slower"

    def _loads(self, choice: Choice, room: Room) -> str:
        """ "16 or 64 connections"."""
        names = list(choice.loads[0])
        if len(names) == 1:
            return self.names.levels(names[0], [load[names[0]] for load in choice.loads], room)
        texts = [", ".join(self.names.levels(name, [load[name]], room) for name in names) for load in choice.loads]
        return texts[0] if len(texts) == 1 else f"{texts[0]} and {len(texts) - 1} more {load_noun(self.findings, 2)}"

    # -----------------------------------------------------------------------------------------------------------------
    # Where there is nothing to choose
    # -----------------------------------------------------------------------------------------------------------------

    def _no_choice(self) -> Iterator[str]:
        findings = self.findings
        measured = [cell for cell in findings.cells if cell.elapsed_s is not None]
        if not measured:
            return
        if findings.verdict == "single-cell" or len(findings.cells) == 1:
            yield fitting(["There was one layout, so there is none to choose."])
        elif findings.verdict == "one-layout":
            number = len(findings.loads)
            yield f"One layout was run under {number} {load_noun(findings, number)}, so there is none to choose."
        elif findings.verdict == "untested" and compared.of_both_kinds(findings):
            yield f"Simulated and measured {self._noun(2)} stand side by side; none is tested against the other kind."
        elif findings.verdict == "untested":
            yield f"No {self._noun(1)} can be chosen: each ran in a stretch of its own, where a drift looks like a gain."
            yield 'Set order = "randomised" (and no costly factor), and run it under a new name.'
        else:
            yield f"No {self._noun(1)} can be chosen yet: differences can't be told from chance. Make 5 repetitions."
        samples = [(cell, compared.judged(findings, cell)) for cell in measured]
        ordered = sorted(((cell, one) for cell, one in samples if one), key=lambda pair: pair[1].mean.value)
        rate = compared.by_rate(findings)
        if len(ordered) == 1:
            (cell, sample), *_ = ordered
            yield self._mean_of("It did" if rate else "It took", sample.mean, cell.levels)
        elif ordered:
            for what, (cell, sample) in (
                ("Lowest" if rate else "Shortest", ordered[0]),
                ("Highest" if rate else "Longest", ordered[-1]),
            ):
                yield self._mean_of(f"{what} mean:", sample.mean, cell.levels)

    def _mean_of(self, what: str, mean: Estimate, levels: Mapping[str, JsonValue]) -> str:
        def told(room: Room) -> str:
            return f"{what} {self._figure(mean)}{f', {self.names.layout(levels, room)}' if levels else ''}."

        return fitting(narrowing(told))

    # -----------------------------------------------------------------------------------------------------------------
    # What is gained, and why
    # -----------------------------------------------------------------------------------------------------------------

    def gains(self) -> list[str]:
        gains = self.found.gains
        if not gains or (len(gains) == 1 and self.found.choices[0].verdict == "winner"):
            return []
        forms = (("instead", True), ("against", True), ("instead", False), ("against", False), ("", False))
        numbers = range(len(gains), 0, -1)
        return [
            fitting(narrowing(*(self._gaining(number, form, error) for number in numbers for form, error in forms)))
        ]

    def _gaining(self, number: int, form: str, error: bool) -> Telling:
        """The first `number` gains; `error` = with how far each may be off."""
        gains = self.found.gains

        def told(room: Room) -> str:
            said = "; ".join(self._gain(gain, room, form, error=error) for gain in gains[:number])
            return f"Gains: {said}{f'; {len(gains) - number} more' if number < len(gains) else ''}."

        return told

    def _gain(self, gain: Gain, room: Room, form: str, *, error: bool) -> str:
        """`form` = how levels are told: those that are good "instead" of another, the change "against" that, or neither."""
        name, needed = self.names.factor(gain.factor, room), self._is_needed(gain.factor)
        if gain.same and self.found.indifferent is not None:
            return f"{name}: the same within {percent(self.found.indifferent)}"
        if not gain.seen and not gain.untested and not needed:
            return f"{name}: none visible{_reach(gain) if error else ''}"
        reference, changed = self.names.level(gain.factor, gain.reference, room), _changes(gain, error=error)
        if form == "instead" and needed:
            told = f"{self.names.levels(gain.factor, gain.levels, room)} instead of {reference}: {changed}"
        else:
            told = f"{name} {changed}{f' against {reference}' if form else ''}"
        depends = f" (depends on {listed_or([self.names.factor(one, room) for one in gain.depends_on], 'and')})"
        return f"{told}{', untested' if gain.untested else ''}{depends if gain.depends_on and form and error else ''}"

    def _is_needed(self, factor: str) -> bool:
        return any(good.factor == factor for choice in self.found.choices for good in choice.pattern.needed)

    def why(self) -> Iterator[str]:
        of_factor: dict[str, list[Cause]] = {}
        for cause in self.found.causes:
            of_factor.setdefault(cause.factor, []).append(cause)
        seen = {gain.factor for gain in self.found.gains if gain.seen}
        for factor, causes in of_factor.items():
            yield self._why(factor, causes, told=factor in seen or self._is_needed(factor))

    def _why(self, factor: str, causes: Sequence[Cause], *, told: bool) -> str:
        def start(room: Room) -> str:
            name = self.names.factor(factor, room)
            return f"Why, {name}: " if told else f"Waits moved, the time not visibly; {name}: "

        def steps(room: Room, number: int) -> str:
            return "; ".join(self._step(cause, room) for cause in causes[:number])

        per = f" per {compared.spender(self.findings)}" if causes[0].limit is None else ""
        return fitting(
            narrowing(
                lambda room: f"{start(room)}{steps(room, len(causes))}{per}.",
                lambda room: f"{start(room)}{steps(room, len(causes))}.",
                lambda room: f"{start(room)}{steps(room, 1)}{per}.",
            )
        )

    def _step(self, cause: Cause, room: Room) -> str:
        if cause.limit is not None:
            return limited(cause.limit, room)
        decimals = decimals_for([cause.from_s, cause.to_s], None)
        moved = f"{cut(cause.wait or '', room)} {cause.from_s:,.{decimals}f} -> {cause.to_s:,.{decimals}f} s"
        if len(cause.before) > 1 or len(cause.after) > 1 or isinstance(cause.after[0], str):
            return moved
        ends = [self.names.level(cause.factor, level, room) for level in (cause.before[0], cause.after[0])]
        return f"{ends[0]} -> {ends[1]}, {moved}"

    # -----------------------------------------------------------------------------------------------------------------
    # Cautions
    # -----------------------------------------------------------------------------------------------------------------

    def cautions(self) -> list[str]:
        facts = [caution_text(kind, self.findings) for kind in self.found.cautions]
        if not facts:
            return []
        return [fitting(f"Doubt: {_some(facts, number)}." for number in range(len(facts), 0, -1))]


def limited(limit: Limit, room: Room) -> str:
    """ "volume a stood at its limit, 600 writes/s, 98 % of the time"."""
    return (
        f"volume {cut(limit.volume, room)} stood at its limit, {limit_text(limit.rate, limit.limit)}, "
        f"{percent(limit.share)} of the time"
    )


def _some(facts: Sequence[str], number: int) -> str:
    left = len(facts) - number
    return "; ".join(facts[:number]) + (f"; {left} more below" if left else "")


def _more(ratio: float) -> str:
    """ "8 % slower", "2.4 times as slow"; "no more" never: a bound too small to show is rounded up."""
    return f"{significant(ratio, 2)} times slower" if ratio >= 2 else f"{percent(max(ratio, _LEAST) - 1)} slower"


def _saved(ratio: float) -> str:
    """How much less time the faster one takes, in percent, of the ratio of the slower one's to its."""
    return f"{100 * (1 - 1 / ratio):.0f}"


def _changes(gain: Gain, *, error: bool) -> str:
    """ "-16 ± 1 %", "-7 to -8 %"; where not all is told apart from chance, how far it may go: "-4 to -9 % (-15 to +2 %)"."""
    ratios = (gain.worst, gain.best)
    if max(ratio.value for ratio in ratios) >= 2:
        return " to ".join(dict.fromkeys(signed_percent(ratio.value) for ratio in ratios))
    half = max(ratio.half_width or 0.0 for ratio in ratios)
    decimals = 0 if half >= 0.0095 or min(abs(ratio.value - 1) for ratio in ratios) >= 0.02 else 1
    texts = list(dict.fromkeys(f"{100 * (ratio.value - 1):+.{decimals}f}" for ratio in ratios))
    said = " to ".join(texts)
    if not error or not half:
        return f"{said} %"
    return f"{said} ± {percent(half, decimals)}" if gain.sure else f"{said} %{_reach(gain)}"


def _reach(gain: Gain) -> str:
    """How much there may be nevertheless: " (-2 to +4 %)"."""
    low, high = gain.best.low, gain.worst.high
    if low is None or high is None or high >= 2:
        return ""
    return f" ({100 * (low - 1):+.0f} to {100 * (high - 1):+.0f} %)"


def _capacities(pick: Pick) -> list[str]:
    """How much room the drives keep with it, and with the other levels of the factor that decides it; "" last."""
    own = pick.capacity_bytes
    if own is None or not pick.capacities:
        return [""]
    others = [(level, size) for level, size in pick.capacities if size != own]
    sizes = [capacity(size) for size in sorted(size for _, size in others)]
    said = ", ".join(f"{level} {capacity(size)}" for level, size in others)
    ends = [sizes[0].rpartition(" ")[0] if sizes[0].endswith(sizes[-1][-3:]) else sizes[0], sizes[-1]]
    return [
        f"; keeps {capacity(own)}, {said}",
        f"; keeps {capacity(own)}, others {sizes[-1] if len(set(sizes)) == 1 else ' to '.join(ends)}",
        "",
    ]
