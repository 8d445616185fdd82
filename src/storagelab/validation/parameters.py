"""Every parameter of the model with its label and source: the server's costs, the figures of the drives' profiles, and the
defaults and constants of the core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from storagelab import profiles
from storagelab.model.values import Frozen, Scalar
from storagelab.profiles import Figure
from storagelab.profiles.declared import Label, constants


class Parameter(Frozen):
    """A parameter of the server or a drive, its `owner`. Those to fit have `bounds`, and `fitted_on` once they are fitted."""

    owner: str
    name: str
    value: Scalar
    label: Label
    source: str
    bounds: tuple[int | float, int | float] | None = None
    fitted_on: tuple[str, ...] = ()


def parameters(profile_names: Sequence[str]) -> tuple[Parameter, ...]:
    """The parameters of the server, then of each named ready-made profile, then those that are in no profile."""
    return tuple(_all(profile_names))


def _all(profile_names: Sequence[str]) -> Iterator[Parameter]:
    for name, cost in profiles.server().costs.items():
        yield _of("the server", name, cost)
    for profile_name in dict.fromkeys(profile_names):
        profile = profiles.load(profile_name, Path())
        for name, figure in profile.figures():
            yield _of(f"the drive {profile.name}", name, figure)
    for constant in constants():
        yield Parameter(**constant.model_dump(exclude={"is_default"}))


def _of(owner: str, name: str, figure: Figure) -> Parameter:
    return Parameter(owner=owner, name=name, **figure.model_dump())
