"""Makes the tables of a spec's keys from the models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from storagelab.model.config import Config
from storagelab.model.plan import Experiment
from storagelab.model.values import LeftOut, LeftToCore
from storagelab.profiles import default_of
from storagelab.spec import keys
from storagelab.spec.units import WITH_UNIT

_BEYOND_SAYING = 2**53
"""Bounds as large as this are not shown in the tables."""
Row = Sequence[str]
Field = tuple[str, FieldInfo]


def table(heads: Row, rows: Iterable[Row]) -> str:
    """Returns a table in Markdown. Bars are escaped, because they would end the cell."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def models_in(annotation: object) -> list[type[BaseModel]]:
    """Returns the models in a key's type: none for a plain value, several for a table that has kinds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


def keys_of_table(name: str) -> str:
    """Returns the keys of one of the spec's tables, and of the tables below it."""
    field = Config.model_fields[name]
    below = ".NAME" if "dict[" in str(field.annotation) else ""
    return _tables(models_in(field.annotation), f"{name}{below}")


def keys_of_experiment() -> str:
    return _table_of(Experiment, [(one, Experiment.model_fields[one]) for one in keys.HEADER], "")


def _tables(models: Sequence[type[BaseModel]], place: str) -> str:
    """Returns the keys of a table and of the tables below it. If a table has kinds, the keys of each kind follow
    separately."""
    kinds = {model: get_args(model.model_fields["kind"].annotation)[0] for model in models} if len(models) > 1 else {}
    text = (
        table(["`kind`", "meaning"], [[f'`"{kind}"`', _first_line(model)] for model, kind in kinds.items()])
        if kinds
        else ""
    )
    for owners, fields in _by_owners(models, kinds).items():
        if kinds:
            text += "\nKeys of " + ", ".join(f'`"{kinds[owner]}"`' for owner in owners) + ":\n\n"
        text += _table_of(owners[0], fields, place)
    for name, field in {name: field for model in models for name, field in model.model_fields.items()}.items():
        if models_in(field.annotation):
            text += f"\n`[{place}.{name}]`:\n\n" + _tables(models_in(field.annotation), f"{place}.{name}")
    return text


def _by_owners(
    models: Sequence[type[BaseModel]], kinds: Mapping[type[BaseModel], str]
) -> dict[tuple[type[BaseModel], ...], list[Field]]:
    """Returns the fields by the models that share them, without the key `kind` if there are several kinds."""
    found: dict[tuple[type[BaseModel], ...], list[Field]] = {}
    for model in models:
        for name, field in model.model_fields.items():
            owners = tuple(one for one in models if repr(one.model_fields.get(name)) == repr(field))
            if model is owners[0] and not (kinds and name == "kind"):
                found.setdefault(owners, []).append((name, field))
    return found


def _first_line(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().partition("\n")[0]


def _table_of(model: type[BaseModel], fields: Iterable[Field], place: str) -> str:
    properties = keys.schema_of(model)["properties"]
    rows = []
    for name, field in fields:
        pattern = f"{place}.{name}".replace(".NAME.", ".*.")
        spelled = next((one for one in WITH_UNIT if one.path + one.ending == pattern), None)
        takes = _takes(properties[name], keys.schema_of(model))
        if spelled:
            what = "a size" if spelled.unit == "bytes" else "a time"
            takes = f'{what} such as `"{spelled.example}"`; in plain {spelled.unit}: `{name}`'
        shown = spelled.path.rpartition(".")[2] if spelled else name
        rows.append([f"`{shown}`", takes, _default(name, field), " ".join((field.description or "").split())])
    return table(["key", "takes", "default", "meaning"], rows)


def _takes(schema: keys.Schema, whole: keys.Schema) -> str:
    """Returns the values that a key allows, in readable form."""
    if "$ref" in schema:
        return _takes(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    if choices:
        types = {one.get("type") for one in choices}
        wanted = [one for one in choices if not (one.get("type") == "integer" and "number" in types)]
        return ", or ".join(dict.fromkeys(_takes(one, whole) for one in wanted))
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    if values:
        return ", ".join(f'`"{value}"`' for value in values)
    match schema.get("type"):
        case "integer" | "number":
            return _number(schema)
        case "string":
            return "text"
        case "boolean":
            return "`true`, `false`"
        case "array":
            return f"a list of {_takes(schema['items'], whole)}"
    inside = schema.get("additionalProperties")
    return f"a table: name = {_takes(inside, whole)}" if isinstance(inside, dict) else "a table"


def _number(schema: keys.Schema) -> str:
    kind = "whole number" if schema["type"] == "integer" else "number"
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is not None and high is not None and high < _BEYOND_SAYING:
        return (
            f"{_figure(low)} to {_figure(high)}" if "maximum" in schema else f"{_figure(low)} to below {_figure(high)}"
        )
    return f"a {kind}" + (f", at least {_figure(low)}" if low else "")


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.15g}"


def _default(name: str, field: FieldInfo) -> str:
    words = [one.words for one in field.metadata if isinstance(one, LeftOut)]
    words += [f"{default_of(one.owner, name):,}" for one in field.metadata if isinstance(one, LeftToCore)]
    if words:
        return words[0]
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value == "" or value == () or value == {}:
        return ""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return _figure(value)
        case tuple():
            return f"`{json.dumps(value)}`"
    return str(value)
