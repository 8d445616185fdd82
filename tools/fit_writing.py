"""Puts what tools/fit_model.py found where the parameters stand, with the figures that it was found on."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from storagelab.spec.keys import dotted

ROOT = Path(__file__).resolve().parents[1]
COSTS_FILE = ROOT / "crates/sim/src/scenario/server.rs"
PROFILES = ROOT / "src/storagelab/profiles"


def write(drives: Mapping[str, Any], parameters: Sequence[Any], values: Sequence[int], rows: Sequence[str]) -> None:
    """Put values into the profile or the server's costs, everything around them left as it is."""
    for parameter, value in zip(parameters, values, strict=True):
        if parameter.figure["label"] != "fitted":
            print(f"not written: {parameter.name} is {parameter.figure['label']}, not fitted")
        elif not _within(value, parameter.figure.get("bounds")):
            print(f"not written: {parameter.name} = {value} is not within its own bounds, {parameter.figure['bounds']}")
        elif parameter.path[0] == "server":
            _write(COSTS_FILE, parameter, *in_costs(parameter.path[2], value, rows))
        else:
            drive = drives[parameter.path[1]]
            file = PROFILES / f"{drive['profile']['name']}.toml"
            _write(file, parameter, *in_profile(dotted(parameter.path[3:]), value, rows))


def _within(value: int, bounds: Sequence[float] | None) -> bool:
    return bounds is None or bounds[0] <= value <= bounds[1]


def _write(file: Path, parameter: Any, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if count != 1:
        sys.exit(f"{file}: {parameter.name} is not there as expected; nothing was written of it")
    file.write_text(text, encoding="utf-8")
    print(f"written: {parameter.name} in {file.relative_to(ROOT)}")


def in_costs(name: str, value: int, rows: Sequence[str]) -> tuple[str, str]:
    pattern = rf'^(    {name}: )[0-9_]+(, Fitted(?: in \[[^]]*\])?)(?: on "[^"]*")?'
    return pattern, rf'\g<1>{value:_}\g<2> on "{" ".join(rows)}"'


def in_profile(name: str, value: int, rows: Sequence[str]) -> tuple[str, str]:
    head = rf'^(\[{re.escape(name)}\]\nvalue = )[^\n]+(\nlabel = "fitted"\n(?:bounds = [^\n]+\n)?)'
    return head + r"(?:fitted_on = [^\n]+\n)?", rf"\g<1>{value:_}\g<2>fitted_on = {json.dumps(rows)}\n"
