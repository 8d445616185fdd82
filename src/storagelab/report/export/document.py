"""The export's form, field by field: the only place that names them. Pure.

`as_json` fills these forms. From them, `make docs` writes the JSON schema beside this file and the tables of
docs/reference/export.md. Within schema 2, fields may be added, but none is renamed, removed or changed in meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import get_original_bases

from storagelab.findings.kinds import kinds
from storagelab.model.engines import Provenances
from storagelab.model.plan import Order
from storagelab.report.export.findings_form import FindingsForm, LoadForm
from storagelab.report.export.run_form import CellForm, Form, Level, RunForm

SCHEMA: Literal[2] = 2


class Spec(Form):
    source: str
    """The spec's file, as the user named it."""
    sha256: str
    """The hash of its content, without comments and blanks."""
    text: str
    """The spec as it was written."""


class FactorForm(Form):
    name: str
    """The path of a key, or the name given to labelled levels."""
    levels: Annotated[list[Level], Field(min_length=1)]
    """Values or labels, in the spec's order."""


class Opening(Form):
    """What comes before the cells."""

    schema: Literal[2]
    """The version of this form."""
    experiment: Annotated[str, Field(min_length=1)]
    """The experiment's name."""
    provenance: Provenances | None
    """Where its figures come from: `measured and simulated` if raw I/O ran on both kinds of drives, `null` while
    nothing is stored."""
    question: str
    """The spec's question."""
    spec: Spec
    """The spec."""
    repetitions: Annotated[int, Field(ge=1)]
    """As in the spec."""
    order: Order
    """As in the spec."""
    seed: Annotated[int, Field(ge=0)]
    """As in the spec."""
    factors: list[FactorForm]
    """The factors, in the spec's order."""


class Document(Opening):
    cells: list[CellForm]
    """Every planned cell, in the spec's order, with its runs ([below](#a-cell))."""
    findings: FindingsForm
    """What the runs show ([below](#findings))."""


class _Plain(GenerateJsonSchema):
    """Writes a schema without titles, which only repeat names, and without the line ends of docstrings."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002
        return False

    def generate(self, schema: Any, mode: Any = "serialization") -> dict[str, Any]:
        made = super().generate(schema, mode)
        return {name: _on_one_line(part) for name, part in made.items()}


def _on_one_line(part: Any) -> Any:
    match part:
        case {"description": str(text)}:
            return {**{name: _on_one_line(one) for name, one in part.items()}, "description": " ".join(text.split())}
        case dict():
            return {name: _on_one_line(one) for name, one in part.items()}
        case list():
            return [_on_one_line(one) for one in part]
    return part


def _schema_of(form: Any) -> dict[str, Any]:
    return TypeAdapter(form).json_schema(mode="serialization", schema_generator=_Plain)


def _describe_inherited(form: Any, schema: dict[str, Any]) -> None:
    """Describes inherited fields as in the class that declares them: pydantic reads only the form's own
    descriptions.
    """
    for base in get_original_bases(form):
        for name, field in _schema_of(base)["properties"].items():
            schema["properties"][name].setdefault("description", field.get("description", ""))


def json_schema() -> Mapping[str, Any]:
    """The form as a JSON schema (2020-12)."""
    schema = _schema_of(Document)
    for heir in (RunForm, LoadForm, FindingsForm):
        _describe_inherited(heir, schema["$defs"][heir.__name__])
    _describe_inherited(Document, schema)
    for kind in kinds():  # no form names their fields
        field = _schema_of(kind | None if kind.alone else list[kind])  # type: ignore[valid-type]
        schema["$defs"] |= field.pop("$defs")
        form = schema["$defs"]["Summary" if kind.of_cells else "FindingsForm"]
        form["properties"][kind.kind] = {**field, "description": kind.meaning}
    opening = {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": f"storagelab export, schema {SCHEMA}",
        "description": "Everything about one experiment for other programs. Times are seconds, sizes are bytes, "
        "shares are 0 to 1, unknown is null.",
    }
    return {**schema, **opening}
