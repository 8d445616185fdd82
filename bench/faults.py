"""Kills and signals at random moments of real campaigns: nothing is lost, repeated or left behind, and all end in time.

The seed determines the moments of a campaign, so the same seed repeats them; what they hit depends on the machine.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench.figures import Figure
from storagelab.errors import StoragelabError
from storagelab.model.measurement import Run
from storagelab.run.store import Store
from storagelab.spec import matrix, reading

Kind = Literal["simulated", "real"]
RUNS = 8
PATIENCE_S = 600.0
IN_TIME_S = 2.0
KINDS: tuple[Kind, ...] = ("simulated", "real")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_KEPT = {"experiment.sqlite", ".lock", "run.log", "report.html", "state"}
"""The files that a results folder may hold when all is done."""
_SPECS: dict[Kind, str] = {
    "simulated": """
        name = "faults"
        repetitions = 2
        seed = {seed}
        [target]
        engine = "simulated"
        scale = 64
        [server]
        cores = 4
        memory = "4GB"
        [drives.ssd]
        profile = "iodrive-320"
        driver = "2.2.3"
        sector_bytes = 512
        [volumes.a]
        drives = ["ssd"]
        [workload]
        connections = 16
        rows_per_connection = 1_000_000
        [factors]
        "drives.ssd.format" = ["basic", "maximum-write"]
        "layout.data_files" = [1, 4]
        """,
    "real": """
        name = "faults"
        repetitions = 4
        seed = {seed}
        [target]
        engine = "postgres"
        [volumes.a]
        path = "a"
        [workload]
        connections = 4
        rows_per_connection = 2_000
        [factors]
        "layout.data_files" = [1, 4]
        """,
}


@dataclass
class Found:
    """What went wrong, in words; empty if all is well."""

    kills: int = 0
    lost: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)


def figures(quick: bool, seed: int = 1) -> Iterator[Figure]:
    """A hundred kills of either kind, and a hundred signals; a tenth of that with --quick."""
    # A short name, so that sockets fit into the campaign's own temporary folder, and a folder that a server may enter.
    with tempfile.TemporaryDirectory(prefix="slab-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield from _of_kills(folder, 10 if quick else 100, seed)
        yield from _of_signals(folder, 10 if quick else 100, seed)


def _of_kills(folder: Path, count: int, seed: int) -> Iterator[Figure]:
    for kind in KINDS:
        found = kills(folder / f"k{kind[0]}", kind, count, seed)
        remark = "; ".join([*found.lost, *found.repeated, *found.left, *found.other][:5]) or f"seed {seed}"
        for what, wrong in (
            ("runs lost", found.lost), ("runs repeated", found.repeated),
            ("files or processes left after the next run", found.left), ("other trouble", found.other),
        ):  # fmt: skip
            yield Figure(f"{found.kills} kills, {kind}: {what}", len(wrong), "", "none", not wrong, remark=remark)


def _of_signals(folder: Path, count: int, seed: int) -> Iterator[Figure]:
    took_s, troubles = list[float](), list[str]()
    for kind in KINDS:
        stopped_s, found = signals(folder / f"s{kind[0]}", kind, count // 2, seed)
        took_s += stopped_s
        troubles += found
    yield Figure(
        f"{len(took_s)} signals: the longest time to the end", max(took_s), "s", f"at most {IN_TIME_S:.0f} s",
        max(took_s) <= IN_TIME_S, remark=f"seed {seed}",
    )  # fmt: skip
    yield Figure("troubles after signals", len(troubles), "", "none", not troubles, remark="; ".join(troubles[:5]))


# --- kills -----------------------------------------------------------------------------------------------------------


def kills(folder: Path, kind: Kind, count: int, seed: int) -> Found:
    """Campaigns that are killed again and again until they are done, with this many kills in total."""
    dice, found, number = random.Random(seed), Found(), 0
    while found.kills < count:
        number += 1
        _kill_until_done(_Campaign(folder / str(number), kind, seed + number), dice, found, count)
    return found


def _kill_until_done(campaign: _Campaign, dice: random.Random, found: Found, count: int) -> None:
    before: tuple[Run, ...] = ()
    whole_s = 6.0
    while True:
        process = campaign.start()
        if found.kills < count:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(dice.uniform(0.2, whole_s))
        if found.kills >= count or process.poll() is not None:
            _, said = process.communicate(timeout=PATIENCE_S)
            break
        found.kills += 1
        _kill(process, dice)
        after = campaign.stored()
        found.lost += [f"{campaign}: {run.sequence}" for run in before if run not in after]
        before = after
        whole_s *= 0.9  # otherwise little would ever be done
        whole_s = max(whole_s, 1.5)
    if process.returncode != 0:
        found.other.append(f"{campaign} ended with {process.returncode}: {said.strip()[-300:]}")
    runs = campaign.stored()
    made = sorted(run.sequence for run in runs)
    found.lost += [f"{campaign}: {run.sequence}" for run in before if run not in runs]
    found.lost += [f"{campaign}: {number} was never made" for number in range(RUNS) if number not in made]
    found.repeated += [f"{campaign}: {number}" for number in set(made) if made.count(number) > 1]
    found.other += [
        f"{campaign}: {run.sequence} is {run.status}: {run.reason}" for run in runs if run.status == "failed"
    ]
    found.left += campaign.left()


def _kill(process: subprocess.Popen[str], dice: random.Random) -> None:
    """Kills the process, alone or with all that it started (as when memory runs out), or one of those first."""
    whom = dice.choice(["it", "it and its processes", "a process of its"])
    others = [pid for pid in _descendants(process.pid) if pid != process.pid]
    if whom == "a process of its" and others:
        _send(dice.choice(others), signal.SIGKILL)
        time.sleep(dice.uniform(0, 0.3))
    process.kill()
    if whom == "it and its processes":
        for pid in others:
            _send(pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)


# --- signals ---------------------------------------------------------------------------------------------------------


def signals(folder: Path, kind: Kind, count: int, seed: int) -> tuple[list[float], list[str]]:
    """How long each campaign took to end after the signal, and what was wrong afterwards."""
    dice, took_s, troubles = random.Random(seed), list[float](), list[str]()
    for number in range(count):
        campaign = _Campaign(folder / str(number), kind, seed + number)
        process = campaign.start()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(dice.uniform(0.05, 6.0))
        asked_s, which = time.monotonic(), dice.choice(_SIGNALS)
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if dice.random() < 0.5 else os.kill)(process.pid, which)
        _, said = process.communicate(timeout=PATIENCE_S)
        took_s.append(time.monotonic() - asked_s)
        python_itself = "KeyboardInterrupt" in said and "storagelab" not in said  # it was still starting
        if not python_itself and (process.returncode not in (0, 130, -which) or "Traceback" in said):
            troubles.append(f"{campaign}, {which.name}: {process.returncode}: {said.strip()[-300:]}")
        troubles += campaign.left(done=False)
    return took_s, troubles


# --- campaigns -------------------------------------------------------------------------------------------------------


class _Campaign:
    """A `storagelab run` in its own folder, with its own temporary folder."""

    def __init__(self, home: Path, kind: Kind, seed: int) -> None:
        self.home, self.kind = home, kind
        for folder in (home / "tmp", home / "a"):
            folder.mkdir(parents=True)
        for folder in (home, home / "tmp", home / "a"):
            folder.chmod(0o755)
        text = "\n".join(line.strip() for line in _SPECS[kind].format(seed=seed).splitlines())
        (home / "faults.toml").write_text(text, encoding="utf-8")
        assert len(matrix.expand(reading.load(home / "faults.toml")).runs) == RUNS

    def __str__(self) -> str:
        return f"{self.kind} campaign {self.home.name}"

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "storagelab", "run", "faults.toml", "-j", "2"],
            cwd=self.home, env={**os.environ, "TMPDIR": str(self.home / "tmp")}, text=True, process_group=0,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            preexec_fn=_hear_signals,
        )  # fmt: skip

    def stored(self) -> tuple[Run, ...]:
        """Nothing while there is no store or an incomplete one."""
        with contextlib.suppress(StoragelabError), Store.reading(self.home / "results" / "faults") as store:
            return store.runs()
        return ()

    def left(self, *, done: bool = True) -> list[str]:
        """Files and processes that should be gone. Until the campaign is `done`, the drives of its blocks are kept."""
        results = self.home / "results" / "faults"
        files = [*(self.home / "tmp").iterdir(), *(self.home / "a").iterdir()]
        if done:
            files += [file for file in results.iterdir() if file.name not in _KEPT]
            files += (results / "state").iterdir() if (results / "state").exists() else []
        return [*(f"{self}: {file}" for file in files), *(f"{self}: process {pid}" for pid in self._processes())]

    def _processes(self) -> list[int]:
        """Processes that work in its folders; those about to end get a second to do so."""
        deadline = time.monotonic() + 1.0
        while (found := _working_below(self.home)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found


def _hear_signals() -> None:
    """Restores signals that are ignored from the start under nohup or in the background of a shell."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def _working_below(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if Path(os.readlink(process / "cwd").removesuffix(" (deleted)")).is_relative_to(folder):
                found.append(int(process.name))
    return found


def _descendants(pid: int) -> list[int]:
    """Its child processes, and theirs."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(stat.parent.name))
    found, look = [], [pid]
    while look:
        children = parents.get(look.pop(), [])
        found += children
        look += children
    return found


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
