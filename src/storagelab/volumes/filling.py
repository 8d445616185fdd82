"""Finds what was full when a set-up ran out of space, for a message that names it: a volume, its inodes, a quota,
shared memory, or another file system that the server names.

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
from storagelab.machine import doctor, host, temporary
from storagelab.machine.disks import nearest_existing
from storagelab.model import prepared
from storagelab.model.config import Config

_LOOK_EVERY_S = 0.02
_LONGEST_WORDS = 300
_FULL = re.compile(
    r"No space left on device|\bis full\b|free disk space|could not extend file|Disk quota exceeded|"
    r"\b(?:error|errno|Errcode):? 28\b"
)
_FILE = re.compile(r"""(?:"(?=[^"\n]+/)|'(?=\.?/))([^"'\n]+)["']""")
"""Matches a file in a server's message; between single quotes, a name with a slash may also be a table's."""


class Filling:
    """Watches the free space of `volumes`, by their names in the spec, while the context lasts."""

    def __init__(self, volumes: Mapping[str, Path]) -> None:
        self._volumes = dict(volumes)
        self._before = {name: host.free_bytes(path) for name, path in self._volumes.items()}
        self._least = dict(self._before)
        self._no_inodes = set[str]()
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
                    if doctor.lacks_inodes(path):
                        self._no_inodes.add(name)
                except (PreflightError, OSError):  # the volume is gone, which the set-up will notice too
                    return

    def explain(self, words: str, log: str, config: Config, data_folder: Path | None) -> RunFailed | None:
        """The failure in words that name what was full, if `words` or the server's log report that something was. (A
        lost connection or a damaged index may follow from it and hide it.) Names of files are relative to
        `data_folder`.
        """
        line = next((line for line in [*words.splitlines(), *log.splitlines()] if _FULL.search(line)), None)
        if line is None:
            return None
        quoted = textwrap.shorten(line, _LONGEST_WORDS, placeholder=" ...")
        what, way_out = self._what(line, data_folder, config)
        return RunFailed(f"the set-up {what}: {way_out}; it said: {quoted}")

    def _what(self, line: str, data_folder: Path | None, config: Config) -> tuple[str, str]:
        """What was full, and the way out."""
        if "shared memory" in line:
            return f"filled shared memory ({_facts(doctor.SHARED_MEMORY)})", doctor.MORE_SHARED_MEMORY
        file = self._file(line, data_folder)
        full = self._holding(file) if file is not None else None
        if file is not None and full is None:
            return f"filled {_elsewhere(file, on_this_machine=data_folder is not None)}", "free some there"
        full = full or min(self._least, key=self._least.__getitem__, default=None)
        if "quota" in line:
            return f"used up its user's disk quota on {self._described(full)}", f"raise the quota, {_way_out(config)}"
        if full in self._no_inodes:
            way_out = "remove files, or name a volume whose file system was made with more inodes"
            return f"used up the inodes of {self._described(full)}", way_out
        return f"filled {self._described(full)}", _way_out(config)

    @staticmethod
    def _file(line: str, data_folder: Path | None) -> Path | None:
        """The file that the server names, if its folder is known."""
        found = _FILE.search(line)
        if found is None or (data_folder is None and not found[1].startswith("/")):
            return None
        return ((data_folder or Path()) / found[1]).resolve()

    def _holding(self, file: Path) -> str | None:
        """The volume of a file; the deepest, as a volume may be mounted within another volume's folder."""
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


def _elsewhere(file: Path, *, on_this_machine: bool) -> str:
    """The place of a file that is on no volume."""
    own = temporary.path("").parent
    if file.is_relative_to(own):
        return f"the temporary folder ({_facts(own.parent)})"
    if on_this_machine:
        return f"a folder that is no volume ({_facts(nearest_existing(file.parent))})"
    return f"the disk of {file.parent} on the server's machine"


def _facts(folder: Path) -> str:
    facts = os.statvfs(folder)
    free, size = (facts.f_frsize * blocks / 2**20 for blocks in (facts.f_bavail, facts.f_blocks))
    return f"{folder}: {size:,.0f} MiB, {free:,.0f} MiB of them free now"


def _way_out(config: Config) -> str:
    less = config.workload.less_data
    fewer = ', set between_runs.data = "rebuild", which keeps no template' if prepared.wanted(config) else ""
    return f"free some, name a larger volume, or {less}{fewer}"
