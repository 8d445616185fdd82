"""The answer in a few sentences: what to use, its basis, why, what makes it doubtful, and what to do next. Pure.

This module makes the short form of each result. The long form is part of the evidence (`sentences`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from storagelab.findings.answer import answer as answer_of
from storagelab.findings.answer import default_within, layout_of, volatile
from storagelab.findings.answer_kinds import Answer, Cause, Choice, Limit, Pick
from storagelab.findings.kinds import kinds
from storagelab.findings.kinds.ceiling import Ceiling
from storagelab.findings.kinds.race import RaceSummary
from storagelab.findings.model import Effect, Findings
from storagelab.findings.why import adds_up
from storagelab.model.plan import Factor
from storagelab.model.values import JsonValue
from storagelab.report.document import Document
from storagelab.report.words import compared
from storagelab.report.words.caution_texts import caution_text, next_text, unable_text
from storagelab.report.words.hosts import host_line
from storagelab.report.words.ladder import in_order, verdict_of
from storagelab.words import numbers
from storagelab.words.names import (
    ALONE,
    DATA_FILES,
    capital,
    factor_text,
    is_counted,
    is_number,
    labels_of,
    level_text,
    noun,
    one_of,
    short_factor,
    short_text,
    value_text,
)
from storagelab.words.numbers import limit_text, percent, plural

EITHER_WITHIN = 0.05
"""A fraction of the fastest layout's time. If no layout can be slower by more than this, any layout will do.
`indifferent` in the spec replaces this value.
"""
DOUBTS, CHOICES, STEPS = 3, 3, 2
"""The largest number of doubts, of choices, and of steps per cause in the answer. The evidence has all of them."""
LONGEST = 90
"""The most characters of a pattern of layouts. A longer pattern is replaced by a reference to the ladder."""
_SAID_BY = {"missing-runs": "not-finished", "single-repetition": "too-few-runs"}
"""Maps a caution to the fact that says the same. If the answer states the fact, it leaves out the caution."""
_REASONS = {"baseline": "listed first", "fastest": "the fastest mean"}
"""Maps a preference to its text, if a reader would not understand the preference as the spec writes it."""


def opening(findings: Findings, found: Answer | None = None, *, default: bool = True) -> Document:
    """Returns the answer in words, without its ladders. Its `head` says what to use, in a sentence for each group of
    loads. `default`: whether to name a default layout.
    """
    found = found or answer_of(findings)
    return Document(
        title=findings.experiment,
        provenance=findings.provenance or "no result yet",
        question=findings.question,
        head=tuple(filter(None, (*_so_far(findings, found, default), *_lines(findings, "use"), *host_line(findings)))),
        based=_basis(findings, found),
        why=(*_lines(findings, "why"), *_largest_effect(findings), *_why(findings, found, STEPS)),
        doubt=_doubt(findings, found),
        next=f"Next: {next_text(findings, found.next)}." if found.next is not None else "",
    )


def answer_lines(findings: Findings, found: Answer | None = None) -> list[str]:
    """Returns the answer's sentences in reading order."""
    told = opening(findings, found)
    return [text for text in (*told.head[:1], told.based, *told.head[1:], *told.why, told.doubt, told.next) if text]


def headline(findings: Findings, found: Answer | None = None, *, default: bool = True) -> str:
    """Says what to use, or why there is nothing to choose. `default`: whether to name a default layout."""
    told = opening(findings, found, default=default)
    text = told.verdict or told.based
    return f"In simulation, {text[0].lower()}{text[1:]}" if findings.provenance == "simulated" and told.head else text


def in_full(findings: Findings, found: Answer) -> tuple[list[str], list[str]]:
    """Returns what the short answer leaves out: the sentences on groups of loads, and the sentences on causes."""
    left = found.choices[CHOICES:] if len(found.choices) > CHOICES + 1 else ()
    rest = [_group(findings, choice, True) for choice in left]
    short = [*_why(findings, found, STEPS)]
    return rest, [text for text in _why(findings, found, None) if text not in short]


def _lines(findings: Findings, about: str) -> list[str]:
    """Returns the lines on the subject `about`. Each kind of findings may give one line."""
    return [text for kind in kinds() if kind.about == about and (text := kind.line(findings))]


# --- the basis of the answer, and doubts ------------------------------------------------------------------------------


def _basis(findings: Findings, found: Answer) -> str:
    if found.provenance is None or "nothing-measured" in found.unable:
        return f"NO RESULT YET: no run has given a time ({plural(found.runs_planned, 'run')} planned)."
    made = "" if found.runs == found.runs_planned else f"{found.runs} of "
    race = "".join(f" of a race ({one.runs_of_all} without one)" for one in RaceSummary.of(findings))
    number = len(findings.loads)
    under = f" under {number} {compared.load_noun(findings, number)}" if number else ""
    ran = f"{of} of " if (of := compared.layouts_run(findings)) < found.layouts else ""
    layouts = f"{ran}{found.layouts} {noun(findings.layout_factors, found.layouts)}{under}"
    return f"{found.provenance.upper()}, {made}{plural(found.runs_planned, 'run')}{race}, {layouts}."


def _doubt(findings: Findings, found: Answer) -> str:
    """Says why the runs can't answer the question. Then it gives the cautions, the most serious first. It leaves out
    what the sentences on what to use already say.
    """
    used = {choice.pick.cell_id for choice in found.choices if choice.pick is not None}
    said = {found.no_verdict} if found.choices else {"nothing-measured", "untested"}
    said |= {"not-compared"} & {fact for fact in found.unable if "nothing-measured" in found.unable}
    facts = [unable_text(fact, findings) for fact in found.unable if fact not in said]
    cautions = [caution_text(kind, findings, used) for kind in found.cautions if _SAID_BY.get(kind) not in found.unable]
    told = [*facts, *cautions][:DOUBTS]
    left = len(facts) + len(cautions) - len(told)
    if not told:
        return "" if found.provenance is None or found.unable else "Doubt: none."
    more = f"; {plural(left, 'more caution')} in the report" if left else ""
    won = all(choice.verdict == "winner" for choice in found.choices) and found.choices
    start = "Not conclusive" if (facts and not won) or "untested" in found.unable else "Doubt"
    return f"{start}: {'; '.join(told)}{more}."


# --- what to use ------------------------------------------------------------------------------------------------------


def _so_far(findings: Findings, found: Answer, default: bool) -> Iterator[str]:
    """Says what to use. While runs are missing, the first sentence also gives the number of layouts that have run."""
    said = _choices(findings, found, default)
    if found.next is not None and found.next.step == "runs" and (first := next(said, None)):
        ran = compared.layouts_run(findings)
        of = f"{ran} of {found.layouts} {noun(findings.layout_factors, 2)}" if ran < found.layouts else ""
        open_ = of and not all(one.verdict == "winner" or is_bounded(findings, one) for one in found.choices)
        after = f"So far, after {of}," if of else "So far,"
        yield f"Not decided: only {of} have run." if open_ else f"{after} {first[:1].lower()}{first[1:]}"
    yield from said


def _choices(findings: Findings, found: Answer, default: bool) -> Iterator[str]:
    choices = found.choices
    if Ceiling.of(findings):
        return
    lost = [*_volatile(findings, found)]
    if not choices and not lost:
        if any(cell.elapsed_s is not None for cell in findings.cells):
            yield from _none(findings, found)
    elif choices and found.no_verdict:
        yield f"No storage verdict: {caution_text(found.no_verdict, findings)}."
    elif len(choices) == 1:
        loads = len(choices[0].loads)
        under = f"Under {'both' if loads == 2 else f'all {loads}'} {compared.load_noun(findings, loads)} use"
        yield _use(findings, choices[0], under if loads > 1 else "Use", ": ")
        yield _default(findings, choices[0], default)
    else:
        shown = choices if len(choices) == CHOICES + 1 else choices[:CHOICES]
        yield from (_group(findings, choice, default) for choice in shown)
        if left := len(choices) - len(shown):
            yield f"The report has {left} more groups of {compared.load_noun(findings, 2)}, with other layouts."
    yield from lost


def _use(findings: Findings, choice: Choice, use: str = "use", then: str = "; ") -> str:
    """Names the layouts to use, and says how certain the choice is."""
    pattern = pattern_text(findings, choice)
    if choice.verdict == "winner":
        return f"{use} {pattern}."
    undecided = f"not decided{then}" if use == "use" else f"{_certain(findings)}{then}"
    if few := _untold(findings, choice):
        return f"{undecided}{few}."
    slower, meant = slower_text(findings, choice), len(choice.meant) // max(1, len(choice.loads))
    told = is_bounded(findings, choice) or meant <= 1
    if choice.at_most_slower is None or not (told or choice.pattern.needed):
        return f"{undecided}{pattern} may be the fastest; {slower}."
    they = "they" if pattern.endswith("below") else f"these {meant} {noun(findings.layout_factors, 2)}"
    return f"{use} {pattern}{then}{'' if told else f'{they} may be the fastest; '}{slower}."


def _certain(findings: Findings) -> str:
    """Says that nothing is decided, or only that a factor has a certain effect."""
    effects = _choosable(findings)
    most = compared.largest(effects)
    if most is None or most.at:
        return "Not decided"
    same = [one for one in effects if one.factor == most.factor and one.distinguishable]
    alike = [one.level for one in same if (one.ratio.value < 1) is (most.ratio.value < 1)]
    levels = capital(Names(findings).levels(most.factor, alike, full=True))
    verb, layout = "are" if is_counted(most.factor) and alike != [1] else "is", noun(findings.layout_factors, 1)
    certain = f"{levels} {verb} {'faster' if most.ratio.value < 1 else 'slower'}, averaged over all else"
    return f"{certain}; which {layout} is the fastest is not decided"


def _volatile(findings: Findings, found: Answer) -> Iterator[str]:
    """Names the layouts that may be the fastest, but would lose data or log in a crash. If there is no choice, the
    sentence also names the fastest of the other layouts.
    """
    best = {one for load in findings.by_load for one in load.best}
    lost = [cell for cell in volatile(findings) if cell.cell_id in best]
    names = [*dict.fromkeys(short_text(layout_of(findings, cell), labels_of(findings.factors)) for cell in lost)]
    if names:
        others = in_order(findings, [cell for cell in findings.cells if not cell.volatile])
        rest = "" if found.choices or findings.loads else f" Of the others, {others[0].text} has the fastest mean."
        yield f"Not to be used, because a crash loses data or log: {'; '.join(names)}.{rest}"


def _group(findings: Findings, choice: Choice, default: bool) -> str:
    said = f"With {loads_text(findings, choice)}: {_use(findings, choice)}"
    return " ".join(filter(None, (said, _default(findings, choice, default))))


def _untold(findings: Findings, choice: Choice) -> str:
    """Says that there are too few runs to tell the layouts of a choice apart. "" if the runs decide anything."""
    cells = [findings.cell(cell_id) for cell_id in choice.tied]
    decided = all(verdict_of(findings, cell.cell_id).kind != "not-told-apart" for cell in cells)
    if decided or choice.at_most_slower is not None:
        return ""
    number, runs = len(cells) // max(1, len(choice.loads)), min(cell.runs_ok + cell.runs_unverified for cell in cells)
    of = f"{number} of the {choice.layouts}" if number < choice.layouts else f"the {number}"
    return f"{of} {noun(findings.layout_factors, choice.layouts)} can't be told apart with {plural(runs, 'repetition')}"


def is_bounded(findings: Findings, choice: Choice) -> bool:
    """Whether the layouts of the choice are slower than the fastest by at most the margin that is indifferent."""
    margin = EITHER_WITHIN if findings.indifferent is None else findings.indifferent
    return choice.at_most_slower is not None and choice.at_most_slower <= 1 + margin


def pattern_text(findings: Findings, choice: Choice) -> str:
    """Describes the layouts of a choice: "driver 2.2.3 with 4 or 8 data files", "either of the 2 layouts"."""
    but_not = _but_not(findings, choice)
    if not choice.pattern.needed:
        number = noun(findings.layout_factors, choice.layouts)
        return f"{'either' if choice.layouts == 2 else 'any'} of the {choice.layouts} {number}{but_not}"
    names = Names(findings)
    levels = {good.factor: names.levels(good.factor, good.levels, full=True) for good in choice.pattern.needed}
    groups = ([text for name, text in levels.items() if is_counted(name) is counted] for counted in (False, True))
    text = " with ".join(" and ".join(group) for group in groups if group)
    few = len(choice.tied if choice.at_most_slower is None else choice.meant) // max(1, len(choice.loads))
    return f"{text}{but_not}" if len(text) <= LONGEST else f"one of the {few} {noun(findings.layout_factors, 2)} below"


def _but_not(findings: Findings, choice: Choice) -> str:
    """Names the layout that the pattern describes although it is not the fastest, with its verdict. "" if none is."""
    if not choice.but_not:
        return ""
    cell, verdict = findings.cell(choice.but_not[0]), verdict_of(findings, choice.but_not[0])
    name = short_text(layout_of(findings, cell), labels_of(findings.factors))
    return f", but not {name} ({verdict.text.partition(',')[0]})"


def slower_text(findings: Findings, choice: Choice) -> str:
    """Says how much slower than the fastest the layouts of a choice may be. Then it gives the number of other layouts
    that may be the fastest, with the verdict that they have in the ladder.
    """
    left = [one for one in choice.tied[: len(choice.tied) // max(1, len(choice.loads))] if one not in choice.meant]
    number = len(left)
    counted = choice.at_most_slower is None and pattern_text(findings, choice).endswith("below")
    kinds, untold = {verdict_of(findings, one).kind for one in left}, f"{'is' if number == 1 else 'are'} not told apart"
    verdicts = ["may be the fastest"] * (kinds != {"not-told-apart"}) + [untold] * ("not-told-apart" in kinds)
    more = f"; {number} more {noun(findings.layout_factors, number)}{_which(findings, choice, left)} "
    more += " or ".join(verdicts)
    return f"{_at_most_slower(findings, choice)}{more if number and not counted else ''}"


def _which(findings: Findings, choice: Choice, left: Sequence[str]) -> str:
    """Says how the layouts `left` differ from those that the pattern describes: the name of the only layout, or its
    levels of a factor. "" if no single factor shows the difference.
    """
    levels = [layout_of(findings, findings.cell(one)) for one in left]
    if len(left) == 1 and len(text := short_text(levels[0], labels_of(findings.factors))) <= LONGEST:
        return f" ({text})"
    names, factors = Names(findings), {factor.name: factor for factor in findings.layout_factors}
    for name, good in ((one.factor, {*map(repr, one.levels)}) for one in choice.pattern.needed):
        has = {repr(one[name]) for one in levels}
        if has and not has & good:
            outside = [level.value for level in factors[name].levels if repr(level.value) in has]
            return f", with {names.levels(name, outside, full=True)},"
    return ""


def _at_most_slower(findings: Findings, choice: Choice) -> str:
    most, margin = choice.at_most_slower, findings.indifferent
    if most is None:
        return "these runs don't show by how much they may be slower than the fastest"
    each = "each is " if len(choice.meant) > max(1, len(choice.loads)) else ""
    slower = f"{each}{numbers.at_most_slower(most)} than the fastest (95 %)"
    if margin is None:
        return slower
    within = percent(margin)
    return f"the same within {within} (95 %)" if choice.same else f"not shown to be the same within {within}: {slower}"


def _default(findings: Findings, choice: Choice, named: bool) -> str:
    """Gives the price of the layout to use. If several layouts will do, also the default and its reason, if `named`."""
    pick = choice.pick
    if pick is None:
        return ""
    price = findings.cell(pick.cell_id).price_per_month
    costs = "" if price is None else f"{numbers.price(price)} a month"
    if choice.verdict == "winner" or len(choice.meant) <= max(1, len(choice.loads)):
        return costs and f"It costs {costs}."
    default = short_text(pick.levels, labels_of(findings.factors)) + (costs and f", price {costs}")
    return f"Default: {default} ({_reason(findings, choice, pick)})." * named


def _reason(findings: Findings, choice: Choice, pick: Pick) -> str:
    """Says why `pick` is the default among several layouts."""
    reasons = [_REASONS.get(one, one.replace("-", " ")) for one in pick.decided_by] or [_REASONS["baseline"]]
    if pick.decided_by == ("fastest",) and pick.within is not None:
        return reasons[0]
    margin, fastest = percent(default_within(findings)), "their fastest"
    if len(choice.loads) > 1:
        fastest = f"the one least behind under any {compared.load_noun(findings)}"
    among = f"within {margin} of the fastest" if pick.within is not None else "without a surely slower level"
    if pick.within is None and pick.decided_by != ("fastest",):
        among += f", within {margin} of {fastest}"
    return f"of those {among}: {', then '.join(reasons)}"


def loads_text(findings: Findings, choice: Choice) -> str:
    """Describes the loads of a choice: "16 or 64 connections"."""
    names, factors = Names(findings), list(choice.loads[0])
    if len(factors) == 1:
        return names.levels(factors[0], [load[factors[0]] for load in choice.loads])
    first = ", ".join(names.levels(name, [choice.loads[0][name]]) for name in factors)
    left = len(choice.loads) - 1
    return f"{first} and {left} more {compared.load_noun(findings, 2)}" if left else first


def _none(findings: Findings, found: Answer) -> Iterator[str]:
    """Says why there is nothing to choose."""
    layout = noun(findings.layout_factors, 1)
    if findings.verdict == "single-cell" or len(findings.cells) == 1:
        yield f"There was one layout, so there is none to choose: {compared.judged_text(findings, findings.cells[0])}."
    elif found.layouts == 1:
        number = len(findings.loads)
        start = f"One layout was run under {number} {compared.load_noun(findings, number)}, so there is none to choose"
        ends = [findings.cell(cell_id) for cell_id in compared.ends(findings) if cell_id is not None]
        figures = [f"{compared.judged_text(findings, cell)} with {cell.text}" for cell in ends]
        yield ": ".join(filter(None, (start, "; ".join(figures)))) + "."
    elif findings.verdict != "untested":
        yield f"No {layout} can be chosen yet: differences can't be told from chance."
    elif compared.of_both_kinds(findings):
        both = f"Simulated and measured {noun(findings.layout_factors, 2)} are both shown"
        yield f"{both}; they are not tested against each other."
    elif compared.in_parts_of_cycles(findings):
        yield f"No {layout} can be chosen: runs count parts of checkpoint cycles."
    else:
        where, looks = {
            "as-listed": ("its own place of each round", "disturbance"),
        }.get(findings.order, ("its own period", "drift"))
        yield f"No {layout} can be chosen: each ran in {where}, so a {looks} may look like a gain."


# --- why --------------------------------------------------------------------------------------------------------------


def _largest_effect(findings: Findings) -> Iterator[str]:
    """States the largest effect of a factor that the user can choose."""
    effects = _choosable(findings)
    if compared.largest(effects) is not None:
        yield compared.largest_text(findings, effects)


def _choosable(findings: Findings) -> list[Effect]:
    """Returns the effects of the factors that the user can choose. [] if there is a single factor, because the ladder
    already shows its effects.
    """
    choosable = {factor.name for factor in findings.layout_factors}
    told = [one for one in findings.effects if one.factor in choosable] if len(findings.factors) > 1 else []
    return compared.of_choices(findings, told, at=False)


def _why(findings: Findings, found: Answer, most: int | None) -> Iterator[str]:
    """Says what changed with each explained factor: the first `most` steps, or all steps if `most` is None."""
    names = Names(findings)
    if (slowest := found.slowest_at_limit) is not None:
        yield f"Why: the slowest, {findings.cell(slowest.cell_id).text}: {_at_limit(slowest.limit)}."
    differs = any(row.distinguishable for row in findings.comparisons) and any(cell.spent for cell in findings.cells)
    if differs and adds_up(findings) and not found.causes and slowest is None:
        yield "Why: not shown, because no factor's own effect is certain."
    of_factor: dict[str, list[Cause]] = {}
    for cause in found.causes:
        of_factor.setdefault(cause.factor, []).append(cause)
    for factor, causes in of_factor.items():
        at = f" with {level_text(causes[0].at)}" if causes[0].at else ""
        per = f" per {compared.spender(findings)}" if causes[0].limit is None else ""
        yield f"Why, {names.factor(factor)}{at}: {'; '.join(_step(cause) for cause in causes[:most])}{per}."


def _at_limit(limit: Limit) -> str:
    at = f"volume {limit.volume} was at its limit, {limit_text(limit.rate, limit.limit)}"
    return f"{at}, {percent(limit.share)} of the time"


def _step(cause: Cause) -> str:
    if cause.limit is not None:
        return _at_limit(cause.limit)
    unsure = "" if cause.sure else "no wait surely explains it; the largest part: "
    moved = f"{unsure}{cause.wait} {numbers.seconds_moved(cause.from_s, cause.to_s)}"
    if len(cause.before) > 1 or len(cause.after) > 1 or isinstance(cause.after[0], str):
        return moved
    return f"{value_text(cause.before[0])} -> {value_text(cause.after[0])}, {moved}"


# --- short names of factors, and of several of their levels -----------------------------------------------------------
_ITEMS = 6
"""The most levels that a text lists. Of more levels, it names only some."""


def listed_or(items: Sequence[str], word: str = "or") -> str:
    """Joins items: "1", "1 or 2", "1, 2 or 4". If items contain commas, semicolons separate them: "a, b; c or d"."""
    between = "; " if any(", " in item for item in items) else ", "
    return items[0] if len(items) == 1 else f"{between.join(items[:-1])} {word} {items[-1]}" if items else ""


class Names:
    """Gives short names to the factors and levels of an experiment."""

    def __init__(self, findings: Findings) -> None:
        self._factors = {factor.name: factor for factor in findings.factors}
        short = [short_factor(name) for name in self._factors]
        self._twice = {name for name in short if short.count(name) > 1}

    def factor(self, name: str) -> str:
        """Returns a factor's short name: "files", "format", "driver"."""
        labels, short = self._factors[name].labels if name in self._factors else {}, short_factor(name)
        return labels.get(name) or (factor_text(name) if short in self._twice else short)

    def heading(self, name: str) -> str:
        """Returns the heading of a factor's column: "data files", "format"."""
        factor = self._factors[name]
        return factor_text(name) if name == DATA_FILES and name not in factor.labels else self.factor(name)

    def levels(self, name: str, levels: Sequence[JsonValue], *, full: bool = False) -> str:
        """Describes levels of a factor: "4 or 8 files", "driver 2.2.3", "log on b", "PostgreSQL". With `full`, the text
        has "data files" instead of "files".
        """
        factor = self._factors[name]
        texts = self._grouped(factor, levels)
        many = self._many(factor, levels, texts)
        label = self.factor(name)
        if is_counted(name) or (name in factor.labels and all(map(is_number, levels))):
            label = "data files" if full and name == DATA_FILES and name not in factor.labels else label
            return f"{many} {one_of(label) if list(levels) == [1] else label}"
        if name in ALONE:
            return f"{label} on {many}"
        return f"{label} {many}" if (not _is_labelled(factor) or not many[:1].isalpha()) else many

    def _many(self, factor: Factor, levels: Sequence[JsonValue], texts: Sequence[str]) -> str:
        """Describes several levels in few words. Consecutive numbers become a range. A long list that lacks only a few
        levels becomes "any except ...". Of any other long list, only the first levels are named.
        """
        if len(levels) > 2 and all(is_number(level.value) for level in factor.levels):
            row = sorted(float(str(level)) for level in levels)
            if sum(row[0] <= float(str(level.value)) <= row[-1] for level in factor.levels) == len(row):
                ordered = sorted(levels, key=lambda level: float(str(level)))
                return f"{value_text(ordered[0])} to {value_text(ordered[-1])}"
        if len(texts) <= _ITEMS:
            return listed_or(texts)
        good = {value_text(level) for level in levels}
        left = [text for level in factor.levels if (text := value_text(level.value)) not in good]
        if len(left) <= _ITEMS:
            return f"any except {listed_or(left, 'and')}"
        of = f" ({len(levels)} of {len(factor.levels)})" * (len(texts) == len(levels))
        return listed_or([*texts[:2], f"{len(texts) - 2} others{of}"])

    def _grouped(self, factor: Factor, levels: Sequence[JsonValue]) -> list[str]:
        """Returns the texts of the levels. If all labels that share a first part are among them, that part replaces
        them: "2.2.3" for "2.2.3, 512 B" and "2.2.3, 4 KB".
        """
        texts = [value_text(level) for level in levels]
        if not _is_labelled(factor) or len(levels) < 2:
            return texts
        of_head: dict[str, list[str]] = {}
        for level in factor.levels:
            of_head.setdefault(value_text(level.value).rpartition(", ")[0], []).append(value_text(level.value))
        grouped: dict[str, None] = {}
        for text in texts:
            head = text.rpartition(", ")[0]
            family = of_head.get(head, [])
            whole = head and len(family) > 1 and all(one in texts for one in family)
            grouped[head if whole else text] = None
        return list(grouped)


def _is_labelled(factor: Factor) -> bool:
    return any(set(level.sets) != {factor.name} for level in factor.levels)
