"""The keys of a spec: their names, their possible values, and messages about wrong keys and values.

Names and values come from the model's JSON schema. So each new field of the model is automatically a key of the spec, a
path that a factor can name, and a suggestion for a mistyped key. `spec`, `rules` and `matrix` share this module."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError, create_model

from storagelab.errors import SpecError, choices, cut, nearest, refuse, shown
from storagelab.model.config import KINDS, Config
from storagelab.model.values import Frozen
from storagelab.spec.units import BY_NAME

Schema = dict[str, Any]
Tables = Mapping[str, Any]
"""A spec's content as TOML returns it: text, numbers, booleans, lists, and tables of these."""
Parts = tuple[str | int, ...]
"""A place in a spec: names of tables and keys, and positions in lists. Positions count from 0."""

M = TypeVar("M", bound=BaseModel)


def _any_workload() -> type[BaseModel]:
    """Makes a model with the keys of every kind of load. A level can change the kind, so a spec may have keys of all
    kinds. Each key is checked separately. `rules` checks later that a key belongs to the kind of the cell.
    """
    fields = dict[str, Any]()
    for member in KINDS.values():
        for name, field in member.model_fields.items():
            # If several kinds have a key of this name, its values are those of the first of these kinds. Raw I/O comes
            # last, because it takes the fewest values. No key is required.
            optional = copy(field)
            optional.default, optional.default_factory = None, None
            fields.setdefault(name, (field.annotation, optional))
    fields["kind"] = (Literal[tuple(KINDS)], None)
    return create_model("AnyWorkload", __base__=Frozen, **fields)


_AnyWorkload = _any_workload()
Written: type[Config] = create_model("Written", __base__=Config, workload=(_AnyWorkload, _AnyWorkload()))

HEADER = ("name", "question", "repetitions", "order", "seed", "costly", "blocks", "prefer", "indifferent")
"""The keys of the whole experiment. They stand before the first table."""
TABLES = tuple(Written.model_fields)
TOP_LEVEL = (*HEADER, *TABLES, "labels", "factors", "exclude")
JUDGEMENT = ("prefer", "indifferent", "labels")
"""Keys that decide how results are judged and presented. They affect no run, so they may change while results exist."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")


# --- Words ------------------------------------------------------------------------------------------------------------


def dotted(parts: Sequence[str | int]) -> str:
    """Returns a place in TOML's notation, such as `factors."layout.data_files"[2]`. List positions count from 1. Long
    names are cut.
    """
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part + 1}]"
        else:
            text += ("." if text else "") + (cut(part) if _BARE.fullmatch(part) else shown(part))
    return text


def expected(schema: Schema) -> str:
    """Describes the values that a key takes. The text fits after "must be"."""
    schema = _plain(schema)
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else None)
    if values:
        words = [json.dumps(value) for value in values]
        return words[0] if len(words) == 1 else "one of " + ", ".join(words)
    match schema.get("type"):
        case "integer":
            return "a whole number" + _bounds(schema, step=1)
        case "number":
            return "a number" + _bounds(schema, step=0)
        case "string":
            return "text in quotes"
        case "boolean":
            return "true or false"
        case "array":
            fewest = f" with at least {schema['minItems']} item" if "minItems" in schema else ""
            return f"a list{fewest}, each {expected(schema['items'])}"
        case "object":
            return "a table"
    several = schema.get("anyOf", ())
    if any("const" in option or "items" in option for option in several):
        return " or ".join(expected(option) for option in several)
    return "text in quotes, a number, or true or false"


def _bounds(schema: Schema, step: int) -> str:
    """Returns the bounds as text for a message. `step` is 1 for whole numbers: then "above 3" is written as "at least
    4".
    """
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if step:
        low = above + step if above is not None else low
        high = below - step if below is not None else high
        above = below = None
    if low is not None and high is not None:
        return f" from {low} to {high}"
    named = (("above", above), ("of at least", low), ("of at most", high), ("below", below))
    return " and".join(f" {words} {bound}" for words, bound in named if bound is not None)


# --- Paths ------------------------------------------------------------------------------------------------------------


_DEFINED: Schema = {}
"""Maps names to definitions that the schemas refer to. Holds the definitions of all models whose schema was read."""


@cache
def schema_of(model: type[BaseModel]) -> Schema:
    schema = model.model_json_schema()
    _DEFINED.update(schema.get("$defs", {}))
    return schema


def _plain(schema: Schema) -> Schema:
    """Returns the schema with references resolved and without "or null", because TOML has no null."""
    if "$ref" in schema:
        return _plain(_DEFINED[schema["$ref"].rpartition("/")[2]])
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if len(options) != 1:
        return schema
    return {**_plain(options[0]), **({"examples": schema["examples"]} if "examples" in schema else {})}


def _entries(schema: Schema) -> Schema | None:
    """Returns the schema of the entries of an open table, whose names the users choose. Returns None for a table with
    fixed keys.
    """
    entries = schema.get("additionalProperties")
    return _plain(entries) if isinstance(entries, dict) else None


def _is_table(schema: Schema) -> bool:
    return schema.get("type") == "object"


def _step(schema: Schema, part: str | int) -> Schema | None:
    """Returns the schema of the value under `part`, or None if the schema allows no such part."""
    if isinstance(part, int):
        return _plain(schema["items"]) if "items" in schema else None
    if part in schema.get("properties", ()):
        return _plain(schema["properties"][part])
    return _entries(schema)


def _schema_at(model: type[BaseModel], parts: Parts) -> Schema:
    schema = schema_of(model)
    for part in parts:
        schema = _step(schema, part) or {}
    return schema


@cache
def split_path(path: str) -> tuple[str, ...]:
    """Returns the parts of a path that names one key, such as "layout.data_files".

    All text after "target.settings." is one part, because names of server settings may contain dots. Raises LookupError
    if the path names no key. The error's text says whether the path names a table or nothing.
    """
    parts: list[str] = []
    schema, rest = schema_of(Written), path
    while rest:
        entries = _entries(schema)
        if entries is not None and not _is_table(entries):
            part, rest = rest, ""
        else:
            part, _, rest = rest.partition(".")
        below = _step(schema, part)
        if below is None:
            raise LookupError("names no key of the spec")
        parts.append(part)
        schema = below
    if ".".join(parts) != path or not path:
        raise LookupError("names no key of the spec")
    if _is_table(schema):
        raise LookupError("names a table, not one of its keys")
    return tuple(parts)


def known_paths(tables: Tables) -> list[str]:
    """Returns every path that a factor can name. Includes the volumes and settings of `tables`. NAME stands for any
    other name.
    """
    return list(_paths_below(schema_of(Written), tables, ""))


def _paths_below(schema: Schema, content: object, prefix: str) -> Iterable[str]:
    inside = content if isinstance(content, Mapping) else {}
    # A path may name only volumes that are declared. Settings need no declaration.
    declared = _is_table(_entries(schema) or {}) and inside
    for name in schema.get("properties") or (inside if declared else [*inside, "NAME"]):
        below = _step(schema, name) or {}
        if _is_table(below):
            yield from _paths_below(below, inside.get(name), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def put(tables: Tables, sets: Mapping[str, object]) -> dict[str, Any]:
    """Returns a copy of `tables` in which each path of `sets` has its new value. The copy shares all other values with
    `tables`. Sharing them is safe, because values never change.
    """
    result = dict(tables)
    for path, value in sets.items():
        *parents, last = split_path(path)
        table = result
        for parent in parents:
            table[parent] = dict(table.get(parent, {}))
            table = table[parent]
        table[last] = value
    return result


# --- What is wrong with the content of a spec -------------------------------------------------------------------------


Kind = Literal["unknown", "wrong", "missing"]
_KINDS: tuple[Kind, ...] = ("unknown", "wrong", "missing")


class Problem(NamedTuple):
    """A reason why a model refuses tables: an unknown key, a wrong value, or a missing key."""

    kind: Kind
    parts: Parts
    value: object


def checked(model: type[M], tables: Tables) -> M:
    """Reads `tables` as a value of `model`. No types are converted: "4" is not a number, and 1 is not true. Raises
    SpecError that names the key.
    """
    try:
        return validated(model, tables)
    except ValidationError:
        found = [error_for(problem, model, tables) for problem in problems(model, tables)]
    refuse(found)
    raise AssertionError("a model refused the tables, but no problem was found")


def problems(model: type[BaseModel], tables: Tables) -> list[Problem]:
    """Returns all problems that `model` finds in `tables`. Unknown keys come first, because a missing key is often a
    mistyped one.
    """
    try:
        validated(model, tables)
    except ValidationError as error:
        found = [_problem(one["type"], one["loc"], tables) for one in error.errors(include_url=False)]
        named = {(problem.kind, problem.parts): problem for problem in found}
        return sorted(named.values(), key=lambda problem: _KINDS.index(problem.kind))
    return []


def validated(model: type[M], tables: Tables) -> M:
    """Like `checked`, but raises pydantic's own ValidationError."""
    return model.model_validate_json(json.dumps(tables, ensure_ascii=False), strict=True)


def _problem(kind: str, place: Parts, tables: Tables) -> Problem:
    """Makes a Problem of an error that pydantic found. If a key takes several types, pydantic adds the type that it
    tried to the place. It also adds the kind of the load. This function removes both.
    """
    if place[:1] == ("workload",) and place[1:2] and place[1] in KINDS:
        place = ("workload", *place[2:])
    inside: Any = tables
    for depth, part in enumerate(place):
        try:
            inside = inside[part]
        except (LookupError, TypeError):
            return Problem("missing", place, None) if kind == "missing" else Problem("wrong", place[:depth], inside)
    return Problem("unknown" if kind == "extra_forbidden" else "wrong", place, inside)


_UNKNOWN = "is not a key that storagelab knows"


def error_for(problem: Problem, model: type[BaseModel], tables: Tables, key: str | None = None) -> SpecError:
    """Makes the error for one problem. If the user wrote the value in another place than the problem's, `key` is that
    place.
    """
    if problem.kind == "unknown" and model is Written:
        return unknown_key(problem.parts, tables)
    if problem.kind == "unknown":  # in a file that is not a spec
        known, word = _schema_at(model, problem.parts[:-1]).get("properties", ()), str(problem.parts[-1])
        return SpecError(_UNKNOWN, key=dotted(problem.parts), hint=choices(word, known, "Known here"))
    schema = _schema_at(model, problem.parts)
    if problem.kind == "missing":
        return _missing_key(problem.parts, schema)
    # Whatever its form, a DSN from the user may contain a password, so the DSN is not shown.
    not_this = "" if problem.parts[-1] in ("dsn", "dsn_env") else f", not {shown(problem.value)}"
    words = f"must be {expected(schema)}{not_this}"
    return SpecError(words, key=key or dotted(problem.parts), hint=_way_out(problem, schema))


def unknown_key(parts: Parts, tables: Tables) -> SpecError:
    """Makes the error for an unknown key. The hint names the most similar key of the table, or another table that has a
    key of that name.
    """
    *above, word = (str(part) for part in parts)
    table = ".".join(above)
    allowed = list(_schema_at(Written, parts[:-1]).get("properties", ())) if above else list(TOP_LEVEL)
    elsewhere = [path.rpartition(".")[0] for path in known_paths(tables) if path.rpartition(".")[2] == word]
    if above and word in TOP_LEVEL:
        hint = f"{word} belongs at the top of the file, before the first [table]."
    elif word in known_paths(tables):
        place, _, name = word.rpartition(".")
        hint = f'Write {name} below [{place}]; only [factors] has full keys in quotes ("{word}").'
    elif nearest(word, allowed) is None and elsewhere:
        hint = f"{word} belongs in [{elsewhere[0]}]."
    else:
        hint = choices(word, allowed, f"[{table}] can have" if above else "A spec can have")
    return SpecError(_UNKNOWN, key=dotted(parts), hint=hint)


def _missing_key(parts: Parts, schema: Schema) -> SpecError:
    while _is_table(schema) and schema.get("required"):
        parts = (*parts, schema["required"][0])
        schema = _step(schema, parts[-1]) or {}
    *above, last = parts
    value = next(iter(schema.get("examples") or schema.get("enum") or [schema.get("const", "...")]))
    hint = f"Add to the spec:\n    [{dotted(above)}]\n    {last} = {shown(value)}"
    return SpecError(f"is missing; it must be {expected(schema)}", key=dotted(parts), hint=hint)


def _way_out(problem: Problem, schema: Schema) -> str:
    last, value = problem.parts[-1], problem.value
    words = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    takes_numbers = schema.get("type") in ("integer", "number") or any(isinstance(one, int) for one in words)
    if takes_numbers and isinstance(value, str) and value.strip().replace("_", "").isdecimal():
        return f"Write it without quotes: {last} = {value.strip()}."
    if isinstance(value, int) and str(value) in words:
        return f'Put it in quotes: {last} = "{value}".'
    if value == "zfs" and last == "filesystem":
        return "storagelab does not make ZFS; your own commands can: storagelab init zfs-by-your-own-commands"
    if isinstance(value, str) and words and isinstance(words[0], str):
        near = nearest(value, words)
        return f"Did you mean {shown(near)}?" if near else ""
    if (spelled := BY_NAME.get(str(last))) is not None:
        name = str(last).removesuffix(spelled.ending)
        return f'{last} is in {spelled.unit}, as a plain number. With a unit: {name} = "{spelled.example}".'
    if _is_table(schema):
        return f"Write [{dotted(problem.parts)}] on a line of its own, and its keys below it."
    if isinstance(value, dict) and problem.parts[:2] == ("target", "settings"):
        return 'Put a name with a dot in quotes: "auto_explain.log_min_duration" = 0.'
    if examples := schema.get("examples"):
        return f"For example: {last} = {shown(examples[0])}."
    return ""


# --- Keys and values as TOML: one line for each key, by its full name -------------------------------------------------


def leaves(table: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields every key below a table with its value. A table without keys counts as a value."""
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*above, name))
        else:
            yield (*above, name), value


def line(place: tuple[str, ...], value: Any) -> str:
    return f"{'.'.join(map(value_text, place))} = {value_text(value)}"


def value_text(value: Any) -> str:
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case bool():
            return str(value).lower()
        case dict():
            return "{ " + ", ".join(line((name,), inside) for name, inside in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(value_text, value)) + "]"
    return str(value)
