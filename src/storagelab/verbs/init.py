"""`storagelab init` and `storagelab demo`: ready-made specs, and drafts of one's own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from storagelab import experiments, screen
from storagelab.errors import SpecError
from storagelab.experiments import Ready
from storagelab.model.engines import ENGINES
from storagelab.report import writing
from storagelab.report.text.columns import Column, print_paragraph, print_table
from storagelab.targets import contract
from storagelab.targets.engines import engine_in
from storagelab.verbs import drafts, run

DEMO = "quickstart"
DSN_VARIABLE = "STORAGELAB_DSN"
"""The variable that drafts name for a DSN."""


def list_all() -> None:
    """Prints all ready-made specs by their questions."""
    print_ready_made(screen.out(), experiments.ready_made())


def write(name: str, output: Path | None) -> None:
    """Writes a ready-made spec, and beside it the files that it needs."""
    text = experiments.text_of(name)
    _deliver(text, output)
    _write_beside(experiments.files_of(name), output.parent if output is not None else Path())


def from_server(server: str, output: Path | None) -> None:
    """Writes the draft of a spec for a running server."""
    _deliver(_draft_of(server), output)


def ask(output: Path | None) -> None:
    """Asks three questions, and writes the draft."""
    server = _answer("Server: postgres, mariadb, or the DSN of a running one", "postgres")
    if server not in drafts.LOAD_OF:
        _deliver(_draft_of(server), output)
        return
    paths = [path.strip() for path in _answer("Folders on the drives to compare, with commas between", ".").split(",")]
    load = _answer(f"Load: {', '.join(drafts.LOADS)}", drafts.LOAD_OF[server])
    if load not in drafts.LOADS or (server, load) == ("mariadb", "pgbench"):
        raise SpecError(
            f"{ENGINES[server].title} has no load of that name", key=load, hint=f"One of {', '.join(drafts.LOADS)}."
        )
    _deliver(drafts.of_answers(server, [path for path in paths if path], load), output)


def _answer(question: str, default: str) -> str:
    """The line that the user types, or the default. The question goes to stderr, since the spec goes to stdout."""
    screen.say(f"{question} [{default}]")
    return sys.stdin.readline().strip() or default


def _draft_of(server: str) -> str:
    target = contract.target_of(server)
    found = engine_in(ENGINES[target.engine].folder).found
    if found is None:
        raise SpecError(
            f"of a running {ENGINES[target.engine].title}, storagelab can't read where its files are",
            key="--from-server",
            hint="Write the spec by hand: docs/how-to/sql-server.md has one.",
        )
    return drafts.of_server(target.engine, found(target), target.dsn_env or DSN_VARIABLE)


def _deliver(text: str, output: Path | None) -> None:
    if output is not None and output.exists():
        raise SpecError(
            "is there already", file=output, hint="Choose another name, or remove it: nothing is overwritten."
        )
    writing.deliver(text, output)


def _write_beside(files: Mapping[str, str], folder: Path) -> None:
    """Writes the files that are not there yet; those that are there stay as they are."""
    for name, text in files.items():
        file = folder / name
        if file.exists():
            screen.say(f"left as it is: {file}")
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        writing.deliver(text, file)


def demo(results: Path) -> bool:
    """Runs the quick start; its spec and its volume are in the folder of results. Returns whether no run has failed."""
    file, text = results / f"{DEMO}.toml", experiments.text_of(DEMO)
    if not file.exists():
        results.mkdir(parents=True, exist_ok=True)
        writing.write(file, text)
    elif file.read_text("utf-8").partition("\n")[2] != text.partition("\n")[2]:
        raise SpecError("is not the quick start", file=file, hint=f"Run it (storagelab run {file}), or remove it.")
    return run.run(file, results, run.Asked())


# --- the ready-made specs on the terminal, by the questions that they answer ------------------------------------------

_HEADS = ((False, "Measured on this machine"), (True, "Simulated: hardware that you don't have"))
_HOW = (
    "storagelab init NAME > my.toml       writes the spec; its comments say what to change",
    "storagelab init --from-server DSN    drafts one from a PostgreSQL or MariaDB that runs",
    "storagelab init --ask                asks three questions, and drafts one",
)


def print_ready_made(console: Console, specs: Sequence[Ready]) -> None:
    """One line a spec."""
    for simulated, head in _HEADS:
        shown = [one for one in specs if one.simulated == simulated]
        print_paragraph(console, head, style="bold")
        columns = [
            Column("name", [one.name for one in shown], right=False),
            Column("question", [one.question for one in shown], right=False, wraps=True),
        ]
        print_table(console, columns, indent=0)
        console.print()
    for line in _HOW:
        console.print(line, soft_wrap=True)
