"""A spec -> the same spec on the claims of StorageClasses: its volumes are the places where the claims are mounted."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from storagelab.errors import SpecError
from storagelab.model.config import Config
from storagelab.model.plan import Experiment
from storagelab.spec import given_files, keys, matrix, named_files, reading
from storagelab.spec.as_toml import leaves, line

FACTOR = "volume"
_PLACES = ("data", "log", "tables", "indexes", "temp")
"""The keys of `layout` that name volumes."""
_CLASS = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_MOST_BYTES = 900_000
"""A ConfigMap holds a mebibyte."""


class OnClaims(NamedTuple):
    """The spec's text; the volume of each class, by the class; and the files that the spec names, by their names."""

    text: str
    volumes: dict[str, str]
    files: dict[str, str]


def mount_path(volume: str) -> str:
    return f"/volumes/{volume}"


def on_claims(experiment: Experiment, classes: Sequence[str], host: int = 0) -> OnClaims:
    """`host` counts the hosts of a fleet from 0: each has a seed, and so an order, of its own. Raises SpecError."""
    volumes = {name: _volume_of(name) for name in classes}
    if len(set(volumes.values())) < len(classes) or not classes:
        hint = "Name one or more StorageClasses, each once: kubectl get storageclass"
        raise SpecError("names the same class twice" if classes else "is missing", key="--class", hint=hint)
    configs = [cell.config for cell in matrix.expand(experiment).cells]
    for config in configs:
        if config.simulated or config.target.attached:
            problem = "is simulated" if config.simulated else "already runs elsewhere"
            hint = "A Job measures volumes under a private server, or by raw I/O."
            raise SpecError(f"its server {problem}", file=experiment.source, key="target", hint=hint)
    raw = tomllib.loads(experiment.text)
    files = _files(experiment, configs)
    raw |= {"name": experiment.name, "seed": experiment.seed + host}
    factors = dict(raw.get("factors", {}))
    if set(raw.get("volumes", {})) == set(volumes.values()):
        _refuse_made_volumes(raw, factors, experiment.source)
    else:
        _refuse_own_places(factors, experiment.source)
        layout = {name: value for name, value in raw.get("layout", {}).items() if name not in _PLACES}
        raw["layout"] = {**layout, "data": [volumes[classes[0]]]}
        if len(classes) > 1:
            factors = {
                FACTOR: [{"label": name, "layout.data": [volume]} for name, volume in volumes.items()],
                **factors,
            }
    raw["volumes"] = {
        volume: {**raw.get("volumes", {}).get(volume, {}), "path": mount_path(volume)} for volume in volumes.values()
    }
    text = _text(raw, factors)
    if sum(len(one.encode()) for one in (text, *files.values())) > _MOST_BYTES:
        hint = "Put large files into an image of your own: --image"
        raise SpecError("it and its files are too large for a ConfigMap", file=experiment.source, hint=hint)
    matrix.expand(reading.parse(text, f"{experiment.source} on claims"))
    return OnClaims(text, volumes, files)


def _volume_of(name: str) -> str:
    """The volume's name in the spec, and the end of the claim's name."""
    if not _CLASS.fullmatch(name):
        hint = "Such a name has small letters, digits, `-` and `.`: kubectl get storageclass"
        raise SpecError(f"{name!r} can't be a StorageClass", key="--class", hint=hint)
    return name.replace(".", "-")[:32].rstrip("-")


def _refuse_made_volumes(raw: Mapping[str, Any], factors: Mapping[str, Any], source: str) -> None:
    """A claim has the file system of its class, and a pod without root's rights makes none."""
    for name, volume in raw["volumes"].items():
        if other := sorted(volume.keys() - {"path"}):
            hint = "Leave it out. What a class makes is set in its parameters."
            raise SpecError("can't be set on a claim", file=source, key=f"volumes.{name}.{other[0]}", hint=hint)
    for path in _paths_of(factors):
        if path.startswith("volumes."):
            raise SpecError(
                "can't be set on a claim", file=source, key=f"factors.{path}", hint="Make a class for each level."
            )


def _refuse_own_places(factors: Mapping[str, Any], source: str) -> None:
    for path in _paths_of(factors):
        if path.startswith("volumes.") or path.removeprefix("layout.") in _PLACES:
            hint = (
                "Name the spec's volumes as the classes, such as [volumes.gp3] and "
                "[volumes.io2]; then its factors stay."
            )
            problem = "varies volumes that are not the classes"
            raise SpecError(problem, file=source, key=f"factors.{path}", hint=hint)
    if FACTOR in factors:
        hint = "Give your factor another name."
        raise SpecError("is reserved for the StorageClasses", file=source, key=f"factors.{FACTOR}", hint=hint)


def _paths_of(factors: Mapping[str, Any]) -> Iterator[str]:
    """The keys of a spec that factors set."""
    for name, levels in factors.items():
        yield name
        for level in levels if isinstance(levels, list) else ():
            yield from (path for path in level if path != "label") if isinstance(level, dict) else ()


def _text(raw: Mapping[str, Any], factors: Mapping[str, Any]) -> str:
    header = {name: raw[name] for name in keys.HEADER if name in raw}
    tables = {name: raw[name] for name in keys.TABLES if name in raw}
    rest = {name: raw[name] for name in ("labels", "exclude") if name in raw}
    return "\n".join([
        "# Written by `storagelab k8s`: each volume is the claim of a StorageClass.",
        *(line((name,), value) for name, value in header.items()),
        *(line(place, value) for place, value in leaves(tables)),
        *(line((name,), value) for name, value in rest.items()),
        *(line(("factors", name), value) for name, value in factors.items()),
        "",
    ])  # fmt: skip


def _files(experiment: Experiment, configs: Iterable[Config]) -> dict[str, str]:
    """The text of each file that a key of the spec names, by its path below the spec's folder. Raises SpecError."""
    folder = Path(experiment.source).resolve().parent
    found = dict[str, str]()
    for name, path in named_files.named(configs, folder).items():
        key, _, text = name.partition(": ")
        if not path.is_relative_to(folder):
            hint = "Put it beside the spec, in the same folder or below."
            raise SpecError(f"{text} is outside of the spec's folder", file=experiment.source, key=key, hint=hint)
        try:
            found[path.relative_to(folder).as_posix()] = given_files.text_of(path)
        except (OSError, ValueError) as error:
            why = (
                "it is not UTF-8 text"
                if isinstance(error, UnicodeDecodeError)
                else getattr(error, "strerror", 0) or error
            )
            hint = "Put it into an image of your own: --image"
            raise SpecError(
                f"{text} can't be in a ConfigMap: {why}", file=experiment.source, key=key, hint=hint
            ) from None
    return found
