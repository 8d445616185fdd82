"""Data that is prepared once and copied for each run: which cells share it, and how much there is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from storagelab.model.config import Config

RESTORED = "restored from a template, "
"""The first words of the state of a run's data; the kind of copy follows."""


def wanted(config: Config) -> bool:
    return config.between_runs.data == "template"


def name_of(config: Config) -> str:
    """A name that is the same for cells that begin with the same data in the same places, on servers with the same
    settings.
    """
    load = config.workload.model_dump(mode="json", exclude=set(config.workload.of_runs))
    target, layout = config.target.model_dump(mode="json"), config.layout.model_dump(mode="json")
    volumes = {name: volume.path for name, volume in config.volumes.items()}
    return hashlib.sha256(json.dumps([target, layout, volumes, load], sort_keys=True).encode()).hexdigest()[:12]


def distinct(configs: Iterable[Config]) -> list[Config]:
    """One cell for each template that these cells need."""
    return list({name_of(config): config for config in configs if wanted(config)}.values())
