"""`storagelab plan`."""

from __future__ import annotations

from pathlib import Path

from storagelab import screen
from storagelab.errors import StoreError
from storagelab.model.plan import Experiment, Plan
from storagelab.report.text.plan import PlanFacts, VolumeFacts, print_plan
from storagelab.run import dealing
from storagelab.run.estimate import estimate
from storagelab.run.store import NothingStored, Store
from storagelab.spec import matrix, reading
from storagelab.targets import Preflight
from storagelab.verbs.planning import look_at, site_of


def show(spec_file: Path, results: Path, *, every_run: bool, allow_commands: bool) -> None:
    experiment = reading.load(spec_file)
    expanded = matrix.expand(experiment)
    folder = results / experiment.name
    found = look_at(experiment, expanded, site_of(experiment, folder), allow_commands)
    print_plan(screen.out(), experiment, expanded, _facts(expanded, found, folder, experiment), every_run)


def _facts(expanded: Plan, found: Preflight, folder: Path, experiment: Experiment) -> PlanFacts:
    attempts: dict[tuple[str, int], tuple[int, str]] = {}
    durations: list[tuple[str, float]] = []
    warnings = list(found.notes)
    try:
        with Store.reading(folder) as store:
            if store.experiment().sha256 == experiment.sha256:
                attempts, durations = store.attempts(), store.durations()
            elif store.would_be_set_aside(experiment):
                warnings.append(f"{folder} holds only failed runs, of another spec; `run` would move them aside")
            else:
                warnings.append(f"{folder} holds results of another spec under this name; `run` would refuse")
    except NothingStored:
        pass  # the plan is for all runs
    except StoreError as error:
        warnings.append(f"{str(error).splitlines()[0].removesuffix(':')}; `run` would refuse")
    pending = dealing.pending(expanded, attempts)
    time = estimate(expanded, pending, durations)
    basis = f"learned from {time.learned_from} finished runs" if time.learned_from else "a guess before the first run"
    return PlanFacts(
        server=found.server,
        volumes=tuple(VolumeFacts(**need.model_dump()) for need in found.volumes),
        estimate_s=time.seconds,
        estimate_basis=basis,
        runs_stored=len(expanded.runs) - len(pending),
        warnings=tuple(warnings),
        durability=found.durability,
    )
