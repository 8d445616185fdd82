"""Reads stored rows as values, and describes damaged ones. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from storagelab.errors import StoreError
from storagelab.model.config import Config
from storagelab.model.measurement import NO_TIME, Measurement, Run
from storagelab.model.values import MOST
from storagelab.model.workload import KINDS
from storagelab.servers.durability import judged

_LISTED = 5
_SHOWN = 60
_OUT_OF_BOUNDS = "is out of range"


Shared = dict[object, Any]
"""The configurations and levels of cells, and environments, by their texts: many runs share them."""


def read_run(columns: Sequence[str], row: Sequence[Any], shared: Shared) -> Run | str:
    """A stored row (texts as text or bytes) as a value; or which run can't be read, and why.

    A run in which no time passed counts as failed: nothing can be divided by it. All rows of one store use the same
    `shared`.
    """
    fields = dict(zip(columns, row, strict=True))
    try:
        texts = {name: value.decode() if isinstance(value, bytes) else value for name, value in fields.items()}
        run = _run_of(texts, shared)
    except (ValueError, TypeError, RecursionError) as error:
        which = f"run {_text(fields['cell_id'])}, repetition {_text(fields['repetition'])}"
        return f"{which}: {reason_of(error)}"
    if run.measurement is not None and run.measurement.elapsed_s <= 0 and run.status != "failed":
        return run.model_copy(update={"status": "failed", "reason": "; ".join(filter(None, (run.reason, NO_TIME)))})
    return run


def _run_of(row: Mapping[str, Any], shared: Shared) -> Run:
    key = row["config"], row["levels"]
    config, levels = shared.get(key) or (_config(row["config"]), json.loads(row["levels"]))
    run = Run(
        **{name: value for name, value in row.items() if name not in ("levels", "config", "measurement")},
        levels=levels,
        config=config,
        measurement=_measurement(row["measurement"], config, shared) if row["measurement"] else None,
    )
    shared[key] = run.config, run.levels
    return run


def _config(text: str) -> Config:
    try:
        return Config.model_validate(config_of_today(json.loads(text)))
    except ValidationError as error:
        raise ValueError(f"config.{reason_of(error)}") from None


def _measurement(text: str, config: Config, shared: Shared) -> Measurement:
    try:
        measurement = Measurement.model_validate_json(measurement_of_today(text, config.workload.kind))
    except ValueError as error:
        raise ValueError(f"measurement: {reason_of(error)}") from None
    # Not in the model: a target may return something that is not a number, which reports show as unknown.
    for group, counters in measurement.counters.items():
        for name, value in counters.items():
            if abs(value) > MOST:
                raise ValueError(f"measurement: counters.{group}.{name}: {_OUT_OF_BOUNDS}"[: 3 * _SHOWN])
    environment = shared.setdefault(json.dumps(measurement.environment), measurement.environment)
    durability = measurement.durability or judged(environment)  # earlier versions stored none
    return measurement.model_copy(update={"environment": environment, "durability": durability})


_WRONG = {
    "missing": "is missing", "extra_forbidden": "is not known to this version", "json_invalid": "is not complete JSON",
    "finite_number": _OUT_OF_BOUNDS, "greater_than_equal": _OUT_OF_BOUNDS, "less_than_equal": _OUT_OF_BOUNDS,
}  # fmt: skip


def _text(value: object) -> str:
    return value.decode(errors="replace")[:_SHOWN] if isinstance(value, bytes) else str(value)[:_SHOWN]


def reason_of(error: Exception) -> str:
    """What is wrong with a stored value: its place and its content."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))[:_SHOWN]
        wrong = _WRONG.get(first["type"]) or f"can't be {repr(first['input'])[:_SHOWN]}"
        return f"{place}: {wrong}" if place else wrong
    return (str(error) or type(error).__name__)[: 3 * _SHOWN]


def damaged(file: Path, lost: Sequence[str], readable: int | None) -> StoreError:
    """The error for a damaged store: what can't be read, how many runs can be read (None: not tried), and the way
    out.
    """
    listed = "".join(f"\n    {one}" for one in lost[:_LISTED])
    more = f"\n    and {len(lost) - _LISTED} more" if len(lost) > _LISTED else ""
    still = "export what can still be read:" if readable is None else f"{readable} runs can still be read; export them:"
    return StoreError(
        f"{file} is damaged:{listed}{more}\n  {still} `storagelab export --salvage {file.parent.name}`\n  nothing in "
        "it has changed; to measure again, move it away"
    )


# --- what earlier versions stored -------------------------------------------------------------------------------------


_KEYS = {name for member in KINDS.values() for name in member.model_fields}


def config_of_today(config: Any) -> Any:
    """A stored configuration with only the keys of its kind of workload."""
    match config:
        case {"workload": {"kind": "random-insert" | "sequential-insert" | "mixed" as named_kind, **keys}}:
            kind = named_kind if keys.get("block_bytes") is None else "raw-io"
            unused = _KEYS - KINDS[kind].model_fields.keys()
            used = {name: value for name, value in keys.items() if name not in unused}
            return {**config, "workload": {"kind": kind, **used}}
    return config


def measurement_of_today(text: str, kind: str) -> str:
    """A stored measurement of a workload of that kind, with its work under the name of its unit."""
    if KINDS[kind].raw_io:
        measurement = json.loads(text)
        match measurement:
            case {"rows": int(requests)}:
                return json.dumps({**measurement, "rows": None, "requests": requests})
    return text


def experiment_of_today(experiment: Any) -> Any:
    """A stored experiment. A race of a kind that is gone, one for a good layout or one that began with small-scale
    runs, is read as an experiment of all repetitions, most of them not made: its runs are shown, and only the layouts
    that ran are compared. The hosts that were to share its rounds are left out: each run says where it was made. One
    that says nothing of a balanced order goes on in rounds that were shuffled each by itself.
    """
    if not isinstance(experiment, dict):
        return experiment
    experiment = {"balanced": False, **{name: value for name, value in experiment.items() if name != "fleet"}}
    match experiment:
        case {"race": {"goal": "good"} | {"small": dict()}}:
            judged_before = "a race of a kind that version 0.2.0 was the last to judge"
            return {**experiment, "race": None, "judged_before": judged_before}
        case {"race": dict(race)}:
            kept = {name: value for name, value in race.items() if name not in ("small", "goal")}
            return {**experiment, "race": kept}
    return experiment
