"""Runs -> Findings: what the experiment shows, and how surely. Pure; `report` writes the text."""

from __future__ import annotations

from collections.abc import Sequence

from storagelab.findings import FitKind, hosts
from storagelab.findings.basis import basis_of
from storagelab.findings.cautions import cautions_of
from storagelab.findings.evidence import Evidence
from storagelab.findings.kinds import found_in
from storagelab.findings.model import Findings
from storagelab.findings.raced import raced
from storagelab.findings.statements import state
from storagelab.findings.summaries import summaries, with_fitted_means, without_intervals
from storagelab.findings.times import of_set_time, timed, unit_of
from storagelab.findings.verdicts import loads_of
from storagelab.findings.wait_changes import wait_changes, wait_trends
from storagelab.findings.wait_classes import native_names
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan


def analyse(experiment: Experiment, plan: Plan, runs: Sequence[Run], fit: FitKind = "robust") -> Findings:
    """All findings of an experiment from the runs stored so far: the latest usable attempt of each cell and
    repetition.

    Failed runs are counted but not used otherwise; burn-in runs are not judged. The robust fit leaves odd runs out
    whose record shows a cause that is the machine's; other odd runs count, and are named.
    """
    basis = basis_of(experiment, plan, runs, fit)
    compared, rounds, blocks = basis.compared, basis.rounds, basis.blocks
    race = None
    if experiment.race and not basis.in_stretches:
        race = raced(experiment, plan, list(map(timed, runs)), rounds, basis.kept, basis.fitted)
    stated = state(experiment.factors, plan, basis.fitted, blocks, race)
    judged = stated.judged
    cells = with_fitted_means(summaries(experiment.factors, plan, runs, basis), basis, judged, compared)
    by_wait = cells
    # Engines have no common names of waits, so engines are compared by what is waited for.
    several_engines = len({cell.config.target.engine for cell in plan.cells}) > 1
    if several_engines:
        by_wait = summaries(experiment.factors, plan, runs, basis, by_class=True)
        cells = tuple(
            one.model_copy(update={"spent": joined.spent}) for one, joined in zip(cells, by_wait, strict=True)
        )
    if basis.in_stretches:
        cells, by_wait = without_intervals(cells), without_intervals(by_wait)
    loads = [places for _, places in loads_of(experiment.factors, plan.cells)]
    evidence = Evidence(experiment, plan, tuple(runs), cells, basis, race)
    return Findings(
        experiment=experiment.name,
        question=experiment.question,
        provenance=basis.provenance,
        order=experiment.order,
        factors=experiment.factors,
        runs_planned=len(plan.runs),
        runs_stored=len({(run.cell_id, run.repetition) for run in runs}),
        **dict(judged),
        fit=fit,
        left_out=tuple(basis.left_out),
        cells=cells,
        effects=stated.effects,
        wait_changes=wait_changes(by_wait, judged.fastest, judged.worst),
        wait_trends=tuple(wait_trends(experiment.factors, by_wait)),
        cautions=cautions_of(evidence),
        compared=compared,
        set_time=of_set_time(plan),
        unit=unit_of(plan),
        dependences=stated.dependences,
        speed_ups=stated.speed_ups,
        found=found_in(evidence),
        fleet=None if basis.fleet is None else hosts.summarise(basis.fleet, plan, loads, blocks),
        prefer=experiment.prefer,
        indifferent=experiment.margin,
        wait_names=native_names(row for cell in cells for row in cell.waits) if several_engines else {},
    )
