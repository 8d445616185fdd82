"""Draws charts in a separate process while this one writes the rest of the page.

Threads would wait for each other, because drawing holds Python's lock. A report of 360 runs takes 2.6 s this way, not 3.2.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from storagelab.report.drawing.vega import VEGA_LITE, Spec, to_svg
from storagelab.stopping import uninterrupted

# -P: otherwise modules of the script's folder would shadow those of the standard library with the same names.
_COMMAND = [sys.executable, "-P", str(Path(__file__).with_name("side_process_main.py"))]


class Drawing:
    """Makes SVGs of charts: `with Drawing() as drawing: ...; drawing.begin(specs); ...; drawing.svgs()`."""

    def __init__(self) -> None:
        self._process = _started()
        self._specs: Mapping[str, Spec] = {}
        self._said = b""
        self._talk = threading.Thread(target=self._communicate, daemon=True)
        self._begun, self._ended = False, threading.Event()
        """An event, because a thread whose join Ctrl-C interrupted may look dead (Python 3.11)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            self._process.kill()  # no effect on a process that has ended
            if self._begun:
                self._ended.wait()
            self._process.communicate()

    def begin(self, specs: Mapping[str, Spec]) -> None:
        """Start to draw these; `specs`: name -> Vega-Lite spec."""
        self._specs = specs
        with uninterrupted():  # otherwise it could run unnoticed, and two would talk to the process
            self._talk.start()
            self._begun = True

    def _communicate(self) -> None:
        try:
            if self._process is not None:
                self._said, _ = self._process.communicate(pickle.dumps((self._specs, VEGA_LITE)))
        finally:
            self._ended.set()

    def svgs(self) -> dict[str, str]:
        """Name -> SVG document, once all are drawn; drawn here if there is no process or it failed, so that errors show."""
        self._ended.wait()
        if self._process is None or self._process.returncode != 0:
            return {name: to_svg(spec) for name, spec in self._specs.items()}
        svgs: dict[str, str] = pickle.loads(self._said)  # noqa: S301, it comes from our own process
        return svgs


def _started() -> subprocess.Popen[bytes] | None:
    """The process that draws; None if the system starts no more processes: the report is then drawn in this one."""
    try:
        return subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return None
