"""Finds the volume that was full when a set-up ran out of disk space, for a message that names it.

Servers report a full disk in many ways, and seldom say which disk. By then, they have often removed what they had
written, so the space is free again. So storagelab watches the free space during a set-up.
"""

from __future__ import annotations

import os
import re
import textwrap
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from storagelab.errors import PreflightError, RunFailed
from storagelab.machine import host
from storagelab.model import prepared
from storagelab.model.config import Config

_LOOK_EVERY_S = 0.02
_LONGEST_WORDS = 300
_FULL = re.compile(
    r"No space left on device|\bis full\b|free disk space|could not extend file|Disk quota exceeded|"
    r"\b(?:error|errno|Errcode):? 28\b"
)
_FILE = re.compile(r'"([^"\n]+/[^"\n]+)"')
"""Matches a file in a server's message."""


class Filling:
    """Watches the free space of `volumes`, by their names in the spec, while the context lasts."""

    def __init__(self, volumes: Mapping[str, Path]) -> None:
        self._volumes = dict(volumes)
        self._before = {name: host.free_bytes(path) for name, path in self._volumes.items()}
        self._least = dict(self._before)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="storagelab free space", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_EVERY_S):
            for name, path in self._volumes.items():
                try:
                    self._least[name] = min(self._least[name], host.free_bytes(path))
                except (PreflightError, OSError):  # the volume is gone, which the set-up will notice too
                    return

    def explain(self, words: str, log: str, config: Config, data_folder: Path | None) -> RunFailed | None:
        """The failure in words that name the volume, if `words` or the server's log report a full disk. (A lost
        connection or a damaged index may follow from it and hide it.) Names of files are relative to `data_folder`.
        """
        line = next((line for line in [*words.splitlines(), *log.splitlines()] if _FULL.search(line)), None)
        if line is None:
            return None
        full = self._named(line, data_folder) or min(self._least, key=self._least.__getitem__, default=None)
        quoted = textwrap.shorten(line, _LONGEST_WORDS, placeholder=" ...")
        return RunFailed(f"the set-up filled {self._described(full)}: {_way_out(config)}; it said: {quoted}")

    def _named(self, line: str, data_folder: Path | None) -> str | None:
        """The volume of the file that the server names."""
        found = _FILE.search(line)
        if found is None or data_folder is None:
            return None
        file = (data_folder / found[1]).resolve()
        # Take the deepest: a volume may be mounted within another volume's folder.
        holding = [name for name, path in self._volumes.items() if file.is_relative_to(path.resolve())]
        return max(holding, key=lambda name: len(str(self._volumes[name])), default=None)

    def _described(self, full: str | None) -> str:
        """A volume's name, place and size, with the other volumes on its file system, which share its space."""
        if full is None:
            return "a disk of the server's machine"
        path, device = self._volumes[full], os.stat(self._volumes[full]).st_dev
        sharing = [name for name, other in self._volumes.items() if os.stat(other).st_dev == device]
        facts = os.statvfs(path)
        size, free = facts.f_frsize * facts.f_blocks / 2**20, self._before[full] / 2**20
        named = f"volume {full}" if len(sharing) == 1 else f"volumes {' and '.join(sharing)}, one file system"
        return f"{named} ({path}: {size:,.0f} MiB, {free:,.0f} MiB of them free before)"


def _way_out(config: Config) -> str:
    less = config.workload.less_data
    fewer = ', set between_runs.data = "rebuild", which keeps no template' if prepared.wanted(config) else ""
    return f"free some, name a larger volume, or {less}{fewer}"
