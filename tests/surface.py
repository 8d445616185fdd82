"""The interface for users and programs: verbs with their options, keys of a spec, fields of the export, exit codes.

    .venv/bin/python tests/surface.py        records today's in tests/surface.json

Record again only if a change is meant to add something. What is renamed or removed belongs in CHANGELOG.md.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer.main

from storagelab import cli, errors
from storagelab.findings.campaigns import Gate
from storagelab.model.plan import Experiment
from storagelab.report.export.as_json import json_schema
from storagelab.spec.keys import TOP_LEVEL, Written, schema_of
from storagelab.stopping import INTERRUPTED
from storagelab.volumes.for_runs import PreparationAwaited

RECORD = Path(__file__).with_name("surface.json")
Schema = Mapping[str, Any]


def surface() -> dict[str, object]:
    return {
        "verbs": dict(_verbs(typer.main.get_command(cli.app), "storagelab")),
        "top of a spec": sorted(TOP_LEVEL),
        "spec keys": {
            name: dict(_fields(schema_of(model))) for name, model in (("header", Experiment), ("tables", Written))
        },
        "export fields": dict(_fields(json_schema())),
        "exit codes": {
            **{
                one.__name__: one.exit_code for one in (errors.StoragelabError, errors.SpecError, errors.PreflightError)
            },
            **{one.__name__: one.exit_code for one in (errors.StoreError, errors.RunFailed)},
            **{f"compare: {gate.name}": gate.value for gate in Gate},
            PreparationAwaited.__name__: PreparationAwaited.exit_code,
            "an error of storagelab's own": cli.OWN_ERROR,
            "interrupted": INTERRUPTED,
        },
    }


def _verbs(command: Any, name: str) -> Iterator[tuple[str, object]]:
    yield name, {str(one.name): _parameter(one) for one in command.params}
    for verb in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from _verbs(command.get_command(None, verb), f"{name} {verb}")


def _parameter(one: Any) -> Any:
    names = ("opts", "secondary_opts", "required", "default", "envvar", "nargs", "min", "max")
    takes = str(one.type_descriptor.annotation)
    return json.loads(json.dumps({**{name: getattr(one, name, None) for name in names}, "takes": takes}, default=str))


def _fields(schema: Schema) -> Iterator[tuple[str, object]]:
    """Every table with its keys, and what each key takes, without descriptions."""
    for name, table in {"": schema, **schema.get("$defs", {})}.items():
        required = table.get("required", [])
        yield (
            name,
            {key: {"required": key in required, **_bare(field)} for key, field in table.get("properties", {}).items()},
        )


def _bare(part: Any) -> Any:
    match part:
        case dict():
            words = ("title", "description", "examples", "$defs")
            return {key: _bare(one) for key, one in part.items() if not (key in words and not isinstance(one, dict))}
        case list():
            return [_bare(one) for one in part]
    return part


if __name__ == "__main__":
    RECORD.write_text(json.dumps(surface(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
