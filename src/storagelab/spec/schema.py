"""The JSON schema of a spec, for editors and programs. It comes from the same models that check specs.

The schema accepts more specs than `plan` does. It can't express which keys belong together, so it requires no key."""

from __future__ import annotations

import copy
import json
from typing import Any

from storagelab.model.plan import Experiment
from storagelab.model.volume import PRICE
from storagelab.spec import keys, units

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def spec_schema() -> Schema:
    """Returns the schema in JSON Schema's draft 2020-12."""
    whole, header = (copy.deepcopy(keys.schema_of(model)) for model in (keys.Written, Experiment))
    parts: Schema = {**header.get("$defs", {}), **whole.pop("$defs")}
    tables: Schema = whole["properties"]
    for spelled in units.WITH_UNIT:
        *above, last = spelled.path.split(".")
        for place in _at(tables, above, parts):  # the key with a unit is in the same table as the plain key
            if (written := place.get(last + spelled.ending)) is not None:
                description = written.get("description", "")
                place[last] = {"type": "string", "description": description, "examples": [spelled.example]}
    value = {"description": "A list of levels: values of the key that this path names, or tables with labels."}
    prices = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}}
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **{name: header["properties"][name] for name in keys.HEADER},
            **tables,
            "factors": {
                "type": "object",
                "description": "What varies: paths of keys in quotes, or names whose levels are labelled.",
                "additionalProperties": {"type": "array", "minItems": 1, **value},
            },
            "labels": {
                "type": "object",
                "description": "Short names of factors for reports. In price_per_month: the prices of levels.",
                "properties": {PRICE: {"type": "object", "additionalProperties": prices}},
                "additionalProperties": {"type": "string"},
            },
            "exclude": {
                "type": "array",
                "description": "Cells that are not run. Each [[exclude]] names the cells that match all its lines.",
                "items": {"type": "object"},
            },
        },
    }
    plain: Schema = _plain({**schema, "$defs": _used(schema, parts)})
    return {"$schema": DIALECT, "title": "A spec of storagelab", **plain}


def schema_text(schema: Schema) -> str:
    """Returns a schema as the text of a file."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _at(tables: Schema, above: list[str], parts: Schema) -> list[Schema]:
    """Returns the properties of the table at a path. A * stands for any name. If the table has several kinds, the list
    has the properties of each kind.
    """
    found = [tables]
    for part in above:
        inside = [one["*"] if part == "*" else one[part] for one in found]
        found = [properties for one in inside for properties in _properties(one, parts)]
    return found


def _properties(schema: Schema, parts: Schema) -> list[Schema]:
    if "$ref" in schema:
        return _properties(parts[schema["$ref"].rpartition("/")[2]], parts)
    if "properties" in schema:
        return [schema["properties"]]
    if isinstance(schema.get("additionalProperties"), dict):
        return [{"*": schema["additionalProperties"]}]
    return [found for one in schema.get("anyOf", ()) for found in _properties(one, parts)]


def _used(schema: Any, parts: Schema) -> Schema:
    """Returns the definitions that the schema refers to, directly or through other definitions."""
    used: Schema = {}
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            name = str(one.get("$ref", "")).rpartition("/")[2]
            if name and name not in used:
                used[name] = parts[name]
                waiting.append(parts[name])
            waiting += one.values()
    return {name: used[name] for name in sorted(used)}


_NOT_FOR_SPECS = {"required", "default", "title"}


def _plain(schema: Any) -> Any:
    """Removes three things: null, because TOML has no null; `required`, because levels may supply the keys; and titles,
    because pydantic made them from names.
    """
    if isinstance(schema, list):
        return [_plain(one) for one in schema if one != {"type": "null"}]
    if not isinstance(schema, dict):
        return schema
    kept = {
        word: {name: _plain(one) for name, one in value.items()} if word in ("properties", "$defs") else _plain(value)
        for word, value in schema.items()
        if word not in _NOT_FOR_SPECS
    }
    return {**kept.pop("anyOf")[0], **kept} if len(kept.get("anyOf", ())) == 1 else kept
