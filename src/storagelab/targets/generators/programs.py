"""Client programs on one server, and the same generators for every engine."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

from storagelab.errors import RunFailed
from storagelab.model.loads.base import GeneratedLoad
from storagelab.model.loads.pgbench import Pgbench
from storagelab.model.loads.sql import Sql
from storagelab.model.loads.sysbench import Sysbench
from storagelab.targets import temporary
from storagelab.targets.descriptors import read_file
from storagelab.targets.generators import in_lua, pgbench, sysbench
from storagelab.targets.generators.pgbench import Source
from storagelab.targets.generators.program import Program
from storagelab.targets.programs import run
from storagelab.targets.unprivileged import as_server, end_with_parent, give, unprivileged

InChild = Callable[..., Callable[[], None] | None]


@dataclass(frozen=True)
class Clients:
    """How client programs reach one server: by the variables of their `environment`. `beside` is the folder of the server's
    own programs, if storagelab started it; `in_child`, for folders that a program must reach, prepares its process; `owner`
    (uid, gid) is who it runs as, if not this user."""

    environment: Mapping[str, str]
    beside: Path | None = None
    owner: tuple[int, int] | None = None
    in_child: InChild = lambda *_: end_with_parent

    def run(
        self, command: Sequence[str], *reach: Path, folder: Path | None = None, reads: Path | None = None
    ) -> CompletedProcess[str]:
        """Run a program to its end."""
        return run(command, self.in_child(*reach), environment=self.environment, folder=folder, reads=reads)

    def in_folder(self, command: Sequence[str], inputs: Mapping[str, bytes]) -> CompletedProcess[str]:
        """The same in a folder of its own with these files."""
        with _folder(inputs, self.owner) as folder:
            return self.run(command, folder, folder=folder)


def of_private(environment: Mapping[str, str], beside: Path, *own: Path) -> Clients:
    """A private server's client programs run as it does: a script may make either of them run programs."""
    return Clients(environment, beside, unprivileged().owner, lambda *reach: as_server(*own, *reach))


@contextlib.contextmanager
def _folder(inputs: Mapping[str, bytes], owner: tuple[int, int] | None) -> Iterator[Path]:
    with temporary.folder("scripts") as folder:
        for name, content in inputs.items():
            (folder / name).write_bytes(content)
        if owner is not None:
            give(owner, *folder.iterdir(), folder)
        yield folder


def words_of_client(said: CompletedProcess[str]) -> str:
    """What a client program says of a failure."""
    return next((line for line in said.stderr.splitlines() if "error" in line.lower()), said.stderr.strip())


def make_sysbench_tables(clients: Clients, server: Sequence[str], load: Sysbench, scripts: Sequence[Source]) -> None:
    """Have sysbench make and fill its tables; `server` are the options that lead to the server. Raises RunFailed."""
    said = clients.in_folder(sysbench.initialise(server, load), _own_script(scripts))
    if said.returncode != 0:
        raise RunFailed(f"sysbench can't make its tables: {sysbench.words(said.stdout + said.stderr, load.script)}")


def on_sysbench_tables(
    clients: Clients, server: Sequence[str], load: Sysbench, scripts: Sequence[Source], seed: int
) -> Program:
    """sysbench with its own transactions, or a script of the user's."""
    words = partial(sysbench.words, script=load.script)
    return _sysbench(clients, load, sysbench.on_tables(server, load), _own_script(scripts), words, seed)


def own_transactions_by_sysbench(
    clients: Clients, server: Sequence[str], load: Sql, transactions: Sequence[Source], seed: int
) -> Program:
    """sysbench with transactions of the user's, written in Lua."""
    script = in_lua.written(transactions)
    inputs = {sysbench.OWN_SCRIPT: script.text.encode()}
    return _sysbench(clients, load, [f"./{sysbench.OWN_SCRIPT}", *server], inputs, script.words, seed)


def _sysbench(
    clients: Clients,
    load: GeneratedLoad,
    script: Sequence[str],
    inputs: Mapping[str, bytes],
    words: Callable[[str], str],
    seed: int,
) -> Program:
    return Program(
        title="sysbench", command=lambda _folder, _longest_s: sysbench.command(script, load, seed=seed),
        read=lambda folder: sysbench.read_report(read_file(folder / "said").decode(errors="replace"), load.longest_warm_up_s),
        words=words, stop=signal.SIGTERM, environment=clients.environment, inputs=inputs,
        says_it_counts=sysbench.counts(load), owner=clients.owner, in_child=clients.in_child,
    )  # fmt: skip


def _own_script(scripts: Sequence[Source]) -> dict[str, bytes]:
    return dict(zip([sysbench.OWN_SCRIPT], (source.content or b"" for source in scripts), strict=False))


def by_pgbench(
    clients: Clients,
    program: Path,
    load: Pgbench | Sql,
    scripts: Sequence[Source],
    seed: int,
    scale: int | None = None,
) -> Program:
    """pgbench with these scripts, on tables of its own of this scale."""
    return Program(
        title="pgbench", read=pgbench.read_log,
        command=partial(pgbench.command, str(program), load, scripts, seed=seed, scale=scale),
        words=partial(pgbench.words, sources=scripts), stop=signal.SIGALRM, environment=clients.environment,
        inputs=pgbench.inputs(scripts), owner=clients.owner, in_child=clients.in_child, per_second=pgbench.per_second,
    )  # fmt: skip
