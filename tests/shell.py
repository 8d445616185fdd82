"""Runs commands as a shell does: in a separate process, with the streams and environment that a test gives.

It takes the same shortcuts as other tests: charts stay blank. If a test gives neither streams nor environment, and
draws nothing, the process is a fork of this one, which has loaded everything already.
"""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import shortcuts

from bench.fuzz import in_process


def typed(
    folder: Path, *words: str, before: str = "", redirect: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """`storagelab WORDS` in `folder`; never with a traceback."""
    if not (before or redirect or environment or "svg" in words):  # threads that draw do not outlive a fork
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 and later, as xdist has a thread
            forked = in_process(words, folder)
        assert "Traceback" not in forked.out + forked.err
        return subprocess.CompletedProcess(words, forked.code, forked.out, forked.err)
    line = f'{before} "$@" {redirect}'
    command = ["bash", "-c", line, "bash", *shortcuts.command(folder), *words]
    asked = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    said = subprocess.run(command, cwd=folder, env=asked, capture_output=True, text=True, check=False, timeout=120)
    assert "Traceback" not in said.stdout + said.stderr
    return said
