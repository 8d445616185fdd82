"""Tests the promises on a server. It puts an obstacle in the way of a run, makes 2 x 2 small runs, interrupts a run,
and cleans up."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import secrets
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from storagelab.errors import PreflightError, RunFailed, SpecError, StoragelabError
from storagelab.model import promises as p
from storagelab.model.config import Config, TargetConfig
from storagelab.model.engines import ENGINES, engine_of
from storagelab.model.plan import Cell, Experiment, Plan, PlannedRun
from storagelab.model.promises import Outcome, Promise
from storagelab.model.values import JsonValue, Scalar
from storagelab.model.volume import VolumeConfig
from storagelab.run.engine import engine_in, open_target, preflight, sweep
from storagelab.servers.attached import Decoys
from storagelab.spec.rules import VARIABLE_NAME
from storagelab.stopping import uninterrupted
from storagelab.volumes.folders import Site

# --- probes ----------------------------------------------------------------------------------------------------------
#
# The interface between the contract suite and an engine.


class Probe(Protocol):
    """A probe of one engine. `setting` is a setting that every login may change, and that affects no run."""

    setting: tuple[str, Scalar]

    def inventory(self, target: TargetConfig) -> frozenset[str]:
        """Lists the objects in the places that storagelab uses. Each entry has the kind, the name and the server's own
        id of an object.
        """

    def obstruct(self, target: TargetConfig, name: str) -> None:
        """Makes an object with the name `name` that does not belong to storagelab, as another user might."""

    def clear(self, target: TargetConfig, name: str) -> None:
        """Removes the object that `obstruct` made."""

    def decoys(self, target: TargetConfig, name: str) -> contextlib.AbstractContextManager[Decoys | None]:
        """Makes a database of this name. The context removes it at its end. Yields None if no load uses a program of
        its own. Raises PreflightError if the database can't be made.
        """


def _engine_of(dsn: str) -> str:
    """Returns the engine of a DSN. Raises SpecError if no engine matches."""
    if (name := engine_of(dsn)) is not None:
        return name
    # The text may be a password, so it is not shown.
    known = ", ".join(f"{scheme}://" for engine in ENGINES.values() for scheme in engine.schemes)
    raise SpecError(
        "is not the DSN of an engine that storagelab can attach to",
        key="--target",
        hint=f"It begins with one of {known}; or name an environment variable that holds it.",
    )


Say = Callable[[str], None]
DATA_FILES, ROWS_PER_TRANSACTION = (1, 2), (10, 1_000)
CONNECTIONS = 4
ROWS_PER_CONNECTION = 5_000
_IN_CONNINFO = re.compile(r"password\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))", re.IGNORECASE)
_MASK = "********"


class _Stop(KeyboardInterrupt):
    """An interruption of a run, like the user's Ctrl-C."""


def target_of(text: str, key: str = "--target") -> TargetConfig:
    """Returns the server that `text` names. `text` is the value of the option or key `key`: a DSN, or the name of an
    environment variable that holds one. Raises SpecError.
    """
    if not VARIABLE_NAME.fullmatch(text):
        return TargetConfig.model_validate({"engine": _engine_of(text), "dsn": text})
    held = os.environ.get(text)
    if not held:
        hint = "Name a variable that is set, or give the DSN itself."
        raise SpecError("is neither a DSN nor an environment variable that is set", key=key, hint=hint)
    return TargetConfig.model_validate({"engine": _engine_of(held), "dsn_env": text})


def verify(
    target: TargetConfig,
    volumes: Mapping[str, VolumeConfig] | None = None,
    say: Say = lambda _: None,
    rows_per_connection: int = ROWS_PER_CONNECTION,
    spec_folder: Path | None = None,
) -> tuple[Promise, ...]:
    """Returns every promise, in the order of `promises.ALL`. If a promise could not be tested, its state is "open".
    Everything that was made on the server is removed, even after an error. `say` receives each step when it begins.
    Relative paths in `volumes` start at `spec_folder`.
    """
    suite = _Suite(target, dict(volumes or {}), say, rows_per_connection, spec_folder or Path.cwd())
    with contextlib.closing(suite.kept()) as kept:
        found = {promise.name: promise for promise in kept}
    if suite.password:
        hidden = ((one, one.detail.replace(suite.password, _MASK)) for one in found.values())
        found = {one.name: one.model_copy(update={"detail": detail}) for one, detail in hidden}
    return tuple(found.get(name, Promise(name=name, state="open", detail="not tried")) for name in p.ALL)


class _Suite:
    def __init__(
        self, target: TargetConfig, volumes: dict[str, VolumeConfig], say: Say, rows_each: int, spec_folder: Path
    ) -> None:
        self.probe: Probe = engine_in(target.engine).probe()
        name, value = self.probe.setting
        self.target = target.model_copy(update={"settings": {**target.settings, name: value}})
        self.volumes, self.say, self.rows_each = volumes, say, rows_each
        self.site = Site(experiment="contract", identity=secrets.token_hex(4), spec_folder=spec_folder)
        self.experiment = Experiment(name="contract")
        self.password = _password_of(target)
        levels = itertools.product(DATA_FILES, ROWS_PER_TRANSACTION)
        cells = tuple(self._cell(number, *level) for number, level in enumerate(levels, 1))
        of_run = {"block": 0, "repetition": 1, "seed": 1}
        runs = (PlannedRun(sequence=at, cell_id=cell.cell_id, **of_run) for at, cell in enumerate(cells))
        self.plan = Plan(cells=cells, runs=tuple(runs))

    def _cell(self, number: int, data_files: int, rows_per_transaction: int) -> Cell:
        config = Config.model_validate({
            "target": self.target.model_dump(exclude_unset=True),
            "volumes": {name: volume.model_dump(exclude_unset=True) for name, volume in self.volumes.items()},
            "layout": {"data_files": data_files},
            "workload": {
                "connections": CONNECTIONS, "rows_per_connection": self.rows_each,
                "rows_per_transaction": min(rows_per_transaction, self.rows_each),
            },
        })  # fmt: skip
        levels: dict[str, JsonValue] = {"layout.data_files": data_files}
        levels["workload.rows_per_transaction"] = rows_per_transaction
        return Cell(cell_id=f"c{number:02d}", levels=levels, config=config)

    # --- in the order of trying --------------------------------------------------------------------------------------

    def kept(self) -> Generator[Promise, None, None]:
        """Yields each promise as soon as it is judged. Changes nothing on the server before the first promise was found
        to be kept.
        """
        self.say("looking at the server")
        try:
            found = preflight(self.plan, self.site)
            before = self.probe.inventory(self.target)
        except StoragelabError as error:
            yield Promise(name=p.REACHED, state="fail", detail=str(error))
            return
        yield Promise(name=p.REACHED, state="pass", detail=found.server)
        try:
            yield self._foreign_refused()
            yield from p.judged([self._run(cell) for cell in self.plan.cells], self.password)
            yield self._interruption(before)
            yield self._beside()
        finally:
            left = self._clean_up()
        yield left
        yield self._untouched(before)

    def _foreign_refused(self) -> Promise:
        self.say(f"making a foreign object named {self.site.prefix}, and removing it again")
        self.probe.obstruct(self.target, self.site.prefix)
        try:
            problem = self._not_refused()
            return Promise(name=p.FOREIGN_REFUSED, state="fail" if problem else "pass", detail=problem)
        finally:
            with uninterrupted():
                self.probe.clear(self.target, self.site.prefix)

    def _not_refused(self) -> str:
        """Tries each step that must refuse the obstacle. Returns the step that did not refuse it, or the object that
        was lost. Returns "" if nothing is wrong.
        """
        there = self.probe.inventory(self.target)
        tries: dict[str, Callable[[], object]] = {
            "the checks before a run": lambda: preflight(self.plan, self.site),
            "cleaning up": lambda: sweep(self.plan, self.site),
            "a run": lambda: self._set_up_only(self.plan.cells[0]),
        }
        for name, attempt in tries.items():
            try:
                attempt()
            except (PreflightError, RunFailed):
                continue
            return f"{name} did not refuse it"
        gone = there - self.probe.inventory(self.target)
        return f"gone: {', '.join(sorted(gone))}" if gone else ""

    def _set_up_only(self, cell: Cell) -> None:
        with open_target(cell.config, self.site):
            pass

    def _run(self, cell: Cell) -> Outcome:
        self.say(f"running {', '.join(f'{name} = {level}' for name, level in cell.levels.items())}")
        progress: list[int] = []
        try:
            with open_target(cell.config, self.site) as target:
                environment = target.describe()
                measurement = target.run(cell, 1, 1, progress.append)
        except RunFailed as error:
            return Outcome(cell=cell, reason=str(error), progress=tuple(progress))
        stored = measurement.model_dump_json() + repr(environment)
        return Outcome(cell=cell, measurement=measurement, progress=tuple(progress), stored=stored)

    def _interruption(self, before: frozenset[str]) -> Promise:
        self.say("interrupting a run")

        def stop(_: int) -> None:
            raise _Stop

        cell = self.plan.cells[-1]
        try:
            with open_target(cell.config, self.site) as target:
                target.run(cell, 1, 1, stop)
        except _Stop:
            left = self._ours(self.probe.inventory(self.target) - before)
            detail = f"left: {', '.join(left)}" if left else ""
            return Promise(name=p.INTERRUPTION, state="fail" if left else "pass", detail=detail)
        except RunFailed as error:
            return Promise(name=p.INTERRUPTION, state="fail", detail=str(error))
        return Promise(name=p.INTERRUPTION, state="open", detail="the run ended before it could be interrupted")

    def _beside(self) -> Promise:
        self.say("making tables with the names that a load's own program uses")
        try:
            with self.probe.decoys(self.target, f"{self.site.prefix}_beside") as decoys:
                if decoys is None:
                    return Promise(name=p.BESIDE, state="pass", detail="no load has a program of its own")
                problem = self._changed(*decoys)
        except PreflightError as error:
            return Promise(name=p.BESIDE, state="open", detail=str(error))
        return Promise(name=p.BESIDE, state="fail" if problem else "pass", detail=problem)

    def _changed(self, target: TargetConfig, load: dict[str, JsonValue], contents: Callable[[], object]) -> str:
        """Returns why a load beside these tables breaks the promise, or "" if it keeps the promise. Raises
        PreflightError.
        """
        config = Config.model_validate({
            "target": target.model_dump(exclude_unset=True), "volumes": {}, "layout": {}, "measure": {"waits": False},
            "workload": {**load, "connections": 2, "duration_s": 1.0},
        })  # fmt: skip
        cell = Cell(cell_id="c01", levels={"workload.kind": load["kind"]}, config=config)
        preflight(Plan(cells=(cell,), runs=()), self.site)
        before = contents()
        outcome = self._run(cell)
        return outcome.reason if contents() == before else "it changed tables that are not storagelab's"

    def _clean_up(self) -> Promise:
        """Removes whatever storagelab left on the server, and reports it, because nothing should be left."""
        self.say("cleaning up")
        try:
            with uninterrupted():
                removed = sweep(self.plan, self.site)
            left = self._ours(self.probe.inventory(self.target))
        except StoragelabError as error:
            return Promise(name=p.LEFT_BEHIND, state="fail", detail=str(error))
        found = [*removed, *(f"still there: {name}" for name in left)]
        return Promise(name=p.LEFT_BEHIND, state="fail" if found else "pass", detail="; ".join(found))

    def _untouched(self, before: frozenset[str]) -> Promise:
        try:
            after = self.probe.inventory(self.target)
        except StoragelabError as error:
            return Promise(name=p.UNTOUCHED, state="fail", detail=str(error))
        changes = [f"gone: {name}" for name in sorted(before - after)]
        changes += [f"new: {name}" for name in sorted(after - before)]
        if not changes:
            return Promise(name=p.UNTOUCHED, state="pass", detail=f"{len(before)} objects are unchanged")
        others = "; other users of this server may have made these changes"
        return Promise(name=p.UNTOUCHED, state="fail", detail="; ".join(changes[:5]) + others)

    def _ours(self, names: frozenset[str]) -> list[str]:
        return sorted(name for name in names if self.site.prefix in name)


def _password_of(target: TargetConfig) -> str:
    """Returns the password in the DSN, in the form in which the server receives it. Returns "" if there is none."""
    dsn = target.dsn if target.dsn is not None else os.environ.get(target.dsn_env or "", "")
    with contextlib.suppress(ValueError):
        if "://" in dsn:
            return unquote(urlsplit(dsn).password or "")
    found = _IN_CONNINFO.search(dsn)
    return (found[1] or found[2] or "") if found else ""
