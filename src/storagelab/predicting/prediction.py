"""A prediction as a value, and its file."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from storagelab.errors import StoreError
from storagelab.model.values import Described, Estimate
from storagelab.spec.given_files import json_of

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
