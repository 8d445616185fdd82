"""Feeds storagelab thousands of broken specs and stores and checks its response. `python -m bench.fuzz --help`

It must keep these promises: no traceback, no hang, no abort, an exit code of 0, 1 or 2, a message that names the file,
no raw control characters on the terminal, and no change to a store that it refuses.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from bench.figures import Figure
from bench.listening import Quiet
from bench.mutations import fresh_copy, wrong_spec, wrong_store
from storagelab import cli, screen
from storagelab.errors import escaped
from storagelab.run import loop
from storagelab.run.store import FILE_NAME, Store
from storagelab.spec import matrix, reading
from storagelab.volumes.folders import Site

ROOT = Path(__file__).resolve().parent.parent
TRACEBACK = 70
_PATIENCE_S = 60.0
_POLL_S = 0.005
_CASES_NAMED = 5
_SPEC = "wrong.toml"
_STORE_VERBS = (
    ("plan", "{spec}"), ("report", "{name}"), ("report", "{name}", "--format", "md"), ("waits", "{name}"),
    ("report", "{name}", "--format", "svg"), ("export", "{name}"), ("export", "{name}", "--format", "waits-csv"),
    ("export", "{name}", "--salvage"), ("run", "{spec}"),
)  # fmt: skip
_BASES = {
    "small": """
        repetitions = 2
        [target]
        engine = "simulated"
        scale = 256
        [server]
        cores = 2
        memory = "4GB"
        [drives.ssd]
        profile = "iodrive-320"
        format = "basic"
        driver = "2.2.3"
        sector_bytes = 512
        [volumes.a]
        drives = ["ssd"]
        [workload]
        connections = 4
        rows_per_connection = 20_000
        [factors]
        "layout.data_files" = [1, 2]
        "drives.ssd.format" = ["basic", "maximum-write"]
        """,
    "raw": """
        repetitions = 2
        [target]
        engine = "raw-io"
        scale = 256
        [drives.disk]
        profile = "scsi-15k-300"
        [volumes.a]
        drives = ["disk"]
        [workload]
        operation = "read"
        pattern = "random"
        block = "8KiB"
        duration = "20s"
        [factors]
        "workload.operation" = ["read", "write"]
        """,
}
_MEASURED = """
    repetitions = 2
    [target]
    engine = "postgres"
    [volumes.a]
    path = "."
    [workload]
    connections = 2
    rows_per_connection = 500
    rows_per_transaction = 100
    [factors]
    "layout.data_files" = [1, 2]
    """
_WORTH_A_SERVER = 50
"""If there are at least this many stores, some contain runs on a real server, which store more facts."""


class Said(NamedTuple):
    """The outcome of a command. `code` is None if the command had to be killed, and negative if a signal ended it."""

    code: int | None
    out: str
    err: str


Saying = Callable[[Sequence[str], Path], Said]


class Broken(NamedTuple):
    """A broken promise, with its case and its command."""

    case: str
    words: str
    promise: str
    said: str


def by_process(words: Sequence[str], folder: Path) -> Said:
    """Runs the command in a new process, as a person does."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        said = subprocess.run(
            [sys.executable, "-m", "storagelab", *words],
            cwd=folder, env=environment, capture_output=True, check=False, timeout=_PATIENCE_S,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Said(None, "", "")
    return Said(said.returncode, said.stdout.decode(errors="replace"), said.stderr.decode(errors="replace"))


def in_process(words: Sequence[str], folder: Path) -> Said:
    """Runs the command in a fork of this process, where everything is already loaded. This is thirty times as fast, and
    an abort ends only the fork.
    """
    out, err = folder / ".out", folder / ".err"
    child = os.fork()
    if child == 0:
        _become(words, folder, out, err)
    code = _ended(child)
    return Said(code, out.read_text(errors="replace"), err.read_text(errors="replace"))


def _become(words: Sequence[str], folder: Path, out: Path, err: Path) -> None:
    code = TRACEBACK
    try:
        os.chdir(folder)
        for number, place in ((1, out), (2, err)):
            os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8") for number in (1, 2))  # noqa: SIM115
        sys.argv = ["storagelab", *words]
        screen.prepare()
        cli.main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - any exception is a finding
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _ended(child: int) -> int | None:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_POLL_S)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _broken(case: str, words: Sequence[str], said: Said, file: str) -> Iterator[Broken]:
    text = said.out + said.err
    kept = {
        f"ends within {_PATIENCE_S:g} s": said.code is not None,
        "is not aborted": said.code is None or said.code >= 0,
        "no traceback": "Traceback (most recent call last)" not in text,
        "exit code 0, 1 or 2": said.code in (0, 1, 2, None) or said.code < 0,
        "names the file": said.code != 2 or file in said.err,
        "nothing raw on the terminal": escaped(text) == text,
    }
    for promise, is_kept in kept.items():
        if not is_kept:
            yield Broken(case, " ".join(words), promise, f"code {said.code}: {text[-1500:]}")


# --- campaigns -------------------------------------------------------------------------------------------------------


def specs(folder: Path, count: int, seed: int, saying: Saying) -> Iterator[Broken]:
    """Runs `storagelab plan` on `count` broken copies of ready-made specs."""
    texts = [file.read_bytes() for file in sorted((ROOT / "experiments").glob("*.toml"))]
    texts += [text.encode() for text in _BASES.values()]
    sources = [(tomllib.loads(text.decode()), text) for text in texts]
    file = folder / _SPEC
    for number in range(count):
        chance = Random(f"{seed}/spec/{number}")
        document, text = chance.choice(sources)
        file.write_bytes(wrong_spec(document, text, chance))
        words = ("plan", _SPEC)
        for broken in _broken(f"spec {number}", words, saying(words, folder), _SPEC):
            (folder / f"spec-{number}.toml").write_bytes(file.read_bytes())
            yield broken


def stores(folder: Path, count: int, seed: int, saying: Saying) -> Iterator[Broken]:
    """Runs every reading verb on `count` broken small stores, and also `run`. A store that `run` refuses must not
    change.
    """
    bases = [_made(folder, name, text) for name, text in _BASES.items()]
    if count >= _WORTH_A_SERVER:
        folder.chmod(0o755)  # the server must be able to enter
        bases.append(_made(folder, "measured", _MEASURED))
    for number in range(count):
        chance = Random(f"{seed}/store/{number}")
        base = chance.choice(bases)
        results = folder / "results" / base.name
        fresh_copy(base, results)
        how = f"store {number}: {wrong_store(results, chance)}"
        for verb in _STORE_VERBS:
            words = [word.format(name=base.name, spec=f"{base.name}.toml") for word in verb]
            before = _content(results / FILE_NAME)
            said = saying(words, folder)
            found = list(_broken(how, words, said, base.name))
            if (words[0] != "run" or said.code == 2) and before and _content(results / FILE_NAME) != before:
                found.append(Broken(how, " ".join(words), "the store is left as it is", said.err))
            if found:
                fresh_copy(results, folder / f"store-{number}")
            yield from found


def _content(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""


def _made(folder: Path, name: str, text: str) -> Path:
    """Makes a small store with real runs."""
    file = folder / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    experiment = reading.load(file)
    place = folder / "sound" / name
    site = Site(experiment=name, identity="0badcafe", spec_folder=folder.resolve())
    with Store.writing(place, experiment) as store:
        loop.run_all(matrix.expand(experiment), store, site, Quiet())
    return place


def campaign(folder: Path, seed: int, *, typed: int, forked: int, damaged: int) -> Iterator[Broken]:
    """Tries `typed` specs in separate processes, and `forked` specs and `damaged` stores in forks of this one."""
    from storagelab.findings import analysis  # noqa: F401 - loaded once for all forks

    yield from specs(folder, typed, seed, by_process)
    yield from specs(folder, forked, seed + 1, in_process)
    yield from stores(folder, damaged, seed + 2, in_process)


def figures(folder: Path, seed: int = 1, typed: int = 1000, forked: int = 5000, damaged: int = 200) -> Iterator[Figure]:
    """Yields the number of broken promises, and what broke the first of them, for `make bench`."""
    found = list(campaign(folder, seed, typed=typed, forked=forked, damaged=damaged))
    kinds = ", ".join(f"{count} x {promise}" for promise, count in Counter(one.promise for one in found).items())
    what = f"promises broken by {typed + forked} wrong specs and {damaged} damaged stores"
    cases = "; ".join(dict.fromkeys(one.case for one in found[:_CASES_NAMED]))
    remark = f"seed {seed}" + (f": {kinds} ({cases})" if found else "")
    yield Figure(what, len(found), "", "0", not found, remark=remark)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--typed", type=int, default=10, help="how many wrong specs to try, each in a new process")
    parser.add_argument("--forked", type=int, default=200, help="how many wrong specs to try in forks of this process")
    parser.add_argument("--stores", type=int, default=20, help="how many damaged stores to try")
    parser.add_argument("--keep", type=Path, help="a folder to keep the broken cases in")
    options = parser.parse_args()
    began, found = time.monotonic(), []
    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="storagelab-fuzz-")))
        folder.mkdir(parents=True, exist_ok=True)
        for one in campaign(folder, options.seed, typed=options.typed, forked=options.forked, damaged=options.stores):
            found.append(one)
            print(f"--- {one.case}: {one.words}: {one.promise}\n{escaped(one.said)}\n", flush=True)
    print(
        f"{options.typed} specs typed, {options.forked} forked, {options.stores} stores in "
        f"{time.monotonic() - began:.0f} s: {len(found)} promises broken "
        f"{dict(Counter(one.promise for one in found)) if found else ''}"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
