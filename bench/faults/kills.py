"""Campaigns that are killed again and again until they are complete."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from bench.faults.campaigns import PATIENCE_S, Campaign, World, descendants
from bench.faults.found import Found
from bench.faults.moments import Going, Moment, Pace, draw
from bench.faults.others import campaign_of

IN_ONE = 5
"""The most kills in one campaign."""


def kills(world: World, count: int, seed: int, pace: Pace | None = None) -> Iterator[Found]:
    """Yields the faults of each campaign, until there were `count` kills."""
    dice, pace = random.Random(f"{seed} {world.kind}"), pace or Pace()
    alone = _undisturbed(world, seed, pace)
    done, number = 0, 0
    while done < count:
        number += 1
        campaign = campaign_of(world, world.folder / f"k{number}", seed)
        found = _kill_until_done(campaign, pace, dice, min(IN_ONE, count - done))
        if world.kind == "simulated" and campaign.export() != alone:
            found.unlike.append(f"{campaign}: its export differs from that of a campaign without kills")
        done += found.kills
        if not found.troubles:
            shutil.rmtree(campaign.home)
        yield found


def _undisturbed(world: World, seed: int, pace: Pace) -> Any:
    """Makes an undisturbed campaign and returns its export. Its parts show how long the parts of other campaigns
    take."""
    campaign = campaign_of(world, world.folder / "alone", seed)
    going = Going(campaign, pace, 0, first=True)
    going.reaches(None)
    _, said = going.process.communicate(timeout=PATIENCE_S)
    if going.process.returncode != 0:
        raise SystemExit(f"bench: {campaign} does not even run undisturbed:\n{said}")
    export = campaign.export()
    shutil.rmtree(campaign.home)
    return export


def _kill_until_done(campaign: Campaign, pace: Pace, dice: random.Random, count: int) -> Found:
    found, before = Found(campaigns=1), campaign.stored()
    struck: set[int] = set()
    """The runs that were stored as failed because one of their processes was killed just before storagelab.
    """
    moments: list[Moment | None] = [*draw(dice, campaign.planned, count), None]
    for moment in moments:
        going = Going(campaign, pace, len(before))
        if not going.reaches(moment):
            break
        found.hit(going.phase())
        found.kills += 1
        one_first = _kill(going.process, dice)
        after = campaign.stored()
        if one_first:
            struck |= {run.sequence for run in after if run.status == "failed" and run not in before}
        found.lost += [f"{campaign}: {run.sequence}" for run in before if run not in after]
        before = after
    _, said = going.process.communicate(timeout=PATIENCE_S)
    code = going.process.returncode
    if code != 1 if struck else not campaign.done(code, said):
        found.other.append(f"{campaign} ended with {code}: {said.strip()[-500:]}")
    runs = campaign.stored()
    made = sorted(run.sequence for run in runs)
    found.lost += [f"{campaign}: {run.sequence}" for run in before if run not in runs]
    found.lost += [f"{campaign}: {number} was never made" for number in range(campaign.planned) if number not in made]
    found.repeated += [f"{campaign}: {number}" for number in set(made) if made.count(number) > 1]
    failed = [run for run in runs if run.status == "failed" and run.sequence not in struck]
    found.other += [f"{campaign}: {run.sequence} failed: {run.reason}" for run in failed]
    hit = ", ".join(found.phases)
    found.left += [f"{what} (kills hit {hit})" for what in campaign.left()]
    return found


def _kill(process: subprocess.Popen[str], dice: random.Random) -> bool:
    """Kills only the process, or also all processes that it started (as when memory runs out), or one of these and then
    the process. Returns true in the last case.
    """
    whom = dice.choice(["it", "it and its processes", "a process of its"])
    others = [pid for pid in descendants(process.pid) if pid != process.pid]
    one_first = whom == "a process of its" and bool(others)
    if one_first:
        _send(dice.choice(others), signal.SIGKILL)
        time.sleep(dice.uniform(0, 0.3))
    process.kill()
    if whom == "it and its processes":
        for pid in others:
            _send(pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    return one_first


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
