"""How far predictions were from what was measured: the errors of drawn cases, and intervals made of them.

`known_answers.toml` holds the errors, and says how they were made: `make bench ARGS="--only predictions"` draws, measures and
writes them. An interval holds the next error as often as it says if the next case is drawn like those (a conformal
prediction interval: the errors in order, without any assumption about their form).
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from importlib import resources

from storagelab.model.values import Estimate

FILE = "known_answers.toml"
_CONFIDENCES = (0.95, 0.9, 0.8)


@dataclass(frozen=True)
class Errors:
    """Absolute logarithms of measured over predicted ratios to the captured layout, one for each case: the largest of its
    layouts. So a case counts once, however many layouts it has.
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

    def around(self, value: float, of_drives: float = 0.0) -> Estimate:
        """The value with its interval. `of_drives`: a drive's own error, which the drawn cases' volumes did not have."""
        half = self.half_width
        if half is None or self.confidence is None:
            return Estimate(value=value)
        wide = math.exp(math.hypot(half, math.log1p(of_drives)))
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
