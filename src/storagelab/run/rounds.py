"""Assigns the rounds of a measured campaign to hosts. Pure.

Layouts are compared within a host, so each host makes whole rounds. A host that is lost during a round may come back
and continue it. If it doesn't, another host makes the whole round: the lost host's runs stay in the store as earlier
attempts, and the other host's later attempts count. No round mixes the runs of two hosts.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from storagelab.model.measurement import Run, host_of
from storagelab.model.plan import Plan, PlannedBlock, PlannedRun
from storagelab.run.scheduling import ATTEMPTS, Batch
from storagelab.targets import Site
from storagelab.targets.states import Carried


@dataclass
class Round:
    """Each cell of a block once, in order, and the host that makes it."""

    block: PlannedBlock
    """The plan with the runs of this round alone."""
    host: str
    left: list[int]
    """Positions of the runs that this host has still to make."""
    attempts: dict[int, int]
    """Position of a run -> the number of its latest attempt on any host."""

    @property
    def begun(self) -> bool:
        return len(self.left) < len(self.block.runs)

    def give_to(self, host: str) -> None:
        """This host is to make all of the round."""
        self.host, self.left = host, list(range(len(self.block.runs)))


def rounds_of(plan: Plan, stored: Iterable[Run], *, again: bool = False) -> list[Round]:
    """All rounds, in order, each with the host that made its latest runs, if any. `again`: failed runs are to be
    made again.
    """
    block_of = {planned.cell_id: planned.block for planned in plan.runs}
    runs_of: dict[tuple[int, int], list[Run]] = {}
    for run in stored:
        runs_of.setdefault((block_of[run.cell_id], run.repetition), []).append(run)
    found = []
    for number, block in plan.blocks.items():
        found += [
            _round(PlannedBlock(tuple(planned), block.cells), runs_of.get((number, repetition), ()), again)
            for repetition, planned in itertools.groupby(_by_rounds(block), key=lambda planned: planned.repetition)
        ]
    return found


def _by_rounds(block: PlannedBlock) -> list[PlannedRun]:
    """One round after the other, also where the order of one machine makes two in turns."""
    return sorted(block.runs, key=lambda planned: planned.repetition)


def share_out(rounds: Sequence[Round], hosts: Sequence[str]) -> None:
    """Assign the remaining rounds that belong to no host to hosts, so that each makes as many of a block as the
    others.
    """
    made = Counter((one.block.number, one.host) for one in rounds)
    for one in rounds:
        if one.left and one.host not in hosts:
            one.give_to(min(hosts, key=lambda host: made[one.block.number, host]))
            made[one.block.number, one.host] += 1


def _round(block: PlannedBlock, stored: Iterable[Run], again: bool) -> Round:
    host, made, attempts = "", dict[str, Run](), dict[str, int]()
    for run in stored:
        by = host_of(run)  # a failed run does not name its host
        if by and host and by != host:
            made.clear()
        host, made[run.cell_id] = by or host, run
        attempts[run.cell_id] = max(run.attempt, attempts.get(run.cell_id, 0))
    done = {cell_id for cell_id, run in made.items() if not (again and run.status == "failed")}
    return Round(
        block, host,
        left=[at for at, planned in enumerate(block.runs) if planned.cell_id not in done],
        attempts={at: attempts.get(planned.cell_id, 0) for at, planned in enumerate(block.runs)},
    )  # fmt: skip


class Scheduled(NamedTuple):
    """One run for a host. `instead_of`: the host that was to make the run's round before; "" if that did not just
    change.
    """

    batch: Batch
    planned: PlannedRun
    instead_of: str


class RoundSchedule:
    """Gives a host the next run of its round. A host gets its own rounds, then those of lost hosts. If not all hosts
    may work at the same time, they take turns run by run, so that a drift of what they share affects all equally.
    """

    def __init__(self, todo: Sequence[Round], at_once: int, site: Site) -> None:
        self._rounds, self._at_once, self._site = [one for one in todo if one.left], at_once, site
        self._busy: dict[int, str] = {}
        """Sequence of a run in progress -> its host."""
        self._turns: dict[str, int] = {}
        """Host -> number of its latest turn."""
        self._numbers = itertools.count(1)
        self._losses: Counter[int] = Counter()
        """Sequence of a run -> how many workers were lost during it."""

    def assign(self, host: str, present: Mapping[str, bool]) -> Scheduled | None:
        """A run for this host, which is free. `present` are the hosts that are not lost, and whether each is there
        now (or may come back).
        """
        if host in self._busy.values() or len(self._busy) >= self._at_once or not self._is_its_turn(host, present):
            return None
        instead_of = ""
        found = next(self._idle_of(host), None)
        if found is None:
            found = self._left_by(present)
            if found is None:
                return None
            instead_of = found.host
            found.give_to(host)
        at = found.left[0]
        planned = found.block.runs[at]
        self._busy[planned.sequence] = host
        self._turns[host] = next(self._numbers)
        wanted = {at: found.attempts[at] + 1}
        return Scheduled(Batch(found.block, wanted, self._site, Carried(), budget_s=0.0), planned, instead_of)

    def _is_its_turn(self, host: str, present: Mapping[str, bool]) -> bool:
        waiting = {one.host for one in self._rounds if present.get(one.host)} - set(self._busy.values())
        if len(self._busy) + len(waiting | {host}) <= self._at_once:
            return True
        return all(self._turns.get(host, 0) <= self._turns.get(other, 0) for other in waiting)

    def _idle_of(self, host: str) -> Iterator[Round]:
        return (one for one in self._rounds if one.host == host)

    def _left_by(self, present: Mapping[str, bool]) -> Round | None:
        """A round of a lost host: one that is not begun, if possible, as the host may come back."""
        left = [one for one in self._rounds if one.host not in present and self._sequence(one) not in self._busy]
        return min(left, key=lambda one: one.begun, default=None)

    def _sequence(self, one: Round) -> int:
        return one.block.runs[one.left[0]].sequence

    def note_finished(self, run: Run) -> None:
        """Take note of a finished run."""
        self._busy.pop(run.sequence)
        for one in self._rounds:
            at = next((at for at in one.left if one.block.runs[at].sequence == run.sequence), None)
            if at is not None:
                one.left.remove(at)
                one.attempts[at] = run.attempt
        self._rounds = [one for one in self._rounds if one.left]

    def freed(self, scheduled: Batch) -> None:
        """The host is free again. A run that it has not reported is scheduled again."""
        self._busy.pop(_sequence_of(scheduled), None)

    def lost(self, scheduled: Batch) -> Batch | None:
        """The host is gone, or hangs. A run during which that happened too often is given up, and must be reported."""
        sequence = _sequence_of(scheduled)
        if sequence not in self._busy:
            return None
        self._losses[sequence] += 1
        if self._losses[sequence] >= ATTEMPTS:
            return scheduled
        del self._busy[sequence]
        return None

    @property
    def ended(self) -> bool:
        return not self._rounds


def _sequence_of(scheduled: Batch) -> int:
    (at,) = scheduled.wanted
    return scheduled.block.runs[at].sequence
