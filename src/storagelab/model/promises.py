"""The promises of the contract suite. The outcomes of small runs decide whether each is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell
from storagelab.model.values import Frozen
from storagelab.model.waits import conservation, normalise

State = Literal["pass", "fail", "open"]
EXPLAINED_LEAST, EXPLAINED_MOST = 0.6, 1.25
"""The limits for the explained share of connection time. They are wider than those of an experiment, because these runs
are short and have few samples."""
_CLOCK_TOLERANCE_S = 0.001

REACHED = "the server can be reached and allows what storagelab needs"
FOREIGN_REFUSED = "objects that have storagelab's names but are not its own are refused, and stay"
ROWS = "every run loads all its rows"
PLACEMENT = "data files have the requested number and places"
SETTINGS = "the server reports the requested settings"
OTHER_CHECKS = "all other values that are read back are as requested"
TIMES = "every connection's time lies within the time of the run"
PROGRESS = "progress is reported, and never exceeds the work"
WAITS = "waits are read, and none lasts longer than the connections"
CONSERVATION = "waits and CPU time fit into connection time"
SECRETS = "nothing to be stored contains a password"
INTERRUPTION = "an interrupted run leaves nothing"
BESIDE = "a load's own program touches no tables of the same names elsewhere"
LEFT_BEHIND = "nothing is left behind"
UNTOUCHED = "no other object on the server appeared or disappeared"

ALL = (
    REACHED, FOREIGN_REFUSED, ROWS, PLACEMENT, SETTINGS, OTHER_CHECKS, TIMES, PROGRESS, WAITS, CONSERVATION, SECRETS,
    INTERRUPTION, BESIDE, LEFT_BEHIND, UNTOUCHED,
)  # fmt: skip


class Promise(Frozen):
    """One promise on one server. Its state is "open" if it could not be tested, or if this server can't show it."""

    name: str
    state: State
    detail: str = ""


class Outcome(Frozen):
    """The outcome of one cell: a measurement, or the reason why there is none. `progress` has every number of rows that
    was reported.
    """

    cell: Cell
    measurement: Measurement | None = None
    reason: str = ""
    progress: tuple[int, ...] = ()
    stored: str = ""

    @property
    def where(self) -> str:
        return ", ".join(f"{name} {level}" for name, level in self.cell.levels.items())


Judge = Callable[[Outcome, Measurement], str | None]
"""A function that returns why a measured run breaks a promise. It returns "" if the run keeps the promise, and None if
this is unknown."""


def judged(outcomes: Sequence[Outcome], password: str) -> list[Promise]:
    """Returns the promises that runs can decide."""
    judges: dict[str, Judge] = {
        PLACEMENT: _placement,
        SETTINGS: _settings,
        OTHER_CHECKS: _other_checks,
        TIMES: _times,
        PROGRESS: _progress,
        WAITS: _waits,
        CONSERVATION: _conservation,
        SECRETS: lambda outcome, _: "it contains the password" if password and password in outcome.stored else "",
    }
    return [_rows(outcomes), *(_over_all(name, judge, outcomes) for name, judge in judges.items())]


def _rows(outcomes: Sequence[Outcome]) -> Promise:
    for outcome in outcomes:
        wanted = outcome.cell.config.insert_load.rows
        if outcome.measurement is None:
            return Promise(name=ROWS, state="fail", detail=f"{outcome.where}: {outcome.reason}")
        if outcome.measurement.rows != wanted:
            detail = f"{outcome.where}: {outcome.measurement.rows} of {wanted} rows"
            return Promise(name=ROWS, state="fail", detail=detail)
    times = ", ".join(f"{outcome.measurement.elapsed_s:.2f} s" for outcome in outcomes if outcome.measurement)
    return Promise(name=ROWS, state="pass", detail=f"{len(outcomes)} runs of {wanted:,} rows took {times}")


def _over_all(name: str, judge: Judge, outcomes: Sequence[Outcome]) -> Promise:
    """Judges a promise by the first run that breaks it. The state is "open" if at least one run can't be judged."""
    found = [(outcome, judge(outcome, outcome.measurement)) for outcome in outcomes if outcome.measurement is not None]
    for outcome, problem in found:
        if problem:
            return Promise(name=name, state="fail", detail=f"{outcome.where}: {problem}")
    problems = [problem for _, problem in found if problem is not None]
    if len(problems) < len(found) or not found:
        return Promise(name=name, state="open", detail="this server can't show it" if found else "no run was measured")
    return Promise(name=name, state="pass", detail=_EXPLANATIONS[name](outcomes) if name in _EXPLANATIONS else "")


# --- one run ---------------------------------------------------------------------------------------------------------


def _named(measurement: Measurement, *beginnings: str) -> str:
    """Describes the first check that is not ok and whose name begins with one of `beginnings`. Values that could not be
    read count as different, because nothing confirms them.
    """
    for check in measurement.checks:
        if check.name.startswith(beginnings) and check.ok is not True:
            return f"{check.name}: asked {check.asked}, got {check.got}"
    return ""


_PLACES, _SETTING = ("data files", "place of "), ("target.settings.",)
_VOLUME = "volume "
"""How the names of checks of volumes begin. Some servers can't report the drive of a volume."""


def _placement(_: Outcome, measurement: Measurement) -> str | None:
    if not any(check.name == "data files" for check in measurement.checks):
        return "the number of data files was not read back"
    return _named(measurement, *_PLACES)


def _settings(outcome: Outcome, measurement: Measurement) -> str | None:
    asked = {f"target.settings.{name}" for name in outcome.cell.config.target.settings}
    if not asked:
        return None
    missing = asked - {check.name for check in measurement.checks}
    return f"{', '.join(sorted(missing))}: not read back" if missing else _named(measurement, *_SETTING)


def _other_checks(_: Outcome, measurement: Measurement) -> str | None:
    others = [check for check in measurement.checks if not check.name.startswith((*_PLACES, *_SETTING))]
    for check in others:
        if check.ok is False or (check.ok is None and not check.name.startswith(_VOLUME)):
            return f"{check.name}: asked {check.asked}, got {check.got}"
    return "" if all(check.ok for check in others) else None


def _times(outcome: Outcome, measurement: Measurement) -> str | None:
    connections = outcome.cell.config.database_load.connections
    if len(measurement.connection_s) != connections:
        return f"{len(measurement.connection_s)} connections have a time, {connections} were asked for"
    if measurement.elapsed_s <= 0 or min(measurement.connection_s) <= 0:
        return "a time is not above 0"
    if max(measurement.connection_s) > measurement.elapsed_s + _CLOCK_TOLERANCE_S:
        return f"a connection took {max(measurement.connection_s):.3f} s of a run of {measurement.elapsed_s:.3f} s"
    return ""


def _progress(outcome: Outcome, _: Measurement) -> str | None:
    reported, rows = outcome.progress, outcome.cell.config.insert_load.rows
    if not reported:
        return "progress was never reported"
    if list(reported) != sorted(reported) or reported[-1] > rows:
        return f"{reported[-1]} of {rows} rows were reported, the last numbers {list(reported[-3:])}"
    return ""


def _waits(_: Outcome, measurement: Measurement) -> str | None:
    if measurement.waits is None:
        return "there are none"
    rows = normalise(measurement.waits)
    if not rows:
        return "there are none"
    available_s = measurement.waits.connections * measurement.waits.elapsed_s
    for row in rows:
        if row.wait_s > EXPLAINED_MOST * available_s:
            return f"{row.wait_type} lasted {row.wait_s:.3f} s of {available_s:.3f} s"
        split = None if row.resource_s is None or row.signal_s is None else row.resource_s + row.signal_s
        if split is not None and abs(split - row.wait_s) > 1e-6:
            return f"{row.wait_type}: resource and signal don't add up to the wait"
    return ""


def _explained(measurement: Measurement) -> float | None:
    return conservation(measurement.waits).explained if measurement.waits is not None else None


def _conservation(_: Outcome, measurement: Measurement) -> str | None:
    explained = _explained(measurement)
    if explained is None:
        return None
    if EXPLAINED_LEAST <= explained <= EXPLAINED_MOST:
        return ""
    return (
        f"they explain {explained:.0%} of it; {EXPLAINED_LEAST:.0%} to {EXPLAINED_MOST:.0%} are expected of short runs"
    )


# --- details of promises that are kept --------------------------------------------------------------------------------


def _shares(outcomes: Sequence[Outcome]) -> str:
    shares = [_explained(outcome.measurement) for outcome in outcomes if outcome.measurement is not None]
    return "they explain " + ", ".join(f"{share:.0%}" for share in shares if share is not None)


def _first_waits(outcomes: Sequence[Outcome]) -> str:
    measured = next(outcome.measurement for outcome in outcomes if outcome.measurement is not None)
    assert measured.waits is not None
    rows = [row for row in normalise(measured.waits) if row.is_wait][:3]
    return "for example " + ", ".join(f"{row.wait_type} {row.wait_s:.2f} s" for row in rows)


_EXPLANATIONS: dict[str, Callable[[Sequence[Outcome]], str]] = {CONSERVATION: _shares, WAITS: _first_waits}
