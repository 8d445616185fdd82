"""Runs programs of the operating system that make volumes. If a program is missing, the error names its package."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from storagelab.errors import PreflightError, RunFailed
from storagelab.machine.processes import holders_text, is_locked, until

_SYSTEM_FOLDERS = "/usr/sbin:/sbin:/usr/local/sbin"
"""The folders where systems keep these programs. The PATH of an ordinary user may lack them."""
_PATIENCE_S = 120.0
_LONGEST_WORDS = 400


def path_of(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_FOLDERS}")


def check(programs: Mapping[str, str], key: str) -> None:
    """Raises PreflightError if some of the programs are missing. `programs` maps each program to its package on Debian,
    and the error names the packages.
    """
    missing = [program for program in programs if path_of(program) is None]
    if missing:
        packages = " ".join(dict.fromkeys(programs[program] for program in missing))
        raise PreflightError(
            f"needs {' and '.join(missing)}, which this machine lacks", key=key,
            hint=f"Debian and Ubuntu: apt-get install {packages}",
        )  # fmt: skip


def said(program: str, *arguments: str, given: str = "", patience_s: float = _PATIENCE_S) -> str:
    """Runs a program, and returns its output on stdout without blanks at its ends. `given` is its input on stdin.
    Raises RunFailed with the program's message.
    """
    words = [path_of(program) or program, *arguments]
    try:
        # Each program inherits the descriptors of locks: a lock lasts until all copies of its descriptor are closed.
        done = subprocess.run(
            words, input=given, capture_output=True, text=True, errors="replace", check=False,
            timeout=patience_s, env={**os.environ, "LC_ALL": "C"}, pass_fds=tuple(_HELD),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RunFailed(f"{program} has not ended after {patience_s:g} s") from None
    except OSError as error:
        raise RunFailed(f"{program} can't be started: {error.strerror}") from error
    if done.returncode != 0:
        code = done.returncode
        how = f"ended with exit code {code}" if code > 0 else f"was killed by signal {-code}"
        without = (
            f"it {how}, and printed nothing\n  the kernel's log may say why (dmesg | tail); or run the command yourself"
        )
        raise RunFailed(f"{' '.join([program, *arguments])}: {_last_words(done.stderr or done.stdout) or without}")
    return done.stdout.strip()


def patiently(step: Callable[[], object], within_s: float, pause_s: float = 0.2) -> None:
    """Runs `step` until it succeeds, for at most `within_s` seconds. It may fail while a program still uses the device.
    Raises RunFailed.
    """
    problems: list[RunFailed] = []

    def is_done() -> bool:
        try:
            step()
        except RunFailed as error:
            problems.append(error)
            return False
        return True

    if not until(is_done, within_s, pause_s):
        raise problems[-1]


def _last_words(text: str) -> str:
    """The end of a program's message, without its usage information."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    usage = next((number for number, line in enumerate(lines) if line.lower().startswith("usage")), 0)
    lines = lines[:usage] or lines
    return " ".join(lines)[-_LONGEST_WORDS:]


# --- locks of places where programs work ------------------------------------------------------------------------------
# Each program that storagelab starts inherits the descriptors of these locks, so it keeps the locks until it ends. So
# its work is not undone while it still runs, even if storagelab was killed.

_LONGEST_S = 3600.0
"""The longest time for which storagelab waits for a program of a killed run."""
_HELD = set[int]()


@contextlib.contextmanager
def alone_at(place: Path) -> Iterator[None]:
    """Holds the lock of a file or a folder. If programs of a killed storagelab still run there, first logs a warning,
    and waits for them. Raises RunFailed.
    """
    try:
        opened = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise RunFailed(f"{place} can't be opened: {error.strerror}") from error
    try:
        if not is_locked(opened):
            _wait(opened, place)
        _HELD.add(opened)
        yield
    finally:
        _HELD.discard(opened)
        os.close(opened)


def _wait(opened: int, place: Path) -> None:
    left = holders_text(place) or "a process that can't be seen from here"
    # If no logging is set up, Python writes warnings to stderr.
    logging.getLogger("storagelab").warning("waiting for %s, which a killed run has left running", left)
    if not until(lambda: is_locked(opened), _LONGEST_S, pause_s=0.05):
        raise RunFailed(
            f"{left}, which a killed run has left running, has not ended after {_LONGEST_S:g} s; nothing is done\n"
            "  wait until it has ended, or kill it; then repeat this command"
        )
