"""What `compare` adds where one side is measured and the other predicted: by `storagelab predict`, or by a
simulation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from storagelab.errors import SpecError
from storagelab.findings.basis import Basis, ratio_of
from storagelab.findings.beside import Beside, Ratio, beside
from storagelab.findings.campaigns import Compare
from storagelab.model.plan import Plan
from storagelab.model.values import Estimate, JsonValue
from storagelab.predicting.prediction import PRESENT, Prediction
from storagelab.report.words.predicted import beside_part, beside_sentence
from storagelab.report.words.table import Paper
from storagelab.words.names import cell_entry, cell_text, value_text


def speeds(basis: Basis, plan: Plan) -> Ratio:
    """The speed of one cell over another's, from the ratio of their times."""

    def of(one: str, other: str) -> Estimate | None:
        found = ratio_of(basis, plan, one, other)
        return None if found is None else found.inverse

    return of


def of_campaigns(found: Compare, first: Plan, second: Plan) -> tuple[Beside, dict[str, str]] | None:
    """A measured campaign and a simulated one: the comparison, and the layouts' texts. None if they are not such a
    pair.
    """
    kinds = (found.first.findings.provenance, found.second.findings.provenance)
    if set(kinds) != {"measured", "simulated"}:
        return None
    # Whichever is named first, the measured one is the truth.
    ids = [(one.first_id, one.second_id) for one in found.matched]
    campaigns, plans = (found.first, found.second), (first, second)
    if kinds[0] == "simulated":
        ids, campaigns, plans = [(two, one) for one, two in ids], campaigns[::-1], plans[::-1]
    measured, simulated = (speeds(one.basis, plan) for one, plan in zip(campaigns, plans, strict=True))
    base = ids[0]
    predicted = {base[0]: Estimate(value=1.0)}
    for name, of_simulated in ids[1:]:
        if (ratio := simulated(base[1], of_simulated)) is not None:
            # Its interval holds the scatter of repetitions, not the model's error: nothing can be missed by it.
            predicted[name] = Estimate(value=ratio.value)
    texts = {name: _text(name, campaigns[0].findings.cell(name).levels) for name in predicted}
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


def _text(cell_id: str, levels: Mapping[str, JsonValue]) -> str:
    return cell_entry(cell_id, cell_text(levels))


def with_beside(paper: Paper, found: Beside, names: Mapping[str, str], predicted: str, measured: str) -> Paper:
    """The paper, opened by what was predicted."""
    sentence = beside_sentence(found, predicted, measured)
    return replace(
        paper, verdict=f"{sentence} {paper.verdict}".strip(), parts=[beside_part(found, names), *paper.parts]
    )


def prediction_paper(
    found: Beside, names: Mapping[str, str], prediction: Prediction, campaign: str, alone: Sequence[str]
) -> Paper:
    notes = [f"Only in the prediction: {', '.join(alone)}."] if alone else []
    notes += [f"Not predicted: {one.name}: {one.cant_say}." for one in prediction.layouts if one.cant_say]
    name = f"the prediction from {prediction.capture}"
    paper = Paper(f"{campaign} and {name}", "measured and predicted", "", notes, ())
    return with_beside(paper, found, names, name, campaign)
