"""Make the documentation: write the tables that follow from the code, and build the site.

    python tools/make_docs.py            writes the tables into docs/ and builds the site in build/docs
    python tools/make_docs.py --tables   only writes the tables
    python tools/make_docs.py --samples FOLDER   only writes the sample reports

A page marks the place of a table with two comments, `<!-- generated: WHAT -->` and `<!-- end -->`. The text between
them comes from the models, the command line or the engines' vocabularies, so it can't differ from the code.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import typer.main
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from storagelab import cli, profiles
from storagelab.capture.folder import capture_schema, capture_schema_text
from storagelab.engines.mariadb import meanings as mariadb
from storagelab.engines.postgres import meanings as postgres
from storagelab.engines.sqlserver import meanings as sqlserver
from storagelab.experiments import MEASURED, SCHEMA, SIMULATED, question_of, text_of
from storagelab.findings.cautions import kinds
from storagelab.model.config import Config
from storagelab.model.plan import Experiment
from storagelab.model.values import LeftOut, LeftToCore
from storagelab.profiles import DeclaredFigure, constants, default_of, figures_of
from storagelab.report.export.schema import json_schema
from storagelab.report.words.glossary import GLOSSARY
from storagelab.spec import keys
from storagelab.spec.schema import spec_schema_text

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "docs"
MAN = DOCS / "man" / "data" / "share" / "man" / "man1" / "storagelab.1"
"""Below docs/man as the wheel installs it."""
CAPTURE_SCHEMA = ROOT / "src" / "storagelab" / "capture" / "capture.schema.json"
EXPORT_SCHEMA = ROOT / "src" / "storagelab" / "report" / "export" / "export.schema.json"
_GENERATED = re.compile(r"(<!-- generated: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_BEYOND_SAYING = 2**53
"""Bounds too large to matter; the tables leave them out."""
Row = Sequence[str]
Schema = Mapping[str, Any]
Field = tuple[str, FieldInfo]


def table(heads: Row, rows: Iterable[Row]) -> str:
    """A table in Markdown. Bars are escaped, since they would end the cell."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


# --- The keys of a spec -----------------------------------------------------------------------------------------------


def models_in(annotation: object) -> list[type[BaseModel]]:
    """The models in a key's type: none for a plain value, several if a table has kinds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


def keys_of_table(name: str) -> str:
    """The keys of one of the spec's tables, and of the tables below it."""
    field = Config.model_fields[name]
    below = ".NAME" if "dict[" in str(field.annotation) else ""
    return _tables(models_in(field.annotation), f"{name}{below}")


def keys_of_experiment() -> str:
    return _table_of(Experiment, [(one, Experiment.model_fields[one]) for one in keys.HEADER], "")


def _tables(models: Sequence[type[BaseModel]], place: str) -> str:
    """The keys of a table and of the tables below it, with the keys of each kind if a table has kinds."""
    kinds = {model: get_args(model.model_fields["kind"].annotation)[0] for model in models} if len(models) > 1 else {}
    text = (
        table(["`kind`", "meaning"], [[f'`"{kind}"`', _first_line(model)] for model, kind in kinds.items()])
        if kinds
        else ""
    )
    for owners, fields in _by_owners(models, kinds).items():
        if kinds:
            text += "\nKeys of " + ", ".join(f'`"{kinds[owner]}"`' for owner in owners) + ":\n\n"
        text += _table_of(owners[0], fields, place)
    for name, field in {name: field for model in models for name, field in model.model_fields.items()}.items():
        if models_in(field.annotation):
            text += f"\n`[{place}.{name}]`:\n\n" + _tables(models_in(field.annotation), f"{place}.{name}")
    return text


def _by_owners(
    models: Sequence[type[BaseModel]], kinds: Mapping[type[BaseModel], str]
) -> dict[tuple[type[BaseModel], ...], list[Field]]:
    """Which models share which keys, without the key that distinguishes kinds."""
    found: dict[tuple[type[BaseModel], ...], list[Field]] = {}
    for model in models:
        for name, field in model.model_fields.items():
            owners = tuple(one for one in models if repr(one.model_fields.get(name)) == repr(field))
            if model is owners[0] and not (kinds and name == "kind"):
                found.setdefault(owners, []).append((name, field))
    return found


def _first_line(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().partition("\n")[0]


def _table_of(model: type[BaseModel], fields: Iterable[Field], place: str) -> str:
    properties = keys.schema_of(model)["properties"]
    rows = []
    for name, field in fields:
        pattern = f"{place}.{name}".replace(".NAME.", ".*.")
        spelled = next((one for one in keys.WITH_UNIT if one.path + one.ending == pattern), None)
        takes = _takes(properties[name], keys.schema_of(model))
        if spelled:
            what = "a size" if spelled.unit == "bytes" else "a time"
            takes = f'{what} such as `"{spelled.example}"`; in plain {spelled.unit}: `{name}`'
        shown = spelled.path.rpartition(".")[2] if spelled else name
        rows.append([f"`{shown}`", takes, _default(name, field), " ".join((field.description or "").split())])
    return table(["key", "takes", "default", "meaning"], rows)


def _takes(schema: keys.Schema, whole: keys.Schema) -> str:
    """The values that a key takes, in readable form."""
    if "$ref" in schema:
        return _takes(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    if choices:
        types = {one.get("type") for one in choices}
        wanted = [one for one in choices if not (one.get("type") == "integer" and "number" in types)]
        return ", or ".join(dict.fromkeys(_takes(one, whole) for one in wanted))
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    if values:
        return ", ".join(f'`"{value}"`' for value in values)
    match schema.get("type"):
        case "integer" | "number":
            return _number(schema)
        case "string":
            return "text"
        case "boolean":
            return "`true`, `false`"
        case "array":
            return f"a list of {_takes(schema['items'], whole)}"
    inside = schema.get("additionalProperties")
    return f"a table: name = {_takes(inside, whole)}" if isinstance(inside, dict) else "a table"


def _number(schema: keys.Schema) -> str:
    kind = "whole number" if schema["type"] == "integer" else "number"
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is not None and high is not None and high < _BEYOND_SAYING:
        return (
            f"{_figure(low)} to {_figure(high)}" if "maximum" in schema else f"{_figure(low)} to below {_figure(high)}"
        )
    return f"a {kind}" + (f", at least {_figure(low)}" if low else "")


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.15g}"


def _default(name: str, field: FieldInfo) -> str:
    words = [one.words for one in field.metadata if isinstance(one, LeftOut)]
    words += [f"{default_of(one.owner, name):,}" for one in field.metadata if isinstance(one, LeftToCore)]
    if words:
        return words[0]
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value == "" or value == () or value == {}:
        return ""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return _figure(value)
        case tuple():
            return f"`{json.dumps(value)}`"
    return str(value)


# --- The export -------------------------------------------------------------------------------------------------------

_PARTS = {
    "top": "",
    "experiment": "ExportedExperiment",
    "cell": "ExportedCell",
    "summary": "ExportedSummary",
    "run": "ExportedRun",
    "measurement": "ExportedMeasurement",
    "wait": "WaitStat",
    "findings": "ExportedFindings",
    "answer": "ExportedAnswer",
    "choice": "Choice",
    "gain": "Gain",
    "cause": "Cause",
    "estimate": "Estimate",
    "sample": "Sample",
}
"""What the page describes in a table of its own -> the class."""


def fields_of(part: str) -> str:
    """The fields of one part of the export; "" is its top."""
    whole = json_schema()
    return table(["field", "meaning"], _fields(whole["$defs"][part] if part else whole, whole, ""))


def fields_of_capture() -> str:
    """The fields of a capture's manifest."""
    whole = capture_schema()
    return table(["field", "meaning"], _fields(whole, whole, ""))


def _fields(part: Schema, whole: Schema, before: str) -> Iterator[Row]:
    """A row for each field, but one for all that have no description of their own: that of the part."""
    meanings = {name: _meaning(field, whole) for name, field in part["properties"].items()}
    if undescribed := [f"`{before}{name}`" for name, meaning in meanings.items() if not meaning]:
        yield [", ".join(undescribed), _joined(part.get("description", ""))]
    for name, field in part["properties"].items():
        if meanings[name]:
            yield [f"`{before}{name}`", " ".join((meanings[name], *_words(field)))]
        for inside in _inside(field, whole):
            yield from _fields(inside, whole, f"{before}{name}.")


def _meaning(field: Schema, whole: Schema) -> str:
    return _joined(field.get("description") or _named(field, whole).get("description", ""))


def _named(field: Schema, whole: Schema) -> Any:
    """The table that a field refers to, unless the page describes it elsewhere."""
    name = field.get("$ref", "").rpartition("/")[2]
    return whole["$defs"][name] if name and name not in _PARTS.values() else {}


def _joined(text: str) -> str:
    return " ".join(text.split())


def _words(field: Schema) -> Iterator[str]:
    """The words that a field allows, if its description leaves some out."""
    choices = [field, *field.get("anyOf", ()), field.get("items", {})]
    words = [word for choice in choices for word in choice.get("enum", ())]
    if left := [f"`{word}`" for word in words if f"`{word}`" not in field.get("description", "")]:
        yield "One of " + ", ".join(left) + "." if len(left) == len(words) else "Also " + ", ".join(left) + "."


def _inside(field: Schema, whole: Schema) -> Iterator[Schema]:
    """The tables in a field, or in a list of such tables."""
    found = _named(field, whole) or field
    if "properties" in found:
        yield found
        return
    choices = (*found.get("anyOf", ()), *found.get("oneOf", ()))
    for below in (*choices, found.get("items"), found.get("additionalProperties")):
        if isinstance(below, dict):
            yield from _inside(below, whole)


def cautions() -> str:
    """Every kind of caution, and what it means with its figures."""
    return table(["kind", "meaning"], ([f"`{one.kind}`", _joined(one.__doc__ or "")] for one in kinds()))


# --- The command line -------------------------------------------------------------------------------------------------


_OF_TYPE = re.compile(r" <([^|>]+)>")
"""The suffix that typer puts after a name. Choices, which it writes in the same way but with bars, stay."""


def _spelled(found: re.Match[str]) -> str:
    return {"path": " PATH", "int range": " N"}.get(found[1], "")


def command_line() -> str:
    """Every verb with its arguments and options, as `--help` shows them."""
    every = _commands(typer.main.get_command(cli.app), "storagelab")
    return "\n".join(_verb(*verb) for verb in every if verb[1] != "storagelab")


def _commands(command: Any, called: str) -> Iterator[tuple[Any, str]]:
    """A command and those below it, each with the words that call it."""
    yield command, called
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from _commands(command.get_command(None, name), f"{called} {name}")


def _verb(command: Any, called: str) -> str:
    context = command.make_context(called, [], resilient_parsing=True)
    records = [one.get_help_record(context) for one in command.params]
    rows = [[f"`{_OF_TYPE.sub(_spelled, record[0])}`", record[1].replace("  [", " [")] for record in records if record]
    usage = " ".join([called, *command.collect_usage_pieces(context)])
    said = (command.help or "").strip()
    options = "\n" + table(["argument or option", "meaning"], rows) if rows else ""
    return f"## {called.removeprefix('storagelab ')}\n\n```\n{usage}\n```\n\n{said}\n{options}"


# --- The page of `man` ------------------------------------------------------------------------------------------------


def man_page() -> str:
    """The same as roff: every verb with its arguments and options."""
    top = typer.main.get_command(cli.app)
    verbs = "".join(_man_verb(*verb) for verb in _commands(top, "storagelab") if verb[1] != "storagelab")
    codes = "".join(f".TP\n{_roff(code)}\n{_roff(meaning)}\n" for code, meaning in _exit_codes())
    return (
        f".TH STORAGELAB 1\n.SH NAME\nstoragelab \\- {_roff(_joined(top.help))}\n.SH SYNOPSIS\n.B storagelab\n"
        f"VERB [OPTIONS] ...\n.SH VERBS\n{verbs}.SH EXIT STATUS\n{codes}"
    )


def _man_verb(command: Any, called: str) -> str:
    context = command.make_context(called, [], resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context))
    paragraphs = "".join(f".PP\n{_roff(_joined(one))}\n" for one in (command.help or "").split("\n\n"))
    records = [record for one in command.params if (record := one.get_help_record(context))]
    rows = [(_roff(_OF_TYPE.sub(_spelled, name)), _roff(_joined(meaning))) for name, meaning in records]
    options = "".join(f".TP\n.B {name}\n{meaning}\n" for name, meaning in rows)
    return f".SS {_roff(called)} {_roff(usage)}\n{paragraphs}{options}"


def _exit_codes() -> Iterator[Row]:
    """The rows of the table in the page of the command line."""
    page = (DOCS / "reference" / "command-line.md").read_text("utf-8")
    table = page.partition("## Exit codes")[2].partition("\n\n")[0]
    for line in table.strip().splitlines()[2:]:
        code, meaning = line.strip("| ").split(" | ", 1)
        yield code, meaning.replace("`", "")


def _roff(text: str) -> str:
    """One line of text. A dot or a quote at its beginning would be a command."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


# --- The ready-made specs ---------------------------------------------------------------------------------------------


TWINS = "The last five are the articles'. Each is there also as NAME-randomised, with its runs in random order."


def recipes() -> str:
    """The ready-made specs by their questions, and the whole of each that measures."""
    measured, simulated = ([name for names in one.values() for name in names] for one in (MEASURED, SIMULATED))
    links = [[f"[{question_of(name)}](#{name})", f"`{name}`"] for name in measured]
    whole = "".join(f"\n## {name}\n{question_of(name)}\n\n```toml\n{_shown(name)}```\n" for name in measured)
    rows = [[question_of(name), f"`{name}`"] for name in simulated]
    heads = ["question", "name"]
    return f"{table(heads, links)}{whole}\n## Hardware that you don't have\n{table(heads, rows)}\n{TWINS}\n"


def _shown(name: str) -> str:
    return text_of(name).partition("\n")[2]  # without the line for editors


# --- Waits ------------------------------------------------------------------------------------------------------------


def waits_of(events: Any) -> str:
    """The waits that an engine lists in its module `events`, without empty columns."""
    heads = ["category", "wait", "SQL Server's name", "what is waited for"]
    listed = events.LISTED.items()
    rows = sorted(
        ([event.category, f"`{name}`", event.analogue, event.resource] for name, event in listed),
        key=lambda row: row[0],
    )
    used = [column for column in range(len(heads)) if any(row[column] for row in rows)]
    return table([heads[column] for column in used], [[row[column] for column in used] for row in rows])


# --- The simulator's parameters ---------------------------------------------------------------------------------------


def figures_of_kind(kind: str) -> str:
    """The figures of a kind of drive, or of the server, as the simulator's core declares them."""
    rows = [
        [f"`{one.path}`" + (" (optional)" if one.optional else ""), _may_be(one), one.meaning]
        for one in figures_of(kind)
    ]
    return table(["figure", "may be", "meaning"], rows)


def _may_be(one: DeclaredFigure) -> str:
    if one.kind != "number":
        return {"boolean": "`true` or `false`", "text": "text"}.get(
            one.kind, ", ".join(f"`{word}`" for word in one.words)
        )
    if one.most >= 2**32 - 1 and one.least == 0:
        return "a whole number"
    return f"{one.least:,} to {one.most:,}"


def constants_of_simulator() -> str:
    rows = [
        [
            one.owner,
            f"`{one.name}`",
            f"{one.value:,}",
            "default" if one.is_default else "constant",
            one.label,
            one.source,
        ]
        for one in constants()
    ]
    return table(["of", "figure", "value", "", "label", "source"], rows)


# --- Pages ------------------------------------------------------------------------------------------------------------


def glossary() -> str:
    """Each term as a heading, so that other pages can link to it."""
    return "\n".join(f"## {term}\n\n{meaning}\n" for term, meaning in GLOSSARY.items())


GENERATED: dict[str, Callable[[], str]] = {
    "keys of the experiment": keys_of_experiment,
    **{f"keys of {name}": lambda name=name: keys_of_table(name) for name in Config.model_fields},
    "command line": command_line,
    "recipes": recipes,
    "glossary": glossary,
    **{f"figures of {kind}": lambda kind=kind: figures_of_kind(kind) for kind in (*profiles.kinds(), "server")},
    "constants of the simulator": constants_of_simulator,
    **{f"export: {name}": lambda part=part: fields_of(part) for name, part in _PARTS.items()},
    "capture: manifest": fields_of_capture,
    "cautions": cautions,
    "waits of PostgreSQL": lambda: waits_of(postgres),
    "waits of MariaDB": lambda: waits_of(mariadb),
    "waits of SQL Server": lambda: waits_of(sqlserver),
}


def written(text: str) -> str:
    """A page with all of its tables regenerated."""
    return _GENERATED.sub(lambda found: f"{found[1]}\n{GENERATED[found[2]]()}\n{found[3]}", text)


def write_tables() -> list[Path]:
    """Write the pages that changed, and return them."""
    changed = []
    export = json.dumps(json_schema(), ensure_ascii=False) + "\n"
    schemas = ((EXPORT_SCHEMA, export), (SCHEMA, spec_schema_text()), (CAPTURE_SCHEMA, capture_schema_text()))
    for file, text in schemas:
        if text != file.read_text("utf-8"):
            file.write_text(text, "utf-8")
            changed.append(file)
    if not MAN.exists() or man_page() != MAN.read_text("utf-8"):
        MAN.parent.mkdir(parents=True, exist_ok=True)
        MAN.write_text(man_page(), "utf-8")
        changed.append(MAN)
    for page in sorted(DOCS.rglob("*.md")):
        before = page.read_text("utf-8")
        after = written(before)
        if after != before:
            page.write_text(after, "utf-8")
            changed.append(page)
    return changed


def build(site: Path) -> int:
    """Build the site without any network access, with the sample reports; a warning is an error."""
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--nitpicky", "--quiet"]
    failed = subprocess.run([*command, str(DOCS), str(site)], check=False).returncode
    write_samples(site / "samples")
    return failed


def write_samples(to: Path) -> None:
    """Write the report of each campaign that is stored in docs/samples, as docs/samples.md links to it."""
    for stored in sorted((DOCS / "samples").glob("*.sqlite.gz")):
        name = stored.name.removesuffix(".sqlite.gz")
        with tempfile.TemporaryDirectory() as results:
            (Path(results) / name).mkdir()
            (Path(results) / name / "experiment.sqlite").write_bytes(gzip.decompress(stored.read_bytes()))
            command = [sys.executable, "-m", "storagelab", "report", name, "--results", results]
            subprocess.run([*command, "--output", str(to / f"{name}.html")], check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tables", action="store_true", help="only write the tables")
    parser.add_argument("--samples", metavar="FOLDER", type=Path, help="only write the sample reports into this folder")
    options = parser.parse_args()
    if options.samples:
        write_samples(options.samples)
        return 0
    for page in write_tables():
        print(f"written: {page.relative_to(ROOT)}")
    if options.tables:
        return 0
    failed = build(SITE)
    if not failed:
        print(f"open {(SITE / 'index.html').relative_to(ROOT)}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
