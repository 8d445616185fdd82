"""`storagelab init` and `storagelab demo`: ready-made specs, and drafts of one's own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from storagelab import experiments, screen
from storagelab.errors import SpecError
from storagelab.experiments import with_schema
from storagelab.machine.disks import mount_of, mounts_here
from storagelab.model.engines import ENGINES
from storagelab.report import writing
from storagelab.report.text.columns import print_paragraph
from storagelab.run import contract
from storagelab.run.engine import engine_in
from storagelab.servers.attached import RunningServer
from storagelab.spec.given_files import MOST_BYTES, begin_of
from storagelab.verbs import _running as run
from storagelab.words.numbers import bytes_

# --- drafts -----------------------------------------------------------------------------------------------------------
# Drafts of specs: for a server that runs, or from the answers to three questions.
#
# A draft plans at once, and its comments say what to change.

HERE = "."
_DECIDE = 'For figures to decide by: duration = "300s", warm_up = "60s", repetitions = 5.'
LOADS = {
    "pgbench": 'kind = "pgbench"\nscale = 10            # 100 = about 1.5 GB\nscripts = ["tpcb-like"]',
    "sysbench": 'kind = "sysbench"\nscript = "oltp_read_write"\ntables = 4\ntable_size = 100_000',
    "inserts": 'kind = "random-insert"\nrows_per_connection = 20_000\nrows_per_transaction = 1_000',
}
_TIMED = 'duration = "8s"\nwarm_up = "2s"'
PRIVATE = tuple(name for name, engine in ENGINES.items() if engine.generators)
"""The load of an engine unless another is asked for."""


class Volume(NamedTuple):
    """A volume of a draft; `holds` says what a running server keeps there."""

    name: str
    path: str
    holds: tuple[str, ...] = ()


class Draft(NamedTuple):
    """A spec in the making. `now`: the volumes that hold data and log today; None if nothing is known of that."""

    head: Sequence[str]
    question: str
    target: Mapping[str, object]
    volumes: Sequence[Volume]
    load: str
    now: tuple[str, str] | None = None

    def text(self) -> str:
        parts = [
            "".join(f"# {line}\n" if line else "#\n" for line in self.head),
            f'name = "my-server"\nquestion = {_toml(self.question)}\nrepetitions = 3\n',
            "[target]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in self.target.items()),
            *(_volume(one) for one in self.volumes),
            *([f'[layout]\ndata = ["{self._data}"]\nlog = "{self._data}"\n'] if self.volumes else []),
            f"[workload]\n{LOADS[self.load]}\nconnections = 8\n" + ("" if self.load == "inserts" else f"{_TIMED}\n"),
            f"[factors]\n{self._factors()}",
        ]
        return with_schema("\n".join(parts))

    @property
    def _data(self) -> str:
        return self.now[0] if self.now is not None else self.volumes[0].name

    def _factors(self) -> str:
        if not self.volumes:
            return '"workload.connections" = [4, 8, 16]\n'
        if len(self.volumes) == 1:
            return '"layout.data_files" = [1, 4]\n'
        names = [one.name for one in self.volumes]
        levels = {(name, name): f"all on {name}" for name in names} | {(names[0], names[1]): f"log on {names[1]}"}
        if self.now is not None:
            levels = {self.now: "as now"} | {places: label for places, label in levels.items() if places != self.now}
        return "layout = [\n" + "".join(_level(label, *places) for places, label in levels.items()) + "]\n"


def _level(label: str, data: str, log: str) -> str:
    return f'  {{ label = {_toml(label)}, "layout.data" = ["{data}"], "layout.log" = "{log}" }},\n'


def _volume(one: Volume) -> str:
    holds = "".join(f"# {line}\n" for line in one.holds)
    return f"[volumes.{one.name}]\n{holds}path = {_toml(one.path)}\n"


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{name} = {_toml(one)}" for name, one in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return json.dumps(value, ensure_ascii=False)


# --- a server that runs -----------------------------------------------------------------------------------------------


def of_server(engine: str, found: RunningServer, variable: str) -> str:
    """The draft for a running server: a private one like it, if it runs on this machine; else the server itself, whose
    DSN is in this variable of the environment.
    """
    holds = f"Its databases hold {bytes_(found.data_bytes)}."
    if not found.here:
        elsewhere = (
            f"{found.title}, on another machine. {holds} storagelab makes a schema of its own there, and drops it",
            f"after each run. The variable {variable} holds its DSN. Its log stays where it is.",
            "",
            "Change: the load. To compare volumes, name folders of that machine, each with remote = true.",
            _DECIDE,
        )
        target: dict[str, object] = {"engine": engine, "dsn_env": variable}
        question = "How many connections does my running server serve best?"
        return Draft(elsewhere, question, target, (), ENGINES[engine].generators[0]).text()
    volumes, names = _volumes(found.places)
    head = (
        f"{found.title}, as it runs on this machine: a private server with the same settings, on the same volumes.",
        f"The running one was only asked, and stays as it is. {holds}",
        "",
        "Change: the load, to one like yours; the volumes, to those that you want to compare. To measure the running",
        f'server itself, replace bin_dir and settings by dsn_env = "{variable}", with the DSN in that variable; its '
        "log",
        "then stays where it is.",
        _DECIDE,
    )
    programs = {} if found.bin_dir is None else {"bin_dir": str(found.bin_dir)}
    target = {"engine": engine, **programs, "settings": found.settings}
    now = (names["data"], names["log"]) if "data" in names else None
    question = "Which of this server's volumes suit its data and its log?"
    return Draft(head, question, target, volumes, ENGINES[engine].generators[0], now).text()


def _volumes(places: Mapping[str, Path]) -> tuple[tuple[Volume, ...], dict[str, str]]:
    """A volume for each file system that holds any of these folders; and each folder's volume. A volume is the mount
    point, or, where this user may not write there or it is the whole machine's, the folder of the spec.
    """
    mounts, by_mount = mounts_here(), dict[str, list[str]]()
    for name, folder in places.items():
        mount = mount_of(folder, mounts)
        by_mount.setdefault(mount.mount_point if mount is not None else "/", []).append(name)
    volumes = tuple(_volume_of(point, names, places) for point, names in by_mount.items())
    if not volumes:
        return (Volume("data", HERE),), {}
    return volumes, {name: names[0] for names in by_mount.values() for name in names}


def _volume_of(point: str, names: Sequence[str], places: Mapping[str, Path]) -> Volume:
    holds = tuple(f"now: {name} in {_toml(str(places[name]))}" for name in names)
    if point == "/" or not os.access(point, os.W_OK):
        return Volume(names[0], HERE, (*holds, "Change this to a folder on the same disk, in which you may write."))
    return Volume(names[0], point, holds)


# --- three answers ----------------------------------------------------------------------------------------------------


def of_answers(engine: str, paths: Sequence[str], load: str) -> str:
    """The draft for a private server on these paths."""
    volumes = tuple(Volume(f"volume{number}", path) for number, path in enumerate(paths, 1))
    head = (
        f"A private {ENGINES[engine].title}: storagelab starts it for each run, and removes it afterwards.",
        "",
        f"Change: the settings, to those of your server, such as {{ {ENGINES[engine].memory_setting} }}; the size of "
        "the load.",
        _DECIDE,
    )
    return Draft(head, "Which of these volumes suit data and log?", {"engine": engine}, volumes, load).text()


# --- the verbs --------------------------------------------------------------------------------------------------------

DEMO = "quickstart"
DSN_VARIABLE = "STORAGELAB_DSN"
"""The variable that drafts name for a DSN."""


def list_all() -> None:
    """Prints a line for each ready-made spec, with its question, below the name of its group. A randomised copy of an
    article's spec has no line of its own.
    """
    console = screen.out()
    for group, names in (experiments.MEASURED | experiments.SIMULATED).items():
        print_paragraph(console, group, style="bold")
        widest = max(map(len, names))
        for name in names:
            print_paragraph(console, experiments.question_of(name), first=f"  {name:{widest}}  ")
    print_paragraph(console, "init NAME > my.toml writes one; init --from-server DSN or --ask drafts your own")


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
    server = _answer(f"Server: {', '.join(PRIVATE)}, or the DSN of a running one", "postgres")
    if server not in PRIVATE:
        _deliver(_draft_of(server), output)
        return
    paths = [path.strip() for path in _answer("Folders on the drives to compare, with commas between", ".").split(",")]
    load = _answer(f"Load: {', '.join(LOADS)}", ENGINES[server].generators[0])
    if load not in LOADS or (load == "pgbench" and load not in ENGINES[server].generators):
        raise SpecError(
            f"{ENGINES[server].title} has no load of that name", key=load, hint=f"One of {', '.join(LOADS)}."
        )
    _deliver(of_answers(server, [path for path in paths if path], load), output)


def _answer(question: str, default: str) -> str:
    """The line that the user types, or the default. The question goes to stderr, since the spec goes to stdout."""
    screen.say(f"{question} [{default}]")
    return sys.stdin.readline().strip() or default


def _draft_of(server: str) -> str:
    target = contract.target_of(server)
    found = engine_in(ENGINES[target.engine].folder).found
    if found is None:
        problem = f"of a running {ENGINES[target.engine].title}, storagelab can't read where its files are"
        raise SpecError(problem, key="--from-server", hint="Write the spec by hand: docs/how-to/sql-server.md has one.")
    return of_server(target.engine, found(target), target.dsn_env or DSN_VARIABLE)


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
        writing.write(file, text, elsewhere=" with --results")
    elif begin_of(file, MOST_BYTES, "--results").decode(errors="replace").partition("\n")[2] != text.partition("\n")[2]:
        raise SpecError("is not the quick start", file=file, hint=f"Run it (storagelab run {file}), or remove it.")
    return run.run(file, results, run.Asked())
