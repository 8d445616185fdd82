"""Makes the export, which is a whole experiment as one JSON document. Also writes comparisons as JSON. Pure.

The export contains all rows of waits, also CPU time and the wait for a CPU. So other programs can recompute the nine
columns and the audit. Unknown values are null; NaN never appears.

Each class `Exported...` extends the class of a value. It adds derived figures, and leaves out the fields that are
elsewhere in the export (`exclude`). From these classes, `make docs` writes the schema beside this file and the tables
of docs/reference/export.md. Within schema 2, fields may be added, but none is renamed, removed or changed in meaning.
"""

# mypy: disable-error-code="pydantic-field, prop-decorator"
# mypy does not know computed fields that are properties.

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, WithJsonSchema, computed_field
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_json as dumped

from storagelab.findings.answer import answer
from storagelab.findings.answer_kinds import Answer
from storagelab.findings.beside import Beside
from storagelab.findings.campaigns import Campaign, Compare, Pair
from storagelab.findings.cautions import kinds as kinds_of_caution
from storagelab.findings.kinds import kinds
from storagelab.findings.model import CellSummary, Estimate, Findings, Severity
from storagelab.findings.reasons import Case, reasons
from storagelab.findings.times import figures_s
from storagelab.model.config import Config
from storagelab.model.durability import Commits
from storagelab.model.measurement import Measurement, Run
from storagelab.model.plan import Cell, Experiment, Factor, Order, Plan, Preference
from storagelab.model.values import Count, Described, JsonValue
from storagelab.model.waits import Conservation, WaitStat, conservation, normalise
from storagelab.report.document import Document as Paper
from storagelab.report.words.answer import answer_lines, headline
from storagelab.report.words.caution_texts import caution_sentence
from storagelab.report.words.secrets import masked_json
from storagelab.report.words.sentences import sentences
from storagelab.words.names import capital


def to_json(experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings) -> str:
    """Returns the export as text: one line with a newline at its end. Keys have a stable order."""
    return "".join(json_pieces(experiment, plan, runs, findings))


def json_pieces(experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings) -> Iterator[str]:
    """Yields the export's text, one cell at a time, for callers that may stop before its end."""
    yield f'{{"schema":{SCHEMA},"experiment":{text_of(exported(ExportedExperiment, experiment))},"cells":['
    summaries = {summary.cell_id: summary for summary in findings.cells}
    by_cell: dict[str, list[Run]] = {cell.cell_id: [] for cell in plan.cells}
    for run in sorted(runs, key=lambda run: (run.repetition, run.attempt, run.sequence)):
        by_cell.setdefault(run.cell_id, []).append(run)
    for number, cell in enumerate(plan.cells):
        yield ("," if number else "") + text_of(_cell(cell, by_cell[cell.cell_id], summaries.get(cell.cell_id)))
    yield f'],"findings":{text_of(_findings(findings))}}}\n'


def text_of(value: object, indent: int | None = None) -> str:
    """Returns a value as JSON text. NaN and infinity become null, unknown types become text, passwords are removed."""
    return masked_json(dumped(value, indent=indent, inf_nan_mode="null", fallback=str).decode())


def plain(value: object) -> Any:
    """Returns a value converted to JSON's types, as `text_of` writes it."""
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
    """Returns the headline, the lines of the answer, and the evidence in sentences."""
    return {
        "headline": headline(findings, found),
        "lines": tuple(answer_lines(findings, found)),
        "sentences": tuple(sentences(findings, found)),
    }


# --- comparisons ------------------------------------------------------------------------------------------------------


def pair_json(
    findings: Findings, before: str, after: str, ratio: Estimate | None, case: Case | None, paper: Paper,
    gate: str | None = None, pairs: Sequence[Pair] = (),
) -> str:  # fmt: skip
    """Returns the comparison of two cells: every step, the devices, the waiting sessions, the reasons, the sentence. If
    the pair is one of several, the ratio of each pair is included.
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


def campaigns_json(found: Sequence[Compare], paper: Paper, gate: str | None) -> str:
    """Returns the comparison of each other campaign with the first: every matched layout, the layouts without a match,
    and the differences in how the campaigns were made.
    """
    differences = [
        {"caption": part.caption, "rows": part.rows}
        for part in paper.tables if part.caption.startswith("What differs")
    ]  # fmt: skip
    comparisons = [
        {**vars(one), "first": _campaign(one.first), "second": _campaign(one.second), "differs": one.differs}
        for one in found
    ]
    said = {"verdict": paper.verdict, "doubt": paper.doubt, "gate": gate}
    return _versioned({**said, "comparisons": comparisons, "differences": differences})


def beside_json(found: Beside, names: Mapping[str, str], paper: Paper) -> str:
    """Returns a measured campaign beside a prediction. `names` maps the ids of layouts to their names."""
    return _versioned({"verdict": paper.verdict, "names": names, **vars(found), "median_error": found.median_error})


def _campaign(one: Campaign) -> dict[str, object]:
    return {"name": one.name, "experiment": one.experiment.name, "provenance": one.findings.provenance}


def _versioned(document: Mapping[str, object]) -> str:
    return text_of({"schema": SCHEMA, **document}, indent=2) + "\n"


# --- the export's classes ---------------------------------------------------------------------------------------------
SCHEMA: Literal[2] = 2
_Form = TypeVar("_Form", bound=BaseModel)
_Elsewhere: Any = Field(exclude=True)
Tables = Annotated[Config, WithJsonSchema({"type": "object"})]


class ExportedExperiment(Experiment):
    """The spec."""

    canonical: dict[str, object] = _Elsewhere
    base: dict[str, object] = _Elsewhere


class ExportedMeasurement(Measurement):
    """What a run measured, and the figures computed from it."""

    rows: Count | None = _Elsewhere
    requests: Count | None = _Elsewhere
    transactions: Count | None = _Elsewhere
    counters: dict[str, dict[str, float | None]]  # type: ignore[assignment]  # a value that is no number becomes null
    work = computed_field(Measurement.work)
    work_per_s = computed_field(Measurement.work_per_s)

    @computed_field
    @property
    def latency_s(self) -> dict[str, float]:
        """Figures of `latency`: `mean`, `p50`, `p95`, `p99`, `p99.9`, `max`. Empty if `latency` is null."""
        return {} if self.latency is None else dict(figures_s(self.latency))

    @computed_field
    @property
    def wait_stats(self) -> tuple[WaitStat, ...]:
        """All rows of wait statistics, computed from `waits` ([below](#a-wait))."""
        return () if self.waits is None else normalise(self.waits)

    @computed_field
    @property
    def audit(self) -> Conservation | None:
        """Whether the rows of `wait_stats` add up to the session time; `null` without waits."""
        return None if self.waits is None else conservation(self.waits)

    @computed_field
    @property
    def explained(self) -> float | None:
        """The share of `audit.available_s` that waits and CPU time add up to."""
        return self.audit.explained if self.audit is not None else None

    @computed_field
    @property
    def commits(self) -> Commits | None:
        """Which commits survive a crash, according to `durability`."""
        return self.durability.commits if self.durability is not None else None


class ExportedRun(Run, use_attribute_docstrings=True):
    """One run."""

    cell_id: str = _Elsewhere
    levels: dict[str, JsonValue] = _Elsewhere
    config: Config = _Elsewhere
    measurement: ExportedMeasurement | None
    """The run's figures; `null` if the run failed."""


class ExportedSummary(CellSummary):
    """A cell's figures over its usable runs."""

    cell_id: str = _Elsewhere
    levels: dict[str, JsonValue] = _Elsewhere


class ExportedCell(Cell, use_attribute_docstrings=True):
    """A planned cell."""

    config: Tables
    """The spec's tables with this cell's levels. Missing keys have their defaults."""
    runs: tuple[ExportedRun, ...]
    """Every stored run, sorted by repetition and attempt. Failed runs are included, burn-in runs are not."""
    burn_in: tuple[ExportedRun, ...]
    """The burn-in runs. No finding uses them."""
    summary: ExportedSummary | None
    """Figures over the usable runs ([below](#its-summary))."""


class ExportedCaution(Described, extra="allow"):
    """A caution, and the figures of its kind ([below](#cautions))."""

    kind: str = Field(json_schema_extra=lambda schema: schema.update(enum=[one.kind for one in kinds_of_caution()]))
    severity: Severity
    cells: tuple[str, ...]
    """The cells that the caution concerns; empty = all."""
    text: str = Field(min_length=1)
    """The caution in words."""


class ExportedAnswer(Answer):
    """The answer, as values and in words."""

    lines: tuple[Annotated[str, Field(max_length=640)], ...] = Field(min_length=1, max_length=8)
    """The answer in words, the same as on the terminal and the page. The first line says what to use. All lines
    together take at most eight rows of 80 characters."""


class ExportedFindings(Findings):
    """What the runs show."""

    experiment: str = _Elsewhere
    question: str = _Elsewhere
    order: Order = _Elsewhere
    factors: tuple[Factor, ...] = _Elsewhere
    prefer: tuple[Preference, ...] = _Elsewhere
    cells: tuple[CellSummary, ...] = _Elsewhere
    cautions: tuple[ExportedCaution, ...]  # type: ignore[assignment]
    """Reasons to trust the findings less, and the limits of the findings."""
    headline: str = Field(min_length=1)
    """The verdict in words."""
    sentences: tuple[str, ...]
    """The evidence in words."""
    answer: ExportedAnswer
    """The answer, as values and in words ([below](#the-answer))."""


class Document(Described):
    version: Literal[2] = Field(alias="schema")
    """The version of the export's format."""
    experiment: ExportedExperiment
    """The spec's text and its values ([below](#the-experiment))."""
    cells: tuple[ExportedCell, ...]
    """Every planned cell, in the spec's order, with its runs ([below](#a-cell))."""
    findings: ExportedFindings
    """What the runs show ([below](#findings))."""


def exported(form: type[_Form], value: BaseModel, **made: object) -> _Form:
    """Returns a value in its exported form. The fields in `made` replace the value's own fields."""
    return form.model_construct(**{**dict(value), **made})


def measured(run: Run) -> ExportedMeasurement | None:
    """Returns a run's measurement in its exported form; None if the run is not usable."""
    return exported(ExportedMeasurement, run.measurement) if run.usable and run.measurement is not None else None


# --- the JSON schema --------------------------------------------------------------------------------------------------


class _Described(GenerateJsonSchema):
    """Makes a schema without titles, because titles only repeat names. The string below a field is its description."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002
        return False

    def model_schema(self, schema: Any) -> dict[str, Any]:
        made = super().model_schema(schema)
        for cls in schema["cls"].__mro__:
            for name, text in _strings_below_fields(cls) if cls.__module__.startswith("storagelab.") else ():
                if name in made["properties"]:
                    made["properties"][name].setdefault("description", text)
        return made


def _strings_below_fields(cls: type) -> list[tuple[str, str]]:
    """Returns (name, description) of a class's fields. The description is the string below the field. Only the schema
    uses this function, because it is slow.
    """
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(found, ast.ClassDef)
    return [
        (field.target.id, below.value.value)
        for field, below in pairwise(found.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    ]  # fmt: skip


def _worded(part: Any) -> Any:
    """Returns the schema with each description on one line, as sentences that use JSON's terms."""
    match part:
        case dict():
            return {
                name: _sentence(one) if name == "description" and isinstance(one, str) else _worded(one)
                for name, one in part.items()
            }
        case list():
            return [_worded(one) for one in part]
    return part


def _sentence(text: str) -> str:
    text = capital(" ".join(re.sub(r"\bNone\b", "`null`", text).split()))
    return text if text.endswith(".") else f"{text}."


def _schema_of(form: Any) -> dict[str, Any]:
    found = TypeAdapter(form).json_schema(mode="serialization", schema_generator=_Described)
    return _worded(found)  # type: ignore[no-any-return]


def json_schema() -> Mapping[str, Any]:
    """Returns the export's format as a JSON schema (2020-12)."""
    schema = _schema_of(Document)
    schema["$defs"].pop("Finding")
    for form, of_cells in (("ExportedSummary", True), ("ExportedFindings", False)):
        found = {}
        for kind in kinds():
            if kind.of_cells == of_cells:
                field = _schema_of(list[kind])  # type: ignore[valid-type]
                schema["$defs"] |= field.pop("$defs")
                found[kind.kind] = {**field, "description": kind.meaning}
        whole = {"type": "object", "properties": found, "additionalProperties": False}
        schema["$defs"][form]["properties"]["found"] |= whole
    opening = {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": f"storagelab export, schema {SCHEMA}",
        "description": "Everything about one experiment for other programs. Times are seconds, sizes are bytes, "
        "shares are 0 to 1, unknown is null.",
    }
    return {**schema, **opening}
