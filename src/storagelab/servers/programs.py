"""Finds server programs on this machine in the folder that a cell names, and runs them. Reads their version."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.machine import temporary
from storagelab.machine.rights import as_server, unprivileged
from storagelab.model.config import Config
from storagelab.model.values import Frozen
from storagelab.stopping import uninterrupted
from storagelab.volumes.folders import Site

BIN_DIR = "target.bin_dir"
PASSED_ON = ("LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")
"""The environment variables that storagelab passes on to every program."""
_NO_HOME = "/"
_POLL_S = 0.25
_BESIDE_PROGRAMS = ("bin", "sbin", "lib", "lib64", "libexec", "share", "scripts")


class Programs(Frozen):
    """The programs of one server. `version` is the version that the server reports, e.g. "18.4". `origin` says where
    the programs were found.
    """

    version: str
    origin: str


def asked_folder(config: Config, site: Site) -> str | None:
    """The folder that a cell names, or None if it names none. A relative path starts at the spec's folder."""
    asked = config.target.bin_dir
    return None if asked is None else str(site.place(asked, BIN_DIR))


def installation(program: Path) -> tuple[Path, ...]:
    """The folder of a server's program, and the folders beside it that have files which the program needs."""
    beside = [program.parent.parent / name for name in _BESIDE_PROGRAMS]
    return tuple(dict.fromkeys([program.parent, *filter(Path.is_dir, beside)]))


def environment(*more: str) -> dict[str, str]:
    """The environment for a program that runs a spec's SQL, scripts or settings. Most variables of the user are left
    out, because they may contain a secret or change the measurement. `more` are patterns of further names to keep.
    """
    wanted = (*PASSED_ON, *more)
    kept = {name: value for name, value in os.environ.items() if any(fnmatchcase(name, one) for one in wanted)}
    return {"HOME": _NO_HOME, **kept, "LC_ALL": "C"}


def run(
    command: Sequence[str], in_child: Callable[[], None] | None, *, environment: Mapping[str, str],
    timeout_s: float | None = None, folder: Path | None = None, meanwhile: Callable[[], None] = lambda: None,
    reads: Path | None = None,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Runs a program to its end. `reads` is the file for its standard input. `meanwhile` is called a few times a
    second. The program gets its own session, so Ctrl-C interrupts only storagelab.

    All programs that the program started are killed at its end. Raises OSError, or SubprocessError as subprocess does.
    """
    process, mark = None, temporary.new_mark()
    try:
        # While Python forks, no signal may raise an exception: it would be lost, or come before `process` is set.
        with (reads or Path(os.devnull)).open("rb") as given, uninterrupted():
            process = subprocess.Popen(
                command, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                errors="replace", cwd=folder, env={**environment, temporary.MARK_VARIABLE: mark}, preexec_fn=in_child,
                start_new_session=True,
            )  # fmt: skip
        output, troubles = _communicate(process, mark, timeout_s, meanwhile)
    except BaseException:
        if process is not None:
            with uninterrupted():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                with process:  # this closes its pipes, and waits for its end
                    pass
        raise
    finally:
        with uninterrupted():
            temporary.end_marked(mark)
    return subprocess.CompletedProcess(command, process.returncode, output, troubles)


def _communicate(
    process: subprocess.Popen[str], mark: str, timeout_s: float | None, meanwhile: Callable[[], None]
) -> tuple[str, str]:
    """The output of the program until it ends. Programs that it left running are not waited for, even if they keep the
    output open.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        try:
            return process.communicate(timeout=_POLL_S)
        except subprocess.TimeoutExpired as error:
            if process.poll() is not None:
                temporary.end_marked(mark)
                try:
                    return process.communicate(timeout=_POLL_S)
                except subprocess.TimeoutExpired as late:
                    output, troubles = late.stdout or error.stdout or b"", late.stderr or error.stderr or b""
                    with process:  # this closes its pipes
                        return output.decode(errors="replace"), troubles.decode(errors="replace")
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(process.args, timeout_s or 0.0) from None
            meanwhile()


def first_program(folders: Iterable[Path | None], *names: str) -> Path | None:
    """The first file in the folders with one of these names. If there is none, the first program on the PATH with one
    of these names. Returns None if there is no such program.
    """
    places = [folder / name for folder in folders if folder is not None for name in names]
    places += [Path(found) for found in map(shutil.which, names) if found]
    return next(filter(Path.is_file, places), None)


def version_output(program: Path, *options: str) -> str:
    """The output of `program --version`. The program is run as it will be run later, because a server without root's
    rights can't use a program that only root may run. Raises PreflightError if it does not run.
    """
    command = [str(program), *options, "--version"]
    try:
        output = run(command, as_server(*installation(program)), environment=environment(), timeout_s=20)
        output.check_returncode()
        return output.stdout
    except PreflightError as error:
        raise PreflightError(error.problem, key=BIN_DIR, hint=error.hint) from error
    except (OSError, subprocess.SubprocessError) as error:
        words = getattr(error, "stderr", None) or str(error)
        shut = isinstance(error, PermissionError) and unprivileged().owner is not None
        raise PreflightError(
            f"{program} does not run {unprivileged().how}: {words.strip()}",
            key=BIN_DIR,
            hint=f"let others read it and what it needs: chmod -R o+rX {shlex.quote(str(program.parent))}"
            if shut
            else "run it by hand with --version",
        ) from error
