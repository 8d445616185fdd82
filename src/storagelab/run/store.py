"""The results of one experiment on disk: `results/<experiment>/experiment.sqlite`. Only this file and `opening` know
SQLite.

Append-only. Each run is written in one transaction as it ends, so a kill at any moment loses at most the current run.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import math
import os
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from storagelab.errors import SpecError, StoreError
from storagelab.machine import processes
from storagelab.machine.descriptors import open_to_append
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment
from storagelab.run import opening
from storagelab.run.damage import Shared, damaged, experiment_of_today, read_run, reason_of
from storagelab.spec import foreign, named_files, reading
from storagelab.version import __version__

FILE_NAME = "experiment.sqlite"
LOCK_FILE = ".lock"
_ELSEWHERE = "keep the results in another folder with --results"
_RUN_COLUMNS = (
    "cell_id", "repetition", "attempt", "sequence", "block", "seed", "status", "reason", "started_at", "finished_at",
    "wall_s", "levels", "config", "measurement",
)  # fmt: skip
_COLUMNS = ", ".join(_RUN_COLUMNS)
_READ = _COLUMNS.replace(
    "measurement",
    "iif(repetition > ? AND json_valid(measurement), json_remove(measurement, '$.series', "
    "'$.waiting_tasks'), measurement)",
)
_LEAST_ROW_BYTES = 200
_SMALL_WORLDS = "/small"
"""The suffix that earlier versions gave to the name of a race's experiment."""
_MOST_S = 1e9


class Store:
    """An open store. Get one by `reading` or `writing`."""

    def __init__(self, folder: Path, connection: opening.Connection, set_aside: Path | None = None) -> None:
        """`set_aside` is the new place of a store that belonged to another spec and held no usable run."""
        self.folder, self._connection, self.set_aside = folder, connection, set_aside

    # --- opening -----------------------------------------------------------------------------------------------------

    @classmethod
    @contextlib.contextmanager
    def reading(cls, folder: Path) -> Iterator[Self]:
        """The store in `folder`, read-only, even while another storagelab writes it. Raises StoreError."""
        with cls.salvaging(folder) as store:
            store.check_whole()
            yield store

    @classmethod
    @contextlib.contextmanager
    def salvaging(cls, folder: Path) -> Iterator[Self]:
        """Opens a store that may be damaged, for `salvage`; otherwise like `reading`."""
        file = folder / FILE_NAME
        if not os.path.lexists(file):
            raise NothingStored(folder)
        # Not opened read-only: after a kill during a write, the first reader must repair the file.
        with contextlib.closing(opening.connect(file, "rw")) as connection:
            if opening.is_empty(connection, file):
                raise NothingStored(folder)
            opening.check_made_by_us(connection, file)
            opening.ask(connection, file, "PRAGMA query_only = ON")
            yield cls(folder, connection)

    @classmethod
    @contextlib.contextmanager
    def writing(cls, folder: Path, experiment: Experiment) -> Iterator[Self]:
        """The store in `folder`, made if needed, and locked against a second storagelab. Raises StoreError.

        A store of another spec whose runs all failed is moved aside: it has no results that could be mixed up.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{folder} can't be created: {error.strerror}\n  {_ELSEWHERE}") from error
        with _exclusive(folder):
            set_aside = _set_aside_failure(folder / FILE_NAME, experiment)
            with contextlib.closing(opening.connect(folder / FILE_NAME, "rwc")) as connection:
                file = folder / FILE_NAME
                if opening.is_empty(connection, file):
                    with opening.plain_errors(file):
                        _make(connection, experiment)
                opening.check_made_by_us(connection, file)
                _refuse_another(connection, file, experiment)
                yield cls(folder, connection, set_aside)

    def check_whole(self) -> None:
        """Raises StoreError if SQLite finds a damaged page."""
        opening.check_whole(self._connection, self.folder / FILE_NAME)

    # --- using -------------------------------------------------------------------------------------------------------

    def experiment(self) -> Experiment:
        """The experiment as it was first run."""
        return _experiment(self._connection, self.folder / FILE_NAME)

    def append(self, *runs: Run) -> None:
        """Write runs, all in one transaction. Raises StoreError if that fails or one of them is already stored."""
        with opening.plain_errors(self.folder / FILE_NAME), self._connection:
            for run in runs:
                measurement = run.measurement
                values = {
                    **run.model_dump(include=set(_RUN_COLUMNS) - {"levels", "config", "measurement"}),
                    "levels": json.dumps(run.levels),
                    "config": run.config.model_dump_json(),
                    "measurement": measurement.model_dump_json() if measurement else None,
                    "elapsed_s": measurement.elapsed_s if measurement else None,
                    "row_count": measurement.rows if measurement else None,
                }
                names = ", ".join(values)
                marks = ", ".join(f":{name}" for name in values)
                self._connection.execute(f"INSERT INTO run ({names}) VALUES ({marks})", values)

    def runs(self, *, in_detail: float = math.inf) -> tuple[Run, ...]:
        """Every stored run, every attempt, in the order in which they were stored. Raises StoreError if one can't be
        read.

        Time series and waiting tasks make up most of a run; only the first `in_detail` repetitions include them.
        """
        shared: Shared = {}
        with self._as_bytes(), opening.plain_errors(self.folder / FILE_NAME):
            rows = self._connection.execute(f"SELECT {_READ} FROM run ORDER BY rowid", [in_detail])
            read = [read_run(_RUN_COLUMNS, row, shared) for row in rows]
        if lost := [one for one in read if isinstance(one, str)]:
            raise damaged(self.folder / FILE_NAME, lost, len(read) - len(lost))
        return tuple(run for run in read if isinstance(run, Run))

    def salvage(self) -> tuple[tuple[Run, ...], list[str]]:
        """Every run that can still be read, and a description of what can't be. Changes nothing."""
        read = dict.fromkeys(self._rows_that_are_left())
        shared: Shared = {}
        found = [read_run(_RUN_COLUMNS, row, shared) for row in read]
        lost = [one for one in found if isinstance(one, str)]
        with self._as_bytes():
            try:
                for _ in self._connection.execute(f"SELECT {_COLUMNS} FROM run"):
                    pass
            except sqlite3.Error as error:
                lost.append(str(error))
        return tuple(run for run in found if isinstance(run, Run)), lost

    def _rows_that_are_left(self) -> Iterator[tuple[Any, ...]]:
        """Rows one by one by their number, skipping pages that can't be read."""
        with self._as_bytes():
            for number in range(1, self._last_number() + 1):
                with contextlib.suppress(sqlite3.Error):
                    yield from self._connection.execute(f"SELECT {_COLUMNS} FROM run WHERE rowid = ?", [number])

    def _last_number(self) -> int:
        """The last row's number, or as many rows as the file has space for."""
        most = (self.folder / FILE_NAME).stat().st_size // _LEAST_ROW_BYTES
        with contextlib.suppress(sqlite3.Error):
            ((last,),) = self._connection.execute("SELECT coalesce(max(rowid), 0) FROM run")
            return min(int(last), most)
        return most

    @contextlib.contextmanager
    def _as_bytes(self) -> Iterator[None]:
        """Text as bytes, since text in a damaged store may not be valid."""
        self._connection.text_factory = bytes
        try:
            yield
        finally:
            self._connection.text_factory = str

    def spec_text(self) -> str:
        """The spec as it was written. Raises StoreError."""
        return str(_only_row(self._connection, self.folder / FILE_NAME, "spec_text"))

    def attempts(self) -> dict[tuple[str, int], tuple[int, str]]:
        """The stored runs: `{(cell_id, repetition): (latest attempt, its status)}`."""
        rows = self._rows(
            "SELECT cell_id, repetition, attempt, iif(elapsed_s <= 0, 'failed', status) FROM run ORDER BY attempt"
        )
        return {(cell_id, repetition): (attempt, status) for cell_id, repetition, attempt, status in rows}

    def durations(self) -> list[tuple[str, float]]:
        """(cell_id, wall seconds) of every run that did not fail, for estimates of time."""
        return self._rows(
            "SELECT cell_id, wall_s FROM run WHERE status <> 'failed' AND wall_s BETWEEN 0 AND "
            f"{_MOST_S} ORDER BY rowid"
        )

    def set_up_share(self) -> float | None:
        """The share of finished runs' time in which nothing counted; None before there are any."""
        rows = self._rows(
            "SELECT sum(elapsed_s), sum(wall_s) FROM run WHERE status <> 'failed' "
            f"AND elapsed_s BETWEEN 0 AND wall_s AND wall_s BETWEEN 0 AND {_MOST_S}"
        )
        ((counted_s, wall_s),) = rows
        return 1 - counted_s / wall_s if wall_s else None

    def would_be_set_aside(self, experiment: Experiment) -> bool:
        """Whether the store belongs to another spec and has no usable run."""
        return _is_failure_of_another(self._connection, self.folder / FILE_NAME, experiment)

    def refuse_another(self, experiment: Experiment) -> None:
        """Raises StoreError if runs of this experiment may not be added to those that are stored."""
        _refuse_another(self._connection, self.folder / FILE_NAME, experiment)

    def _rows(self, statement: str) -> list[Any]:
        return opening.ask(self._connection, self.folder / FILE_NAME, statement)


# --- the file --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Hold the folder's lock file. The kernel releases the lock when its holder dies, however it dies."""
    try:
        file = open_to_append(folder / LOCK_FILE, within=folder)
    except OSError as error:
        raise StoreError(f"{folder} is not writable: {LOCK_FILE}: {error.strerror}\n  {_ELSEWHERE}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = (
                processes.holders_text(folder / LOCK_FILE)
                or "one that can't be seen from here, such as on another machine"
            )
            raise StoreError(
                f"another storagelab is running this experiment in {folder}: {holder}\n"
                "  wait for it to end, or keep these results elsewhere with --results"
            ) from error
        except OSError as error:
            raise StoreError(f"{folder} can't be locked: {error.strerror}\n  {_ELSEWHERE}") from error
        yield


def _set_aside_failure(file: Path, experiment: Experiment) -> Path | None:
    """Move a store of another spec that has no usable run to the first free `FILE.failed-N`; returns where it is."""
    if not file.is_file():
        return None
    with contextlib.closing(opening.connect(file, "rw")) as connection:
        if opening.is_empty(connection, file):
            return None
        opening.check_made_by_us(connection, file)
        opening.check_whole(connection, file)
        if not _is_failure_of_another(connection, file, experiment):
            return None
    numbers = itertools.count(1)
    place = next(place for n in numbers if not (place := file.with_name(f"{file.name}.failed-{n}")).exists())
    try:
        file.rename(place)
    except OSError as error:
        raise StoreError(f"{file} can't be moved aside: {error.strerror}\n  {_ELSEWHERE}") from error
    return place


def _is_failure_of_another(connection: opening.Connection, file: Path, experiment: Experiment) -> bool:
    ((usable,),) = opening.ask(connection, file, "SELECT count(*) FROM run WHERE status <> 'failed'")
    stored = _experiment(connection, file)
    same = (stored.sha256, stored.race) == (experiment.sha256, experiment.race)
    return usable == 0 and not (same and not named_files.differences(stored.files, experiment.files))


def _refuse_another(connection: opening.Connection, file: Path, experiment: Experiment) -> None:
    stored = _experiment(connection, file)
    if stored.sha256 != experiment.sha256 or named_files.differences(stored.files, experiment.files):
        raise StoreChanged(file, stored, experiment)
    if stored.race != experiment.race:
        kind, options = _kind_and_options(stored)
        raise StoreError(
            f"{file}: it holds {kind}\n  to continue it: storagelab run SPEC{options}\n  or keep the new results "
            "elsewhere with --results: a race is never mixed with all repetitions"
        )


def _kind_and_options(experiment: Experiment) -> tuple[str, str]:
    """What a store of the experiment holds, and the options that continue it."""
    if experiment.race is None:
        return "results of all repetitions, not of a race", ""
    race = experiment.race
    if not race.within:
        return "a race without a margin", " --find-best"
    margin = f"{100 * race.within:g}"
    return f"a race with a margin of {margin} %", f" --find-best --within {margin}%"


def _experiment(connection: opening.Connection, file: Path) -> Experiment:
    text = _only_row(connection, file, "experiment")
    try:
        return _checked(Experiment.model_validate(experiment_of_today(json.loads(text))))
    except SpecError as error:
        raise damaged(file, [f"its experiment: {error.key}: {error.problem}"], None) from None
    except (ValueError, RecursionError) as error:
        raise damaged(file, [f"its experiment: {reason_of(error)}"], None) from None


def _checked(experiment: Experiment) -> Experiment:
    """The experiment. Raises SpecError that names the key if no spec could have declared it.

    A store may be made by hand, and its texts and numbers go to the same places as a spec's: paths, terminals, pages,
    the sizes of plans. Its cells are checked when the plan is made.
    """
    reading.refuse_odd_name(experiment.name.removesuffix(_SMALL_WORLDS))
    tables = experiment.model_dump(include={"name", "question", "costly", "factors", "excludes"}, exclude_none=True)
    listed = {name: _with_lists(value) for name, value in tables.items()}
    for content in (listed, experiment.canonical, experiment.base):
        foreign.refuse_odd_values(content)
    _refuse_odd_order(experiment.canonical.get("listed"))
    if all(isinstance(experiment.base.get(table, {}), Mapping) for table in ("volumes", "drives")):
        reading.refuse_odd_places(experiment.base)
    return experiment


def _with_lists(value: object) -> object:
    """As TOML has it: with lists instead of tuples."""
    match value:
        case dict():
            return {name: _with_lists(inside) for name, inside in value.items()}
        case list() | tuple():
            return [_with_lists(inside) for inside in value]
    return value


def _refuse_odd_order(listed: object) -> None:
    """Refuses an impossible order of names: `canonical` stores it in addition to the spec's own keys, and specs are
    compared by it.
    """
    match listed:
        case None:
            return
        case dict() if all(isinstance(names, list) and _are_texts(names) for names in listed.values()):
            return
    raise SpecError("is no table of names in order", key="canonical.listed", hint="")


def _are_texts(values: list[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _only_row(connection: opening.Connection, file: Path, column: str) -> Any:
    rows = opening.ask(connection, file, f"SELECT {column} FROM experiment")
    if len(rows) != 1:
        raise damaged(file, [f"its experiment: is stored {len(rows)} times"], None)
    return rows[0][0]


class NothingStored(StoreError):
    """There is no store yet, or only one that was not made completely."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} holds no results yet\n  make some: storagelab run SPEC")


class StoreChanged(StoreError):
    """The store holds results of another spec with the same name."""

    def __init__(self, file: Path, stored: Experiment, experiment: Experiment) -> None:
        changes = reading.differences(stored.canonical, experiment.canonical)
        changes += named_files.differences(stored.files, experiment.files)
        listed = "".join(f"\n    {change}" for change in changes)
        super().__init__(
            f"{file}: it holds results of experiment {stored.name!r} with another spec{':' if listed else ''}{listed}\n"
            "  results of different specs or files are never mixed: give the spec a new name, or keep these results "
            "elsewhere with --results"
        )


def _make(connection: opening.Connection, experiment: Experiment) -> None:
    """Writes the schema and the experiment in one transaction: a store is complete or absent."""
    connection.isolation_level = None
    connection.execute("BEGIN EXCLUSIVE")
    for statement in opening.schema_statements():
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {opening.SCHEMA_VERSION}")
    connection.execute(f"PRAGMA application_id = {opening.APPLICATION_ID}")
    connection.execute(
        "INSERT INTO experiment VALUES (1, ?, ?, ?, ?, ?, ?)",
        [
            experiment.name,
            experiment.sha256,
            experiment.text,
            experiment.model_dump_json(),
            datetime.now(UTC).isoformat(timespec="seconds"),
            __version__,
        ],
    )
    connection.execute("COMMIT")
    connection.isolation_level = "DEFERRED"
