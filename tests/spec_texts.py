"""Small specs as templates, and a helper for refusals; shared by the tests of specs and of factors."""

import json

import pytest

from storagelab.errors import SpecError
from storagelab.model.plan import Plan
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse

TARGET = '[target]\nengine = "postgres"\n'
VOLUMES = '[volumes.a]\npath = "./a"\n[volumes.b]\npath = "./b"\n'
MINIMAL = TARGET + VOLUMES


def planned(text: str, source: str = "lab/files.toml") -> Plan:
    return expand(parse(text, source))


def refusal(text: str) -> SpecError:
    """The error that stops `text` on its way to a plan. Each must name the file and be plain text."""
    with pytest.raises(SpecError) as caught:
        planned(text)
    error = caught.value
    message = str(error)
    assert message.startswith("lab/files.toml: ")
    assert not any(ord(char) < 32 and char != "\n" for char in message)
    assert error.__cause__ is None
    for jargon in ("pydantic", "http", "validation", "Input should", "type=", "NoneType", "dict"):
        assert jargon not in message
    return error


def factor(line: str) -> str:
    return f"{MINIMAL}[factors]\n{line}\n"


def as_toml(value: object) -> str:
    """A value as it may stand behind a key."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {as_toml(inside)}" for key, inside in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value)
