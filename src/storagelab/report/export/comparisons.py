"""Comparisons as JSON: two cells of one experiment, and campaigns. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from storagelab.findings.beside import Beside
from storagelab.findings.campaigns import Campaign, Compare
from storagelab.findings.model import Estimate, Findings
from storagelab.findings.reasons import Case, reasons
from storagelab.findings.why import Step
from storagelab.report.document import Document
from storagelab.report.export.as_json import plain
from storagelab.report.export.document import SCHEMA


def pair_json(
    findings: Findings, before: str, after: str, ratio: Estimate | None, case: Case | None, paper: Document,
    gate: str | None = None,
) -> str:  # fmt: skip
    """Two cells: every step uncut, the devices, the waiting sessions, the reasons, and the sentence."""
    document: dict[str, object] = {
        "schema": SCHEMA, "experiment": findings.experiment, "provenance": findings.provenance,
        "before": {"cell_id": before, "levels": findings.cell(before).levels},
        "after": {"cell_id": after, "levels": findings.cell(after).levels},
        "ratio": _estimate(ratio), "gate": gate, "sentence": paper.verdict,
    }  # fmt: skip
    if case is not None:
        document |= {
            "before_s": case.parts.before_s, "after_s": case.parts.after_s,
            "change_s": _estimate(case.parts.change), "differs": case.parts.differs,
            "steps": [_step(step) for step in case.parts.steps],
            "devices": [
                {**one.figure._asdict(), "before": one.before, "after": one.after, "change": _estimate(one.change)}
                for one in case.devices
            ],
            "crowds": [crowd._asdict() for crowd in case.crowds],
            "reasons": [
                {"rule": one.rule.value, "share": one.share, "of": one.step.thing.name, "wait_types": list(one.types)}
                for one in reasons(case)
            ],
        }  # fmt: skip
    return _text(document)


def _step(step: Step) -> dict[str, object]:
    thing = {name: getattr(step.thing, name) for name in ("name", "analogue", "category", "part")}
    return {**thing, "before_s": step.before_s, "after_s": step.after_s, "change_s": _estimate(step.change)}


def campaigns_json(found: Sequence[Compare], paper: Document, gate: str | None) -> str:
    """Campaigns against the first: every matched layout, the layouts without a match, and how the campaigns were
    made differently.
    """
    return _text(
        {
            "schema": SCHEMA, "verdict": paper.verdict, "gate": gate, "first": _campaign(found[0].first),
            "comparisons": [_comparison(one) for one in found],
            "differences": [
                {"caption": part.caption, "rows": part.rows}
                for part in paper.tables if part.caption.startswith("What differs")
            ],
        }
    )  # fmt: skip


def beside_json(found: Beside, names: Mapping[str, str], paper: Document) -> str:
    """A measured campaign and a prediction."""
    return _text(
        {
            "schema": SCHEMA, "verdict": paper.verdict, "base": names[found.base],
            "layouts": [
                {
                    "name": names[row.name], "measured": _estimate(row.measured), "predicted": _estimate(row.predicted),
                    "error": row.error, "missed": row.missed,
                }
                for row in found.rows
            ],
            "apart": [
                {"slower": names[slow], "faster": names[fast], "right": right} for slow, fast, right in found.apart
            ],
            "median_error": found.median_error,
        }
    )  # fmt: skip


def _campaign(one: Campaign) -> dict[str, object]:
    return {"name": one.name, "experiment": one.experiment.name, "provenance": one.findings.provenance}


def _comparison(one: Compare) -> dict[str, object]:
    names = ("compared", "overall", "differs", "untested", "lacking", "left_out", "only_first", "only_second")
    return {
        "second": _campaign(one.second),
        "history": [{"name": name, "ratio": ratio} for name, ratio in one.history],
        **{name: getattr(one, name) for name in names},
        "cells": [asdict(cell) | {"ratio": _estimate(cell.ratio), "differs": cell.differs} for cell in one.matched],
    }


def _estimate(one: Estimate | None) -> dict[str, object] | None:
    return None if one is None else one.model_dump()


def _text(document: dict[str, object]) -> str:
    return json.dumps(plain(document), indent=2, ensure_ascii=False) + "\n"
