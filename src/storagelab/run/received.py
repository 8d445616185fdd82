"""Checks what a store or another machine says of an experiment, as the reader of specs checks a spec.

Whoever made it may have made it by hand, and its texts and numbers go to the same places as a spec's: paths, terminals,
pages, the sizes of plans. `Run` and `Measurement` hold the limits of runs.
"""

from __future__ import annotations

from collections.abc import Mapping

from storagelab.errors import SpecError
from storagelab.model.plan import Experiment
from storagelab.spec import foreign, reading

_SMALL_WORLDS = "/small"
"""The end of the name of experiments that earlier versions made for a race."""


def checked(experiment: Experiment) -> Experiment:
    """The experiment. Raises SpecError, naming the key, if no spec could have declared it.

    Its cells are checked as the plan is made.
    """
    reading.refuse_odd_name(experiment.name.removesuffix(_SMALL_WORLDS))
    said = experiment.model_dump(
        include={"name", "question", "costly", "factors", "excludes", "fleet"}, exclude_none=True
    )
    for content in ({name: _with_lists(value) for name, value in said.items()}, experiment.canonical, experiment.base):
        foreign.refuse_odd_values(content)
    _refuse_odd_order(experiment.canonical.get("listed"))
    if all(isinstance(experiment.base.get(table, {}), Mapping) for table in ("volumes", "drives")):
        reading.refuse_odd_places(experiment.base)
    return experiment


def _with_lists(value: object) -> object:
    """As TOML has it: without tuples."""
    match value:
        case dict():
            return {name: _with_lists(inside) for name, inside in value.items()}
        case list() | tuple():
            return [_with_lists(inside) for inside in value]
    return value


def _refuse_odd_order(listed: object) -> None:
    """`canonical` keeps the order of some names beside the spec's own keys; two specs are compared by it."""
    match listed:
        case None:
            return
        case dict() if all(isinstance(names, list) and _are_texts(names) for names in listed.values()):
            return
    raise SpecError("is no table of names in order", key="canonical.listed", hint="")


def _are_texts(values: list[object]) -> bool:
    return all(isinstance(value, str) for value in values)
