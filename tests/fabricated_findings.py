"""Findings made up for tests of words and tables: every figure is FABRICATED, none was measured.

    findings = make_findings(FILES, {1: 2.94, 4: 2.41}, verdict="winner")

makes one cell per entry, the first key's cells in the order given; the best is the one with the smallest mean.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from storagelab.findings.model import (
    Caution,
    CellSummary,
    Comparison,
    Effect,
    Estimate,
    Findings,
    Point,
    Sample,
    WaitChange,
    WaitTrend,
)  # fmt: skip
from storagelab.model.plan import Factor, Level
from storagelab.model.values import JsonValue
from storagelab.model.waits import WaitStat
from storagelab.report.words.answer import headline
from storagelab.report.words.sentences import sentences

FILES = "layout.data_files"
LOG = "layout.log"
ROWS = 320_000


def make_factor(name: str, levels: Sequence[JsonValue]) -> Factor:
    sets = (lambda value: {name: value}) if "." in name else (lambda value: {"target.settings.x": value})
    return Factor(name=name, levels=tuple(Level(value=value, sets=sets(value)) for value in levels))


def make_sample(mean: float, repetitions: int = 5, half_width: float = 0.02) -> Sample:
    """`repetitions` points around `mean`; the interval is mean +- half_width of it (a share), None for a single run."""
    spread = half_width * mean
    steps = [spread * (number - (repetitions - 1) / 2) / max(1, repetitions) for number in range(repetitions)]
    single = repetitions == 1
    return Sample(
        mean=Estimate(value=mean, low=None if single else mean - spread, high=None if single else mean + spread),
        median=mean, sd=None if single else spread / 2, minimum=mean + min(steps), maximum=mean + max(steps),
        points=tuple(Point(repetition=n, value=mean + step) for n, step in enumerate(steps, 1)),
    )  # fmt: skip


def make_wait(
    wait_type: str, wait_s: float, analogue: str = "", method: str = "sampled", signal: float = 0.1
) -> WaitStat:
    return WaitStat.model_validate(
        {
            "wait_type": wait_type, "analogue": analogue, "method": method, "wait_s": wait_s,
            "resource_s": (1 - signal) * wait_s, "signal_s": signal * wait_s, "wait_count": round(wait_s * 1_234),
        }
    )  # fmt: skip


def make_cell(
    cell_id: str, levels: Mapping[str, JsonValue], mean_s: float | None, repetitions: int = 5, extend: float = 0.1
) -> CellSummary:
    """A cell of 16 connections that waits for the log and, an `extend` share of its time, for Lock:extend; None = no
    runs."""
    available_s = 16 * (mean_s or 0)
    waits = (
        make_wait("LWLock:WALWrite", 0.5 * available_s, "WRITELOG"),
        make_wait("Lock:extend", extend * available_s, "PAGELATCH_* on PFS/GAM/SGAM"),
        make_wait("RUNNABLE_NO_EVENT", 0.06 * available_s, "SOS_SCHEDULER_YIELD", "derived", signal=1.0),
        make_wait("IO:SLRURead", 0.004 * available_s),
        WaitStat(
            wait_type="ON_CPU", analogue="(CPU)", category="cpu", method="derived", wait_s=0.2 * available_s,
            resource_s=None, signal_s=None, wait_count=None, is_wait=False,
        ),
    )  # fmt: skip
    return CellSummary(
        cell_id=cell_id, levels=dict(levels), provenance="measured", runs_planned=repetitions,
        runs_ok=repetitions if mean_s else 0, runs_unverified=0, runs_failed=0, connections=16,
        data_files=int(levels.get(FILES, 1)), elapsed_s=make_sample(mean_s, repetitions) if mean_s else None,
        work_per_s=make_sample(ROWS / mean_s, repetitions) if mean_s else None, waits=waits if mean_s else (),
        available_s=available_s or None, explained=0.987 if mean_s else None,
    )  # fmt: skip


def make_findings(
    factors: Mapping[str, Sequence[JsonValue]],
    means: Mapping[tuple[JsonValue, ...] | JsonValue, float | None],
    *,
    verdict: str,
    tied: Sequence[tuple[JsonValue, ...] | JsonValue] = (),
    repetitions: int = 5,
    provenance: str = "measured",
    effects: Sequence[Effect] = (),
    trends: Sequence[WaitTrend] = (),
    changes: Sequence[WaitChange] = (),
    cautions: Sequence[Caution] = (),
) -> Findings:
    """Findings over the full cross of `factors`; `means` maps a combination of levels to its mean elapsed seconds."""
    names = list(factors)
    cells = []
    for number, values in enumerate(itertools.product(*factors.values()), 1):
        key = values if len(values) != 1 else values[0]
        extend = 0.25 / (values[0] if isinstance(values[0], int) and values else 1) if values else 0.1
        cells.append(
            (key, make_cell(f"c{number}", dict(zip(names, values, strict=True)), means[key], repetitions, extend))
        )
    ids = {key: cell.cell_id for key, cell in cells}
    measured = sorted((cell for _, cell in cells if cell.elapsed_s), key=lambda cell: cell.elapsed_s.mean.value)
    judged = verdict not in ("too-few-runs", "single-cell")
    best = measured[0].cell_id if measured else ""
    tied_ids = [ids[key] for key in tied] if verdict != "indistinguishable" else [c.cell_id for c in measured[1:]]
    comparisons = [_comparison(cell, measured[0], cell.cell_id not in tied_ids) for cell in measured[1:] if judged]
    return Findings.model_validate(
        {
            "experiment": "files-and-log-place", "question": "How many data files?", "provenance": provenance,
            "factors": tuple(make_factor(name, levels) for name, levels in factors.items()),
            "runs_planned": repetitions * len(cells), "runs_stored": repetitions * len(measured), "verdict": verdict,
            "best": (best,) if best and judged else (), "tied": tuple(tied_ids) if judged else (),
            "at_most_slower": 1.01 if tied_ids and judged else None,
            "worst": measured[-1].cell_id if judged and len(measured) > 1 else None,
            "cells": tuple(cell for _, cell in cells), "comparisons": tuple(comparisons), "effects": tuple(effects),
            "wait_changes": tuple(changes), "wait_trends": tuple(trends), "cautions": tuple(cautions),
        }
    )  # fmt: skip


def _comparison(cell: CellSummary, best: CellSummary, distinguishable: bool) -> Comparison:
    ratio = cell.elapsed_s.mean.value / best.elapsed_s.mean.value
    reach = min(0.03, 0.8 * (ratio - 1)) if distinguishable else 0.03 + (ratio - 1)
    return Comparison(
        cell_id=cell.cell_id, best_cell_id=best.cell_id,
        ratio=Estimate(value=ratio, low=ratio - reach, high=ratio + reach), tested=True,
        distinguishable=distinguishable, may_be_fastest=not distinguishable,
        at_most_slower=None if distinguishable else ratio + reach,
    )  # fmt: skip


def make_effect(
    factor: str, level: JsonValue, baseline: JsonValue, ratio: tuple[float, float, float], at=None
) -> Effect:
    """`ratio` is (low, value, high); the effect is significant if and only if the interval excludes 1."""
    low, value, high = ratio
    return Effect(
        factor=factor, level=level, baseline=baseline, at=at or {}, ratio=Estimate(value=value, low=low, high=high),
        pairs=5, distinguishable=not low < 1 < high,
    )  # fmt: skip


def extension_trend(levels: Sequence[int], shares: Sequence[float | None], at=None) -> WaitTrend:
    return WaitTrend(
        wait_type="Lock:extend", analogue="PAGELATCH_* on PFS/GAM/SGAM", category="allocation", factor=FILES,
        at=at or {}, levels=tuple(levels), shares=tuple(shares),
    )  # fmt: skip


def golden(name: str, form: str = "txt") -> Path:
    """The words of a test's situations. After a change of words, run `python tools/make_golden_answers.py`."""
    return Path(__file__).parent / "golden" / "words" / f"{name}.{form}"


def said_in(
    situations: Mapping[str, Callable[[], Findings]],
    said: Callable[[Findings], Sequence[str]] = lambda findings: [headline(findings), *sentences(findings)],
) -> str:
    """The headline and the sentences of each situation, below its name."""
    return "\n".join("\n".join([f"== {name}", *said(made()), ""]) for name, made in situations.items())
