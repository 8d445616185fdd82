"""What to use, how sure that is, and which of the tied layouts: each result with its forms, the longest first. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial

from storagelab.findings.answer_kinds import Answer, Choice, Pick
from storagelab.findings.model import CellSummary, Estimate, Findings
from storagelab.model.values import JsonValue
from storagelab.report.words import compared
from storagelab.report.words.caution_texts import caution_text
from storagelab.report.words.short import Form, Names, listed_or, plain
from storagelab.words import numbers
from storagelab.words.names import is_counted, noun

EITHER_WITHIN = 0.05
"""Any layout will do where none can take so much more time than the fastest, unless the spec says (`indifferent`)."""
_MUCH_MORE = 2.0
"""The slowest layout is told if it takes so many times as long as the answer lets expect."""
_REASONS = {
    "fewest-files": "fewest files", "most-capacity": "most capacity", "fewest-drives": "fewest drives",
    "baseline": "listed first", "fastest": "fastest",
}  # fmt: skip


def choice_forms(findings: Findings, found: Answer, most: int) -> Iterator[list[Form]]:
    """The first `most` of the choices for different loads (or one more, if that is all)."""
    choices = found.choices
    if not choices:
        measured = [cell for cell in findings.cells if cell.elapsed_s is not None]
        if measured:
            yield from map(plain, _why_none(findings))
            yield from _ends(findings, measured)
    elif len(choices) == 1:
        (choice,) = choices
        # Where something else than storage set the pace of all layouts, there is nothing to use.
        fact = found.no_verdict
        yield plain(f"No storage verdict: {caution_text(fact, findings)}.") if fact else _use(findings, choice)
        if choice.verdict == "winner":
            if sure := _sure_of_a_winner(findings, choice):
                yield sure
        else:
            yield _sure(findings, choice, found.indifferent)
            if choice.pick is not None:
                yield _pick(findings, choice, choice.pick)
        yield from _slowest(findings, found, choice)
    else:
        shown = choices if len(choices) == most + 1 else choices[:most]
        yield from (_under(findings, choice) for choice in shown)
        if left := len(choices) - len(shown):
            yield plain(
                f"For {left} more groups of {compared.load_noun(findings, 2)} see the table of {_noun(findings, 2)}."
            )


def _noun(findings: Findings, number: int) -> str:
    return noun(findings.layout_factors, number)


# ---------------------------------------------------------------------------------------------------------------------
# What to use
# ---------------------------------------------------------------------------------------------------------------------


def _use(findings: Findings, choice: Choice) -> list[Form]:
    if not choice.pattern.needed and choice.verdict != "winner" and not _bounded(findings, choice):
        return plain(f"Not decided: {_any(choice)} {_noun(findings, choice.layouts)} may be the fastest.")
    loads = len(choice.loads)
    use = "Use"
    if loads > 1:
        use = f"Under {'both' if loads == 2 else f'all {loads}'} {compared.load_noun(findings, loads)} use"

    def form(names: Names, *, full: bool, rest: bool, ties: str) -> str:
        which = f"{_any(choice)} {_noun(findings, choice.layouts)}"
        if choice.pattern.needed:
            which = _pattern(choice, names, full=full)
        return f"{use} {which}{_rest(findings, choice, names) if rest else ''}{ties}."

    parts = ((True, _more_ties(choice)), (True, ""), (False, ""))
    forms: list[Form] = [
        partial(form, full=full, rest=rest, ties=ties) for rest, ties in parts for full in (True, False)
    ]
    # What to use is the most important part, so its names are cut last.
    return [*(_uncut(form, items) for items in (4, 2, 1) for form in forms), *forms]


def _bounded(findings: Findings, choice: Choice) -> bool:
    """Whether it is known that no choice costs more than a margin."""
    margin = EITHER_WITHIN if findings.indifferent is None else findings.indifferent
    return choice.at_most_slower is not None and choice.at_most_slower <= 1 + margin


def _uncut(form: Form, items: int) -> Form:
    return lambda names: form(names.uncut(items))


def _any(choice: Choice) -> str:
    return f"{'either' if choice.layouts == 2 else 'any'} of the {choice.layouts}"


def _pattern(choice: Choice, names: Names, *, full: bool = False) -> str:
    """ "driver 2.2.3 with 4 or 8 files"; `full`: "data files"."""
    levels = {good.factor: names.levels(good.factor, good.levels, full=full) for good in choice.pattern.needed}
    groups = ([text for name, text in levels.items() if is_counted(name) is counted] for counted in (False, True))
    return " with ".join(" and ".join(group) for group in groups if group)


def _rest(findings: Findings, choice: Choice, names: Names) -> str:
    """What else there is to say about the layouts to use: that they are faster, or that other factors don't matter."""
    if choice.verdict == "winner":
        return f": faster than {'the other' if choice.layouts == 2 else 'every other'} {_noun(findings, 1)}"
    if not choice.pattern.needed:
        return ": they can't be told apart" if choice.layouts == 2 else ": none can be told apart from the fastest"
    free = [names.factor(name) for name in choice.pattern.free]
    for good in choice.pattern.needed:
        free += names.unimportant(good.factor, good.levels)
    one = len(free) == 1 and not (choice.pattern.free and is_counted(choice.pattern.free[0]))
    return f"; {listed_or(free, 'and')} {'makes' if one else 'make'} no visible difference there" if free else ""


def _more_ties(choice: Choice) -> str:
    left = len(choice.tied) - len(choice.meant)
    counts = left and choice.verdict != "winner" and choice.pattern.needed
    return f"; {left} more tie{'s' * (left == 1)}" if counts else ""


# ---------------------------------------------------------------------------------------------------------------------
# How sure that is
# ---------------------------------------------------------------------------------------------------------------------


def _sure_of_a_winner(findings: Findings, choice: Choice) -> list[Form]:
    does = "It does" if compared.by_rate(findings) else "It takes"
    start = "It is the fastest" if choice.lowest is None else f"{does} {_figure(findings, choice.lowest)}"
    if choice.next_slower is None or not choice.leads:
        than = "other" if choice.layouts == 2 else "next"
        behind = [_two_digits(one.value) for one in choice.leads if choice.leads[0].value >= 2]
        if behind:  # under several loads
            return plain(f"The {than} takes {' to '.join(dict.fromkeys(behind))} times as long.")
        more = [_more(one.value) for one in choice.leads]
        if more:
            return plain(f"The {than} takes {' to '.join(dict.fromkeys(more))} % more time.")
        return [] if choice.lowest is None else plain(f"{start}.")
    ratio = choice.leads[0]
    than, levels = "the other" if choice.layouts == 2 else "the next", findings.cell(choice.next_slower).levels
    if ratio.value >= 2:
        much = f"{_two_digits(ratio.value)}{numbers.ends_in_brackets(ratio, _two_digits)} times as long"
    elif ratio.low is not None and ratio.low >= 1.001:  # what is found is exaggerated where it was hard to find
        much = f"at least {_more(ratio.low)} % more time (most likely {_more(ratio.value)})"
    else:
        much = f"{_more(ratio.value)} % more time"
    return [
        lambda names: f"{start}; {than}, {names.layout(levels)}, takes {much}.",
        *plain(f"{start}; {than} takes {much}."),
    ]


def _two_digits(ratio: float) -> str:
    return numbers.significant(ratio, 2)


def _slowest(findings: Findings, found: Answer, choice: Choice) -> Iterator[list[Form]]:
    """How long the slowest layout takes, where that is several times as long as the best, and nothing else tells it."""
    if len(found.gains) > 1 or choice.verdict != "winner":
        told = math.prod(max(1.0, 1 / gain.best.value) for gain in found.gains)
    else:
        told = max((lead.value for lead in choice.leads), default=1.0)
    slower = [row for row in findings.comparisons if row.distinguishable and row.best_cell_id in choice.tied]
    worst = max(slower, key=lambda row: row.ratio.value, default=None)
    if worst is None or worst.ratio.value < _MUCH_MORE * told:
        return
    times, levels = f"{_two_digits(worst.ratio.value)} times as long", findings.cell(worst.cell_id).levels
    yield [
        lambda names: f"The slowest takes {times} as the best: {names.layout(levels)}.",
        *plain(f"The slowest takes {times} as the best."),
    ]


def _sure(findings: Findings, choice: Choice, indifferent: float | None) -> list[Form]:
    number = len(choice.meant) // max(1, len(choice.loads))
    which = "It" if number == 1 else "Both" if number == 2 else f"Those {number} {_noun(findings, number)}"
    slower = _slower(choice, indifferent, "it is" if number == 1 else "each")
    bound = f"It{slower[2:]}." if slower.startswith("it ") else f"{which}: {slower}."
    if choice.lowest is None or choice.highest is None:
        return plain(bound)
    of_all = f" (of {len(choice.tied)} tied)" if len(choice.tied) > len(choice.meant) and number > 1 else ""
    equal = "" if number == 1 or choice.same or indifferent is not None else ", not proven equal"
    few = which if number < 3 else f"Those {number}"
    brief = slower.removeprefix("each ").replace(" than the best", "")
    verb = "do" if compared.by_rate(findings) else "takes" if number == 1 else "take"
    takes = f"{verb} {_span(findings, choice.lowest, choice.highest)}"
    return plain(
        f"{which}{of_all} {takes}{equal}: {slower}.",
        *(
            f"{those} {takes}{but}: {bound}."
            for but in (equal, "")
            for bound in (slower, brief)
            for those in (which, few)
        ),
        f"{few}: {slower}.",
    )


def _slower(choice: Choice, indifferent: float | None, each: str) -> str:
    most = choice.at_most_slower
    if most is None:
        return "how much slower than the best is not known"
    slower = f"{each} {numbers.at_most_slower(most)} than the best (95 %)"
    if indifferent is None:
        return slower
    within = numbers.percent(indifferent)
    return f"the same within {within} (95 %)" if choice.same else f"not shown to be the same within {within}: {slower}"


def _more(ratio: float) -> str:
    """How much more time the slower one takes, in percent."""
    return numbers.percent(ratio - 1).removesuffix(" %")


def _span(findings: Findings, lowest: Estimate, highest: Estimate) -> str:
    if lowest == highest:
        return _figure(findings, lowest)
    if compared.by_rate(findings):
        span = (
            f"{numbers.significant(lowest.value)} to {numbers.rows_per_s(highest.value, compared.rate_unit(findings))}"
        )
    else:
        span = numbers.seconds_range(lowest.value, highest.value)
    first, _, last = span.partition(" to ")
    return last if last.split(" ")[0] == first else span


def _figure(findings: Findings, estimate: Estimate) -> str:
    if compared.by_rate(findings):
        return numbers.rows_per_s_estimate(estimate, compared.rate_unit(findings))
    return numbers.seconds_estimate(estimate).replace(" (no interval: too few runs)", "")


# ---------------------------------------------------------------------------------------------------------------------
# Which of the tied layouts
# ---------------------------------------------------------------------------------------------------------------------


def _pick(findings: Findings, choice: Choice, pick: Pick) -> list[Form]:
    reasons = ", ".join(_REASONS[one] for one in pick.decided_by)
    sample = compared.judged(findings, findings.cell(pick.cell_id))
    mean = ""
    if sample is not None and len(choice.loads) < 2:
        mean = f" ({_figure(findings, Estimate(value=sample.mean.value))})"

    def form(why: str, rest: str) -> Form:
        return lambda names: f"Default pick{why and f' ({why})'}: {names.layout(pick.levels)}{rest}."

    kept = [form(why, f"{mean}{capacities}") for capacities in _capacities(pick) for why in (reasons, "")]
    forms = [*kept, form(reasons, mean), form("", mean), form("", "")]
    return [*(_uncut(one, 4) for one in forms), *forms]


def _capacities(pick: Pick) -> list[str]:
    """The capacity that the drives keep with this layout, and with the other levels of the factor that decides it."""
    own = pick.capacity_bytes
    if own is None or not pick.capacities:
        return []
    others = [(level, size) for level, size in pick.capacities if size != own]
    sizes = [numbers.capacity(size) for size in sorted(size for _, size in others)]
    each = ", ".join(f"{level} {numbers.capacity(size)}" for level, size in others)
    first = sizes[0].rpartition(" ")[0] if sizes[0].endswith(sizes[-1][-3:]) else sizes[0]
    ends = sizes[-1] if len(set(sizes)) == 1 else f"{first} to {sizes[-1]}"
    return [f"; keeps {numbers.capacity(own)}, {each}", f"; keeps {numbers.capacity(own)}, others {ends}"]


# ---------------------------------------------------------------------------------------------------------------------
# A separate choice for some loads
# ---------------------------------------------------------------------------------------------------------------------


def _under(findings: Findings, choice: Choice) -> list[Form]:
    pick, lead = choice.pick, _lead(choice)
    wins = choice.verdict == "winner"
    sure = "" if wins else f", {_slower(choice, None, '').strip()}"

    def start(names: Names) -> str:
        used = _any(choice) if _bounded(findings, choice) else f"not decided, {_any(choice)} may be the fastest"
        if choice.pattern.needed:
            used = _pattern(choice, names)
        return f"With {_loads(findings, choice, names)}: {used}"

    def default(names: Names) -> str:
        return "" if pick is None or wins else f"; default {names.layout(pick.levels)}"

    return [
        lambda names: f"{start(names)}{sure}{default(names)}{lead}.",
        lambda names: f"{start(names)}{sure}{lead}.",
        lambda names: f"{start(names)}{sure or lead}.",
        lambda names: f"{start(names)}.",
    ]


def _lead(choice: Choice) -> str:
    """How far behind the next layout is that can be told apart."""
    if not choice.leads:
        return ""
    than = "the other" if choice.layouts == 2 else "the next"
    if choice.leads[-1].value < 2:
        more = [_more(one.value) for one in choice.leads]
        return f"; {than} takes {' to '.join(dict.fromkeys(more))} % more time"
    times = [_two_digits(one.value) for one in choice.leads]
    return f"; {than}: {' to '.join(dict.fromkeys(times))} times as long"


def _loads(findings: Findings, choice: Choice, names: Names) -> str:
    """ "16 or 64 connections"."""
    factors = list(choice.loads[0])
    if len(factors) == 1:
        return names.levels(factors[0], [load[factors[0]] for load in choice.loads])
    first = ", ".join(names.levels(name, [choice.loads[0][name]]) for name in factors)
    left = len(choice.loads) - 1
    return f"{first} and {left} more {compared.load_noun(findings, 2)}" if left else first


# ---------------------------------------------------------------------------------------------------------------------
# Nothing to choose
# ---------------------------------------------------------------------------------------------------------------------


def _why_none(findings: Findings) -> list[str]:
    layout = _noun(findings, 1)
    if findings.verdict == "single-cell" or len(findings.cells) == 1:
        return ["There was one layout, so there is none to choose."]
    if findings.verdict == "one-layout":
        number = len(findings.loads)
        return [
            f"One layout was run under {number} {compared.load_noun(findings, number)}, so there is none to choose."
        ]
    if findings.verdict != "untested":
        return [f"No {layout} can be chosen yet: differences can't be told from chance."]
    if compared.of_both_kinds(findings):
        return [
            f"Simulated and measured {_noun(findings, 2)} stand side by side; none is tested against the other kind."
        ]
    if compared.in_parts_of_cycles(findings):
        return [f"No {layout} can be chosen: runs count parts of checkpoint cycles."]
    return [
        f"No {layout} can be chosen: each ran in "
        f"{'its own place of each round' if findings.order == 'as-listed' else 'a stretch of its own'}, where a "
        f"{'disturbance' if findings.order == 'as-listed' else 'drift'} looks like a gain."
    ]


def _ends(findings: Findings, measured: list[CellSummary]) -> Iterator[list[Form]]:
    """The smallest and the largest mean."""
    samples = [(cell, compared.judged(findings, cell)) for cell in measured]
    ordered = sorted(((one.mean, cell) for cell, one in samples if one), key=lambda pair: pair[0].value)
    rate = compared.by_rate(findings)
    if len(ordered) == 1:
        yield _mean_of(findings, "It did" if rate else "It took", ordered[0][0], ordered[0][1].levels)
    elif ordered:
        words = ("Lowest mean:", "Highest mean:") if rate else ("Shortest mean:", "Longest mean:")
        for what, (mean, cell) in zip(words, (ordered[0], ordered[-1]), strict=True):
            yield _mean_of(findings, what, mean, cell.levels)


def _mean_of(findings: Findings, what: str, mean: Estimate, levels: Mapping[str, JsonValue]) -> list[Form]:
    figure = _figure(findings, mean)
    return [lambda names: f"{what} {figure}{f', {names.layout(levels)}' if levels else ''}."]
