"""Campaigns that get a signal to stop and then continue. This is repeated until they are complete."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.faults.campaigns import PATIENCE_S, SIGNALS, Campaign, World
from bench.faults.found import Found
from bench.faults.moments import Going, Moment, Pace, draw
from bench.faults.others import campaign_of

IN_TIME_S = 2.0
_POLL_S = 0.01
IN_ONE = 5
"""The most signals in one campaign."""


def signals(world: World, count: int, seed: int, pace: Pace | None = None) -> Iterator[Found]:
    """Yields the faults of each campaign, until there were `count` signals."""
    dice, pace = random.Random(f"{seed} {world.kind} signals"), pace or Pace()
    done, number = 0, 0
    which = [SIGNALS[at % len(SIGNALS)] for at in range(count)]
    dice.shuffle(which)
    while done < count:
        number += 1
        campaign = campaign_of(world, world.folder / f"s{number}", seed)
        found = _ask_to_stop(campaign, pace, dice, which[done : done + IN_ONE])
        done += len(found.signals_took_s)
        if not found.troubles:
            shutil.rmtree(campaign.home)
        yield found


def _ask_to_stop(campaign: Campaign, pace: Pace, dice: random.Random, which: list[signal.Signals]) -> Found:
    found, before = Found(campaigns=1), campaign.stored()
    moments: list[Moment | None] = [*draw(dice, campaign.planned, len(which)), None]
    for moment, number in zip(moments, [*which, signal.SIGTERM], strict=True):
        going = Going(campaign, pace, len(before))
        if not going.reaches(moment):
            _, said = going.process.communicate()
            if not campaign.done(going.process.returncode, said):
                found.after_signals.append(f"{campaign} does not go on: {going.process.returncode}: {said.strip()}")
            found.after_signals += [f"at the end: {what}" for what in campaign.left()]
            break
        phase, listening, asked_s = going.phase(), _listens(going.process.pid), time.monotonic()
        found.hit(phase)
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if dice.random() < 0.5 else os.kill)(going.process.pid, number)
        waited_s = _waited_for_a_core_s(going.process)
        took_s = time.monotonic() - asked_s
        _, said = going.process.communicate(timeout=PATIENCE_S)
        found.signals_took_s.append(took_s - waited_s)
        found.waited_for_a_core_s += waited_s
        code = going.process.returncode
        python_itself = "KeyboardInterrupt" in said and "storagelab" not in said  # it was still starting
        too_early = code == -number and not listening
        if not python_itself and not too_early and (code not in (0, 130) or "Traceback" in said):
            found.after_signals.append(f"{campaign}, {number.name} amid {phase}: {code}: {said.strip()[-500:]}")
        after = campaign.stored()
        found.lost += [f"{campaign}: {run.sequence}" for run in before if run not in after]
        before = after
        found.after_signals += [f"after {number.name} amid {phase}: {what}" for what in campaign.left(done=False)]
    return found


def _waited_for_a_core_s(process: subprocess.Popen[str]) -> float:
    """Waits until the process has ended. Returns the time in which other processes kept it from a core. storagelab is
    not the cause of this time.
    """
    first_ns = last_ns = _delayed_ns(process.pid)
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        last_ns = max(last_ns, _delayed_ns(process.pid))
        time.sleep(_POLL_S)
    return (last_ns - first_ns) / 1e9


def _delayed_ns(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0


def _listens(pid: int) -> bool:
    """Whether a process already handles its signals itself. Python needs some time to load."""
    with contextlib.suppress(OSError):
        found = re.search(
            r"^SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.MULTILINE
        )
        return found is not None and bool(int(found[1], 16) >> signal.SIGTERM - 1 & 1)
    return False
