"""Traces in the kernel what processes do: they sleep (and in which system call), wait for a CPU, or run.

It needs Linux on x86-64, root, and a mounted tracefs.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TRACING = Path("/sys/kernel/tracing")
EVENTS = ("sched/sched_switch", "sched/sched_wakeup", "raw_syscalls/sys_enter", "raw_syscalls/sys_exit")
BUFFER_KB_PER_CPU = 400_000
CLASSES = ("latch", "lock", "sync", "write", "read", "spin", "no event")
NO_CLASS = "no event"
Seconds = defaultdict[str, float]

CALLS = {  # the numbers of system calls on x86-64
    "latch": {202, 449}, "lock": {232, 281, 441, 7, 271}, "sync": {74, 75, 277}, "read": {0, 17, 19, 295, 221, 426},
    "write": {1, 18, 20, 296, 285, 77}, "spin": {23, 35, 230, 270},
}  # fmt: skip
CLASS_OF_CALL = {number: name for name, numbers in CALLS.items() for number in numbers}
Classify = Callable[[int, int, Sequence[int]], str]
"""A function of a session, the number of its system call and the call's arguments. It returns the class of the call."""


def class_of_call(_: int, number: int, __: Sequence[int]) -> str:
    return CLASS_OF_CALL.get(number, NO_CLASS)


@dataclass
class Truth:
    """Sums over all sessions, for each class of system call. They are the seconds in which the sessions slept, queued
    for a CPU and ran, and the number of times that they slept.
    """

    blocked_s: Seconds = field(default_factory=lambda: defaultdict(float))
    queued_s: Seconds = field(default_factory=lambda: defaultdict(float))
    running_s: Seconds = field(default_factory=lambda: defaultdict(float))
    sleeps: Counter[str] = field(default_factory=Counter)


class Trace:
    """A trace of some processes. It stays in memory until the load has ended, so no reader disturbs the load."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._folder = TRACING / "instances" / f"storagelab-check-{os.getpid()}"
        self._pids = pids

    def __enter__(self) -> Trace:
        with contextlib.suppress(OSError):
            self._folder.rmdir()
        self._folder.mkdir()
        self._set("trace_clock", "mono")
        self._set("buffer_size_kb", str(BUFFER_KB_PER_CPU))
        self._set("set_event_pid", " ".join(map(str, self._pids)))
        for event in EVENTS:
            self._set(f"events/{event}/enable", "1")
        return self

    def __exit__(self, *_: object) -> None:
        self._set("tracing_on", "0")
        for event in EVENTS:
            self._set(f"events/{event}/enable", "0")
        self._folder.rmdir()

    def _set(self, name: str, value: str) -> None:
        (self._folder / name).write_text(value)

    def stop(self) -> None:
        self._set("tracing_on", "0")

    def lines(self) -> Iterator[str]:
        """Yields the traced events, oldest first. Raises RuntimeError if the buffer was too small for all of them."""
        for stats in self._folder.glob("per_cpu/cpu*/stats"):
            lost = re.search(r"^overrun: (\d+)", stats.read_text(), re.MULTILINE)
            if lost and int(lost[1]):
                raise RuntimeError(f"the trace lost {lost[1]} events; run a shorter load")
        with (self._folder / "trace").open() as file:
            yield from file


_LINE = re.compile(r".*?-(\d+)\s+\[\d+\]\s+\S+\s+(\d+\.\d+): (\w+): (.*)")
_SWITCH = re.compile(r"prev_comm=.* prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> next_comm=.* next_pid=(\d+) ")
_WOKEN = re.compile(r"comm=.* pid=(\d+) prio")


class Session:
    """Follows one process in the trace."""

    def __init__(self, truth: Truth, window: tuple[float, float]) -> None:
        self._truth = truth
        self._since_s, self._end_s = window
        self.state = "blocked"
        self._class = NO_CLASS

    def becomes(self, state: str, at_s: float) -> None:
        self.account(at_s)
        if state == "blocked" and self._since_s < self._end_s:
            self._truth.sleeps[self._class] += 1
        self.state = state

    def calls(self, name: str, at_s: float) -> None:
        self.account(at_s)
        self._class = name

    def account(self, at_s: float) -> None:
        """Adds the time since the last change, but only the part inside the window."""
        at_s = min(at_s, self._end_s)
        if at_s > self._since_s:
            by_state = {"blocked": self._truth.blocked_s, "queued": self._truth.queued_s}
            by_state.get(self.state, self._truth.running_s)[self._class] += at_s - self._since_s
            self._since_s = at_s


def read_truth(
    lines: Iterable[str], windows: dict[int, tuple[float, float]], classify: Classify = class_of_call
) -> Truth:
    """Returns the sums over the trace. Each session (by PID, or by thread) counts from its start to its finish, in
    monotonic time."""
    truth = Truth()
    sessions = {pid: Session(truth, window) for pid, window in windows.items()}
    for line in lines:
        match = _LINE.match(line)
        if match is not None:
            _follow(sessions, classify, int(match[1]), float(match[2]), match[3], match[4])
    for session in sessions.values():
        session.account(float("inf"))
    return truth


def _follow(sessions: dict[int, Session], classify: Classify, pid: int, at_s: float, event: str, detail: str) -> None:
    if event == "sched_switch":
        switch = _SWITCH.match(detail)
        assert switch is not None, detail
        before, after = sessions.get(int(switch[1])), sessions.get(int(switch[3]))
        if before is not None:
            before.becomes("queued" if switch[2].startswith("R") else "blocked", at_s)
        if after is not None:
            after.becomes("running", at_s)
    elif event == "sched_wakeup":
        woken = _WOKEN.match(detail)
        session = sessions.get(int(woken[1])) if woken else None
        if session is not None and session.state == "blocked":
            session.becomes("queued", at_s)
    elif pid in sessions:
        sessions[pid].calls(_called(classify, pid, detail) if event == "sys_enter" else NO_CLASS, at_s)


def _called(classify: Classify, pid: int, detail: str) -> str:
    """Parses `NR 75 (1a, 0, ...)`. The arguments are hexadecimal."""
    call, _, arguments = detail.partition("(")
    return classify(pid, int(call.split()[1]), [int(word, 16) for word in arguments.rstrip(") ").split(", ") if word])
