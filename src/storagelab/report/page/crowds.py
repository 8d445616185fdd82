"""Who waited for what in a cell: sessions counted at every wait, or seen at some moments of a measured run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from storagelab.model.measurement import CountedCrowd, Measurement, Run, WaitingTask
from storagelab.report.page.pieces import PageTable, View
from storagelab.report.words.table import Heading
from storagelab.report.words.waiting import crowd_sentence
from storagelab.words import numbers

MAX_KINDS = 8
_Key = tuple[str, str]
"""(wait type, kind of thing)"""
_NAMES = [Heading("waiting for", "prose"), Heading("WaitType", "text")]


def crowds(runs: Sequence[Run]) -> View:
    """A sentence on the largest crowd seen on one thing, and a table: the most crowded kinds of things first."""
    counted = [run.measurement for run in runs if run.usable and not run.burn_in and run.measurement is not None]
    counted = [one for one in counted if one.crowds]
    kinds = _seen(runs)
    if counted:
        return {"crowd": crowd_sentence(*_most_crowded(kinds)) if kinds else "", "crowds": _counted_table(counted)}
    # The looks of a simulated run keep only its longest queues, so their sum says nothing.
    if not kinds or any(run.measurement is not None and run.measurement.provenance == "simulated" for run in runs):
        return {"crowd": "", "crowds": None}
    moments = len({moment for kind in kinds.values() for moment in kind.sessions})
    crowd, thing = _most_crowded(kinds)
    seen = len(kinds[crowd.wait_type, thing].sessions)
    return {"crowd": crowd_sentence(crowd, thing, (seen, moments)), "crowds": _seen_table(kinds, moments, len(runs))}


# --- counted ---------------------------------------------------------------------------------------------------------


def _counted_table(runs: Sequence[Measurement]) -> PageTable:
    """Means over the time of all runs, so that shares are those of the cell's wait table over connections x elapsed."""
    together: dict[_Key, list[tuple[Measurement, CountedCrowd]]] = defaultdict(list)
    for run in runs:
        for crowd in run.crowds:
            together[crowd.wait_type, crowd.kind].append((run, crowd))
    time_s = sum(run.elapsed_s for run in runs)
    available_s = sum(run.waits.connections * run.elapsed_s for run in runs if run.waits is not None)
    rows = []
    for (wait_type, thing), found in together.items():
        sessions_s = sum(crowd.sessions_mean * run.elapsed_s for run, crowd in found)
        any_s = sum(crowd.time_share * run.elapsed_s for run, crowd in found)
        most = max(crowd.sessions_most for _, crowd in found)
        shares = [numbers.percent(sessions_s / available_s) if available_s else "", numbers.percent(any_s / time_s)]
        rows.append((sessions_s, [thing, wait_type, f"{sessions_s / time_s:.1f}", numbers.count(most), *shares]))
    rows.sort(key=lambda row: (-row[0], row[1]))
    headings = [
        *_NAMES,
        Heading("sessions, mean", meaning="over the whole run"),
        Heading("most at once"),
        Heading("share of session time", meaning="sessions, mean / connections: as in the chart of waits"),
        Heading("share of the run", meaning="the time in which at least one session waited so"),
    ]
    caption = f"Who waited for what: all sessions, counted at every wait of {numbers.plural(len(runs), 'run')}"
    return PageTable(f"{caption}{_rest(len(rows))}", headings, [row for _, row in rows[:MAX_KINDS]])


# --- seen ------------------------------------------------------------------------------------------------------------


@dataclass
class _Kind:
    """Waits of one type for one kind of thing, over all runs of a cell."""

    tasks: list[WaitingTask] = field(default_factory=list)
    sessions: Counter[tuple[int, float]] = field(default_factory=Counter)
    """The sort key of a moment: number of the run, seconds since its start."""


def _seen(runs: Sequence[Run]) -> dict[_Key, _Kind]:
    kinds: dict[_Key, _Kind] = defaultdict(_Kind)
    for number, run in enumerate(runs):
        for task in run.measurement.waiting_tasks if run.measurement is not None else ():
            kind = kinds[task.wait_type, task.resource.kind]
            kind.tasks.append(task)
            kind.sessions[number, task.at_s] += task.sessions
    return kinds


def _most_crowded(kinds: dict[_Key, _Kind]) -> tuple[WaitingTask, str]:
    """The largest number of sessions seen on one thing, and the kind of that thing."""
    tasks = ((task, key) for key, kind in kinds.items() for task in kind.tasks)
    task, key = max(tasks, key=lambda crowd: (crowd[0].sessions, -crowd[0].at_s))
    return task, key[1]


def _seen_table(kinds: dict[_Key, _Kind], moments: int, runs: int) -> PageTable:
    ranked = sorted(kinds.items(), key=lambda item: (-item[1].sessions.total(), item[0]))
    headings = [*_NAMES, Heading("moments"), Heading("of all moments"), Heading("sessions then, mean"), Heading("most"),
               Heading("held by", "prose")]  # fmt: skip
    rows = [[thing, wait_type, *_figures(kind, moments)] for (wait_type, thing), kind in ranked[:MAX_KINDS]]
    sampled = f"{numbers.plural(moments, 'moment')} sampled over {numbers.plural(runs, 'run')}"
    caption = f"Who waited for what: the largest crowds of {sampled}{_rest(len(ranked))}"
    return PageTable(caption, headings, rows)


def _figures(kind: _Kind, moments: int) -> list[str]:
    """How often, and by how many sessions, the kind was waited for. At each moment all its sessions count, whatever
    the thing.
    """
    holders = [task.held_by for task in kind.tasks if task.held_by]
    holder = max(set(holders), key=lambda text: (holders.count(text), text)) if holders else ""
    sessions = kind.sessions
    return [
        numbers.count(len(sessions)), numbers.percent(len(sessions) / moments),
        f"{sessions.total() / len(sessions):.1f}", numbers.count(max(sessions.values())), holder,
    ]  # fmt: skip


def _rest(kinds: int) -> str:
    left_out = kinds - MAX_KINDS
    return f"; {numbers.plural(left_out, 'other kind')} in the raw data" if left_out > 0 else ""
