"""The answer in at most eight lines of at most a hundred characters, whatever the experiment. Pure.

Lines are ranked by what they are worth to a decision: what this rests on, what to use, how sure that is, which to take of
those that tie, what each factor gains, why, and what is doubtful. A line that is too long is told more shortly, and names are
cut at last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from storagelab.findings.answer import answer as answer_of
from storagelab.findings.answer_kinds import Answer, Cause, Choice, Gain, Pick
from storagelab.findings.model import Estimate, Findings
from storagelab.model.values import JsonValue
from storagelab.report.words import compared
from storagelab.report.words.briefly import doubt_text, unable_text
from storagelab.report.words.loads import load_noun
from storagelab.report.words.names import noun
from storagelab.report.words.numbers import (
    capacity,
    change,
    percent,
    plural,
    rows_per_s,
    rows_per_s_estimate,
    seconds_estimate,
    seconds_range,
    signed_percent,
    significant,
)
from storagelab.report.words.short import LINE, Names, cut, fitting, listed_or, narrowing

LINES = 8
_CHOICES = 3
_LEAST = 1.0011
_REASONS = {
    "fewest-files": "fewest files", "most-capacity": "most capacity", "fewest-drives": "fewest drives",
    "baseline": "listed first", "fastest": "fastest",
}  # fmt: skip


def answer_lines(findings: Findings, found: Answer | None = None) -> list[str]:
    """The lines, in the order in which they are read."""
    told = _Told(findings, found or answer_of(findings))
    ranked = [told.head(), *told.use(), *told.gains(), *told.why()]
    doubts = told.doubts()
    return [*ranked[: LINES - len(doubts)], *doubts]


class _Told:
    def __init__(self, findings: Findings, found: Answer) -> None:
        self.findings, self.found, self.names = findings, found, Names(findings)

    # -----------------------------------------------------------------------------------------------------------------
    # What it rests on
    # -----------------------------------------------------------------------------------------------------------------

    def head(self) -> str:
        found = self.found
        if found.provenance is None:
            return fitting([f"NOTHING MEASURED: no run of {plural(found.runs_planned, 'planned run')} has given a time."])
        runs = plural(found.runs, "run") if found.runs == found.runs_planned else f"{found.runs} of {found.runs_planned} runs"
        counts = f"{found.provenance.upper()}, {runs}, {found.layouts} {noun(self.findings.factors, found.layouts)}"
        facts = [unable_text(fact, found, self.findings) for fact in found.unable]
        if not facts:
            return f"{counts}: no drive was measured." if found.provenance == "simulated" else f"{counts}."
        return fitting(f"{counts}; not conclusive: {_some(facts, number)}." for number in range(len(facts), 0, -1))

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
        return noun(self.findings.factors, number)

    def _use(self, choice: Choice) -> str:
        return fitting(
            narrowing(
                lambda width: self._start(choice, width) + self._rest(choice, width),
                lambda width: self._start(choice, width) + ".",
            )
        )

    def _start(self, choice: Choice, width: int) -> str:
        if not choice.pattern.needed:
            several = "any" if choice.layouts != 2 else "either"
            return f"{self._whatever(choice)}se {several} of the {choice.layouts} {self._noun(choice.layouts)}"
        return f"{self._whatever(choice)}se {self._pattern(choice, width)}"

    def _whatever(self, choice: Choice) -> str:
        """ "U" of "Use", or "Under all 4 loads u"."""
        loads = len(choice.loads)
        return f"Under {'both' if loads == 2 else f'all {loads}'} {load_noun(self.findings, loads)} u" if loads > 1 else "U"

    def _pattern(self, choice: Choice, width: int) -> str:
        parts = [self.names.levels(good.factor, good.levels, width) for good in choice.pattern.needed]
        counted = [part for part in parts if part[:1].isdigit()]
        others = [part for part in parts if part not in counted]
        return f"{' and '.join(others)} with {' and '.join(counted)}" if others and counted else " and ".join(parts)

    def _rest(self, choice: Choice, width: int) -> str:
        if choice.verdict == "winner":
            return f": faster than {'the other' if choice.layouts == 2 else 'every other'} {self._noun(1)}."
        if not choice.pattern.needed:
            return ": none can be told apart from the fastest." if choice.layouts > 2 else ": they can't be told apart."
        free = [self.names.factor(name, width) for name in choice.pattern.free]
        for good in choice.pattern.needed:
            free += self.names.unimportant(good.factor, good.levels, width)
        visible = f"; {listed_or(free, 'and')} make{'s' * (len(free) == 1)} no visible difference there" if free else ""
        others = choice.pattern.others
        return f"{visible}{f'; {others} more tie' if others else ''}."

    def _sure(self, choice: Choice) -> str:
        if choice.verdict == "winner":
            return self._sure_of_a_winner(choice)
        number = choice.pattern.covered + choice.pattern.others
        which = "Both" if number == 2 else f"Those {number} {self._noun(number)}"
        which = which if number > 1 else "It"
        room = self._room(choice)
        lowest, highest = choice.lowest, choice.highest
        if lowest is None or highest is None:
            return fitting([f"{which}: {room}."])
        takes = ("take" if number > 1 else "takes") if not compared.by_rate(self.findings) else "do"
        span = self._span(lowest, highest)
        tied = ", tied" if number > 1 else ""
        return fitting([f"{which} {takes} {span}{tied}; {room}.", f"{which} {takes} {span}; {room}.", f"{which}: {room}."])

    def _room(self, choice: Choice) -> str:
        most, margin = choice.at_most_slower, self.found.indifferent
        if most is None:
            return "how much slower than the best is not known, as not all were tested against each other"
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
            return f"{significant(lowest.value)} to {rows_per_s(highest.value, compared.rate_unit(self.findings))}"
        return seconds_range(lowest.value, highest.value)

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
        slower, ratio = choice.next_slower, choice.next_ratio
        if slower is None or ratio is None:
            return fitting([f"{start}."])
        saved = signed_percent(1 / ratio.value).removeprefix("-")
        ends = "" if ratio.low is None or ratio.high is None else f" ({_saved(ratio.low)} to {_saved(ratio.high)} %)"
        than = "than the other" if choice.layouts == 2 else "than the next"
        rest = f"{saved}{ends} less time {than}"
        levels = self.findings.cell(slower).levels
        return fitting(
            narrowing(lambda width: f"{start}; {rest}, {self.names.layout(levels, width)}.", lambda _: f"{start}; {rest}.")
        )

    def _pick(self, choice: Choice, pick: Pick) -> str:
        reasons = [_REASONS[one] for one in pick.decided_by]
        why = f" ({', '.join(reasons)})" if reasons else ""
        cell = self.findings.cell(pick.cell_id)
        sample = cell.rows_per_s if compared.by_rate(self.findings) else cell.elapsed_s
        took = f" ({self._figure(sample.mean, interval=False)})" if sample is not None and len(choice.loads) < 2 else ""

        def named(width: int) -> str:
            return self.names.layout(pick.levels, width)

        rooms = _rooms(pick)
        return fitting(
            narrowing(
                *(
                    lambda width, why=why, room=room, took=took: f"Default pick{why}: {named(width)}{took}{room}."
                    for why in dict.fromkeys((why, ""))
                    for room in rooms
                ),
                lambda width: f"Default pick: {named(width)}.",
            )
        )

    def _under(self, choice: Choice) -> str:
        """A choice of its own for some loads."""
        where = self._loads(choice)
        pick, most = choice.pick, choice.at_most_slower
        sure = "" if most is None or choice.verdict == "winner" else f", at most {_more(most)} than the best (95 %)"

        def default(width: int) -> str:
            if pick is None or choice.verdict == "winner":
                return ""
            return f"; default {self.names.layout(pick.levels, width)}"

        def used(width: int) -> str:
            return self._pattern(choice, width) if choice.pattern.needed else f"any of the {choice.layouts}"

        return fitting(
            narrowing(
                lambda width: f"With {cut(where, width)}: {used(width)}{sure}{default(width)}.",
                lambda width: f"With {cut(where, width)}: {used(width)}{sure}.",
                lambda width: f"With {cut(where, width)}: {used(width)}.",
            )
        )

    def _loads(self, choice: Choice) -> str:
        """ "16 or 64 connections"."""
        names = list(choice.loads[0])
        if len(names) == 1:
            return self.names.levels(names[0], [load[names[0]] for load in choice.loads])
        texts = [", ".join(self.names.levels(name, [load[name]]) for name in names) for load in choice.loads]
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
        elif findings.verdict == "untested":
            yield f"No {self._noun(1)} can be chosen: each ran in a stretch of time of its own, where a drift looks like a gain."
            yield 'Set order = "randomised" (and no costly factor), and run it under a new name.'
        else:
            yield f"No {self._noun(1)} can be chosen yet: differences can't be told from chance. Make 5 repetitions."
        samples = [(cell, compared.by_rate(findings) and cell.rows_per_s or cell.elapsed_s) for cell in measured]
        ordered = sorted(((cell, one) for cell, one in samples if one), key=lambda pair: pair[1].mean.value)
        ends = [ordered[0], ordered[-1]] if len(ordered) > 1 else ordered
        words = ("Lowest", "highest") if compared.by_rate(findings) else ("Shortest", "longest")
        for number, (cell, sample) in enumerate(ends):
            what = f"{words[0] if number == 0 else words[1].capitalize()} mean: " if len(ends) > 1 else "It took "
            figure = self._figure(sample.mean)
            yield fitting(narrowing(lambda w, c=cell, x=what, f=figure: f"{x}{f}, {self.names.layout(c.levels, w)}."))

    # -----------------------------------------------------------------------------------------------------------------
    # What is gained, and why
    # -----------------------------------------------------------------------------------------------------------------

    def gains(self) -> list[str]:
        gains = self.found.gains
        if not gains or (len(gains) == 1 and self.found.choices[0].verdict == "winner"):
            return []
        tellings = [
            lambda width, number=number, full=full, error=error: self._gains(number, width, full=full, error=error)
            for number in range(len(gains), 0, -1)
            for full, error in ((True, True), (True, False), (False, False))
        ]
        return [fitting(narrowing(*tellings))]

    def _gains(self, number: int, width: int, *, full: bool, error: bool) -> str:
        gains = self.found.gains
        told = "; ".join(self._gain(gain, width, full=full, error=error) for gain in gains[:number])
        return f"Gains: {told}{f'; {len(gains) - number} more' if number < len(gains) else ''}."

    def _gain(self, gain: Gain, width: int, *, full: bool, error: bool) -> str:
        name = self.names.factor(gain.factor, width)
        if gain.same and self.found.indifferent is not None:
            return f"{name}: the same within {percent(self.found.indifferent)}"
        if not gain.seen and not gain.untested:
            return f"{name}: none visible{_reach(gain) if error else ''}"
        needed = {good.factor for choice in self.found.choices for good in choice.pattern.needed}
        start = name
        if gain.factor in needed and full:
            levels = self.names.levels(gain.factor, gain.levels, width)
            start = f"{levels} instead of {self.names.level(gain.factor, gain.reference, width)}"
        depends = f", depending on {listed_or([self.names.factor(one, width) for one in gain.depends_on], 'and')}"
        untested = " untested" if gain.untested else ""
        return f"{start} {_changes(gain, error=error)}{untested}{depends if gain.depends_on and full and error else ''}"

    def why(self) -> Iterator[str]:
        of_factor: dict[str, list[Cause]] = {}
        for cause in self.found.causes:
            of_factor.setdefault(cause.factor, []).append(cause)
        seen = {gain.factor for gain in self.found.gains if gain.seen}
        for factor, causes in of_factor.items():
            yield self._why(factor, causes, told=factor in seen)

    def _why(self, factor: str, causes: Sequence[Cause], *, told: bool) -> str:
        def start(width: int) -> str:
            name = self.names.factor(factor, width)
            return f"Why, {name}: " if told else f"Waits moved, the time not visibly; {name}: "

        several = len(causes) > 1

        def steps(width: int, number: int) -> str:
            return "; ".join(self._step(cause, width, along=several or not told) for cause in causes[:number])

        unit = " per connection"
        return fitting(
            narrowing(
                lambda width: f"{start(width)}{steps(width, len(causes))}{unit}.",
                lambda width: f"{start(width)}{steps(width, len(causes))}.",
                lambda width: f"{start(width)}{steps(width, 1)}.",
            )
        )

    def _step(self, cause: Cause, width: int, *, along: bool) -> str:
        digits = 3 if max(cause.from_s, cause.to_s) >= 100 else 2
        moved = f"{cut(cause.wait, width)} {significant(cause.from_s, digits)} -> {significant(cause.to_s, digits)} s"
        return f"{self._ends(cause.before, width)} -> {self._ends(cause.after, width)}, {moved}" if along else moved

    def _ends(self, levels: Sequence[JsonValue], width: int) -> str:
        return listed_or([self.names.level("", level, width) for level in levels[:2]])

    # -----------------------------------------------------------------------------------------------------------------
    # What is doubtful
    # -----------------------------------------------------------------------------------------------------------------

    def doubts(self) -> list[str]:
        facts = [doubt_text(kind, self.findings) for kind in self.found.doubts]
        if not facts:
            return []
        return [fitting(f"Doubt: {_some(facts, number)}." for number in range(len(facts), 0, -1))]


def _some(facts: Sequence[str], number: int) -> str:
    left = len(facts) - number
    return "; ".join(facts[:number]) + (f"; {left} more" if left else "")


def _more(ratio: float) -> str:
    """ "8 % slower", "2.4 times as slow"; "no more" never: a bound too small to show is rounded up."""
    return f"{significant(ratio, 2)} times slower" if ratio >= 2 else f"{percent(max(ratio, _LEAST) - 1)} slower"


def _saved(ratio: float) -> str:
    """How much less time the faster one takes, in percent, of the ratio of the slower one's to its."""
    return f"{100 * (1 - 1 / ratio):.0f}"


def _changes(gain: Gain, *, error: bool) -> str:
    """ "-16 ± 1 %", "-7 to -8 %"."""
    texts = list(dict.fromkeys(signed_percent(ratio.value) for ratio in (gain.worst, gain.best)))
    bare = [text.removesuffix(" %") if text.endswith(" %") else text for text in texts]
    said = " to ".join([*bare[:-1], texts[-1]])
    half = max((_half(ratio) for ratio in (gain.best, gain.worst)), default=0.0)
    if not error or not half or not said.endswith(" %"):
        return said
    return f"{said.removesuffix(' %')} ± {percent(half)}"


def _half(ratio: Estimate) -> float:
    return 0.0 if ratio.low is None or ratio.high is None else (ratio.high - ratio.low) / 2


def _reach(gain: Gain) -> str:
    """How much there may be nevertheless: " (-2 to +4 %)"."""
    low, high = gain.best.low, gain.worst.high
    if low is None or high is None or high >= 2:
        return ""
    return f" ({100 * (low - 1):+.0f} to {100 * (high - 1):+.0f} %)"


def _rooms(pick: Pick) -> list[str]:
    """How much room the drives keep with it, and with the other levels of the factor that decides it."""
    own = pick.capacity_bytes
    if own is None or not pick.capacities:
        return [""]
    others = [(level, room) for level, room in pick.capacities if room != own]
    said = ", ".join(f"{level} {capacity(room).removesuffix(' GB')}" for level, room in others)
    rooms = sorted(room for _, room in others)
    ends = " to ".join(dict.fromkeys(capacity(room) for room in (rooms[0], rooms[-1]))) if rooms else ""
    return [f"; keeps {capacity(own)}, {said}", f"; keeps {capacity(own)}, others {ends}", f"; keeps {capacity(own)}", ""]
