"""What the export is: the stored and found values, what each has besides its own fields, and the JSON schema. Pure.

A class here is a value with what follows from it, and without what stands elsewhere in the export (`exclude`).
Everything else is as the values' own classes have it. From them, `make docs` writes the schema beside this file and the
tables of docs/reference/export.md. Within schema 2, fields may be added, but none is renamed, removed or changed in
meaning.
"""

# mypy: disable-error-code="pydantic-field, prop-decorator"
# mypy knows no computed fields that are properties.

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, WithJsonSchema, computed_field
from pydantic.json_schema import GenerateJsonSchema

from storagelab.findings.answer_kinds import Answer
from storagelab.findings.cautions import kinds as kinds_of_caution
from storagelab.findings.kinds import kinds
from storagelab.findings.model import CellSummary, Findings, Severity
from storagelab.findings.times import figures_s
from storagelab.model.config import Config
from storagelab.model.durability import Commits
from storagelab.model.measurement import Measurement, Run
from storagelab.model.plan import Cell, Experiment, Factor, Order, Preference
from storagelab.model.values import Count, Frozen, JsonValue
from storagelab.model.waits import Conservation, WaitStat, conservation, normalise
from storagelab.words.names import capital

SCHEMA: Literal[2] = 2
_Form = TypeVar("_Form", bound=BaseModel)
_Elsewhere: Any = Field(exclude=True)
Tables = Annotated[Config, WithJsonSchema({"type": "object"})]


class ExportedExperiment(Experiment):
    """The spec."""

    canonical: dict[str, object] = _Elsewhere
    base: dict[str, object] = _Elsewhere


class ExportedMeasurement(Measurement):
    """What a run measured, and what follows from it."""

    rows: Count | None = _Elsewhere
    requests: Count | None = _Elsewhere
    transactions: Count | None = _Elsewhere
    counters: dict[str, dict[str, float | None]]  # type: ignore[assignment]  # what is no number becomes null
    work = computed_field(Measurement.work)
    work_per_s = computed_field(Measurement.work_per_s)

    @computed_field
    @property
    def latency_s(self) -> dict[str, float]:
        """Figures of `latency`: `mean`, `p50`, `p95`, `p99`, `p99.9`, `max`. Empty without it."""
        return {} if self.latency is None else dict(figures_s(self.latency))

    @computed_field
    @property
    def wait_stats(self) -> tuple[WaitStat, ...]:
        """The rows of wait statistics that follow from `waits`, uncut ([below](#a-wait))."""
        return () if self.waits is None else normalise(self.waits)

    @computed_field
    @property
    def audit(self) -> Conservation | None:
        """Whether these rows add up; `null` without waits."""
        return None if self.waits is None else conservation(self.waits)

    @computed_field
    @property
    def explained(self) -> float | None:
        """The share of `audit.available_s` that waits and CPU time add up to."""
        return self.audit.explained if self.audit is not None else None

    @computed_field
    @property
    def commits(self) -> Commits | None:
        """What `durability` means for commits."""
        return self.durability.commits if self.durability is not None else None


class ExportedRun(Run):
    """One run."""

    cell_id: str = _Elsewhere
    levels: dict[str, JsonValue] = _Elsewhere
    config: Config = _Elsewhere
    measurement: ExportedMeasurement | None = Field(description="Its figures; `null` if it failed.")


class ExportedSummary(CellSummary):
    """A cell's figures over its usable runs."""

    cell_id: str = _Elsewhere
    levels: dict[str, JsonValue] = _Elsewhere


class ExportedCell(Cell):
    """A planned cell."""

    config: Tables = Field(description="The spec's tables with this cell's levels, and with defaults filled in.")
    runs: tuple[ExportedRun, ...] = Field(
        description="Every stored run by repetition and attempt, including failed ones, without those of a burn-in."
    )
    burn_in: tuple[ExportedRun, ...] = Field(description="The runs of a burn-in, which no finding uses.")
    summary: ExportedSummary | None = Field(description="Figures over the usable runs ([below](#its-summary)).")


class ExportedCaution(Frozen, extra="allow"):
    """A caution, and the figures of its kind ([below](#cautions))."""

    kind: str = Field(json_schema_extra=lambda schema: schema.update(enum=[one.kind for one in kinds_of_caution()]))
    severity: Severity
    cells: tuple[str, ...] = Field(description="The cells that it concerns; empty = all.")
    text: str = Field(min_length=1, description="The caution in words.")


class ExportedAnswer(Answer):
    """What a decision needs, as values and in words."""

    lines: tuple[Annotated[str, Field(max_length=640)], ...] = Field(
        min_length=1, max_length=8,
        description="The answer in words, the same as on the terminal and the page: what to use comes first. All lines "
        "together take at most eight rows of 80 characters.",
    )  # fmt: skip


class ExportedFindings(Findings):
    """What the runs show."""

    experiment: str = _Elsewhere
    question: str = _Elsewhere
    order: Order = _Elsewhere
    factors: tuple[Factor, ...] = _Elsewhere
    prefer: tuple[Preference, ...] = _Elsewhere
    cells: tuple[CellSummary, ...] = _Elsewhere
    cautions: tuple[ExportedCaution, ...] = Field(  # type: ignore[assignment]
        description="Reasons to trust the findings less, and their limits."
    )
    headline: str = Field(min_length=1, description="The verdict in words.")
    sentences: tuple[str, ...] = Field(description="The evidence in words.")
    answer: ExportedAnswer = Field(description="What a decision needs, as values and in words ([below](#the-answer)).")


class Document(Frozen):
    version: Literal[2] = Field(alias="schema", description="The version of this form.")
    experiment: ExportedExperiment = Field(description="The spec, and what it says ([below](#the-experiment)).")
    cells: tuple[ExportedCell, ...] = Field(
        description="Every planned cell, in the spec's order, with its runs ([below](#a-cell))."
    )
    findings: ExportedFindings = Field(description="What the runs show ([below](#findings)).")


def exported(form: type[_Form], value: BaseModel, **made: object) -> _Form:
    """A value as the export has it, with the fields `made` here."""
    return form.model_construct(**{**dict(value), **made})


def measured(run: Run) -> ExportedMeasurement | None:
    """What a run measured; None if it failed."""
    return exported(ExportedMeasurement, run.measurement) if run.usable and run.measurement is not None else None


# --- the JSON schema --------------------------------------------------------------------------------------------------


class _Described(GenerateJsonSchema):
    """Writes a schema without titles, which only repeat names. The string below a field describes it."""

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
    """The strings below a class's fields, as an editor shows them. Only read for the schema: it takes a while."""
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(found, ast.ClassDef)
    return [
        (field.target.id, below.value.value)
        for field, below in pairwise(found.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    ]  # fmt: skip


def _worded(part: Any) -> Any:
    """The same with descriptions as sentences on one line, in JSON's terms."""
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
    """The form as a JSON schema (2020-12)."""
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
