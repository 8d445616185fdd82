"""Runs commands as a shell does: in a process of their own, with the streams and environment that a test gives them.

It takes the same shortcuts as other tests: charts stay blank.
"""

import os
import subprocess
import sys
from pathlib import Path

import shortcuts


def typed(
    folder: Path, *words: str, before: str = "", redirect: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """`storagelab WORDS` in `folder`; never with a traceback."""
    line = f'{before} "$@" {redirect}'
    command = ["bash", "-c", line, "bash", *shortcuts.command(folder), *words]
    asked = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    said = subprocess.run(command, cwd=folder, env=asked, capture_output=True, text=True, check=False, timeout=120)
    assert "Traceback" not in said.stdout + said.stderr
    return said
