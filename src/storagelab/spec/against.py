"""Two specs -> one experiment that runs their cells alternately. The differences between the specs become the two
levels of one factor.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from storagelab.errors import SpecError
from storagelab.model.plan import Experiment
from storagelab.spec import keys, reading
from storagelab.spec.keys import leaves, line

FACTOR = "spec"
_LONGEST_NAME = 64
_NAMED_TABLES = ("volumes", "drives")
_OF_THE_FIRST = ("name", "question", "order", *keys.JUDGEMENT)
"""Keys of the first spec that may differ in the second."""


def load(spec: Path, second: Path | None) -> Experiment:
    """The experiment of one spec, or of two. Raises SpecError."""
    return reading.load(spec) if second is None else against(spec, second)


def against(first: Path, second: Path) -> Experiment:
    """The experiment that compares the two specs under equal conditions. Its runs are in a random order, whatever the
    specs say. Raises SpecError if a spec is wrong, or if the two differ in keys that all cells of an experiment share.
    """
    one, other = reading.load(first), reading.load(second)
    if first.resolve().parent != second.resolve().parent:
        hint = f"Move it into {first.parent}: relative paths start at the folder of the specs."
        raise SpecError("is in another folder than the spec that it is compared with", file=str(second), hint=hint)
    written = [tomllib.loads(spec.text) for spec in (one, other)]
    _refuse_other_experiment(written[0], written[1], second)
    text = _text(one, other, [first.stem, second.stem], written)
    return reading.parse(text, str(first.with_name(f"{first.stem} against {second.name}")))


def _refuse_other_experiment(first: keys.Tables, second: keys.Tables, file: Path) -> None:
    for name in (*keys.HEADER, "factors", "exclude"):
        if name not in _OF_THE_FIRST and first.get(name) != second.get(name):
            hint = "Write the same into both specs: only the tables of a cell may differ, such as [target] or [layout]."
            raise SpecError("differs from the spec that it is compared with", file=str(file), key=name, hint=hint)
    for table in _NAMED_TABLES:
        for name in sorted(first.get(table, {}).keys() ^ second.get(table, {}).keys()):
            hint = f"Declare the same {table} in both specs; layout says which of them a cell uses."
            raise SpecError("only one of the two specs has it", file=str(file), key=f"{table}.{name}", hint=hint)
    if FACTOR in first.get("factors", {}):
        hint = "Give your factor another name."
        problem = "is reserved for the factor that stands for the two specs"
        raise SpecError(problem, file=str(file), key=f"factors.{FACTOR}", hint=hint)


def _text(one: Experiment, other: Experiment, names: Sequence[str], written: Sequence[keys.Tables]) -> str:
    """The experiment as a spec: the keys that are the same in both, and a level with the other keys of each."""
    first = written[0]
    cells = [dict(leaves({table: spec[table] for table in keys.TABLES if table in spec})) for spec in written]
    same = {place: value for place, value in cells[0].items() if place in cells[1] and cells[1][place] == value}
    # A table without keys is no value of a key.
    own = [
        {".".join(place): value for place, value in cell.items() if place not in same and value != {}} for cell in cells
    ]
    if not any(own):
        raise SpecError(
            "says the same as the other spec", file=other.source, hint="Change there what is to be compared."
        )
    levels = [{"label": name, **sets} for name, sets in zip(names, own, strict=True)]
    header = {
        **{name: first[name] for name in keys.HEADER if name in first},
        "name": f"{one.name}-against-{other.name}"[:_LONGEST_NAME].rstrip("._-"),
        "order": "randomised",
    }
    of_the_first = {name: first[name] for name in ("labels", "exclude") if name in first}
    return "\n".join([
        f"# {names[0]} against {names[1]}: what differs between the two is the factor {FACTOR}.",
        *(line((name,), value) for name, value in header.items()),
        *(line(place, value) for place, value in (same | _declared(first, same)).items()),
        *(line((name,), value) for name, value in of_the_first.items()),
        *(line(("factors", name), value) for name, value in {FACTOR: levels, **first.get("factors", {})}.items()),
        "",
    ])  # fmt: skip


def _declared(spec: keys.Tables, same: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], Any]:
    """The volumes and drives that have the same name in both specs, but different keys."""
    there = {place[:2] for place in same}
    names = ((table, name) for table in _NAMED_TABLES for name in spec.get(table, {}))
    return {place: {} for place in names if place not in there}
