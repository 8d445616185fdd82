"""The first steps of every verb that takes a spec: where it lives on this machine, and whether it can run here."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.model.plan import Experiment, Plan
from storagelab.targets import Preflight, Site, preflight


def site_of(experiment: Experiment, folder: Path) -> Site:
    identity = hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:8]
    spec_folder = Path(os.path.realpath(experiment.source)).parent
    return Site(experiment=experiment.name, identity=identity, spec_folder=spec_folder)


def look_at(experiment: Experiment, expanded: Plan, site: Site, allow_commands: bool) -> Preflight:
    try:
        return preflight(experiment, expanded, site, allow_commands=allow_commands)
    except PreflightError as error:
        raise error.of(experiment.source) from error
