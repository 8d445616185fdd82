"""A prediction as a value, and its file."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from storagelab.errors import SpecError, StoreError
from storagelab.findings.basis import Basis
from storagelab.findings.beside import Beside, beside, speeds
from storagelab.model.plan import Plan
from storagelab.model.values import Described, Estimate, JsonValue
from storagelab.spec.given_files import json_of
from storagelab.words.names import cell_text, value_text

SCHEMA: Literal["storagelab.prediction/1"] = "storagelab.prediction/1"
PRESENT = "present"
"""The name of the captured layout."""


class VolumeLoad(Described):
    """What a layout does to one volume at the predicted rate."""

    volume: str
    requests_per_s: float
    bytes_per_s: float
    read_share: float | None
    """The share of reads among its requests; none without requests."""
    used_share: float | None
    """Its load as a share of what it can take; none if that can't be said."""


class LayoutPrediction(Described):
    """What to expect of one layout."""

    name: str
    per_s: Estimate | None
    """Transactions a second with their prediction interval; none if it can't be said."""
    latency_s: Estimate | None
    """The mean time of a transaction."""
    times_present: Estimate | None
    """Its rate over that of the captured layout."""
    at_most_per_s: float | None
    """No queue can make it faster than this."""
    limited_by: str
    """What it waits for most: a volume's reads or writes, the CPUs, or the sessions."""
    volumes: tuple[VolumeLoad, ...]
    cant_say: str = ""
    """Why nothing can be said; empty if something can."""


class Prediction(Described):
    """All layouts of one prediction. Without counted transactions, rates are multiples of the captured one."""

    schema_: Literal["storagelab.prediction/1"] = Field(default=SCHEMA, alias="schema")
    """The form of the file."""
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


def is_prediction(path: Path) -> bool:
    """Whether a file looks like a prediction's."""
    return path.suffix == ".json" and path.is_file()


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
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise StoreError(f"{path}: {key}: {first['msg']}\n  {hint}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}: can't be read: {getattr(error, 'strerror', error)}\n  {hint}") from None


# --- how far predictions were from what was measured ------------------------------------------------------------------
#
# The errors of drawn cases, and intervals made of them.
#
# `known_answers.toml` holds the errors, and says how they were made: `make bench ARGS="--only predictions"` draws,
# measures and writes them. An interval holds the next error as often as it says if the next case is drawn like those
# (a conformal prediction interval: the errors in order, without any assumption about their form).

FILE = "known_answers.toml"
_CONFIDENCES = (0.95, 0.9, 0.8)


@dataclass(frozen=True)
class Errors:
    """Absolute logarithms of measured over predicted ratios to the captured layout, one for each case: the largest of
    its layouts. So a case counts once, however many layouts it has.
    """

    logs: tuple[float, ...]

    @property
    def confidence(self) -> float | None:
        """How sure an interval can be; None if there are too few cases for any."""
        return next((one for one in _CONFIDENCES if self._place(one) <= len(self.logs)), None)

    @property
    def half_width(self) -> float | None:
        """Half of an interval on the logarithmic scale."""
        confidence = self.confidence
        return None if confidence is None else sorted(self.logs)[self._place(confidence) - 1]

    def around(self, value: float, of_drives: float = 0.0, crowding: float = 1.0) -> Estimate:
        """The value with its interval. `of_drives`: a drive's own error, which the drawn cases' volumes did not have;
        `crowding`: how much slower other work made the captured machine, which theirs did not have either.
        """
        half = self.half_width
        if half is None or self.confidence is None:
            return Estimate(value=value)
        wide = math.exp(math.hypot(half, math.log1p(of_drives))) * crowding
        return Estimate(value=value, low=value / wide, high=value * wide, confidence=self.confidence)

    def _place(self, confidence: float) -> int:
        return math.ceil((len(self.logs) + 1) * confidence)


def errors() -> Errors:
    """Those that come with storagelab."""
    text = resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    cases: list[dict[str, list[dict[str, float]]]] = tomllib.loads(text).get("case", [])
    return Errors(
        tuple(max(abs(math.log(one["measured"] / one["predicted"])) for one in case["layout"]) for case in cases)
    )


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
    """The names by which a prediction may mean a cell: its id, its levels, or the label of its only factor."""
    alone = [value_text(value) for value in levels.values()] if len(levels) == 1 else []
    return [cell_id, cell_text(levels), *alone]
