"""The document of all keys, held against the models that check them: docs/spec.md must not say what is not so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from storagelab import profiles
from storagelab.model.config import BetweenRunsConfig, LayoutConfig, MeasureConfig, ServerConfig
from storagelab.model.plan import Experiment
from storagelab.model.workload import KINDS

ROOT = Path(__file__).parent.parent


def documented() -> dict[str, tuple[str, str]]:
    """Each key of docs/spec.md's tables, by its path -> what it takes, and its default; "" where the table has none."""
    found: dict[str, tuple[str, str]] = {}
    section, default = "", None
    for line in (ROOT / "docs" / "spec.md").read_text("utf-8").splitlines():
        if heading := re.fullmatch(r"##+ (.*)", line):
            table = re.search(r"`\[(\w+)", heading[1])
            section = f"{table[1]}." if table else ""
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells[:1] == ["key"]:
            default = cells.index("default") if "default" in cells else None
        elif cells and (names := re.findall(r"`([\w.]+)`", cells[0])):
            parents = names[0].rpartition(".")[0] or section.strip(".")
            for name in names:
                path = name if "." in name else ".".join(filter(None, [parents, name]))
                found[path] = (cells[1], cells[default] if default else "")
    return found


def defaults(model: type[BaseModel], table: str) -> dict[str, tuple[object, object]]:
    """Path -> the model's annotation and default."""
    return {f"{table}{name}": (field.annotation, field.default) for name, field in model.model_fields.items()}


def test_the_document_has_the_models_choices_and_defaults() -> None:
    keys = documented()
    models = [("", Experiment), ("layout.", LayoutConfig), *(("workload.", member) for member in reversed(KINDS.values())),
              ("between_runs.", BetweenRunsConfig), ("measure.", MeasureConfig), ("server.", ServerConfig)]  # fmt: skip
    known = {path: both for table, model in models for path, both in defaults(model, table).items()}
    held = 0
    for path in keys.keys() & known.keys():
        takes, default = keys[path]
        annotation, value = known[path]
        choices = [one for part in (annotation, *get_args(annotation)) for one in get_args(part) if type(one) is str]
        assert [choice for choice in choices if f'"{choice}"' not in takes] == [], path
        if isinstance(value, str | int | float) and default and path != "name":
            said = default.replace(",", "").removesuffix(" s")
            assert said == str(value).lower().removesuffix(".0"), path
            held += 1
    assert held >= 12


def test_the_document_has_the_switches_of_the_servers_profile() -> None:
    switches = profiles.server().switches
    keys = documented()
    said = {name: keys[f"server.{name}"][1] for name in switches if f"server.{name}" in keys}
    assert len(said) >= 7
    assert said == {name: str(switches[name].value).lower() for name in said}
