"""A prediction as a value, and its file."""

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
"""The name of the captured layout."""


class VolumeLoad(Described):
    """The load of a layout on one volume at the predicted rate."""

    volume: str
    requests_per_s: float
    bytes_per_s: float
    read_share: float | None
    """The fraction of reads among its requests; none without requests."""
    used_share: float | None
    """Its utilisation: load divided by capacity; none if unknown."""


class LayoutPrediction(Described):
    """The prediction for one layout."""

    name: str
    per_s: Estimate | None
    """Transactions a second with their prediction interval; none if unknown."""
    latency_s: Estimate | None
    """The mean time of a transaction."""
    times_present: Estimate | None
    """Its rate divided by the captured layout's rate."""
    at_most_per_s: float | None
    """The upper bound of the rate, without any queueing."""
    moved: float | None = None
    """The fraction of the captured requests that go to another volume than before."""
    limited_by: str
    """The bottleneck: a volume's reads or writes, the CPUs, or the sessions."""
    volumes: tuple[VolumeLoad, ...]
    cant_say: str = ""
    """Why there is no prediction; empty if there is one."""


class Prediction(Described):
    """All layouts of one prediction. Without counted transactions, rates are multiples of the captured one."""

    schema_: Literal["storagelab.prediction/1"] = Field(default=SCHEMA, alias="schema")
    """The version of the file's format."""
    capture: str
    engine: str
    captured_per_s: float | None
    unit: Literal["transaction", "unit"] = "transaction"
    """What is counted: units if the server could not tell all transactions."""
    sessions: float
    layouts: tuple[LayoutPrediction, ...]
    notes: tuple[str, ...]


def as_text(prediction: Prediction) -> str:
    return json.dumps(prediction.model_dump(by_alias=True, mode="json"), indent=1, ensure_ascii=False) + "\n"


def read(path: Path) -> Prediction:
    """Raises StoreError that names the file, what is wrong, and the way out."""
    hint = "Write it with `storagelab predict CAPTURE --volumes FILE --format json -o prediction.json`."
    try:
        found = json_of(path, 2**26)
        schema = found.get("schema") if isinstance(found, dict) else None
        if schema != SCHEMA:
            raise StoreError(f"{path}: schema: is {schema!r}, and this storagelab reads {SCHEMA}\n  {hint}")
        return Prediction.model_validate(found)
    except ValidationError as error:
        raise StoreError(f"{path}: {first_problem(error)}\n  {hint}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}: can't be read: {getattr(error, 'strerror', error)}\n  {hint}") from None


# --- how far predictions were from what was measured ------------------------------------------------------------------
# The errors of known cases, and intervals that follow from these errors.
#
# `known_answers.toml` holds random cases, and says how they were made: `make bench ARGS="--only predictions"` and
# `"--only recommended"` generate, measure and write them. A user's own cases are in a file of the same form. If the
# next case is like the known cases, each end of an interval is exceeded with the stated probability (a conformal
# prediction interval, from the ordered errors, without any assumption about their distribution). The layouts of a case
# share their causes of error, so each case has the same weight, which its layouts divide equally (hierarchical
# conformal prediction: Dunn, Wasserman and Ramdas, 2022). Each error is divided by the quantity with which errors
# usually grow (a normalised interval): the part of the load that moves, and the predicted change.

FILE, OWN_FILE = "known_answers.toml", "known-predictions.toml"
_CONFIDENCES = (0.9, 0.8)
"""Of intervals with two ends. The ends of a 90 % interval are exceeded in 5 % of the cases each: so a proposal whose
interval lies above today's rate is slower than today's layout in at most 5 % of the cases."""
_STILL = 0.1
"""The part of an error that does not grow with the moved fraction of the load, in units of this fraction."""


def spread(moved: float | None, times: float) -> float:
    """The usual size of an error, in an arbitrary unit. `moved` is the fraction of the requests that move, None if
    unknown. `times` is the predicted ratio to the captured layout. Independent errors add up as squares.
    """
    return math.sqrt(_STILL + (1.0 if moved is None else moved) + math.log(times) ** 2)


class KnownLayout(Frozen):
    """Ratios to the captured layout. `moved`: None in cases from versions that did not store it, which no longer
    count for intervals.
    """

    name: str
    predicted: float = Field(gt=0, allow_inf_nan=False)
    measured: float = Field(gt=0, allow_inf_nan=False)
    moved: float | None = Field(None, ge=0, le=1)

    @property
    def error(self) -> float:
        """The logarithm of measured over predicted, divided by its usual size."""
        return math.log(self.measured / self.predicted) / spread(self.moved, self.predicted)


class KnownCase(Frozen):
    """A case that was predicted and then measured; `case` is its name."""

    engine: str
    case: str
    layout: tuple[KnownLayout, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Errors:
    """The data for intervals: the known cases that are most like the predicted case; each has the errors of its
    layouts, as `KnownLayout.error`.
    """

    cases: tuple[tuple[float, ...], ...]
    of: str
    """A description of these cases, for messages."""

    @property
    def confidence(self) -> float | None:
        """The highest possible confidence of an interval; None if there are too few cases for any interval."""
        return next((one for one in _CONFIDENCES if self._beyond(one) >= 1), None)

    def around(self, value: float, usual: float = 1.0, of_drives: float = 0.0) -> Estimate:
        """The value with its interval. `usual`: the prediction's `spread`. `of_drives`: a drive's own error, which the
        volumes of the known cases did not have.
        """
        if self.confidence is None:
            return Estimate(value=value)
        below, above = (
            math.exp(math.hypot(usual * self._end(sign, self.confidence), math.log1p(of_drives))) for sign in (-1, 1)
        )
        return Estimate(value=value, low=value / below, high=value * above, confidence=self.confidence)

    def _end(self, sign: int, confidence: float) -> float:
        """The error, times `sign`, that an error exceeds with half of the remaining probability. The predicted case is
        one more case, of which nothing is known.
        """
        beyond, allowed = 1.0, self._beyond(confidence)
        for error, weight in sorted(((sign * one, 1 / len(case)) for case in self.cases for one in case), reverse=True):
            beyond += weight
            if beyond > allowed:
                return max(0.0, error)
        return 0.0

    def _beyond(self, confidence: float) -> float:
        """The number of cases, including the predicted one, that may lie beyond an end, with a margin for rounding."""
        return (len(self.cases) + 1) * (1 - confidence) / 2 + 1e-9


def errors_like(cases: Sequence[KnownCase], engine: str) -> Errors:
    """The errors of this engine's cases if there are enough of them for the highest confidence, otherwise the errors of
    all engines' cases.
    """
    of_engine = _errors([one for one in cases if one.engine == engine], f"known cases of {engine}")
    return of_engine if of_engine.confidence == _CONFIDENCES[0] else _errors(cases, "known cases")


def _errors(cases: Iterable[KnownCase], of: str) -> Errors:
    """Of cases whose moved fractions are known."""
    some = (one.layout for one in cases if all(layout.moved is not None for layout in one.layout))
    return Errors(tuple(tuple(one.error for one in layouts) for layouts in some), of)


def known_cases(own: Path | None = None) -> list[KnownCase]:
    """The known cases of storagelab and of the user's own file. Raises StoreError if that file can't be read."""
    text = resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return [*_cases(text), *([] if own is None else own_cases(own))]


def own_cases(own: Path) -> list[KnownCase]:
    """The user's own cases; empty without the file. Raises StoreError."""
    try:
        return _cases(text_of(own))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        hint = "Repair the file, or move it away: `compare CAMPAIGN PREDICTION` writes it anew."
        known = first_problem(error) if isinstance(error, ValidationError) else str(error)
        reason = getattr(error, "strerror", None) or known
        raise StoreError(f"{own}: can't be read as known cases: {reason}\n  {hint}") from None


def _cases(text: str) -> list[KnownCase]:
    return [KnownCase.model_validate(one) for one in tomllib.loads(text)["case"]]


def as_toml(cases: Iterable[KnownCase]) -> str:
    """The cases as a file's text."""
    lines = []
    for one in cases:
        lines += ["", "[[case]]", f"engine = {json.dumps(one.engine)}", f"case = {json.dumps(one.case)}", "layout = ["]
        for layout in one.layout:
            moved = "" if layout.moved is None else f", moved = {layout.moved:.4f}"
            ratios = f"predicted = {layout.predicted:.4f}, measured = {layout.measured:.4f}"
            lines.append(f"  {{ name = {json.dumps(layout.name)}, {ratios}{moved} }},")
        lines.append("]")
    return "\n".join(lines) + "\n"


# --- beside what was measured -----------------------------------------------------------------------------------------


def beside_measured(
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
    """The names by which a prediction may refer to a cell: its id, its levels, or the label of its only factor."""
    alone = [value_text(value) for value in levels.values()] if len(levels) == 1 else []
    return [cell_id, cell_text(levels), *alone]
