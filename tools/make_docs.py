"""Make the documentation: write the tables that follow from the code, and build the site.

    python tools/make_docs.py            writes the tables into docs/ and builds the site in build/docs
    python tools/make_docs.py --tables   only writes the tables
    python tools/make_docs.py --samples FOLDER   only writes the sample reports

A page marks the place of a table with two comments, `<!-- generated: WHAT -->` and `<!-- end -->`. The text between
them is made from the models, the command line or the engines' vocabularies, so it can't differ from the code.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer.main
from spec_tables import Row, keys_of_experiment, keys_of_table, models_in, table

from storagelab import cli, profiles
from storagelab.capture.folder import capture_schema
from storagelab.engines.mariadb import meanings as mariadb
from storagelab.engines.postgres import meanings as postgres
from storagelab.engines.sqlserver import meanings as sqlserver
from storagelab.experiments import MEASURED, SCHEMA, SIMULATED, question_of, text_of
from storagelab.findings.cautions import kinds
from storagelab.model.config import Config
from storagelab.model.plan import Plan
from storagelab.profiles import DeclaredFigure, constants, figures_of
from storagelab.report.export.as_json import json_schema
from storagelab.report.page.html import GLOSSARY
from storagelab.run.estimate import estimate
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse
from storagelab.spec.schema import schema_text, spec_schema
from storagelab.validation import articles as published
from storagelab.words.numbers import duration

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "docs"
MAN = DOCS / "man" / "data" / "share" / "man" / "man1" / "storagelab.1"
"""The part of the path below docs/man/data is also the path in the wheel."""
CAPTURE_SCHEMA = ROOT / "src" / "storagelab" / "capture" / "capture.schema.json"
EXPORT_SCHEMA = ROOT / "src" / "storagelab" / "report" / "export" / "export.schema.json"
_GENERATED = re.compile(r"(<!-- generated: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
Schema = Mapping[str, Any]


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
"""Maps each part that the page describes in a separate table to its class. "" is the top level."""


def fields_of(part: str) -> str:
    """Returns the table of the fields of one part of the export. The part "" is its top level."""
    whole = json_schema()
    return table(["field", "meaning"], _fields(whole["$defs"][part] if part else whole, whole, ""))


def fields_of_capture() -> str:
    """Returns the table of the fields of a capture's manifest."""
    whole = capture_schema()
    return table(["field", "meaning"], _fields(whole, whole, ""))


def _fields(part: Schema, whole: Schema, before: str) -> Iterator[Row]:
    """Yields a row for each field. Fields without a description share one row, which has the description of their
    part."""
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
    """Returns the table that a field refers to, or {} if the page describes this table elsewhere."""
    name = field.get("$ref", "").rpartition("/")[2]
    return whole["$defs"][name] if name and name not in _PARTS.values() else {}


def _joined(text: str) -> str:
    return " ".join(text.split())


def _words(field: Schema) -> Iterator[str]:
    """Yields the values that a field allows, unless its description lists them all."""
    choices = [field, *field.get("anyOf", ()), field.get("items", {})]
    words = [word for choice in choices for word in choice.get("enum", ())]
    if left := [f"`{word}`" for word in words if f"`{word}`" not in field.get("description", "")]:
        yield "One of " + ", ".join(left) + "." if len(left) == len(words) else "Also " + ", ".join(left) + "."


def _inside(field: Schema, whole: Schema) -> Iterator[Schema]:
    """Yields the tables in a field, or in a list of such tables."""
    found = _named(field, whole) or field
    if "properties" in found:
        yield found
        return
    choices = (*found.get("anyOf", ()), *found.get("oneOf", ()))
    for below in (*choices, found.get("items"), found.get("additionalProperties")):
        if isinstance(below, dict):
            yield from _inside(below, whole)


def cautions() -> str:
    """Returns a table of all kinds of cautions, with the meaning of each."""
    return table(["kind", "meaning"], ([f"`{one.kind}`", _joined(one.__doc__ or "")] for one in kinds()))


# --- The command line -------------------------------------------------------------------------------------------------


_OF_TYPE = re.compile(r" <([^|>]+)>")
"""The suffix that typer puts after a name. Typer writes choices in the same way but with bars. They are not removed."""


def _spelled(found: re.Match[str]) -> str:
    return {"path": " PATH", "int range": " N"}.get(found[1], "")


def command_line() -> str:
    """Returns every verb with its arguments and options, as `--help` shows them."""
    every = _commands(typer.main.get_command(cli.app), "storagelab")
    return "\n".join(_verb(*verb) for verb in every if verb[1] != "storagelab")


def _commands(command: Any, called: str) -> Iterator[tuple[Any, str]]:
    """Yields a command and its subcommands. Each has the words with which users call it."""
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
    """Returns the command line as roff: every verb with its arguments and options."""
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
    """Yields the rows of the table of exit codes in the page of the command line."""
    page = (DOCS / "reference" / "command-line.md").read_text("utf-8")
    table = page.partition("## Exit codes")[2].partition("\n\n")[0]
    for line in table.strip().splitlines()[2:]:
        code, meaning = line.strip("| ").split(" | ", 1)
        yield code, meaning.replace("`", "")


def _roff(text: str) -> str:
    """Returns one line of text as roff. A dot or a quote at the beginning is escaped, because it would be a command."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


# --- The ready-made specs ---------------------------------------------------------------------------------------------


def recipes() -> str:
    """Returns the ready-made specs by their questions: the needs of each, and the time that `plan` estimates for it
    before any run."""
    text = ""
    for group, names in {**MEASURED, **SIMULATED}.items():
        plans = {name: expand(parse(text_of(name), name)) for name in names}
        rows = [
            [question_of(name), f"`{name}`", _needs(plan), duration(estimate(plan, plan.runs, ()).seconds)]
            for name, plan in plans.items()
        ]
        text += f"\n## {group}\n{table(['question', 'recipe', 'needs', 'time'], rows)}"
    return text


def _needs(plan: Plan) -> str:
    """Returns the requirements of a spec in addition to storagelab and space on a disk."""
    configs = [cell.config for cell in plan.cells]
    volumes_of = [{name: config.volumes[name] for name in config.volumes_used} for config in configs]
    volumes = [volume for one in volumes_of for volume in one.values()]
    commands = any(one.check or (one.prepare and not one.by_hand) for one in volumes)
    cold = any(config.between_runs.drop_page_cache for config in configs)
    apart = {
        name for one in volumes_of for name, volume in one.items()
        if volume.path not in (None, "/dev/shm") and not volume.has_own_drive  # noqa: S108
    }  # fmt: skip
    needs = {
        f"{len(apart)} volumes": len(apart) > 1,
        "a drive that may be wiped": any(one.devices for one in volumes),
        "root": cold or any(one.has_own_drive or one.limit for one in volumes),
        "your server's address": any(config.target.attached for config in configs),
        "MariaDB": any(one.target.engine == "mariadb" and not one.target.attached for one in configs),
        "sysbench": any(config.workload.kind == "sysbench" for config in configs),
        "fio": any(config.kind.folder == "fio" for config in configs),
        "`--allow-commands`": commands,
        **{f"mkfs.{kind}": True for kind in sorted({one.filesystem for one in volumes} & {"xfs", "btrfs"})},
    }
    return ", ".join(need for need, needed in needs.items() if needed) or "nothing"


def articles() -> str:
    """Returns the articles that the simulator repeats. Each has its address and the recipe that repeats it."""
    rows = [
        [
            one.id,
            f"[{one.title}]({one.url})" if one.url else one.title,
            f"{one.author}, {one.year}" if one.year else one.author,
            f"`{one.spec}`",
        ]
        for one in published.articles()
    ]
    return table(["", "article", "by", "recipe"], rows)


# --- Waits ------------------------------------------------------------------------------------------------------------


def waits_of(events: Any) -> str:
    """Returns the table of the waits that an engine lists in its module `events`, without empty columns."""
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
    """Returns the figures of a kind of drive, or of the server, as the simulator declares them."""
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


# --- What can be destroyed ------------------------------------------------------------------------------------------

_MAY_DESTROY = (
    ("everything on the drives that you name", "volumes.NAME.devices", "run --yes-wipe"),
    ("the same, on drives that hold something", "volumes.NAME.wipe", "run --yes-wipe"),
    ("what lies on a drive that a killed run left", "volumes undo", "volumes undo --yes-wipe"),
    ("whatever your own command destroys", "volumes.NAME.prepare", "run --allow-commands"),
    ("whatever a program of the server destroys", "target.settings", "run --allow-commands"),
    ("whatever your SQL destroys, with your login's rights", "workload.setup", ""),
    ("nothing but its own file", "volumes.NAME.file", ""),
    ("nothing but its own folder", "volumes.NAME.path", ""),
    ("nothing", "volumes.NAME.device", ""),
)
"""The table of what may be destroyed. It names the key or verb that destroys it, and the option that confirms this, if
there is one. The texts about keys, verbs and options come from the code.
"""


def destroyed() -> str:
    """Returns, for each key and verb that affects drives, what it may destroy and which confirmation it requires."""
    rows = []
    for what, name, confirmed_by in _MAY_DESTROY:
        tables = models_in(Config.model_fields[name.partition(".")[0]].annotation) if "." in name else []
        fields = {key: field for model in tables for key, field in model.model_fields.items()}
        key = name.rpartition(".")[2]
        field = fields.get(key) or fields.get(f"{key}_bytes")
        does = field.description or "" if field else _command(name).help
        verb, _, option = confirmed_by.rpartition(" ")
        asked = (
            [f"`{option}`: {one.help}" for one in _command(verb).params if option in one.opts] if verb else ["nothing"]
        )
        rows.append([what, f"`{name}`", _joined(does), *asked])
    return table(["what may be destroyed", "by", "how", "what confirms it"], rows)


def _command(called: str) -> Any:
    found: Any = typer.main.get_command(cli.app)
    for verb in called.split():
        found = found.get_command(None, verb)
    return found


# --- Pages ------------------------------------------------------------------------------------------------------------


def glossary() -> str:
    """Returns each term as a heading, so that other pages can link to it."""
    return "\n".join(f"## {term}\n\n{meaning}\n" for term, meaning in GLOSSARY.items())


GENERATED: dict[str, Callable[[], str]] = {
    "keys of the experiment": keys_of_experiment,
    **{f"keys of {name}": lambda name=name: keys_of_table(name) for name in Config.model_fields},
    "command line": command_line,
    "what can be destroyed": destroyed,
    "recipes": recipes,
    "articles": articles,
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
    """Returns a page in which all tables are generated again."""
    return _GENERATED.sub(lambda found: f"{found[1]}\n{GENERATED[found[2]]()}\n{found[3]}", text)


def write_tables() -> list[Path]:
    """Writes the pages that changed, and returns them."""
    changed = []
    export = json.dumps(json_schema(), ensure_ascii=False) + "\n"
    of_specs, of_captures = schema_text(spec_schema()), schema_text(capture_schema())
    schemas = ((EXPORT_SCHEMA, export), (SCHEMA, of_specs), (CAPTURE_SCHEMA, of_captures))
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
    """Builds the site without network access, and adds the sample reports. A warning is an error. Returns Sphinx's exit
    code."""
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--nitpicky", "--quiet"]
    failed = subprocess.run([*command, str(DOCS), str(site)], check=False).returncode
    write_samples(site / "samples")
    return failed


def write_samples(to: Path) -> None:
    """Writes the report of each campaign that is stored in docs/samples. docs/samples.md links to these reports."""
    to.mkdir(parents=True, exist_ok=True)
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
