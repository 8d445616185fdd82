"""`storagelab plan`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from storagelab import screen, verbs
from storagelab.errors import StoreError, noting, refuse

if TYPE_CHECKING:
    from storagelab.model.plan import Experiment, Plan
    from storagelab.model.target import Preflight
    from storagelab.report.text.plan import PlanFacts

app = verbs.Verb("Measure", 3)


def _is_not_judged(given: verbs.Given) -> bool:
    order, configs = verbs.spec_of(given)
    return order in ("cell-by-cell", "as-listed") and not all(config.simulated for config in configs)


UNUSED = (
    verbs.Unused("--all", verbs.when("as_json"), "is for people", "Leave it out: --json has all."),
    verbs.Unused("--pilot", _is_not_judged, "says what can be found, and runs in this order are not judged",
           'Leave it out, or set order = "randomised" in the spec.'),
)  # fmt: skip


@app.command(unused=UNUSED)
def plan(
    spec_file: verbs.SpecArgument,
    results: verbs.ResultsOption = verbs.DEFAULT_RESULTS,
    against: verbs.AgainstOption = None,
    all_: Annotated[bool, Option("--all", help="Add reasons, solutions, each cell and each run.")] = False,
    allow_commands: verbs.AllowCommandsOption = False,
    despite_space: verbs.DespiteSpaceOption = False,
    pilot: Annotated[
        str | None,
        Option(
            "--pilot",
            metavar="NAME",
            help="Give the smallest difference that can be found, by the scatter of this experiment's runs.",
        ),
    ] = None,
    as_json: verbs.JsonOption = False,
) -> None:
    """Show what to decide, and the number, time and space of the runs.

    It also names everything that the runs need and this machine lacks. It makes no run and changes nothing.
    """
    from storagelab.report.text.as_data import plan_json
    from storagelab.report.text.plan import of_preparing, print_plan
    from storagelab.run import stored
    from storagelab.run.store import FILE_NAME
    from storagelab.spec import matrix, reading
    from storagelab.verbs._planning import look_at, same_content, site_of, with_files

    experiment = stored.as_begun(reading.load(spec_file, against), results)
    expanded = matrix.expand(experiment)
    folder = results / experiment.name
    site = site_of(experiment, folder, despite_space=despite_space)
    found = look_at(experiment, expanded, site, allow_commands)
    lacks = list(found.lacks)
    if against is not None or (folder / FILE_NAME).exists():
        with noting(lacks):
            experiment = with_files(experiment, expanded, site)
    facts = _facts(expanded, found, folder, experiment)
    stored_as = experiment.name if facts.runs_stored else None
    short = (*same_content(experiment), *_too_short(expanded, found, stored_as, results))
    wiped = (f"runs destroy everything on {one.text}: they need --yes-wipe {one.serial}" for one in found.drives)
    facts = replace(
        facts, warnings=(*wiped, *of_preparing(experiment, expanded), *facts.warnings, *short),
        tells=_tells(experiment, expanded, pilot or stored_as, results, gated=against is not None),
    )  # fmt: skip
    if as_json:
        screen.write(plan_json(experiment, expanded, facts, lacks))
    else:
        print_plan(screen.out(), experiment, expanded, facts, all_)
    refuse(lacks)


def _tells(experiment: Experiment, expanded: Plan, pilot: str | None, results: Path, *, gated: bool) -> str:
    """Returns the smallest difference that the plan can show, as text, or "" if it is unknown. It is computed from the
    scatter of an experiment's stored runs. For a gate or few repetitions without stored runs, the scatter is assumed.
    """
    from storagelab.model.plan import REPETITIONS_SOUND
    from storagelab.report.text.plan import tells_text
    from storagelab.run import stored

    measured = any(not cell.config.simulated for cell in expanded.cells)
    few = (gated or experiment.repetitions < REPETITIONS_SOUND) and len(expanded.cells) > 1
    if (
        (pilot is None and not few)
        or experiment.order == "cell-by-cell"
        or (experiment.order == "as-listed" and measured)
    ):
        return ""
    from storagelab.findings import power  # here, because statistics load slowly and are rarely needed

    of = None if pilot is None else stored.read(pilot, results)
    scatter = power.ASSUMED if of is None else power.scatter_of(of.plan, of.runs)
    if scatter is None:
        return ""
    return tells_text(power.tells(experiment.factors, expanded, experiment.repetitions, scatter, in_pairs=gated))


def _too_short(expanded: Plan, found: Preflight, stored_as: str | None, results: Path) -> tuple[str, ...]:
    """Returns notes if runs are too short for their servers' checkpoints, or are measured before the redo log
    is full.
    """
    if not found.cycles and not found.log_rooms:
        return ()
    from storagelab.findings import comparable
    from storagelab.report.text.plan import before_full, too_short
    from storagelab.run import stored

    rates = comparable.log_rates(stored.read(stored_as, results).runs) if stored_as else {}
    return (*too_short(expanded, found.cycles, rates), *before_full(expanded, found.log_rooms, rates))


def _facts(expanded: Plan, found: Preflight, folder: Path, experiment: Experiment) -> PlanFacts:
    from storagelab.report.text.plan import PlanFacts
    from storagelab.run import scheduling
    from storagelab.run.estimate import estimate
    from storagelab.run.store import NothingStored, Store
    from storagelab.spec import given_files
    from storagelab.verbs._planning import guessed
    from storagelab.words.numbers import percent, plural

    attempts: dict[tuple[str, int], tuple[int, str]] = {}
    durations: list[tuple[str, float]] = []
    set_up: float | None = None
    warnings = list(found.notes)
    try:
        with Store.reading(folder) as store:
            stored_as = store.experiment()
            changed = given_files.differences(stored_as.files, experiment.files)
            if stored_as.sha256 == experiment.sha256 and not changed:
                attempts, durations, set_up = store.attempts(), store.durations(), store.set_up_share()
                if stored_as.race is not None:
                    warnings.append(
                        f"{folder} holds a race: this is the plan if no layout leaves; continue with `run --find-best`"
                    )
            elif store.would_be_set_aside(experiment):
                warnings.append(f"{folder} holds only failed runs, of another spec; `run` would move them aside")
            else:
                what = f"other files ({'; '.join(changed)})" if changed else "another spec under this name"
                warnings.append(f"{folder} holds results of {what}; `run` would refuse")
    except NothingStored:
        pass  # without usable stored runs, the plan is for all runs
    except StoreError as error:
        warnings.append(f"{str(error).splitlines()[0].removesuffix(':')}; `run` would refuse")
    pending = scheduling.pending(expanded, attempts)
    time = estimate(expanded, pending, durations, set_up, found.least_s)
    basis = f"learned from {plural(time.learned_from, 'finished run')}" if time.learned_from else guessed(expanded)
    if time.set_up is not None:
        basis = f"{percent(time.set_up)} of it set-up, warm-up and clean-up; {basis}"
    return PlanFacts(
        server=found.server,
        volumes=found.volumes,
        estimate_s=time.seconds,
        estimate_basis=basis,
        runs_stored=len(expanded.runs) - len(pending),
        warnings=tuple(warnings),
        durability=found.durability,
        steps=found.steps,
        objects=found.objects,
    )
