"""The proof of a recommendation: makes the spec that measures it, and stores its results as a known case."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from storagelab.capture.folder import REQUESTS
from storagelab.errors import SpecError, StoreError
from storagelab.experiments import with_schema
from storagelab.findings.beside import Beside
from storagelab.loads.traces import read
from storagelab.machine.descriptors import write_whole
from storagelab.model.engines import ENGINES
from storagelab.model.objects import INDEXES, LOG, TABLES, TEMPORARY, Placement
from storagelab.predicting import reckoning
from storagelab.predicting.prediction import PRESENT, KnownCase, KnownLayout, Prediction, as_toml, own_cases
from storagelab.predicting.recommending import Advice
from storagelab.spec.given_files import text_of
from storagelab.spec.keys import value_text
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse

_KEPT = ("target", "workload", "measure", "between_runs")
_ROOM_BYTES = 2**32
"""The space of a volume that is made from a file. It is added to three times the bytes that move, or that the trace
needs. Blocks that are never written take no space on the disk.
"""
_MOST_OUTSTANDING, _ROUND_BYTES = 256, 2**20
_ODD = re.compile(r"[^\w.#-]+", re.ASCII)
_HEAD = """\
# Today's layout and what `storagelab recommend` proposes, in turns, under {load}.
# Then: storagelab compare {name} {prediction}
"""


def spec_text(found: Advice, capture: Path, load: Path | None, volumes: Path, spec: Path) -> str:
    """The text of a spec that measures today's layout and the proposals. The load is that of another spec (`load`), or
    a replay of the captured requests. Raises SpecError.
    """
    for file in (spec, prediction_file(spec)):
        if file.exists():
            raise SpecError("exists already", file=file, key="--spec", hint="Name another file, or remove this one.")
    if load is not None and spec.resolve().parent != load.resolve().parent:
        hint = f"Write it beside {load.name}, whose files it uses: {load.parent / spec.name}"
        raise SpecError("is not in the folder of the load's spec", key="--spec", hint=hint)
    under = _load(load, found) if load is not None else _replay(found, capture, spec)
    name = spec.stem
    layouts = {PRESENT: found.today} | {
        one.name: {**found.today, **{move.what: move.to for move in one.moves}} for one in found.measurable
    }
    data = found.data or _data(found)
    named = [key for key in found.today if key == LOG or {places[key] for places in layouts.values()} != {data}]
    keys = {key: own for key in named if (own := under.key_of(key)) is not None}
    levels = [{"label": label, **_level(places, keys)} for label, places in layouts.items()]
    size = {} if under.file_bytes is None else {"data_size_bytes": under.file_bytes}
    lines = [
        _HEAD.format(load=under.text, name=name, prediction=prediction_file(spec).name),
        f"name = {value_text(name)}",
        'question = "Are the proposed layouts faster than today\'s, and by how much?"',
        "repetitions = 5", 'order = "randomised"', "",
        *(f"{key} = {value_text(under.tables[key])}" for key in _KEPT if key in under.tables),
        f"volumes = {value_text(_volumes(found, volumes, under.file_bytes or 0))}",
        f"layout = {value_text({'data': [data], **size})}", "", "[factors]", "layout = [",
        *(f"  {value_text(level)}," for level in levels), "]",
    ]  # fmt: skip
    text = with_schema("\n".join(lines) + "\n")
    try:
        expand(parse(text, str(spec)))  # so that no spec is written that `plan` would refuse
    except SpecError as error:
        problem = f"{error.key or 'layout'}: {error.problem}, so no spec can be written that measures the layouts"
        raise SpecError(problem, file=load or volumes, key="--spec", hint=error.hint) from None
    return text


def prediction_file(spec: Path) -> Path:
    """The file with the prediction of a spec's layouts. `compare` reads it."""
    return spec.with_name(f"{spec.stem}-prediction.json")


class _Load(NamedTuple):
    """The load of a proof. `text` describes it, and `tables` are its tables in a spec. `file_bytes` is the size of the
    file that it needs on each volume, or None if it needs none. `key_of` returns the name of an object in
    `layout.objects`, or None if the load does not touch the object.
    """

    text: str
    tables: Mapping[str, Any]
    file_bytes: int | None
    key_of: Callable[[str], str | None]


def _load(load: Path, found: Advice) -> _Load:
    """The load of another spec. Raises SpecError if its spec can't be used."""
    hint = "Name a spec with the load to measure, such as one of storagelab init --from-server DSN."
    try:
        tables: dict[str, Any] = tomllib.loads(text_of(load))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SpecError(f"can't be read: {reason}", file=load, hint=hint) from None
    for key in ("target", "workload"):
        if not isinstance(tables.get(key), dict):
            raise SpecError("is missing", file=load, key=key, hint=hint)
    if (engine := tables["target"].get("engine")) != found.engine:
        raise SpecError(
            f"is {engine!r}, but the capture is of {ENGINES[found.engine].title}", file=load, key="target.engine",
            hint="Name a spec of that engine: storagelab init --from-server DSN writes one.",
        )  # fmt: skip
    if tables["target"].keys() & {"dsn", "dsn_env"}:
        hint = "Moves are measured on a private server: leave the DSN out, and set bin_dir and settings."
        raise SpecError("attaches to a running server", file=load, key="target", hint=hint)
    return _Load(f"the load of {load.name}", tables, None, lambda key: key)


def _replay(found: Advice, capture: Path, spec: Path) -> _Load:
    """A replay of the captured requests: as fast as possible, with as many threads as sessions worked."""
    file = capture / REQUESTS
    if not file.exists():
        hint = "Name a spec with the load to measure: --load my.toml. Or capture with --requests, to replay these."
        raise SpecError("has no requests in order", file=capture, key="--spec", hint=hint)
    trace = read(file)
    workload = {
        "kind": "replay", "trace": os.path.relpath(file.resolve(), spec.resolve().parent),
        "pace": "as-fast-as-possible", "outstanding": max(1, min(_MOST_OUTSTANDING, round(found.prediction.sessions))),
    }  # fmt: skip

    def key_of(key: str) -> str | None:
        # names in a trace have no unusual characters
        pattern = _ODD.sub("*", key)
        return pattern if key == LOG or Placement({pattern: ""}).problem(trace.objects) is None else None

    size = -(-trace.reaches // _ROUND_BYTES) * _ROUND_BYTES
    return _Load("the captured requests", {"target": {"engine": "raw-io"}, "workload": workload}, size, key_of)


def _data(found: Advice) -> str:
    """The volume with the most tables and indexes. It becomes the place of all objects that the spec does not name."""
    names = [volume for key, volume in found.today.items() if key not in (LOG, TEMPORARY)]
    return max(names, key=names.count) if names else next(iter(found.folders))


def _level(places: Mapping[str, str], keys: Mapping[str, str]) -> dict[str, str]:
    level = {"layout.log" if key == LOG else f"layout.objects.{own}": places[key] for key, own in keys.items()}
    return level | ({f"layout.objects.{INDEXES}": places[TABLES]} if TABLES in keys else {})


def _volumes(found: Advice, file: Path, least: int) -> dict[str, dict[str, object]]:
    """The volumes of the spec. A volume is the folder that the user gave, or is made from a file with the
    same limit.
    """
    asked, written = reckoning.load(file), tomllib.loads(text_of(file))["volumes"]
    volumes: dict[str, dict[str, object]] = {}
    moved = sum(move.bytes or 0 for one in found.measurable for move in one.moves)
    needed = 3 * max(moved, least) + _ROOM_BYTES
    for name, one in asked.volumes.items():
        if one.path is not None:
            volumes[name] = {"path": one.path}
        elif one.limit is not None:
            volumes[name] = {"path": ".", "file_bytes": needed, "limit": written[name]["limit"]}
        else:
            hint = 'Write path = "/mnt/..." to measure there.'
            raise SpecError("names no folder to measure on", file=file, key=f"volumes.{name}.path", hint=hint)
    return volumes


def learn(known: Prediction, found: Beside, names: Mapping[str, str], campaign: str, own: Path) -> bool:
    """Stores the rates that a campaign measured for the layouts of a prediction as a known case. Replaces earlier rates
    of the same campaign. Returns False if there is nothing to store, because the captured layout was not measured, or
    no other layout was. Raises StoreError.
    """
    if names[found.base] != PRESENT:
        return False
    moved = {one.name: one.moved for one in known.layouts}
    layouts = tuple(
        KnownLayout(
            name=names[row.name], predicted=row.predicted.value, measured=row.measured.value,
            moved=moved.get(names[row.name]),
        )
        for row in found.rows
        if row.name != found.base
    )  # fmt: skip
    if not layouts:
        return False
    before = [one for one in own_cases(own) if one.case != campaign]
    text = as_toml([*before, KnownCase(engine=known.engine, case=campaign, layout=layouts)])
    try:
        write_whole(own, [f"# Predictions and what was measured then, as times the captured rate.\n{text}".encode()])
    except OSError as error:
        raise StoreError(f"{own}: can't be written: {error.strerror}") from None
    return True
