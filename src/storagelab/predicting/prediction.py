"""The values of a prediction, their file, and the intervals of predictions."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from storagelab.errors import SpecError, StoreError, first_problem
from storagelab.findings.basis import Basis
from storagelab.findings.beside import Beside, beside, speeds
from storagelab.model.plan import Plan
from storagelab.model.values import Described, Estimate, Frozen, JsonValue
from storagelab.spec.given_files import json_of, text_of
from storagelab.words.names import cell_text, value_text

SCHEMA: Literal["storagelab.prediction/1"] = "storagelab.prediction/1"
PRESENT = "present"
"""The name of the captured layout in predictions."""


class VolumeLoad(Described):
    """The load of a layout on one volume, at the predicted rate."""

    volume: str
    requests_per_s: float
    bytes_per_s: float
    read_share: float | None
    """The fraction of reads among the requests. The value is None if there are no requests."""
    used_share: float | None
    """The utilisation of the volume: load divided by capacity. The value is None if it is unknown."""


class LayoutPrediction(Described):
    """The prediction for one layout."""

    name: str
    per_s: Estimate | None
    """Transactions a second with their prediction interval. The value is None if it is unknown."""
    latency_s: Estimate | None
    """The mean time of a transaction, in seconds."""
    times_present: Estimate | None
    """The layout's rate divided by the captured layout's rate."""
    at_most_per_s: float | None
    """An upper bound of the rate: the rate without any queueing."""
    moved: float | None = None
    """The fraction of the captured requests that go to another volume than before."""
    limited_by: str
    """The bottleneck: a volume's reads or writes, the CPUs, or the sessions."""
    volumes: tuple[VolumeLoad, ...]
    cant_say: str = ""
    """The reason why there is no prediction. It is empty if there is a prediction."""


class Prediction(Described):
    """The prediction of all layouts. If the capture has no counts of transactions, rates are multiples of the captured
    rate.
    """

    schema_: Literal["storagelab.prediction/1"] = Field(default=SCHEMA, alias="schema")
    """The version of the file's format."""
    capture: str
    engine: str
    captured_per_s: float | None
    unit: Literal["transaction", "unit"] = "transaction"
    """What is counted: transactions, or units if the server can't show all transactions."""
    sessions: float
    layouts: tuple[LayoutPrediction, ...]
    notes: tuple[str, ...]


def as_text(prediction: Prediction) -> str:
    return json.dumps(prediction.model_dump(by_alias=True, mode="json"), indent=1, ensure_ascii=False) + "\n"


def read(path: Path) -> Prediction:
    """The prediction in a file. Raises StoreError, which names the file, the problem and the solution."""
    hint = "Write it with `storagelab predict CAPTURE --volumes FILE --format json -o prediction.json`."
    try:
        found = json_of(path, 2**26)
        schema = found.get("schema") if isinstance(found, dict) else None
        if schema != SCHEMA:
            raise StoreError(f"{path}: schema: is {schema!r}, but this storagelab reads {SCHEMA}\n  {hint}")
        return Prediction.model_validate(found)
    except ValidationError as error:
        raise StoreError(f"{path}: {first_problem(error)}\n  {hint}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}: can't be read: {getattr(error, 'strerror', error)}\n  {hint}") from None


# --- known cases, and the intervals of predictions --------------------------------------------------------------------
# Intervals follow from the errors of known cases, which were predicted and then measured.
#
# `known_answers.toml` has random cases. They were generated, measured and written by `make bench ARGS="--only
# predictions"` and `"--only recommended"`. Users can have their own cases, in a file of the same form. If the next case
# is like the known cases, each end of an interval is exceeded with the stated probability. Such a conformal prediction
# interval needs only the sorted errors, and no assumption about their distribution.
#
# The layouts of a case have common causes of error. So each case has the same weight, which is divided equally among
# its layouts (hierarchical conformal prediction: Dunn, Wasserman and Ramdas, 2022). Intervals are normalised: each
# error is divided by its usual size. This size grows with the part of the load that moves, and with the predicted
# change.

FILE, OWN_FILE = "known_answers.toml", "known-predictions.toml"
_CONFIDENCES = (0.9, 0.8)
"""The possible confidences of an interval. With 0.9, each end of the interval is exceeded in 5 % of the cases. So if a
proposal's interval is above today's rate, the proposal is slower than today's layout in at most 5 % of the cases.
"""
_STILL = 0.1
"""The part of an error that does not grow with the moved fraction of the load. Its unit is that of the
moved fraction.
"""


def spread(moved: float | None, times: float) -> float:
    """The usual size of a prediction's error, in an arbitrary unit. `moved`: the fraction of the requests that move, or
    None if unknown. `times`: the predicted ratio to the captured layout. The parts are independent, so their squares
    are added.
    """
    return math.sqrt(_STILL + (1.0 if moved is None else moved) + math.log(times) ** 2)


class KnownLayout(Frozen):
    """A layout of a known case: its predicted and its measured rate, as ratios to the captured layout. `moved` is the
    fraction of the requests that move. It is None in cases of versions that did not store it. Such cases are not used
    for intervals.
    """

    name: str
    predicted: float = Field(gt=0, allow_inf_nan=False)
    measured: float = Field(gt=0, allow_inf_nan=False)
    moved: float | None = Field(None, ge=0, le=1)

    @property
    def error(self) -> float:
        """The logarithm of measured over predicted, divided by the error's usual size."""
        return math.log(self.measured / self.predicted) / spread(self.moved, self.predicted)


class KnownCase(Frozen):
    """A case that was predicted and then measured. `case` is its name."""

    engine: str
    case: str
    layout: tuple[KnownLayout, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Errors:
    """The errors from which intervals are made: those of the known cases that are most like the predicted case. A case
    has a tuple of errors, one for each layout (`KnownLayout.error`).
    """

    cases: tuple[tuple[float, ...], ...]
    of: str
    """Words that describe these cases in messages."""

    @property
    def confidence(self) -> float | None:
        """The highest confidence that an interval can have, or None if there are too few cases for any interval."""
        return next((one for one in _CONFIDENCES if self._beyond(one) >= 1), None)

    def around(self, value: float, usual: float = 1.0, of_drives: float = 0.0) -> Estimate:
        """The value with its interval. `usual` is the usual size of its error (`spread`). `of_drives` is the error of a
        measured drive, which the volumes of the known cases did not have.
        """
        if self.confidence is None:
            return Estimate(value=value)
        below, above = (
            math.exp(math.hypot(usual * self._end(sign, self.confidence), math.log1p(of_drives))) for sign in (-1, 1)
        )
        return Estimate(value=value, low=value / below, high=value * above, confidence=self.confidence)

    def _end(self, sign: int, confidence: float) -> float:
        """An error (`sign` = 1) or negative error (-1). It is exceeded with at most half of the probability that
        `confidence` leaves. The predicted case counts as one more case, whose error may have any size.
        """
        beyond, allowed = 1.0, self._beyond(confidence)
        for error, weight in sorted(((sign * one, 1 / len(case)) for case in self.cases for one in case), reverse=True):
            beyond += weight
            if beyond > allowed:
                return max(0.0, error)
        return 0.0

    def _beyond(self, confidence: float) -> float:
        """How many cases, including the predicted one, may lie beyond an end. Allows for rounding errors."""
        return (len(self.cases) + 1) * (1 - confidence) / 2 + 1e-9


def errors_like(cases: Sequence[KnownCase], engine: str) -> Errors:
    """The errors of this engine's cases, if these cases are enough for the highest confidence. Otherwise the errors of
    the cases of all engines.
    """
    of_engine = _errors([one for one in cases if one.engine == engine], f"known cases of {engine}")
    return of_engine if of_engine.confidence == _CONFIDENCES[0] else _errors(cases, "known cases")


def _errors(cases: Iterable[KnownCase], of: str) -> Errors:
    """The errors of those cases whose moved fractions are known. `of` describes the cases."""
    some = (one.layout for one in cases if all(layout.moved is not None for layout in one.layout))
    return Errors(tuple(tuple(one.error for one in layouts) for layouts in some), of)


def known_cases(own: Path | None = None) -> list[KnownCase]:
    """The known cases of storagelab and those of the user's own file. Raises StoreError if this file can't be read."""
    text = resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return [*_cases(text), *([] if own is None else own_cases(own))]


def own_cases(own: Path) -> list[KnownCase]:
    """The user's own cases, or [] if the file does not exist. Raises StoreError."""
    try:
        return _cases(text_of(own))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        hint = "Repair the file, or move it away: then `compare CAMPAIGN PREDICTION` writes a new one."
        known = first_problem(error) if isinstance(error, ValidationError) else str(error)
        reason = getattr(error, "strerror", None) or known
        raise StoreError(f"{own}: can't be read as known cases: {reason}\n  {hint}") from None


def _cases(text: str) -> list[KnownCase]:
    return [KnownCase.model_validate(one) for one in tomllib.loads(text)["case"]]


def as_toml(cases: Iterable[KnownCase]) -> str:
    """The text of a file with these cases."""
    lines = []
    for one in cases:
        lines += ["", "[[case]]", f"engine = {json.dumps(one.engine)}", f"case = {json.dumps(one.case)}", "layout = ["]
        for layout in one.layout:
            moved = "" if layout.moved is None else f", moved = {layout.moved:.4f}"
            ratios = f"predicted = {layout.predicted:.4f}, measured = {layout.measured:.4f}"
            lines.append(f"  {{ name = {json.dumps(layout.name)}, {ratios}{moved} }},")
        lines.append("]")
    return "\n".join(lines) + "\n"


# --- comparison with a measured campaign ------------------------------------------------------------------------------


def beside_measured(
    prediction: Prediction, file: Path, campaign: str, basis: Basis, plan: Plan
) -> tuple[Beside, dict[str, str], list[str]]:
    """Compares a prediction with a measured campaign. Returns the comparison, the names of the compared layouts by cell
    ID, and the names of layouts that were only predicted. Raises SpecError if no layout was both predicted and
    measured.
    """
    known = {name: cell.cell_id for cell in plan.cells for name in _names(cell.cell_id, cell.levels)}
    said = {one.name: one.times_present for one in prediction.layouts if one.times_present is not None}
    shared = [name for name in said if name in known]
    if not shared:
        hint = (
            f"Layouts are matched by name: {file} has {', '.join(said) or 'none'}; {campaign} has {', '.join(known)}."
        )
        raise SpecError("the campaign measured no layout of the prediction", file=file, key="layouts", hint=hint)
    base = PRESENT if PRESENT in shared else shared[0]
    # If the base is not the captured layout, the relative widths of the ratios stay the same.
    predicted = {known[name]: _over(said[name], said[base], same=name == base) for name in shared}
    texts = {known[name]: name for name in shared}
    return beside(known[base], speeds(basis, plan), predicted), texts, [name for name in said if name not in known]


def _over(one: Estimate, base: Estimate, *, same: bool) -> Estimate:
    if same:
        return Estimate(value=1.0)
    ends = {name: None if (end := getattr(one, name)) is None else end / base.value for name in ("low", "high")}
    return one.model_copy(update={"value": one.value / base.value, **ends})


def _names(cell_id: str, levels: Mapping[str, JsonValue]) -> list[str]:
    """The names that a prediction may use for a cell: its ID, its levels, or the label of its only factor."""
    alone = [value_text(value) for value in levels.values()] if len(levels) == 1 else []
    return [cell_id, cell_text(levels), *alone]
