"""Makes the export: a whole experiment as one JSON document, in the form of `document`. Pure.

Waits are uncut, CPU and its queue included, so that the nine columns and the audit can be made again from it. What is
not known is null; NaN never appears. Built by hand rather than dumped by pydantic, so that 5,000 runs take only seconds.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from storagelab.findings import latencies
from storagelab.findings.answer import answer
from storagelab.findings.answer_kinds import Answer
from storagelab.findings.model import CellSummary, Comparison, Effect, Estimate, Findings, RaceSummary, Sample
from storagelab.model.config import Config
from storagelab.model.loads.inserts import Mixed, RandomInsert
from storagelab.model.loads.raw_io import RawIo
from storagelab.model.measurement import Check, Measurement, Run
from storagelab.model.plan import Cell, Experiment, Plan
from storagelab.model.values import Frozen, JsonValue
from storagelab.model.waits import WaitStat, conservation, normalise
from storagelab.report.export.document import SCHEMA, Opening
from storagelab.report.export.findings_form import AnswerForm, ComparisonForm, EffectForm, FindingsForm, RaceForm
from storagelab.report.export.form import Interval, Levels
from storagelab.report.export.run_form import BurnIn, CellForm, CheckForm, Measured, Rate, RunForm, Summary, Wait
from storagelab.report.words.answer import answer_lines, headline
from storagelab.report.words.caution_texts import caution_sentence
from storagelab.report.words.secrets import masked
from storagelab.report.words.sentences import sentences

Json = dict[str, object]


def to_json(experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings) -> str:
    """The export as text: one line, keys in a stable order, ending in a newline."""
    return "".join(json_pieces(experiment, plan, runs, findings))


def json_pieces(experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings) -> Iterator[str]:
    """The export's text, a cell at a time, for those who may not need all of it."""
    yield _text(_opening(experiment, findings)).removesuffix("}") + ',"cells":['
    summaries = {summary.cell_id: summary for summary in findings.cells}
    by_cell: dict[str, list[Run]] = {cell.cell_id: [] for cell in plan.cells}
    for run in sorted(runs, key=lambda run: (run.repetition, run.attempt, run.sequence)):
        by_cell.setdefault(run.cell_id, []).append(run)
    for number, cell in enumerate(plan.cells):
        told = _cell(cell, by_cell[cell.cell_id], summaries.get(cell.cell_id))
        yield ("," if number else "") + _text(told)
    yield '],"findings":' + _text(_findings(findings)) + "}\n"


def _text(value: Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _opening(experiment: Experiment, findings: Findings) -> Opening:
    """What stands before the cells."""
    return {
        "schema": SCHEMA,
        "experiment": experiment.name,
        "provenance": findings.provenance,
        "question": masked(experiment.question),
        "spec": {"source": masked(experiment.source), "sha256": experiment.sha256, "text": masked(experiment.text)},
        "repetitions": experiment.repetitions,
        "order": experiment.order,
        "seed": experiment.seed,
        "factors": [
            {"name": factor.name, "levels": [plain(level.value) for level in factor.levels]}
            for factor in experiment.factors
        ],
    }


def _race(race: RaceSummary | None) -> RaceForm | None:
    if race is None:
        return None
    return {
        "within": race.within, "rounds": race.rounds, "runs_of_all": race.runs_of_all, "spent_s": race.spent_s,
        "of_all_s": race.of_all_s, "left": [{"cell_id": cell_id, "after_round": after} for cell_id, after in race.left],
        "open": list(race.open), "small": None,
    }  # fmt: skip


def plain(value: object) -> object:
    """Any value in JSON's terms: no NaN or infinity (null instead), no password, no custom type."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return masked(str(value))


def _numbers(values: Sequence[float | None]) -> list[float | None]:
    # Most series have no gap, and their sum shows it quickly: a large report has millions of these figures.
    with contextlib.suppress(TypeError):
        if math.isfinite(sum(values)):  # type: ignore[arg-type]
            return list(values)
    return [value if value is not None and math.isfinite(value) else None for value in values]


def levels_of(levels: Mapping[str, JsonValue]) -> Levels:
    return {name: plain(value) for name, value in levels.items()}


# ---------------------------------------------------------------------------------------------------------------------
# Cells and runs
# ---------------------------------------------------------------------------------------------------------------------


def _cell(cell: Cell, runs: Sequence[Run], summary: CellSummary | None) -> CellForm:
    made = [_run(run) for run in runs if run.burn_in]
    burn_in: BurnIn = {"burn_in": made} if made else {}
    return {
        "cell_id": cell.cell_id,
        "levels": levels_of(cell.levels),
        "provenance": summary.provenance if summary else None,
        "config": plain(_config(cell.config)),
        "runs": [_run(run) for run in runs if not run.burn_in],
        **burn_in,
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
"""Schema 1 has one table for all kinds of workload. A key that a kind lacks has its default; raw I/O has no own kind."""


def _config(config: Config) -> Json:
    tables = config.model_dump(mode="json", exclude_none=True)
    said = {name: value for name, value in tables["workload"].items() if value != "raw-io"}
    workload = {name: value for name, value in {**_WORKLOAD, **said}.items() if value is not None}
    return {**tables, "workload": workload}


def _run(run: Run) -> RunForm:
    """One run; a failed one has its status and reason and no figures."""
    measured = _measured(run.measurement) if run.measurement is not None and run.status != "failed" else _NOT_MEASURED
    return {
        "repetition": run.repetition,
        "attempt": run.attempt,
        "status": run.status,
        "reason": masked(run.reason),
        "sequence": run.sequence,
        "block": run.block,
        "seed": run.seed,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "wall_s": run.wall_s,
        **measured,
    }


_NOT_MEASURED: Measured = {
    "provenance": None, "elapsed_s": None, "rows": None, "rows_per_s": None, "checkpoint_s": None, "cpu_s": None,
    "available_s": None, "explained": None, "connection_s": [], "latency_s": {}, "waits": [],
    "waiting_tasks": [], "counters": {}, "series": {"at_s": [], "columns": {}}, "environment": {}, "checks": [],
    "observer": None, "durability": None,
}  # fmt: skip


def _measured(measured: Measurement) -> Measured:
    audit = conservation(measured.waits) if measured.waits is not None else None
    cost = measured.observer
    return {
        "provenance": measured.provenance,
        "elapsed_s": measured.elapsed_s,
        "rows": measured.work.amount,
        "rows_per_s": measured.work_per_s,
        "checkpoint_s": measured.checkpoint_s,
        "cpu_s": measured.waits.cpu_s if measured.waits is not None else None,
        "available_s": audit.available_s if audit else None,
        "explained": audit.explained if audit else None,
        "connection_s": list(measured.connection_s),
        "latency_s": latencies.figures_s(measured.latency) if measured.latency is not None else {},
        "waits": [_wait(row) for row in normalise(measured.waits)] if measured.waits is not None else [],
        "waiting_tasks": [
            {
                "at_s": task.at_s, "wait_type": task.wait_type, "resource": masked(task.resource.text),
                "sessions": task.sessions, "data_file": task.data_file, "held_by": masked(task.held_by),
            }
            for task in measured.waiting_tasks
        ],
        "counters": plain(measured.counters),
        "series": {
            "at_s": _numbers(measured.series.at_s),
            "columns": {name: _numbers(values) for name, values in measured.series.columns.items()},
        },
        "environment": plain(measured.environment),
        "checks": [_check(check) for check in measured.checks],
        "observer": None if cost is None else {
            "sampler_cpu_s": cost.sampler_cpu_s, "session_cpu_s": cost.session_cpu_s, "ticks": cost.ticks,
            "late_ticks": cost.late_ticks, "blind_s": cost.blind_s,
        },
        "durability": None if measured.durability is None else {
            "commits": measured.durability.commits,
            "settings": [one.model_dump() for one in measured.durability.settings],
            "whole_pages": measured.durability.whole_pages,
        },
    }  # fmt: skip


def _wait(row: WaitStat) -> Wait:
    return {
        "wait_type": row.wait_type,
        "wait_s": row.wait_s,
        "resource_s": row.resource_s,
        "signal_s": row.signal_s,
        "wait_count": row.wait_count,
        "counted": row.method == "counter",
        "method": row.method,
        "category": row.category,
        "analogue": row.analogue,
        "is_wait": row.is_wait,
    }


def _check(check: Check) -> CheckForm:
    return {
        "name": check.name, "asked": masked(check.asked), "got": masked(check.got), "ok": check.ok,
        "read_from": check.read_from,
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What is concluded
# ---------------------------------------------------------------------------------------------------------------------


def _interval(estimate: Estimate) -> Interval:
    return None if estimate.low is None or estimate.high is None else [estimate.low, estimate.high]


def _summary(summary: CellSummary | None) -> Summary:
    """Figures of elapsed time; null while nothing is measured, `ci95_s` null if there are too few runs."""
    sample = summary.elapsed_s if summary else None
    mean = _arithmetic(sample) if sample else None
    told: Summary = {
        "mean_s": mean.value if mean else None,
        "median_s": sample.median if sample else None,
        "ci95_s": _interval(mean) if mean else None,
        "fitted_s": sample.mean.value if sample else None,
        "fitted_ci95_s": _interval(sample.mean) if sample else None,
        "sd_s": sample.sd if sample else None,
        "min_s": sample.minimum if sample else None,
        "max_s": sample.maximum if sample else None,
        "rows_per_s": _rate(summary.rows_per_s if summary else None),
        "latency": {name: {"value_s": one.value, "ci95_s": _interval(one)} for name, one in summary.latency.items()}
        if summary
        else {},
        "runs_planned": summary.runs_planned if summary else None,
        "runs_ok": summary.runs_ok if summary else 0,
        "runs_unverified": summary.runs_unverified if summary else 0,
        "runs_failed": summary.runs_failed if summary else 0,
        "explained": summary.explained if summary else None,
    }
    if summary and summary.raw_io:
        told["steady"] = summary.steady
    if summary and summary.reached:
        told["reached"] = [one.model_dump() for one in summary.reached]
    return told


def _rate(sample: Sample | None) -> Rate | None:
    if sample is None:
        return None
    mean = _arithmetic(sample)
    return {
        "mean": mean.value, "ci95": _interval(mean), "fitted": sample.mean.value, "fitted_ci95": _interval(sample.mean),
    }  # fmt: skip


def _arithmetic(sample: Sample) -> Estimate:
    return sample.arithmetic or sample.mean


def _answer(findings: Findings, found: Answer) -> AnswerForm:
    return {
        "lines": [masked(line.text) for line in answer_lines(findings, found)],
        "provenance": found.provenance,
        "runs": found.runs,
        "runs_planned": found.runs_planned,
        "layouts": found.layouts,
        "compared": found.compared,
        "unable": list(found.unable),
        "choices": _dumped(found.choices),
        "gains": _dumped(found.gains),
        "causes": _dumped(found.causes),
        "doubts": list(found.cautions),
        "indifferent": found.indifferent,
    }


def _dumped(values: Iterable[Frozen]) -> list[object]:
    return [plain(value.model_dump(mode="json")) for value in values]


def _findings(findings: Findings) -> FindingsForm:
    found = answer(findings)
    return {
        "verdict": findings.verdict,
        "compared": findings.compared,
        "headline": masked(headline(findings, found)),
        "sentences": [masked(sentence) for sentence in sentences(findings, found)],
        "answer": _answer(findings, found),
        "best": list(findings.best),
        "tied": list(findings.tied),
        "worst": findings.worst,
        "not_compared": list(findings.not_compared),
        "at_most_slower": findings.at_most_slower,
        "race": _race(findings.race),
        "fleet": None if findings.fleet is None else plain(findings.fleet.model_dump()),
        "fit": findings.fit,
        "left_out": [{"cell_id": cell_id, "repetition": repetition} for cell_id, repetition in findings.left_out],
        "loads": [
            {"load": levels_of(one.load), "cells": list(one.cells), "verdict": one.verdict, "best": list(one.best),
             "tied": list(one.tied), "fastest": one.fastest, "worst": one.worst,
             "not_compared": list(one.not_compared), "at_most_slower": one.at_most_slower}
            for one in findings.loads
        ],
        "comparisons": [_comparison(item) for item in findings.comparisons],
        "effects": [_effect(effect) for effect in findings.effects],
        "cautions": [
            {
                "kind": caution.kind, "severity": caution.severity, "cells": list(caution.cells),
                "figures": plain(caution.figures), "text": masked(caution_sentence(caution, findings)),
            }
            for caution in findings.cautions
        ],
        "wait_changes": _dumped(findings.wait_changes),
        "wait_trends": _dumped(findings.wait_trends),
        "wait_names": {name: list(natives) for name, natives in findings.wait_names.items()},
        "dependences": _dumped(findings.dependences),
        "speed_ups": [_effect(effect) for effect in findings.speed_ups],
        "drive_trends": _dumped(findings.drive_trends),
    }  # fmt: skip


def _comparison(item: Comparison) -> ComparisonForm:
    return {
        "cell_id": item.cell_id, "best_cell_id": item.best_cell_id, "ratio": item.ratio.value,
        "ci95": _interval(item.ratio), "p_value": item.p_value, "distinguishable": item.distinguishable,
        "across_blocks": item.across_blocks, "at_most_slower": item.at_most_slower,
    }  # fmt: skip


def _effect(effect: Effect) -> EffectForm:
    return {
        "factor": effect.factor, "level": plain(effect.level), "baseline": plain(effect.baseline),
        "at": levels_of(effect.at), "ratio": effect.ratio.value, "ci95": _interval(effect.ratio),
        "pairs": effect.pairs, "distinguishable": effect.distinguishable, "across_blocks": effect.across_blocks,
    }  # fmt: skip
