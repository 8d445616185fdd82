"""Makes the export: a whole experiment as one JSON document, in the form of `document`. Pure.

A form's field takes the value's field of the same name, if there is one; only the others are made here. Waits are
uncut, including CPU time and its queue, so that the nine columns and the audit can be recomputed from the export.
Unknown values are null; NaN never appears.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel

from storagelab.findings.answer import answer
from storagelab.findings.kinds import kinds
from storagelab.findings.model import CellSummary, Comparison, Effect, Estimate, Findings, Sample
from storagelab.findings.times import figures_s
from storagelab.model.config import Config
from storagelab.model.latency import Latency
from storagelab.model.loads.inserts import Mixed, RandomInsert
from storagelab.model.loads.raw_io import RawIo
from storagelab.model.measurement import Measurement, Run
from storagelab.model.plan import Cell, Experiment, Plan
from storagelab.model.waits import conservation, normalise
from storagelab.report.export import findings_form as concluded
from storagelab.report.export import run_form as stored
from storagelab.report.export.document import SCHEMA, Opening
from storagelab.report.words.answer import answer_lines, headline
from storagelab.report.words.caution_texts import caution_sentence
from storagelab.report.words.secrets import masked
from storagelab.report.words.sentences import sentences

Json = dict[str, Any]


def to_json(experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings) -> str:
    """The export as text: one line, keys in a stable order, ending in a newline."""
    return "".join(json_pieces(experiment, plan, runs, findings))


def json_pieces(experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings) -> Iterator[str]:
    """The export's text, a cell at a time, for callers that may not need all of it."""
    yield _text(_opening(experiment, findings)).removesuffix("}") + ',"cells":['
    summaries = {summary.cell_id: summary for summary in findings.cells}
    by_cell: dict[str, list[Run]] = {cell.cell_id: [] for cell in plan.cells}
    for run in sorted(runs, key=lambda run: (run.repetition, run.attempt, run.sequence)):
        by_cell.setdefault(run.cell_id, []).append(run)
    for number, cell in enumerate(plan.cells):
        content = _cell(cell, by_cell[cell.cell_id], summaries.get(cell.cell_id))
        yield ("," if number else "") + _text(content)
    yield '],"findings":' + _text(_findings(findings)) + "}\n"


def _text(value: Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _filled(form: type, value: object, first: tuple[str, ...] = (), **made: Any) -> Json:
    """A form in its order, or with the fields `first` in front: those `made`, and those that `value` has under the
    same name.
    """
    names = _fields(form, first)
    assert made.keys() <= names.keys(), f"{form.__name__} has no field {made.keys() - names.keys()}"
    return {name: made[name] if name in made else plain(getattr(value, name)) for name in names}


def _copied(form: type, value: object, **made: Any) -> Json:
    """Does the same as `_filled` for a value whose fields are JSON already: a large export spends most of its time
    on these.
    """
    return {name: made[name] if name in made else getattr(value, name) for name in _fields(form, ())}


@cache
def _fields(form: type, first: tuple[str, ...]) -> dict[str, None]:
    return dict.fromkeys((*first, *form.__annotations__))


def plain(value: object) -> Any:
    """Any value in JSON's terms: no NaN or infinity (null instead), no password, no custom type."""
    if isinstance(value, float):  # most frequent first: a large export has millions of these
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return masked(value)
    if value is None or isinstance(value, int):
        return value
    match value:
        case BaseModel():
            return plain(value.model_dump(mode="json"))
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case Iterable():
            return _plain_list(value)
    return masked(str(value))


def _plain_list(values: Iterable[Any]) -> list[object]:
    # Most lists are figures without a gap, and their sum shows it quickly: a large report has millions of these.
    if isinstance(values, tuple | list):
        with contextlib.suppress(TypeError):
            if math.isfinite(sum(values)):
                return list(values)
    return [plain(value) for value in values]


def _opening(experiment: Experiment, findings: Findings) -> Json:
    """The fields before the cells."""
    spec = {"source": masked(experiment.source), "sha256": experiment.sha256, "text": masked(experiment.text)}
    factors = [
        {"name": factor.name, "levels": [plain(level.value) for level in factor.levels]}
        for factor in experiment.factors
    ]
    return _filled(
        Opening, experiment, schema=SCHEMA, experiment=experiment.name, provenance=findings.provenance, spec=spec,
        factors=factors,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Cells and runs
# ---------------------------------------------------------------------------------------------------------------------


def _cell(cell: Cell, runs: Sequence[Run], summary: CellSummary | None) -> Json:
    burn_in = [_run(run) for run in runs if run.burn_in]
    return {
        "cell_id": cell.cell_id,
        "levels": plain(cell.levels),
        "provenance": summary.provenance if summary else None,
        "config": plain(_config(cell.config)),
        "runs": [_run(run) for run in runs if not run.burn_in],
        **({"burn_in": burn_in} if burn_in else {}),
        "summary": _summary(summary),
    }


_WORKLOAD: Json = {
    **{
        name: None if field.is_required() else field.default
        for member in (RandomInsert, RawIo, Mixed)
        for name, field in member.model_fields.items()
    },
    "kind": "random-insert",
}
"""Schema 1 has one table for all kinds of workload. A key that a kind lacks has its default; raw I/O has no kind of
its own.
"""


def _config(config: Config) -> Json:
    tables = config.model_dump(mode="json", exclude_none=True)
    load = {name: value for name, value in tables["workload"].items() if value != "raw-io"}
    workload = {name: value for name, value in {**_WORKLOAD, **load}.items() if value is not None}
    return {**tables, "workload": workload}


def _run(run: Run) -> Json:
    """One run; a failed one has its status and reason and no figures."""
    measured = _NOT_MEASURED if run.measurement is None or run.status == "failed" else _measured(run.measurement)
    return {**_filled(stored.Planned, run), **measured}


_IF_THERE = ("turns", "crowds")
"""Fields of runs of some kinds only."""
_NOT_MEASURED: Json = {
    **dict.fromkeys(name for name in stored.Measured.__annotations__ if name not in _IF_THERE), "connection_s": [],
    "latency_s": {}, "waits": [], "waiting_tasks": [], "counters": {}, "series": {"at_s": [], "columns": {}},
    "environment": {}, "checks": [],
}  # fmt: skip


def _measured(measured: Measurement) -> Json:
    waits, durability, turns = measured.waits, measured.durability, measured.turns
    audit = conservation(waits) if waits is not None else None
    rows = normalise(waits) if waits is not None else ()
    found = _filled(
        stored.Measured,
        measured,
        rows=measured.work.amount,
        rows_per_s=measured.work_per_s,
        cpu_s=waits.cpu_s if waits is not None else None,
        available_s=audit and audit.available_s,
        explained=audit and audit.explained,
        latency_s=_latencies(measured.latency),
        waits=[_copied(stored.Wait, row, counted=row.method == "counter") for row in rows],
        waiting_tasks=[
            _copied(stored.WaitingTask, task, resource=masked(task.resource.text)) for task in measured.waiting_tasks
        ],
        crowds=[_copied(stored.CrowdForm, crowd) for crowd in measured.crowds],
        series=_filled(stored.SeriesForm, measured.series),
        checks=[_filled(stored.CheckForm, check) for check in measured.checks],
        turns=turns and _filled(stored.TurnsForm, turns, watched_latency_s=_latencies(turns.watched_latency)),
        durability=durability and _filled(stored.DurabilityForm, durability),
    )
    return {name: value for name, value in found.items() if value or name not in _IF_THERE}


def _latencies(latency: Latency | None) -> Mapping[str, float]:
    return {} if latency is None else figures_s(latency)


# ---------------------------------------------------------------------------------------------------------------------
# Findings
# ---------------------------------------------------------------------------------------------------------------------


def _interval(estimate: Estimate | None) -> list[float] | None:
    if estimate is None or estimate.low is None or estimate.high is None:
        return None
    return [estimate.low, estimate.high]


def _summary(summary: CellSummary | None) -> Json:
    """Figures of elapsed time; null while nothing is measured; `ci95_s` is null if there are too few runs."""
    sample = summary.elapsed_s if summary else None
    fitted, mean = (sample.judged, sample.mean) if sample else (None, None)
    latency = summary.latency.items() if summary else ()
    return {
        "mean_s": mean and mean.value,
        "median_s": sample and sample.median,
        "ci95_s": _interval(mean),
        "fitted_s": fitted and fitted.value,
        "fitted_ci95_s": _interval(fitted),
        "sd_s": sample and sample.sd,
        "min_s": sample and sample.minimum,
        "max_s": sample and sample.maximum,
        "rows_per_s": _rate(summary.rows_per_s if summary else None),
        "latency": {name: {"value_s": one.value, "ci95_s": _interval(one)} for name, one in latency},
        "runs_planned": getattr(summary, "runs_planned", None),
        **{name: getattr(summary, name, 0) for name in ("runs_ok", "runs_unverified", "runs_failed")},
        "explained": getattr(summary, "explained", None),
        **({"steady": summary.steady} if summary and summary.raw_io else {}),
        **({kind: _plain_list(those) for kind, those in summary.found.items()} if summary else {}),
    }


def _rate(sample: Sample | None) -> Json | None:
    if sample is None:
        return None
    mean, fitted = sample.mean, sample.judged
    return {
        "mean": mean.value, "ci95": _interval(mean), "fitted": fitted.value, "fitted_ci95": _interval(fitted),
    }  # fmt: skip


def _findings(findings: Findings) -> Json:
    """The findings. Kinds that an experiment has at most once come before `fleet`, lists of the others at the end."""
    found = {kind: _plain_list(kind.of(findings)) for kind in kinds() if not kind.of_cells}
    one = {kind.kind: next(iter(those), None) for kind, those in found.items() if kind.alone}
    made: Json = {}
    for name, value in _concluded(findings).items():
        made |= {**(one if name == "fleet" else {}), name: value}
    return made | {kind.kind: those for kind, those in found.items() if not kind.alone}


def _concluded(findings: Findings) -> Json:
    found = answer(findings)
    lines = [masked(line.text) for line in answer_lines(findings, found)]
    return _filled(
        concluded.FindingsForm,
        findings,
        ("verdict", "compared", "headline", "sentences", "answer"),
        headline=masked(headline(findings, found)),
        sentences=plain(sentences(findings, found)),
        answer=_filled(concluded.AnswerForm, found, lines=lines, doubts=list(found.cautions)),
        left_out=[{"cell_id": cell_id, "repetition": repetition} for cell_id, repetition in findings.left_out],
        loads=[
            _filled(concluded.LoadForm, one, ("load", "cells", "verdict", "best", "tied", "fastest"))
            for one in findings.loads
        ],
        comparisons=[_ratio(concluded.ComparisonForm, one) for one in findings.comparisons],
        effects=[_ratio(concluded.EffectForm, one) for one in findings.effects],
        cautions=[
            _filled(concluded.CautionForm, one, text=masked(caution_sentence(one, findings)))
            for one in findings.cautions
        ],
        speed_ups=[_ratio(concluded.EffectForm, one) for one in findings.speed_ups],
    )


def _ratio(form: type, one: Comparison | Effect) -> Json:
    return _filled(form, one, ratio=one.ratio.value, ci95=_interval(one.ratio))
