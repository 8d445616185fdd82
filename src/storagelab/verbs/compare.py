"""`storagelab compare`: two cells of one experiment, or two or more campaigns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from storagelab import screen
from storagelab.errors import SpecError
from storagelab.findings import FitKind, campaigns
from storagelab.findings.analysis import analyse
from storagelab.findings.basis import Basis, basis_of, ratio_of
from storagelab.findings.beside import Beside, Ratio, beside
from storagelab.findings.campaigns import Campaign, Compare, Gate
from storagelab.findings.model import Findings
from storagelab.findings.reasons import case_between
from storagelab.model.measurement import Run
from storagelab.model.plan import Plan
from storagelab.model.values import Estimate, JsonValue, share_of
from storagelab.predicting import prediction
from storagelab.predicting.prediction import PRESENT, Prediction
from storagelab.report import writing
from storagelab.report.document import Document, Section, paper
from storagelab.report.export.as_json import beside_json, campaigns_json, pair_json
from storagelab.report.text.markdown import markdown
from storagelab.report.text.terminal import print_document
from storagelab.report.words import campaigns as words
from storagelab.report.words.predicted import beside_sentence, beside_table
from storagelab.report.words.why import pair_paper
from storagelab.run import stored
from storagelab.run.store import FILE_NAME
from storagelab.spec.naming import find_cell, is_cell
from storagelab.spec.reading import differences
from storagelab.words import numbers
from storagelab.words.names import cell_entry, cell_text, factor_labels, value_text

# --- measured beside predicted ----------------------------------------------------------------------------------------
# What `compare` adds where one side is measured and the other predicted: by `storagelab predict`, or by a simulation.


def speeds(basis: Basis, plan: Plan) -> Ratio:
    """The speed of one cell over another's, from the ratio of their times."""

    def of(one: str, other: str) -> Estimate | None:
        found = ratio_of(basis, plan, one, other)
        return None if found is None else found.inverse

    return of


_Pair = tuple[Beside, dict[str, str]]
"""What was measured beside what was predicted, and the layouts' texts."""


def of_campaigns(found: Compare, first: Plan, second: Plan) -> _Pair | None:
    """A measured campaign and a simulated one: the comparison, and the layouts' texts. None if they are not such a
    pair.
    """
    kinds = (found.first.findings.provenance, found.second.findings.provenance)
    if set(kinds) != {"measured", "simulated"}:
        return None
    # Whichever is named first, the measured one is the truth.
    ids = [(one.first_id, one.second_id) for one in found.matched]
    sides, plans = (found.first, found.second), (first, second)
    if kinds[0] == "simulated":
        ids, sides, plans = [(two, one) for one, two in ids], sides[::-1], plans[::-1]
    measured, simulated = (speeds(one.basis, plan) for one, plan in zip(sides, plans, strict=True))
    base = ids[0]
    predicted = {base[0]: Estimate(value=1.0)}
    for name, of_simulated in ids[1:]:
        if (ratio := simulated(base[1], of_simulated)) is not None:
            # Its interval holds the scatter of repetitions, not the model's error: nothing can be missed by it.
            predicted[name] = Estimate(value=ratio.value)
    texts = {name: cell_entry(name, cell_text(sides[0].findings.cell(name).levels)) for name in predicted}
    return beside(base[0], measured, predicted), texts


def of_prediction(
    prediction: Prediction, file: Path, campaign: str, basis: Basis, plan: Plan
) -> tuple[Beside, dict[str, str], list[str]]:
    """A measured campaign and a prediction: the comparison, the layouts' texts, and the names of layouts that only the
    prediction has. Raises SpecError if they share no layout.
    """
    known = {name: cell.cell_id for cell in plan.cells for name in _names(cell.cell_id, cell.levels)}
    said = {one.name: one.times_present for one in prediction.layouts if one.times_present is not None}
    shared = [name for name in said if name in known]
    if not shared:
        hint = (
            f"Layouts are matched by name: {file} has {', '.join(said) or 'none'}; {campaign} has {', '.join(known)}."
        )
        raise SpecError("no layout of the prediction is one of the campaign's", file=file, key="layouts", hint=hint)
    base = PRESENT if PRESENT in shared else shared[0]
    # Ratios to another base than the captured layout have the same relative width.
    predicted = {known[name]: _over(said[name], said[base], same=name == base) for name in shared}
    texts = {known[name]: name for name in shared}
    return beside(known[base], speeds(basis, plan), predicted), texts, [name for name in said if name not in known]


def _over(one: Estimate, base: Estimate, *, same: bool) -> Estimate:
    if same:
        return Estimate(value=1.0)
    ends = {name: None if (end := getattr(one, name)) is None else end / base.value for name in ("low", "high")}
    return one.model_copy(update={"value": one.value / base.value, **ends})


def _names(cell_id: str, levels: Mapping[str, JsonValue]) -> list[str]:
    """The names by which a prediction may mean a cell: its id, its levels, or the label of its only factor."""
    alone = [value_text(value) for value in levels.values()] if len(levels) == 1 else []
    return [cell_id, cell_text(levels), *alone]


def with_beside(of: Document, found: Beside, names: Mapping[str, str], predicted: str, measured: str) -> Document:
    """The paper, opened by what was predicted."""
    opened = of.opened_by(beside_sentence(found, predicted, measured))
    first = Section("beside", "Predicted beside measured", [beside_table(found, names)])
    return replace(opened, sections=[first, *of.sections])


def prediction_paper(
    found: Beside, names: Mapping[str, str], prediction: Prediction, campaign: str, alone: Sequence[str]
) -> Document:
    notes = [f"Only in the prediction: {', '.join(alone)}."] if alone else []
    notes += [f"Not predicted: {one.name}: {one.cant_say}." for one in prediction.layouts if one.cant_say]
    name = f"the prediction from {prediction.capture}"
    of = paper(f"{campaign} and {name}", "measured and predicted", "", notes, ())
    return with_beside(of, found, names, name, campaign)


# --- the verb ---------------------------------------------------------------------------------------------------------

HTML_FILE = "comparison.html"
_OF_ITS_OWN = ("name: ", "question: ", "seed: ")
"""Keys in which specs of one history may differ."""

_TWO_THINGS = (
    "two campaigns: compare BEFORE AFTER; a new one and those before it: compare --history OLD... NEW; two cells of "
    "one: compare NAME CELL CELL; a campaign and a prediction: compare NAME prediction.json"
)


@dataclass(frozen=True)
class Asked:
    """Where results are, how they are judged, and what is written where; `margin` = that of a gate, in per cent."""

    results: Path
    format_: str
    output: Path | None
    fit: FitKind
    margin: str | None
    history: bool

    @property
    def limit(self) -> float | None:
        """The gate's margin as a share. Raises SpecError if it is none."""
        share = None if self.margin is None else share_of(self.margin)
        if self.margin is not None and share is None:
            raise SpecError(
                f"{self.margin!r} is not a share", key="--fail-if-slower", hint='write it in per cent: "5%"'
            )
        return share

    def place(self, name: str) -> tuple[str, Path] | None:
        """The name and the results folder that `name` means: an experiment's name, its spec, or its folder; None if it
        means nothing.
        """
        folder = Path(name)
        if (name.endswith(".toml") and folder.exists()) or (self.results / name / FILE_NAME).is_file():
            return name, self.results
        whole = folder.resolve()
        return (whole.name, whole.parent) if (folder / FILE_NAME).is_file() else None

    def read(self, name: str) -> stored.Results:
        return stored.read(*(self.place(name) or (name, self.results)))

    def judged(self, read: stored.Results, name: str = "") -> Campaign:
        of = read.experiment, read.plan, read.runs, self.fit
        return Campaign(name or read.experiment.name, read.experiment, analyse(*of), basis_of(*of))

    def deliver(self, of: Document, as_json: Callable[[], str], pair: _Pair | None = None) -> None:
        if self.format_ == "text" and self.output is None:
            print_document(screen.out(), of)
        elif self.format_ == "html":
            from storagelab.report.page import html, papers  # here, because only this format needs templates

            file = self.output or Path(HTML_FILE)
            if writing.write(file, html.page_of(of) if pair is None else papers.beside_page(of, *pair)):
                writing.tell(file)
        else:
            writing.deliver(as_json() if self.format_ == "json" else markdown(of), self.output)


def show(names: Sequence[str], asked: Asked) -> Gate:
    """Compares two cells, if given one name of results and two of cells; else campaigns, the last one with a history or
    each with the first. Returns the gate's answer, or "not slower".
    """
    limit, are_results = asked.limit, [asked.place(name) is not None for name in names]
    if len(names) < 2:
        raise SpecError("needs two things to compare", key="NAME", hint=_TWO_THINGS)
    if asked.history:
        return _show_campaigns(names, asked, limit)
    if len(names) == 2 and prediction.is_prediction(Path(names[1])):
        return _show_prediction(names[0], Path(names[1]), asked)
    if len(names) == 3 and are_results[0] and not any(are_results[1:]):
        return _show_cells(asked.read(names[0]), names[1:], asked, limit)
    if len(names) == 2 and are_results == [True, False] and is_cell(names[1]):
        raise SpecError(
            f"{names[1]} is one cell of {names[0]}, and nothing to compare it with", key="CELL", hint=_TWO_THINGS
        )
    return _show_campaigns(names, asked, limit)


def _show_cells(read: stored.Results, named: Sequence[str], asked: Asked, margin: float | None) -> Gate:
    plan, campaign = read.plan, asked.judged(read)
    findings, basis = campaign.findings, campaign.basis
    labels = factor_labels(read.experiment.factors)
    before, after = (find_cell(cell, findings.cells, labels) for cell in named)
    if before == after:
        raise SpecError(f"{named[0]!r} and {named[1]!r} are the same cell, {before}", key="CELL", hint="name two cells")
    ratio = ratio_of(basis, plan, before, after)
    result = None if margin is None else campaigns.gate_of_cells(ratio, margin, _counted(basis, plan, before, after))
    case = case_between(findings, basis.used, before, after, ratio)
    paper = pair_paper(findings, before, after, ratio, case)
    if margin is not None and result is not None:
        said = f"{words.gate_sentence(result, margin)} {words.stalls_sentence(basis, plan, after)}"
        paper = paper.opened_by(said, _dots(basis, findings, before, after))
    of_gate = None if result is None else result.text
    asked.deliver(paper, lambda: pair_json(findings, before, after, ratio, case, paper, of_gate))
    return result or Gate.NOT_SLOWER


def _counted(basis: Basis, plan: Plan, before: str, after: str) -> float:
    """The arithmetic mean time of one cell over that of another, of the runs that count."""
    times = {cell.cell_id: np.exp(logs[~np.isnan(logs)]) for cell, logs in zip(plan.cells, basis.kept, strict=True)}
    both = times[after], times[before]
    return float(both[0].mean() / both[1].mean()) if all(map(len, both)) else 1.0


def _dots(basis: Basis, findings: Findings, before: str, after: str) -> Sequence[str]:
    """The runs of two cells, each against the mean of the first."""
    place = {cell.cell_id: place for place, cell in enumerate(findings.cells)}
    logs = [[one for one in basis.kept[place[name]].tolist() if math.isfinite(one)] for name in (before, after)]
    if not logs[0]:
        return ()
    mean = math.fsum(logs[0]) / len(logs[0])
    names = (cell_entry(name, findings.cell(name).text) for name in (before, after))
    return dots([(name, [math.exp(one - mean) for one in of]) for name, of in zip(names, logs, strict=True)])


def _show_campaigns(names: Sequence[str], asked: Asked, margin: float | None) -> Gate:
    read = [asked.read(name) for name in names]
    given = [asked.judged(one, name) for name, one in zip(_called([one.folder for one in read]), read, strict=True)]
    first, *others = given
    for campaign in others:
        if not campaigns.of_one_kind(first, campaign):
            raise SpecError(f"{first.name} and {campaign.name} did different work: rows, and requests", key="NAME")
    pairs = [(len(given) - 2, len(given) - 1)] if asked.history else [(0, place) for place in range(1, len(given))]
    compared = partial(campaigns.compare, others=len(others))
    if asked.history:
        _check_history(given, [one.runs for one in read])
        compared = partial(campaigns.compare, earlier=given[:-2])
    found = [_found(given[base], given[place], compared) for base, place in pairs]
    if asked.history:  # the last one before it may be left out
        pairs = [([one.name for one in given].index(found[0].history[-1][0]), len(given) - 1)]
    tables = [
        words.manifest_table(
            replace(one, first=given[base]), _spec_differences(one), (read[base].runs, read[place].runs)
        )
        for one, (base, place) in zip(found, pairs, strict=True)
    ]
    result = Gate.NOT_SLOWER if margin is None else campaigns.gate(found, margin)
    said = "" if margin is None else words.gate_of_campaigns_sentence(result, margin, found)
    paper = words.campaigns_paper(found, tables, said)
    # Only two are put beside each other: a chart of several predictions would not say which is whose.
    pair = of_campaigns(found[0], read[0].plan, read[1].plan) if len(given) == 2 and not asked.history else None
    if asked.history:
        rows = [
            (found[0].first.name, [ratio for _, ratio in found[0].history]),
            (given[-1].name, [found[0].overall.value]),
        ]
        paper = replace(paper, picture=dots(rows))
    elif pair is not None:
        predicted, measured = sorted(given, key=lambda one: one.findings.provenance == "measured")
        paper = with_beside(paper, *pair, predicted.name, measured.name)
    asked.deliver(paper, lambda: campaigns_json(found, paper, None if margin is None else result.text), pair)
    return result


def _show_prediction(name: str, file: Path, asked: Asked) -> Gate:
    read, known = asked.read(name), prediction.read(file)
    campaign = read.experiment.name
    basis = basis_of(read.experiment, read.plan, read.runs, asked.fit)
    found, names, alone = of_prediction(known, file, campaign, basis, read.plan)
    paper = prediction_paper(found, names, known, campaign, alone)
    asked.deliver(paper, lambda: beside_json(found, names, paper), (found, names))
    return Gate.NOT_SLOWER


def _check_history(given: Sequence[Campaign], runs: Sequence[Sequence[Run]]) -> None:
    """Raises SpecError unless all before the last are of one spec, and no one is a copy of another."""
    times = [[(one.cell_id, one.measurement.elapsed_s) for one in of if one.measurement] for of in runs]
    for place, of in enumerate(times):
        if of and of in times[:place]:
            both = f"{given[times.index(of)].name} and {given[place].name} hold the same runs"
            raise SpecError(both, key="NAME", hint="a copy shows no more: leave one of them out")
    latest = given[-2]
    for one in given[:-1]:
        changes = differences(one.experiment.canonical, latest.experiment.canonical)
        if listed := "".join(f"\n    {change}" for change in changes if not change.startswith(_OF_ITS_OWN)):
            raise SpecError(
                f"{one.name} has another spec than {latest.name}, the last before the new one:{listed}",
                key="--history", hint="name only campaigns of one spec; the new one's may differ",
            )  # fmt: skip


def _found(first: Campaign, second: Campaign, compared: Callable[[Campaign, Campaign], Compare]) -> Compare:
    try:
        return compared(first, second)
    except LookupError:
        factors = (", ".join(factor.name for factor in one.experiment.factors) or "none" for one in (first, second))
        hint = f"layouts are matched by the levels of their factors: {'; '.join(factors)}"
        if unknown := campaigns.varied_by_one(first, second):
            hint += f"\n  only one of them varies {', '.join(unknown)}, and the other's value is not one of its levels"
        problem = f"{first.name} and {second.name} have no layout in common that was run in both"
        raise SpecError(problem, key="NAME", hint=hint) from None


def _called(folders: Sequence[Path]) -> list[str]:
    """A short name for each: the folder's, or as much of its path as distinguishes it from the others."""
    resolved = [folder.resolve() for folder in folders]
    if len(set(resolved)) < len(resolved):
        raise SpecError("the same results are named twice", key="NAME", hint="name two campaigns")
    named = (["/".join(folder.parts[-parts:]) for folder in resolved] for parts in count(1))
    return next(names for names in named if len(set(names)) == len(names))


def _spec_differences(found: Compare) -> list[tuple[str, str, str]]:
    """(key, first, second) for each key in which the two specs differ."""
    rows = []
    for line in differences(found.first.experiment.canonical, found.second.experiment.canonical):
        name, _, change = line.partition(": ")
        before, arrow, after = change.partition(" -> ")
        rows.append((name, before if arrow else "", after if arrow else change))
    return rows


# --- A picture of runs in letters, which any program shows that shows text --------------------------------------------

_WIDTH = 60
_DOTS = "·:⁝"
"""One run, two, three or more at one place."""


def dots(rows: Sequence[tuple[str, Sequence[float]]]) -> tuple[str, ...]:
    """A line for each row of ratios, and the ends of the axis, which is logarithmic. `●` is a mean. No line if there is
    no ratio.
    """
    values = [value for _, ratios in rows for value in ratios]
    if not values or min(values) <= 0:
        return ()
    low, high = math.log(min(values)), math.log(max(values))
    left = max(len(name) for name, _ in rows)
    lines = [f"{name:<{left}}  {_line(ratios, low, high)}".rstrip() for name, ratios in rows]
    ends = f"x {numbers.significant(math.exp(low))}", f"x {numbers.significant(math.exp(high))}"
    return (*lines, f"{'':<{left}}  {ends[0]}{ends[1]:>{_WIDTH - len(ends[0])}}")


def _line(ratios: Sequence[float], low: float, high: float) -> str:
    def place(log: float) -> int:
        return round((log - low) / (high - low) * (_WIDTH - 1)) if high > low else _WIDTH // 2

    logs = [math.log(ratio) for ratio in ratios]
    at = [place(log) for log in logs]
    letters = [(" " + _DOTS)[min(at.count(one), len(_DOTS))] for one in range(_WIDTH)]
    if logs:
        letters[place(math.fsum(logs) / len(logs))] = "●"
    return "".join(letters)
