"""Ready-made specs: their texts, the questions that they answer, and the files that belong to them.

A spec is one TOML file in this folder. Files of SQL that it needs are in the folder of its name.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from storagelab.errors import SpecError
from storagelab.model.hints import choices

FOLDER = Path(__file__).parent
SCHEMA = FOLDER / "spec.schema.json"
"""The JSON schema of a spec, for editors; `make docs` writes it."""
SCHEMA_LINE = "#:schema "
"""How a spec's first line begins: it names the schema to editors."""


class Ready(NamedTuple):
    """A ready-made spec. `simulated`: it needs neither a server nor a drive."""

    name: str
    question: str
    simulated: bool


@cache
def ready_made() -> tuple[Ready, ...]:
    """All of them: first those that measure, then those that simulate."""
    found = [_read(file) for file in sorted(FOLDER.glob("*.toml"))]
    return tuple(sorted(found, key=lambda one: (one.simulated, one.name)))


def _read(file: Path) -> Ready:
    spec = tomllib.loads(file.read_text("utf-8"))
    paths = any("path" in volume for volume in spec["volumes"].values())
    return Ready(file.stem, str(spec["question"]), not paths and "dsn_env" not in spec["target"])


def text_of(name: str) -> str:
    """The text of a ready-made spec, whose first line names the schema of this installation. Raises SpecError."""
    names = [one.name for one in ready_made()]
    if name not in names:
        hint = choices(name, names, "The ready-made specs")
        raise SpecError("is not the name of a ready-made spec", key=name, hint=f"{hint}\n  storagelab init lists them.")
    return with_schema((FOLDER / f"{name}.toml").read_text("utf-8").partition("\n")[2])


def with_schema(text: str) -> str:
    """A spec whose first line names the schema of this installation."""
    return f"{SCHEMA_LINE}{SCHEMA.as_uri()}\n{text}"


def files_of(name: str) -> dict[str, str]:
    """The files that a ready-made spec needs beside it: their paths, relative to it, and their texts."""
    return {
        str(file.relative_to(FOLDER)): file.read_text("utf-8")
        for file in sorted((FOLDER / name).glob("*"))
        if file.is_file()
    }
