"""Writes the results of tools/fit_model.py into the profiles. It also writes on which figures they were fitted."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from storagelab import profiles
from storagelab.spec.keys import dotted

ROOT = Path(__file__).resolve().parents[1]
PROFILES = ROOT / "src/storagelab/profiles"


def write(drives: Mapping[str, Any], parameters: Sequence[Any], values: Sequence[int], rows: Sequence[str]) -> None:
    """Writes values into the profiles. The rest of the profiles does not change."""
    for parameter, value in zip(parameters, values, strict=True):
        if parameter.figure["label"] not in ("fitted", "assumed"):
            print(f"not written: {parameter.name} is {parameter.figure['label']}, neither fitted nor assumed")
        elif not _within(value, parameter.figure.get("bounds")):
            print(f"not written: {parameter.name} = {value} is not within its own bounds, {parameter.figure['bounds']}")
        else:
            file, path = _place(drives, parameter.path)
            _write(file, parameter, *in_profile(dotted(path), value, rows))


def _place(drives: Mapping[str, Any], path: Sequence[str]) -> tuple[Path, Sequence[str]]:
    """Returns the profile that contains a figure of the scenario, and the figure's path in the profile."""
    if path[0] == "server":
        return PROFILES / f"servers/{profiles.server().name}.toml", path[1:]
    drive = drives[path[1]]
    return PROFILES / f"{drive['profile']['name']}.toml", path[3:]


def _within(value: int, bounds: Sequence[float] | None) -> bool:
    return bounds is None or bounds[0] <= value <= bounds[1]


def _write(file: Path, parameter: Any, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if count != 1:
        sys.exit(f"{file}: {parameter.name} is not in the expected form; it was not written")
    file.write_text(text, encoding="utf-8")
    print(f"written: {parameter.name} in {file.relative_to(ROOT)}")


def in_profile(name: str, value: int, rows: Sequence[str]) -> tuple[str, str]:
    head = rf'^(\[{re.escape(name)}\]\nvalue = )[^\n]+\nlabel = "(?:fitted|assumed)"\n((?:bounds = [^\n]+\n)?)'
    label = '\\nlabel = "fitted"\\n'
    return head + r"(?:fitted_on = [^\n]+\n)?", rf"\g<1>{value:_}{label}\g<2>fitted_on = {json.dumps(rows)}\n"
