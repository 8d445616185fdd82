"""sysbench as a `Program`, the same for every engine, and the folder in which it finds a script of the user's."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from storagelab.model.workload import Sql, Sysbench
from storagelab.targets import temporary
from storagelab.targets.descriptors import read_file
from storagelab.targets.generators import in_lua, sysbench
from storagelab.targets.generators.pgbench import Source
from storagelab.targets.generators.running import Program
from storagelab.targets.unprivileged import give


def sysbench_program(
    server: Sequence[str],
    load: Sysbench | Sql,
    scripts: Sequence[Source],
    seed: int,
    environment: Mapping[str, str],
    owner: tuple[int, int] | None,
    in_child: Callable[[Path], Callable[[], None] | None],
) -> Program:
    """sysbench with the options `server` that lead to the server."""
    if isinstance(load, Sql):
        script = in_lua.written(scripts)
        words, inputs = script.words, {sysbench.OWN_SCRIPT: script.text.encode()}
    else:
        words, inputs = partial(sysbench.words, script=load.script), sysbench_inputs(scripts)
    return Program(
        title="sysbench", command=lambda _folder, _longest_s: sysbench.command(server, load, own=bool(scripts), seed=seed),
        read=lambda folder: sysbench.read_report(read_file(folder / "said").decode(errors="replace"), load.longest_warm_up_s),
        words=words, stop=signal.SIGTERM, environment=environment, inputs=inputs,
        says_it_counts=sysbench.counts(load), owner=owner, in_child=in_child,
    )  # fmt: skip


def sysbench_inputs(scripts: Sequence[Source]) -> dict[str, bytes]:
    return dict(zip([sysbench.OWN_SCRIPT], (source.content or b"" for source in scripts), strict=False))


@contextlib.contextmanager
def script_folder(inputs: Mapping[str, bytes], owner: tuple[int, int] | None) -> Iterator[Path]:
    """A folder with these files, for as long as it is needed."""
    with temporary.folder("scripts") as folder:
        for name, content in inputs.items():
            (folder / name).write_bytes(content)
        if owner is not None:
            give(owner, *folder.iterdir(), folder)
        yield folder
