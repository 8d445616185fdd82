"""Random moments during a whole campaign, and the steps that they interrupt.

A campaign has a start (programs are loaded, settings checked, a server tried), its runs, and an end (templates are
removed, the report is written). During the campaigns, the module learns how long each part takes. So moments cover the
whole campaign even if the machine becomes busier: the middle of the third run remains the middle of the third run.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.faults.campaigns import PATIENCE_S, Campaign, descendants

_POLL_S = 0.02
_LOOK_S = 0.05
_START, _END = 0.2, 0.15
"""The shares of the moments that are in storagelab's start and in its end. They are not shares of time: on a busy
machine, most of the time is needed to load the programs and to draw the report, so hardly any kill would interrupt a
run.
"""
_NEWEST = 0.3
"""The weight of the latest observation. The earlier observations have the rest of the weight."""
_CONNECTED = 5
"""With this many connections, the load is running in addition to storagelab's own connections."""


class Moment(NamedTuple):
    """A moment: after `stored` runs (None = during the start), and after the share `share` of the part that follows."""

    stored: int | None
    share: float


@dataclass
class Pace:
    """How long the parts of a campaign take."""

    start_s: float = 3.0
    run_s: float = 2.0
    end_s: float = 3.0

    def learn(self, part: str, seen_s: float, weight: float = _NEWEST) -> None:
        before = getattr(self, part)
        setattr(self, part, before + weight * (seen_s - before))


def draw(dice: random.Random, runs: int, count: int) -> list[Moment]:
    """Returns moments in the order of the campaign, one in each `count`-th part of it. Moments in the start are placed
    anywhere between the others, because storagelab starts again after each kill.
    """
    at_start, later = [], []
    for number in range(count):
        at = (number + dice.random()) / count
        if at < _START:
            at_start.append(Moment(None, at / _START))
        elif at < 1 - _END:
            stored, share = divmod((at - _START) / (1 - _START - _END) * runs, 1.0)
            later.append(Moment(min(int(stored), runs - 1), share))
        else:
            later.append(Moment(runs, (at - 1 + _END) / _END))
    for moment in at_start:
        later.insert(dice.randint(0, len(later)), moment)
    return later


class Going:
    """A `storagelab run` in progress, from its start to a moment or to its end."""

    def __init__(self, campaign: Campaign, pace: Pace, stored_before: int, *, first: bool = False) -> None:
        """With `first`, the times of its parts are not known yet."""
        self._weight = 1.0 if first else _NEWEST
        self._campaign, self._pace, self._before = campaign, pace, stored_before
        self._log = campaign.log()
        self.process: subprocess.Popen[str] = campaign.start()
        self._began_s = time.monotonic()
        self._seen, self._since_s = -1, self._began_s
        """The latest observation: the number of stored runs (-1 during the start), and the time since then."""
        self._loaded = False

    def reaches(self, moment: Moment | None) -> bool:
        """Waits for the moment, or for the end if it is None. Returns false if the run ends before the moment."""
        deadline = self._began_s + PATIENCE_S
        while not self._is_past(moment) and time.monotonic() < deadline:
            if self._ended(_POLL_S):
                return False
        if moment is None:
            return False
        part_s = self._part_s(moment)
        until_s = (self._began_s if moment.stored is None else self._since_s) + moment.share * part_s
        while (left_s := until_s - time.monotonic()) > 0:
            if self._ended(min(left_s, _LOOK_S)):
                return False
            self._is_past(None)
            self._loaded = self._loaded or self._is_loading()
        return not self._ended(0)

    def _part_s(self, moment: Moment) -> float:
        if moment.stored is None:
            return self._pace.start_s
        return self._pace.end_s if moment.stored >= self._campaign.planned else self._pace.run_s

    def _is_past(self, moment: Moment | None) -> bool:
        """Returns whether the part before the moment is over. It also learns how long the last observed part took."""
        begun, stored = self._log.begun, self._log.stored
        now_s, seen = time.monotonic(), stored if begun else -1
        if seen > self._seen:
            took_s = now_s - self._since_s
            if self._seen < 0:
                self._pace.learn("start_s", took_s, self._weight)
            if stored:
                self._pace.learn("run_s", took_s / (stored - max(self._seen, 0)), self._weight)
            self._seen, self._since_s, self._loaded = seen, now_s, False
        if moment is None:
            return False
        return moment.stored is None or (begun and self._before + stored >= moment.stored)

    def _ended(self, within_s: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(within_s)
        ended = self.process.poll() is not None
        if ended and self.process.returncode == 0 and self._before + max(self._seen, 0) >= self._campaign.planned:
            self._pace.learn("end_s", time.monotonic() - self._since_s, self._weight)
        return ended

    # --- what it is at ------------------------------------------------------------------------------------------------

    def phase(self) -> str:
        """Returns the current step of the campaign, as far as it can be seen from outside."""
        home = self._campaign.home
        if not self._log.begun:
            kinds = {place.name.partition("-")[0] for place in (home / "tmp").glob("storagelab-*/*")}
            return "trial start" if "trial" in kinds else "checking settings" if "check" in kinds else "loading itself"
        if self._before + self._log.stored >= self._campaign.planned:
            return "report"
        if self._campaign.kind in ("simulated", "capture"):
            return "load"
        if list((home / "a").glob("**/storagelab-*-templates/*.unfinished")):
            return "making a template"
        commands = self._commands()
        if any(
            word in command for command in commands for word in ("initdb", "install-db", "install_db", "--bootstrap")
        ):
            return "set-up"
        if self._is_loading():
            return "load"
        return "tear-down" if self._loaded else "set-up"

    def _is_loading(self) -> bool:
        kind = self._campaign.kind
        if kind == "replay":
            return any("sender" in command for command in self._commands())
        if kind in ("raw-io", "fit", "pgbench", "template"):
            programs = [command.split()[0].rpartition("/")[2] for command in self._commands() if command]
            return ("fio" if kind in ("raw-io", "fit") else "pgbench") in programs
        return self._connections() >= _CONNECTED

    def _commands(self) -> list[str]:
        found = []
        for pid in descendants(self.process.pid):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(words.strip())
        return [command for command in found if " -i" not in command]

    def _connections(self) -> int:
        """Returns the number of connections to a server's socket."""
        folder = self._campaign.world.folder if self._campaign.kind == "attached" else self._campaign.home
        lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines()
        return sum(f" {folder}/" in line and line.split()[5] == "03" for line in lines)
