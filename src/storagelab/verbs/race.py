"""The options of `storagelab run` for a race."""

from __future__ import annotations

from storagelab.errors import SpecError
from storagelab.model.plan import Race
from storagelab.model.values import share_of
from storagelab.spec.units import parse_seconds


def asked(*, find_best: bool, within: str | None, budget: str | None) -> tuple[Race | None, float | None]:
    """The race, and the seconds that it may take. Raises SpecError."""
    for name, value in (("--within", within), ("--budget", budget)):
        if value is not None and not find_best:
            raise SpecError("is an option of a race", key=name, hint="Add --find-best.")
    if not find_best:
        return None, None
    return Race(within=0.0 if within is None else _share(within)), None if budget is None else _seconds(budget)


def _share(text: str) -> float:
    share = share_of(text)
    if share is None or not 0 < share < 1:
        raise SpecError(f"{text!r} is no margin", key="--within", hint="Write a percentage above 0, such as 3%.")
    return share


def _seconds(text: str) -> float:
    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise SpecError(str(error), key="--budget", hint="Such as 90min or 2h.") from None
    if seconds <= 0:
        raise SpecError("must be above 0", key="--budget", hint="Such as 90min or 2h.")
    return seconds
