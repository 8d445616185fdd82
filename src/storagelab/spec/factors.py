"""The [factors] and [[exclude]] of a spec: the keys that vary, and the combinations that are left out."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic import JsonValue as AnyJson

from storagelab.errors import SpecError, choices, nearest, noting, refuse, shown
from storagelab.model.plan import Factor, Level, as_key
from storagelab.model.values import JsonValue
from storagelab.model.volume import PRICE
from storagelab.spec import keys, units

_WHOLE_EXPERIMENT = "holds for the whole experiment, so it can't differ between cells"
_CANNOT_VARY = dict.fromkeys((*keys.HEADER, "labels"), _WHOLE_EXPERIMENT) | {
    "repetitions": "must be the same for every cell, or the comparison would be unfair",
    "factors": "can't be varied by itself",
    "exclude": "defines what the matrix leaves out, so it can't be a factor",
}
_OF_THE_LOAD = ("workload",)
"""The tables of a spec that describe the load."""
_OF_THE_CONDITIONS = (*_OF_THE_LOAD, "between_runs", "measure", "layout.data_size_bytes")
"""The tables (and one single key) that set the conditions under which layouts are compared. All other keys (layout,
drives, server) are the user's choice. No other place in the code distinguishes conditions from choices."""
_LONGEST_LABEL = 24
_HIGHEST_PRICE = 10**9
_QUOTES = 'Put the path in quotes, with its dots: "layout.data_files" = ...'


def read_factors(raw: keys.Tables, base: keys.Tables) -> tuple[Factor, ...]:
    """Returns the factors. Checks each path and each level against `base`. Raises SpecError that names the key."""
    errors, read = list[SpecError](), list[Factor]()
    for name, levels in raw.items():
        with noting(errors):
            read.append(_factor(name, levels, base))
    refuse(errors)
    factors = tuple(read)
    owners: dict[str, str] = {}
    for factor in factors:
        for path in sorted({path for level in factor.levels for path in level.sets}):
            if path in owners:
                raise SpecError(
                    f"sets {path}, and so does the factor {shown(owners[path])}",
                    key=keys.dotted(("factors", factor.name)),
                    hint="One would override the other: let one factor set it, with labelled levels if needed.",
                )
            owners[path] = factor.name
    return factors


def with_labels(factors: Sequence[Factor], labels: object) -> tuple[Factor, ...]:
    """Returns the factors with their short names and with the prices of their levels. Raises SpecError if a label names
    a key that does not vary.
    """
    if not isinstance(labels, dict):
        hint = "Write [labels] on a line of its own, and the factors' short names below it."
        raise SpecError(f"must be a table, not {shown(labels)}", key="labels", hint=hint)
    varied = {
        factor.name: {factor.name, *(path for level in factor.levels for path in level.sets)} for factor in factors
    }
    known = list(dict.fromkeys(name for names in varied.values() for name in sorted(names)))
    prices = {name: _prices(factors, name, given) for name, given in _tables_of_prices(labels).items()}
    labels = {name: label for name, label in labels.items() if name != PRICE}
    for name, label in labels.items():
        if name not in known:
            hint = _QUOTES if isinstance(label, dict) else choices(name, known, "What varies")
            raise SpecError(f"nothing that varies is named {shown(name)}", key=keys.dotted(("labels", name)), hint=hint)
        if not isinstance(label, str) or not label.strip() or len(label) > _LONGEST_LABEL:
            problem = f"must be text in quotes of at most {_LONGEST_LABEL} characters, not {shown(label)}"
            raise SpecError(problem, key=keys.dotted(("labels", name)), hint='Such as "layout.data_files" = "files".')
    return tuple(
        factor.model_copy(
            update={
                "labels": {name: labels[name].strip() for name in labels if name in varied[factor.name]},
                "prices": prices.get(factor.name, {}),
            }
        )
        for factor in factors
    )


def _tables_of_prices(labels: keys.Tables) -> keys.Tables:
    given = labels.get(PRICE, {})
    if isinstance(given, dict) and all(isinstance(prices, dict) for prices in given.values()):
        return given
    hint = f'Such as [labels.{PRICE}] with the line "layout.log" = {{ a = 20, b = 90 }} below it.'
    raise SpecError("must name a factor, and the price of each of its levels", key=f"labels.{PRICE}", hint=hint)


def _prices(factors: Sequence[Factor], name: str, given: Mapping[str, Any]) -> dict[str, float]:
    """Maps each level of the factor `name`, as text, to its price. Raises SpecError if a level has no price."""
    of = next((factor for factor in factors if factor.name == name), None)
    key = ("labels", PRICE, name)
    if of is None:
        hint = choices(name, [factor.name for factor in factors], "The spec's factors")
        raise SpecError(f"no factor is named {shown(name)}", key=keys.dotted(key), hint=hint)
    levels = [as_key(level.value) for level in of.levels]
    for level, price in given.items():
        if level not in levels:
            raise SpecError(
                f"no level is {shown(level)}", key=keys.dotted(key), hint=choices(level, levels, "The factor's levels")
            )
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price <= _HIGHEST_PRICE:
            problem = f"must be a number from 0 to {_HIGHEST_PRICE:,}, not {shown(price)}"
            raise SpecError(problem, key=keys.dotted((*key, level)), hint="A month's price, such as 120.")
    if left := [level for level in levels if level not in given]:
        raise SpecError(f"has no price of {shown(left[0])}", key=keys.dotted(key), hint="Each level needs one.")
    return {level: float(price) for level, price in given.items()}


def _factor(name: str, levels: object, base: keys.Tables) -> Factor:
    place = ("factors", name)
    _refuse_what_cannot_vary(name, place)
    if isinstance(levels, dict):
        raise SpecError("must be a list of levels, not a table", key=keys.dotted(place), hint=_QUOTES)
    if not isinstance(levels, list):
        hint = f"Write a list: [{shown(levels)}, ...]. A fixed value belongs in its table, not here."
        raise SpecError(f"must be a list of levels, not {shown(levels)}", key=keys.dotted(place), hint=hint)
    if not levels:
        hint = "Give it levels, such as [1, 2, 4], or remove the line."
        raise SpecError("has no levels", key=keys.dotted(place), hint=hint)
    labelled = any(isinstance(level, dict) for level in levels)
    read = _labelled(name, levels, base) if labelled else _plain(name, levels, base)
    return Factor(name=name, levels=tuple(read))


def _refuse_what_cannot_vary(name: str, place: keys.Parts) -> None:
    if not name.strip():
        raise SpecError("a factor has no name", key=keys.dotted(place), hint=_QUOTES)
    reason = _CANNOT_VARY.get(name.partition(".")[0])
    if reason is not None:
        hint = "Write another spec for it, with its own name."
        raise SpecError(f"{name} {reason}", key=keys.dotted(place), hint=hint)


def is_condition(factor: Factor) -> bool:
    """Whether the factor's levels are conditions rather than choices. They are conditions if they set only the
    workload, the steps between runs, the measurement or the data's size. A factor that sets any other key counts as a
    choice.
    """
    return _sets_only(factor, _OF_THE_CONDITIONS)


def is_load(factor: Factor) -> bool:
    """Whether the factor's levels set only keys of the load. Every such factor is also a condition."""
    return _sets_only(factor, _OF_THE_LOAD)


def _sets_only(factor: Factor, tables: Collection[str]) -> bool:
    paths = {path for level in factor.levels for path in level.sets}
    return bool(paths) and all(path in tables or _table(path) in tables for path in paths)


def sets_load(factor: Factor) -> bool:
    """Whether any level of the factor changes the load."""
    return any(_table(path) in _OF_THE_LOAD for level in factor.levels for path in level.sets)


def _table(path: str) -> str:
    return path.partition(".")[0]


# ---------------------------------------------------------------------------------------------------------------------
# Levels
# ---------------------------------------------------------------------------------------------------------------------


def is_price(path: str) -> bool:
    """Whether a path names a volume's price. A price affects no run."""
    return _table(path) == "volumes" and path.endswith(f".{PRICE}")


def _plain(name: str, levels: Sequence[Any], base: keys.Tables) -> list[Level]:
    """Reads the levels of a factor whose name is the path of a key. Each level is a value of that key."""
    if is_price(name):
        hint = "Let labelled levels set it, each beside the keys of the volume that has this price."
        raise SpecError("affects no run, so it can't be a factor", key=keys.dotted(("factors", name)), hint=hint)
    _check_path(name, ("factors", name), base)
    read: list[Level] = []
    for position, value in enumerate(levels):
        place = ("factors", name, position)
        sets = _checked_sets(name, value, place, base)
        if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            hint = f'Write a table with a label for each: {{ label = "...", "{name}" = [...] }}.'
            raise SpecError("a list of tables has no short name for reports", key=keys.dotted(place), hint=hint)
        if twin := next((one for one in read if all(same(sets[path], one.sets[path]) for path in sets)), None):
            once = "" if same(value, twin.value) else f"It is the same as {shown(twin.value)}. "
            raise SpecError(
                f"{shown(value)} is listed twice", key=keys.dotted(place), hint=f"{once}Name each level once."
            )
        read.append(Level(value=value, sets=sets))
    return read


def _labelled(name: str, levels: Sequence[Any], base: keys.Tables) -> Iterator[Level]:
    """Reads labelled levels. Each level sets any number of keys. A level that sets no key leaves the spec unchanged."""
    labels: list[str] = []
    for position, level in enumerate(levels):
        place = ("factors", name, position)
        if not isinstance(level, dict):
            hint = 'Labelled and plain levels don\'t mix: write { label = "...", "layout.data_files" = 4 }.'
            raise SpecError(f"must be a table with a label, not {shown(level)}", key=keys.dotted(place), hint=hint)
        labels.append(_label(level, place, labels))
        sets: dict[str, AnyJson] = {}
        for path, value in level.items():
            if path != "label":
                _check_path(path, (*place, path), base)
                sets |= _checked_sets(path, value, (*place, path), base)
        yield Level(value=labels[-1], sets=sets)
    _refuse_misleading_name(name, levels)


def _label(level: keys.Tables, place: keys.Parts, earlier: Sequence[str]) -> str:
    label = level.get("label")
    if label is None:
        hint = 'A level that is a table needs a label: { label = "4 KB sectors", ... }.'
        raise SpecError("has no label", key=keys.dotted(place), hint=hint)
    if not isinstance(label, str) or not label.strip():
        raise SpecError(f"must be text in quotes, not {shown(label)}", key=keys.dotted((*place, "label")))
    if label in earlier:
        hint = "Give each level its own label."
        raise SpecError(
            f"{shown(label)} is also the label of another level", key=keys.dotted((*place, "label")), hint=hint
        )
    return label


def _refuse_misleading_name(name: str, levels: Sequence[keys.Tables]) -> None:
    """Refuses a labelled factor that is named after a key but does not set that key, because its name in reports would
    mislead.
    """
    try:
        keys.split_path(name)
    except LookupError:
        return
    if not any(name in level for level in levels):
        hint = "Give the factor a name that is not a key of the spec, or let its levels set that key."
        raise SpecError(
            f"is named after the key {name}, but does not set it", key=keys.dotted(("factors", name)), hint=hint
        )


def _check_path(path: str, place: keys.Parts, base: keys.Tables) -> None:
    """Refuses a path that names no key, and a path that names a volume or drive that the spec does not declare."""
    known = keys.known_paths(base)
    if path.partition(".")[0] in _CANNOT_VARY:
        _refuse_what_cannot_vary(path, place)
    try:
        parts = keys.split_path(units.without_unit(path))
    except LookupError as error:
        near = nearest(path, known)
        inside = [one for one in known if one.startswith(f"{path}.")]
        if inside:
            hint = f"Name one key of it, in quotes: {', '.join(inside)}."
        elif near is not None:
            hint = f'Did you mean "{near}"? A free name needs levels with labels: {{ label = "...", ... }}.'
        else:
            hint = choices(path, known, "A factor can be")
        raise SpecError(f"{shown(path)} {error}", key=keys.dotted(place), hint=hint) from None
    for table, what in (("volumes", "volume"), ("drives", "drive")):
        declared = base.get(table, {})
        if parts[0] == table and parts[1] not in declared:
            hint = choices(parts[1], declared, f"The spec's {table}")
            raise SpecError(f"no {what} is named {shown(parts[1])}", key=keys.dotted(place), hint=hint)


def _checked_sets(path: str, value: object, place: keys.Parts, base: keys.Tables) -> dict[str, AnyJson]:
    """Returns the keys that a level sets, with their values. Each value is checked alone, so the spec may still lack
    other keys.
    """
    try:
        path, value = units.value_with_unit(path, value)
    except ValueError as error:
        raise SpecError(str(error), key=keys.dotted(place)) from None
    parts = keys.split_path(path)
    tables = keys.put(base, {path: value})
    for problem in keys.problems(keys.Written, tables):
        if problem.kind == "wrong" and problem.parts[: len(parts)] == parts:
            raise keys.error_for(problem, keys.Written, tables, key=keys.dotted(place))
    return {path: value}  # type: ignore[dict-item]


def same(one: object, other: object) -> bool:
    """Whether two levels are the same. 1 and 1.0 are the same, but 1 and true are not."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


# ---------------------------------------------------------------------------------------------------------------------
# Exclusions
# ---------------------------------------------------------------------------------------------------------------------


def read_excludes(raw: object, factors: Sequence[Factor]) -> tuple[dict[str, JsonValue], ...]:
    """Returns the combinations that are not run. Each maps names of factors to levels. Raises SpecError that names the
    key.
    """
    if not isinstance(raw, list) or not all(isinstance(entry, dict) for entry in raw):
        hint = "Write [[exclude]], in double brackets, on a line of its own, and the factors' levels below it."
        raise SpecError("must be a list of tables", key="exclude", hint=hint)
    return tuple(_exclude(entry, ("exclude", position), factors) for position, entry in enumerate(raw))


def _exclude(entry: keys.Tables, place: keys.Parts, factors: Sequence[Factor]) -> dict[str, JsonValue]:
    by_name = {factor.name: factor for factor in factors}
    if not entry:
        hint = (
            'Name factors and their levels: "layout.data_files" = 8. It leaves out the cells that match all its lines.'
        )
        raise SpecError("names no factor", key=keys.dotted(place), hint=hint)
    read: dict[str, JsonValue] = {}
    for name, value in entry.items():
        key = keys.dotted((*place, name))
        if name not in by_name:
            hint = _QUOTES if isinstance(value, dict) else choices(name, by_name, "The spec's factors")
            raise SpecError(f"no factor is named {shown(name)}", key=key, hint=hint)
        levels = [level.value for level in by_name[name].levels]
        match = [level for level in levels if same(level, value)]
        if not match:
            raise SpecError(f"{shown(value)} is not a level of {name}", key=key, hint=_level_hint(value, levels))
        read[name] = match[0]
    return read


def _level_hint(value: object, levels: Sequence[JsonValue]) -> str:
    listed = f"Its levels: {', '.join(shown(level) for level in levels)}."
    if isinstance(value, list) and any(same(item, level) for item in value for level in levels):
        return f"{listed} Write one [[exclude]] for each."
    written = {str(level) if isinstance(level, str) else json.dumps(level): level for level in levels}
    near = nearest(value if isinstance(value, str) else json.dumps(value, default=str), written)
    return (f"Did you mean {shown(written[near])}? " if near else "") + listed
