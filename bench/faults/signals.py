"""Campaigns that are asked to stop, and go on, again and again until they are done."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator

from bench.faults.campaigns import PATIENCE_S, SIGNALS, Campaign, World
from bench.faults.found import Found
from bench.faults.moments import Going, Pace

IN_TIME_S = 2.0
IN_ONE = 5
"""So many signals, at most, hit one campaign."""


def signals(world: World, count: int, seed: int, pace: Pace | None = None) -> Iterator[Found]:
    """What was found of each campaign, until there were this many signals."""
    dice, pace = random.Random(f"{seed} {world.kind} signals"), pace or Pace()
    done, number = 0, 0
    which = [SIGNALS[at % len(SIGNALS)] for at in range(count)]
    dice.shuffle(which)
    while done < count:
        number += 1
        campaign = Campaign(world, world.folder / f"s{number}", seed)
        found = _ask_to_stop(campaign, pace, dice, which[done : done + IN_ONE])
        done += len(found.signals_took_s)
        if not found.troubles:
            shutil.rmtree(campaign.home)
        yield found


def _ask_to_stop(campaign: Campaign, pace: Pace, dice: random.Random, which: list[signal.Signals]) -> Found:
    found = Found(campaigns=1)
    for moment, number in zip(pace.draw(dice, campaign.planned, len(which)), which, strict=True):
        going = Going(campaign, pace, len(campaign.stored()))
        if not going.reaches(moment):
            going.process.communicate()
            break
        phase, asked_s = going.phase(), time.monotonic()
        found.hit(phase)
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if dice.random() < 0.5 else os.kill)(going.process.pid, number)
        _, said = going.process.communicate(timeout=PATIENCE_S)
        found.signals_took_s.append(time.monotonic() - asked_s)
        code = going.process.returncode
        python_itself = "KeyboardInterrupt" in said and "storagelab" not in said  # it was still starting
        still_loading = code == -number and phase == "loading itself"
        if not python_itself and not still_loading and (code not in (0, 130) or "Traceback" in said):
            found.after_signals.append(f"{campaign}, {number.name} amid {phase}: {code}: {said.strip()[-500:]}")
        found.after_signals += [f"after {number.name} amid {phase}: {what}" for what in campaign.left(done=False)]
    return found
