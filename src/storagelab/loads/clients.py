"""Client programs on one server, scripts of the user's own, and the same generators for every engine."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

from storagelab.errors import PreflightError, RunFailed
from storagelab.loads import in_lua, pgbench, sysbench
from storagelab.loads.generator import Program
from storagelab.loads.pgbench import Source
from storagelab.loads.transactions import LOG_PREFIX, read_log
from storagelab.machine import temporary
from storagelab.machine.descriptors import read_file
from storagelab.machine.rights import as_server, end_with_parent, give, unprivileged
from storagelab.model.loads.base import GeneratedLoad
from storagelab.model.loads.pgbench import Pgbench, Script, script_of
from storagelab.model.loads.sql import Sql
from storagelab.model.loads.sysbench import Sysbench
from storagelab.servers.programs import run
from storagelab.spec.given_files import begin_of
from storagelab.volumes.folders import Site

InChild = Callable[..., Callable[[], None] | None]


@dataclass(frozen=True)
class Clients:
    """How client programs reach one server: by the variables of their `environment`, and by `options` for programs
    that don't read variables. `beside` is the folder of the server's own programs, if storagelab started it.
    `in_child` prepares a program's process, for the folders that it must reach. `owner` (uid, gid) is the user that
    it runs as, if not this one. `first` is the statement that its sessions begin with, if no variable does that.
    """

    environment: Mapping[str, str]
    beside: Path | None = None
    owner: tuple[int, int] | None = None
    in_child: InChild = lambda *_: end_with_parent
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    first: str = ""

    def run(
        self, command: Sequence[str], *reach: Path, folder: Path | None = None, reads: Path | None = None
    ) -> CompletedProcess[str]:
        """Run a program to its end."""
        return run(command, self.in_child(*reach), environment=self.environment, folder=folder, reads=reads)

    def in_folder(self, command: Sequence[str], inputs: Mapping[str, bytes]) -> CompletedProcess[str]:
        """Run a program in its own folder, which holds these files."""
        with _folder(inputs, self.owner) as folder:
            return self.run(command, folder, folder=folder)


def of_private(
    environment: Mapping[str, str], options: Mapping[str, Sequence[str]], beside: Path, *own: Path
) -> Clients:
    """The programs of a private server run as the server does: a script may make a client run programs, too."""
    return Clients(environment, beside, unprivileged().owner, lambda *reach: as_server(*own, *reach), options)


@contextlib.contextmanager
def _folder(inputs: Mapping[str, bytes], owner: tuple[int, int] | None) -> Iterator[Path]:
    with temporary.folder("scripts") as folder:
        for name, content in inputs.items():
            (folder / name).write_bytes(content)
        if owner is not None:
            give(owner, *folder.iterdir(), folder)
        yield folder


def by_sysbench(clients: Clients, load: Sysbench, scripts: Sequence[Source], seed: int) -> Program:
    """sysbench with its own transactions or the user's script, on its own tables."""
    words = partial(sysbench.words, script=load.script)
    script = sysbench.on_tables(clients.options["sysbench"], load)
    return _sysbench(clients, load, script, inputs_of_sysbench(scripts), words, seed)


def ask_by_sysbench(clients: Clients, statement: str) -> str:
    """The server's answer to a session of sysbench. Raises RunFailed with its words if it can't log in."""
    output = clients.in_folder(*sysbench.asking(clients.options["sysbench"], statement))
    if sysbench.failed(output):
        raise RunFailed(f"sysbench can't log in: {sysbench.words(output.stdout + output.stderr, sysbench.ASKING)}")
    return sysbench.answer(output.stdout)


def log_in_by_pgbench(clients: Clients, program: Path) -> None:
    """Raises RunFailed with pgbench's words if it can't log in."""
    command = [str(program), "--no-vacuum", "--transactions=1", "--file=asking.sql"]
    output = clients.in_folder(command, {"asking.sql": b"SELECT 1;\n"})
    if output.returncode != 0:
        raise RunFailed(f"pgbench can't log in: {pgbench.words(output.stderr, ())}")


def own_transactions_by_sysbench(clients: Clients, load: Sql, transactions: Sequence[Source], seed: int) -> Program:
    """sysbench with the user's transactions, written in Lua."""
    script = in_lua.written(transactions)
    inputs = {sysbench.OWN_SCRIPT: script.text.encode()}
    return _sysbench(
        clients, load, [f"./{sysbench.OWN_SCRIPT}", *clients.options["sysbench"]], inputs, script.words, seed
    )


def _sysbench(
    clients: Clients,
    load: GeneratedLoad,
    script: Sequence[str],
    inputs: Mapping[str, bytes],
    words: Callable[[str], str],
    seed: int,
) -> Program:
    logged, text = sysbench.with_log(script)

    def read(folder: Path) -> sysbench.Reported:
        said = read_file(folder / "said").decode(errors="replace")
        return sysbench.read_report(said, load.longest_warm_up_s, read_log(folder))

    command, more = sysbench.beginning_with(clients.first, sysbench.command(logged, load, seed=seed))
    return Program(
        title="sysbench", command=lambda _folder, _longest_s: command, read=read, words=words, stop=signal.SIGTERM,
        environment=clients.environment, inputs={**inputs, sysbench.LOGGED: text.encode(), **more},
        says_it_counts=sysbench.counts(load), owner=clients.owner, in_child=clients.in_child,
    )  # fmt: skip


def inputs_of_sysbench(scripts: Sequence[Source]) -> dict[str, bytes]:
    names = [sysbench.OWN_SCRIPT, *(source.script.name for source in scripts[1:])]
    return dict(zip(names, (source.content or b"" for source in scripts), strict=False))


def by_pgbench(
    clients: Clients, program: Path, load: Pgbench | Sql, scripts: Sequence[Source], seed: int, scale: int | None = None
) -> Program:
    """pgbench with these scripts, on its own tables of this scale."""
    return Program(
        title="pgbench", read=read_log,
        command=partial(pgbench.command, str(program), load, scripts, seed=seed, scale=scale),
        words=partial(pgbench.words, sources=scripts), stop=signal.SIGALRM, environment=clients.environment,
        inputs=pgbench.inputs(scripts), owner=clients.owner, in_child=clients.in_child, per_second=pgbench.per_second,
        asks_first=f"{LOG_PREFIX}.*",
    )  # fmt: skip


# --- scripts ---------------------------------------------------------------------------------------------------------
#
# The user's own scripts: reads them, and refuses those that contain a password.


_LONGEST_SCRIPT_BYTES = 2**20
_MOST_BESIDE = 50
_HEAD_BYTES = 2**20
"""How much of a dump is checked: a dump of several databases names the first one near its beginning."""
_PASSWORD = re.compile(r"\bpassword\b\s*(?:=\s*)?'|\bpassword=\S|\w+://[^\s/@:]*:[^\s/@]+@", re.IGNORECASE)
"""A password in SQL (`PASSWORD 'x'`) or in a connection string."""


def content_of(name: str, key: str, site: Site) -> bytes:
    """The content of a script's file. Raises PreflightError for a file that can't be used."""
    path = site.place(name, key)
    content = begin_of(path, _LONGEST_SCRIPT_BYTES + 1, key)
    if len(content) > _LONGEST_SCRIPT_BYTES:
        raise PreflightError(f"{path} is too long for a script", key=key, hint="a script holds one transaction")
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        if _PASSWORD.search(line):
            raise PreflightError(
                f"{name} holds a password in line {number}",
                key=key,
                hint="let the server know the login without one in a script: ~/.pgpass, PGPASSWORD, MYSQL_PWD",
            )
    return content


def check_stays_inside(path: Path, name: str, key: str, elsewhere: re.Pattern[bytes], hint: str) -> None:
    """Refuses a file of SQL with one of the statements `elsewhere`, which lead out of the database that storagelab
    makes. Raises PreflightError.
    """
    head = begin_of(path, _HEAD_BYTES, key)
    found = elsewhere.search(head)
    if found is not None:
        line, output = head.count(b"\n", 0, found.start(1)) + 1, b" ".join(found[1].split()).decode()
        raise PreflightError(
            f"{name}, line {line}, says {output}, which leads out of the database that storagelab makes", key=key,
            hint=f"leave the line out; {hint}",
        )  # fmt: skip


def own_script(load: Sysbench, site: Site) -> tuple[Source, ...]:
    """The user's Lua file and those beside it, which it may require; none for one of sysbench's own scripts."""
    if not load.is_own:
        return ()
    key = "workload.script"
    path = site.place(load.script, key)
    beside = [one for one in sorted(path.parent.glob("*.lua")) if one.name != path.name]
    if len(beside) > _MOST_BESIDE:
        raise PreflightError(
            f"{len(beside)} Lua files lie beside {load.script}, and all of them go with it", key=key,
            hint="put the script and those that it needs into a folder of their own",
        )  # fmt: skip
    sources = [(load.script, load.script), *((one.name, str(one)) for one in beside)]
    return tuple(Source(Script(name, 1), content_of(place, key, site)) for name, place in sources)


def pgbench_scripts(load: Pgbench, site: Site) -> tuple[Source, ...]:
    """The scripts that pgbench runs: its own, and the user's files."""
    return tuple(
        Source(script, None if script.built_in else content_of(script.name, f"workload.scripts[{number}]", site))
        for number, script in enumerate(map(script_of, load.scripts), 1)
    )


def own_files(load: Sql, site: Site) -> Iterator[tuple[str, str, str, Path]]:
    """The files that make the user's own database, in order: for each its kind, name, key and path. Raises
    PreflightError for one that can't be used.
    """
    if load.restore is not None:
        key = "workload.restore"
        yield f"restoring {load.restore}", load.restore, key, site.place(load.restore, key)
    for number, name in enumerate(load.setup, 1):
        key = f"workload.setup[{number}]"
        content_of(name, key, site)
        yield f"setup by {name}", name, key, site.place(name, key)


def own_transactions(load: Sql, site: Site) -> tuple[Source, ...]:
    """The files of the user's own transactions."""
    return tuple(
        Source(Script(one.file, one.weight), content_of(one.file, f"workload.transactions[{number}].file", site))
        for number, one in enumerate(load.transactions, 1)
    )
