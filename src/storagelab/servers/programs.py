"""Server programs on this machine: the folder that a cell asks for, and the version that the programs report."""

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
"""The caller's variables that every program receives."""
_NO_HOME = "/"
_POLL_S = 0.25
_BESIDE_PROGRAMS = ("bin", "sbin", "lib", "lib64", "libexec", "share", "scripts")


class Programs(Frozen):
    """The programs of one server. `version` is as the server reports it, e.g. "18.4"; `origin` is their source."""

    version: str
    origin: str


def asked_folder(config: Config, site: Site) -> str | None:
    """The folder that a cell names; a relative path starts at the spec's folder. None if the cell names none."""
    asked = config.target.bin_dir
    return None if asked is None else str(site.place(asked, BIN_DIR))


def installation(program: Path) -> tuple[Path, ...]:
    """The folder of a server's program, and the folders beside it with the files that the program needs."""
    beside = [program.parent.parent / name for name in _BESIDE_PROGRAMS]
    return tuple(dict.fromkeys([program.parent, *filter(Path.is_dir, beside)]))


def environment(*more: str) -> dict[str, str]:
    """The environment of a program that runs a spec's SQL, scripts or settings. It contains only a few of the caller's
    variables, because others may hold a secret or change the measurement. `more` are patterns of further names.
    """
    wanted = (*PASSED_ON, *more)
    kept = {name: value for name, value in os.environ.items() if any(fnmatchcase(name, one) for one in wanted)}
    return {"HOME": _NO_HOME, **kept, "LC_ALL": "C"}


def run(
    command: Sequence[str], in_child: Callable[[], None] | None, *, environment: Mapping[str, str],
    timeout_s: float | None = None, folder: Path | None = None, meanwhile: Callable[[], None] = lambda: None,
    reads: Path | None = None,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Runs a program to its end, in its own session, so that Ctrl-C reaches only storagelab. `meanwhile` is called a
    few times a second; `reads` is the file for its standard input.

    All processes that the program started end with it. Raises OSError, or SubprocessError as subprocess does.
    """
    process, mark = None, temporary.new_mark()
    try:
        # While Python forks, a signal's exception would be lost, or come before the process is known.
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
                with process:  # closes its pipes, and waits
                    pass
        raise
    finally:
        with uninterrupted():
            temporary.end_marked(mark)
    return subprocess.CompletedProcess(command, process.returncode, output, troubles)


def _communicate(
    process: subprocess.Popen[str], mark: str, timeout_s: float | None, meanwhile: Callable[[], None]
) -> tuple[str, str]:
    """The program's output until it ends. Nothing waits for programs that the program left running, even if they keep
    the output open.
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
                    with process:  # closes its pipes
                        return output.decode(errors="replace"), troubles.decode(errors="replace")
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(process.args, timeout_s or 0.0) from None
            meanwhile()


def first_program(folders: Iterable[Path | None], *names: str) -> Path | None:
    """The first program of one of these names in the folders, or else on the PATH; None if there is none."""
    places = [folder / name for folder in folders if folder is not None for name in names]
    places += [Path(found) for found in map(shutil.which, names) if found]
    return next(filter(Path.is_file, places), None)


def version_output(program: Path, *options: str) -> str:
    """The output of `program --version`, run with the rights of later runs, because a server without root's rights
    can't use a program that only root may run. Raises PreflightError if it does not run.
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
            else "try it by hand with --version",
        ) from error
