"""Makes the export: a whole experiment as one JSON document; and comparisons as JSON. Pure.

Both are dumps of the values, as `schema` has them. Waits are uncut, including CPU time and its queue, so that the nine
columns and the audit can be recomputed from the export. Unknown values are null; NaN never appears.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import to_json as dumped

from storagelab.findings.answer import answer
from storagelab.findings.answer_kinds import Answer
from storagelab.findings.beside import Beside
from storagelab.findings.campaigns import Campaign, Compare, Pair
from storagelab.findings.model import CellSummary, Estimate, Findings
from storagelab.findings.reasons import Case, reasons
from storagelab.model.measurement import Run
from storagelab.model.plan import Cell, Experiment, Plan
from storagelab.report.document import Document
from storagelab.report.export.schema import (
    SCHEMA,
    ExportedAnswer,
    ExportedCaution,
    ExportedCell,
    ExportedExperiment,
    ExportedFindings,
    ExportedRun,
    ExportedSummary,
    exported,
    measured,
)
from storagelab.report.words.answer import answer_lines, headline
from storagelab.report.words.caution_texts import caution_sentence
from storagelab.report.words.secrets import masked_json
from storagelab.report.words.sentences import sentences


def to_json(experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings) -> str:
    """The export as text: one line, keys in a stable order, ending in a newline."""
    return "".join(json_pieces(experiment, plan, runs, findings))


def json_pieces(experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings) -> Iterator[str]:
    """The export's text, a cell at a time, for callers that may not need all of it."""
    yield f'{{"schema":{SCHEMA},"experiment":{text_of(exported(ExportedExperiment, experiment))},"cells":['
    summaries = {summary.cell_id: summary for summary in findings.cells}
    by_cell: dict[str, list[Run]] = {cell.cell_id: [] for cell in plan.cells}
    for run in sorted(runs, key=lambda run: (run.repetition, run.attempt, run.sequence)):
        by_cell.setdefault(run.cell_id, []).append(run)
    for number, cell in enumerate(plan.cells):
        content = _cell(cell, by_cell[cell.cell_id], summaries.get(cell.cell_id))
        yield ("," if number else "") + text_of(content)
    yield f'],"findings":{text_of(_findings(findings))}}}\n'


def text_of(value: object, indent: int | None = None) -> str:
    """Any value as JSON: no NaN or infinity (null instead), no password, no custom type."""
    return masked_json(dumped(value, indent=indent, inf_nan_mode="null", fallback=str).decode())


def plain(value: object) -> Any:
    """Any value in JSON's terms, as `text_of` writes it."""
    return json.loads(text_of(value))


def _cell(cell: Cell, runs: Sequence[Run], summary: CellSummary | None) -> ExportedCell:
    return exported(
        ExportedCell, cell,
        runs=tuple(_run(run) for run in runs if not run.burn_in),
        burn_in=tuple(_run(run) for run in runs if run.burn_in),
        summary=summary and exported(ExportedSummary, summary),
    )  # fmt: skip


def _run(run: Run) -> ExportedRun:
    return exported(ExportedRun, run, measurement=measured(run))


def _findings(findings: Findings) -> ExportedFindings:
    found = answer(findings)
    said = _words(findings, found)
    return exported(
        ExportedFindings, findings,
        cautions=tuple(
            ExportedCaution(**one.model_dump(), text=caution_sentence(one, findings)) for one in findings.cautions
        ),
        answer=exported(ExportedAnswer, found, lines=said.pop("lines")),
        **said,
    )  # fmt: skip


def _words(findings: Findings, found: Answer) -> dict[str, Any]:
    """The texts of the export."""
    return {
        "headline": headline(findings, found),
        "lines": tuple(line.text for line in answer_lines(findings, found)),
        "sentences": tuple(sentences(findings, found)),
    }


# --- comparisons ------------------------------------------------------------------------------------------------------


def pair_json(
    findings: Findings, before: str, after: str, ratio: Estimate | None, case: Case | None, paper: Document,
    gate: str | None = None, pairs: Sequence[Pair] = (),
) -> str:  # fmt: skip
    """Two cells: every step uncut, the devices, the waiting sessions, the reasons, and the sentence; with the ratio of
    each pair, if they are one of several.
    """
    document: dict[str, object] = {
        "experiment": findings.experiment, "provenance": findings.provenance,
        "before": {"cell_id": before, "levels": findings.cell(before).levels},
        "after": {"cell_id": after, "levels": findings.cell(after).levels},
        "ratio": ratio, "gate": gate, "sentence": paper.verdict,
    }  # fmt: skip
    if pairs:
        document["pairs"] = [
            {
                "before": one.before, "after": one.after, "levels": findings.cell(one.after).levels,
                "ratio": one.ratio, "gate": None if one.gate is None else one.gate.text,
            }
            for one in pairs
        ]  # fmt: skip
    if case is not None:
        document |= {
            "waterfall": case.parts, "devices": case.devices, "crowds": case.crowds, "reasons": reasons(case)
        }  # fmt: skip
    return _versioned(document)


def campaigns_json(found: Sequence[Compare], paper: Document, gate: str | None) -> str:
    """Campaigns against the first: every matched layout, the layouts without a match, and how the campaigns were
    made differently.
    """
    differences = [
        {"caption": part.caption, "rows": part.rows}
        for part in paper.tables if part.caption.startswith("What differs")
    ]  # fmt: skip
    comparisons = [
        {**vars(one), "first": _campaign(one.first), "second": _campaign(one.second), "differs": one.differs}
        for one in found
    ]
    return _versioned({"verdict": paper.verdict, "gate": gate, "comparisons": comparisons, "differences": differences})


def beside_json(found: Beside, names: Mapping[str, str], paper: Document) -> str:
    """A measured campaign and a prediction, and the names of the layouts by their ids."""
    return _versioned({"verdict": paper.verdict, "names": names, **vars(found), "median_error": found.median_error})


def _campaign(one: Campaign) -> dict[str, object]:
    return {"name": one.name, "experiment": one.experiment.name, "provenance": one.findings.provenance}


def _versioned(document: Mapping[str, object]) -> str:
    return text_of({"schema": SCHEMA, **document}, indent=2) + "\n"
