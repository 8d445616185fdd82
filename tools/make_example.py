"""Rewrite README's example from a measured demo.

make demo                                  on an otherwise idle machine
python tools/make_example.py results       puts the demo's output into README.md, and its pictures into docs/pictures
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PICTURES = {"waits.png": "demo-waits.png"}
"""Maps the file of a chart in the report to its picture in docs/pictures."""
BEGIN, END = "<!-- example: begin -->\n", "<!-- example: end -->"


def storagelab(results: Path, *words: str) -> str:
    """Returns the output of `storagelab WORDS` on a terminal of 80 columns."""
    command = [sys.executable, "-m", "storagelab", *words, "--results", str(results)]
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def example(said: str, run: Mapping[str, Any]) -> str:
    """Returns the text between the marks: the demo's output, and where and when its first `run` was measured."""
    where = run["measurement"]["environment"]
    volume = where["volumes"]["disk"]
    disk = "a virtual disk" if volume["virtual"] else volume["device_model"] or volume["device"]
    machine = f"{where['host']['cpu_count']} CPUs ({where['host']['cpu_model']}), {volume['filesystem']} on {disk}"
    return (
        f"```\n$ storagelab demo\n{said.strip()}\n```\n"
        f"Measured on {run['started_at'][:10]} by storagelab {where['storagelab']['version']} on {machine}, "
        f"PostgreSQL {where['server']['version']}. "
        f"Load of the machine before the first run: {where['host']['load_1min']:.1f}.\n"
    )


def put_into(text: str, inside: str) -> str:
    """Returns the document with `inside` between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"make_example: no marks {BEGIN.strip()} and {END}")
    return f"{before}{begin}{inside}{end}{after}"


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    results = Path(sys.argv[1]).resolve()
    exported = json.loads(storagelab(results, "export", "demo"))
    runs = sorted((run for cell in exported["cells"] for run in cell["runs"]), key=lambda run: run["sequence"])
    if {run["status"] for run in runs} != {"ok"}:
        raise SystemExit("make_example: not every run of this demo is ok")
    said = storagelab(results, "demo")
    README.write_text(put_into(README.read_text("utf-8"), example(said, runs[0])), "utf-8")
    with tempfile.TemporaryDirectory() as folder:
        storagelab(results, "report", "demo", "--format", "png", "--output", folder)
        for chart, picture in PICTURES.items():
            shutil.copy(Path(folder) / chart, ROOT / "docs" / "pictures" / picture)


if __name__ == "__main__":
    main()
