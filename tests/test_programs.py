"""Server programs run to their end, or end together with everything that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from storagelab.stopping import Interruptible
from storagelab.targets import programs


def test_a_program_says_what_it_says():
    said = programs.run(["sh", "-c", "echo out; echo trouble >&2; exit 3"], None)
    assert (said.returncode, said.stdout, said.stderr) == (3, "out\n", "trouble\n")


def working_in(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder:
                found.append(process.name)
        except OSError:
            continue
    return found


def test_whatever_a_program_started_ends_with_it_when_it_takes_too_long(tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        programs.run(["sh", "-c", "sleep 60 & sleep 60"], None, timeout_s=0.3, folder=tmp_path)
    time.sleep(0.1)
    assert working_in(tmp_path) == []


def test_whatever_a_program_started_ends_with_it_when_the_user_asks_to_stop(tmp_path):
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
    with Interruptible(), Interruptible(), pytest.raises(KeyboardInterrupt):  # the outer one puts all back
        programs.run(["sh", "-c", "sleep 60 & sleep 60"], None, folder=tmp_path)
    time.sleep(0.1)
    assert working_in(tmp_path) == []
