"""Converts what earlier versions stored to the form of this one. Pure.

Stores of versions 1 and 2 gave every run the keys of all kinds of workload, most of them unused, and called the requests
of raw I/O rows. Earlier versions could judge most layouts of a race in small simulated worlds.
"""

from __future__ import annotations

import json
from typing import Any

from storagelab.model.workload import KINDS

_KEYS = {name for member in KINDS.values() for name in member.model_fields}


def config_of_today(config: Any) -> Any:
    """A stored configuration with only the keys of its kind of workload."""
    match config:
        case {"workload": {"kind": "random-insert" | "sequential-insert" | "mixed" as said, **keys}}:
            kind = said if keys.get("block_bytes") is None else "raw-io"
            unused = _KEYS - KINDS[kind].model_fields.keys()
            used = {name: value for name, value in keys.items() if name not in unused}
            return {**config, "workload": {"kind": kind, **used}}
    return config


def measurement_of_today(text: str, kind: str) -> str:
    """A stored measurement of a workload of that kind, with its work under the name of its unit."""
    if kind == "raw-io":
        measurement = json.loads(text)
        match measurement:
            case {"rows": int(requests)}:
                return json.dumps({**measurement, "rows": None, "requests": requests})
    return text


def experiment_of_today(experiment: Any) -> Any:
    """A stored experiment. A race that began in small worlds is read as an experiment of all repetitions, most of them not
    made: its runs are shown, and only the layouts that ran are compared."""
    match experiment:
        case {"race": {"small": small, **race}}:
            return {**experiment, "race": None if small else race}
    return experiment
