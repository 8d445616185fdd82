"""Ready-made specs and drafts of new specs, for `storagelab init`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from storagelab import experiments, screen
from storagelab.errors import SpecError
from storagelab.model.engines import ENGINES
from storagelab.report import writing
from storagelab.report.text.columns import print_paragraph
from storagelab.run import contract
from storagelab.run.engine import engine_in
from storagelab.servers import drafts
from storagelab.servers.attached import RunningServer

DSN_VARIABLE = "STORAGELAB_DSN"
"""The environment variable that holds the DSN in drafts of specs."""


def list_all() -> None:
    """Prints the ready-made specs in their groups. Each has a line with its question. A randomised copy of an article's
    spec is not listed.
    """
    console = screen.out()
    for group, names in (experiments.MEASURED | experiments.SIMULATED).items():
        print_paragraph(console, group, style="bold")
        widest = max(map(len, names))
        for name in names:
            print_paragraph(console, experiments.question_of(name), first=f"  {name:{widest}}  ")
    print_paragraph(console, "init NAME > my.toml writes one; --from-server DSN fills it in for your server")


def write(name: str, output: Path | None, server: str | None = None) -> None:
    """Writes a ready-made spec, and the files that it needs beside it. If a running server is named, the spec is filled
    in for this server.
    """
    text = experiments.text_of(name)
    if server is not None:
        text = drafts.filled(name, text, *_found(server))
    _deliver(text, output)
    _write_beside(experiments.files_of(name), output.parent if output is not None else Path())


def from_server(server: str, output: Path | None) -> None:
    """Writes the draft of a spec for a running server."""
    _deliver(drafts.of_server(*_found(server)), output)


def ask(output: Path | None) -> None:
    """Asks the user three questions, and writes the draft of a spec."""
    server = _answer(f"Server: {', '.join(drafts.PRIVATE)}, or the DSN of a running one", "postgres")
    if server not in drafts.PRIVATE:
        from_server(server, output)
        return
    paths = [path.strip() for path in _answer("Folders on the drives to compare, with commas between", ".").split(",")]
    load = _answer(f"Load: {', '.join(drafts.LOADS)}", ENGINES[server].generators[0])
    if load not in drafts.LOADS or (load == "pgbench" and load not in ENGINES[server].generators):
        raise SpecError(
            f"{ENGINES[server].title} has no load of that name", key=load, hint=f"One of {', '.join(drafts.LOADS)}."
        )
    _deliver(drafts.of_answers(server, [path for path in paths if path], load), output)


def _answer(question: str, default: str) -> str:
    """Returns the line that the user types, or the default. The question goes to stderr, because the spec goes to
    stdout.
    """
    screen.say(f"{question} [{default}]")
    return sys.stdin.readline().strip() or default


def _found(server: str) -> tuple[str, RunningServer, str]:
    """Returns the engine of a running server, the facts that were read from it, and the name of the variable for its
    DSN.
    """
    target = contract.target_of(server)
    found = engine_in(ENGINES[target.engine].folder).found
    if found is None:
        problem = f"of a running {ENGINES[target.engine].title}, storagelab can't read where its files are"
        raise SpecError(problem, key="--from-server", hint="Write the spec by hand: docs/how-to/sql-server.md has one.")
    return target.engine, found(target), target.dsn_env or DSN_VARIABLE


def _deliver(text: str, output: Path | None) -> None:
    if output is not None and output.exists():
        raise SpecError(
            "is there already", file=output, hint="Choose another name, or remove it: nothing is overwritten."
        )
    writing.deliver(text, output)


def _write_beside(files: Mapping[str, str], folder: Path) -> None:
    """Writes the files that do not exist yet. Existing files stay as they are."""
    for name, text in files.items():
        file = folder / name
        if file.exists():
            screen.say(f"left as it is: {file}")
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        writing.deliver(text, file)
