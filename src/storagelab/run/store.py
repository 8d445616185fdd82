"""The results of one experiment on disk: `results/<experiment>/experiment.sqlite`. Only this file and `store_file` use
SQLite directly.

Runs are only added. Each run is written in one transaction when it ends. So a kill at any moment loses at most the
current run."""

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

from storagelab import __version__
from storagelab.errors import SpecError, StoreError
from storagelab.machine import processes
from storagelab.machine.descriptors import open_to_append
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment
from storagelab.model.values import MOST_SECONDS
from storagelab.run import store_file
from storagelab.run.store_file import ELSEWHERE, RUN_COLUMNS, Shared, damaged, experiment_of_today, read_run, reason_of
from storagelab.spec import foreign, given_files, reading

FILE_NAME = "experiment.sqlite"
LOCK_FILE = ".lock"
_COLUMNS = ", ".join(RUN_COLUMNS)
_READ = _COLUMNS.replace(
    "measurement",
    "iif(repetition > ? AND json_valid(measurement), json_remove(measurement, '$.series', "
    "'$.waiting_tasks'), measurement)",
)
_LEAST_ROW_BYTES = 200
_SMALL_WORLDS = "/small"
"""The suffix that earlier versions gave to the name of a race's experiment."""


class Store:
    """An open store. Use `reading` or `writing` to open one."""

    def __init__(self, folder: Path, connection: store_file.Connection, set_aside: Path | None = None) -> None:
        """`set_aside` is the new path of an earlier store in this folder. That store belonged to another spec and had
        no usable run.
        """
        self.folder, self._file = folder, folder / FILE_NAME
        self._connection, self.set_aside = connection, set_aside

    # --- opening -----------------------------------------------------------------------------------------------------

    @classmethod
    @contextlib.contextmanager
    def reading(cls, folder: Path) -> Iterator[Self]:
        """Opens the store in `folder` for reading. This is possible even while another storagelab writes it. Raises
        StoreError.
        """
        with cls.salvaging(folder) as store:
            store.check_whole()
            yield store

    @classmethod
    @contextlib.contextmanager
    def salvaging(cls, folder: Path) -> Iterator[Self]:
        """Opens a store that may be damaged, for `salvage`. Otherwise like `reading`."""
        file = folder / FILE_NAME
        if not os.path.lexists(file):
            raise NothingStored(folder)
        # SQLite does not open the file in read-only mode, because after a kill during a write, the first reader must
        # repair it.
        with contextlib.closing(store_file.connect(file, "rw")) as connection:
            if store_file.is_empty(connection, file):
                raise NothingStored(folder)
            store_file.check_made_by_us(connection, file)
            store_file.ask(connection, file, "PRAGMA query_only = ON")
            yield cls(folder, connection)

    @classmethod
    @contextlib.contextmanager
    def writing(cls, folder: Path, experiment: Experiment) -> Iterator[Self]:
        """Opens the store in `folder` for writing, and makes it if there is none. A lock keeps a second storagelab from
        writing it. Raises StoreError.

        If the folder has a store of another spec whose runs all failed, this store is moved aside. It has no results
        that could be mixed up.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{folder} can't be created: {error.strerror}\n  {ELSEWHERE}") from error
        file = folder / FILE_NAME
        with _exclusive(folder):
            set_aside = _set_aside_failure(folder, experiment)
            with contextlib.closing(store_file.connect(file, "rwc")) as connection:
                if store_file.is_empty(connection, file):
                    with store_file.plain_errors(file):
                        _make(connection, experiment)
                store_file.check_made_by_us(connection, file)
                store = cls(folder, connection, set_aside)
                store.refuse_another(experiment)
                yield store

    def check_whole(self) -> None:
        """Raises StoreError if SQLite finds a damaged page."""
        store_file.check_whole(self._connection, self._file)

    # --- using -------------------------------------------------------------------------------------------------------

    def experiment(self) -> Experiment:
        """Returns the experiment as it was when its first run was made. Raises StoreError."""
        try:
            return _checked(Experiment.model_validate(experiment_of_today(json.loads(self._only("experiment")))))
        except SpecError as error:
            wrong = f"{error.key}: {error.problem}"
        except (ValueError, RecursionError) as error:
            wrong = reason_of(error)
        raise damaged(self._file, [f"its experiment: {wrong}"], None)

    def append(self, *runs: Run) -> None:
        """Writes runs in one transaction. Raises StoreError if this fails, or if one of the runs is already stored."""
        with store_file.plain_errors(self._file), self._connection:
            for run in runs:
                measurement = run.measurement
                values = {
                    **run.model_dump(include=set(RUN_COLUMNS) - {"levels", "config", "measurement"}),
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
        """Returns all attempts of all stored runs, in the order in which they were stored. Raises StoreError if a run
        can't be read.

        Time series and waiting tasks take most of a run's memory. So only the first `in_detail` repetitions include
        them.
        """
        shared: Shared = {}
        with self._as_bytes(), store_file.plain_errors(self._file):
            rows = self._connection.execute(f"SELECT {_READ} FROM run ORDER BY rowid", [in_detail])
            read = [read_run(row, shared) for row in rows]
        if lost := [one for one in read if isinstance(one, str)]:
            raise damaged(self._file, lost, len(read) - len(lost))
        return tuple(run for run in read if isinstance(run, Run))

    def salvage(self) -> tuple[tuple[Run, ...], list[str]]:
        """Returns every run that can still be read, and a description of what can't be read. Changes nothing."""
        shared: Shared = {}
        found = [read_run(row, shared) for row in dict.fromkeys(self._rows_that_are_left())]
        lost = [one for one in found if isinstance(one, str)]
        with self._as_bytes():
            try:
                for _ in self._connection.execute(f"SELECT {_COLUMNS} FROM run"):
                    pass
            except sqlite3.Error as error:
                lost.append(str(error))
        return tuple(run for run in found if isinstance(run, Run)), lost

    def _rows_that_are_left(self) -> Iterator[tuple[Any, ...]]:
        """Yields the readable rows, one by one, by their numbers. Skips pages that can't be read. If the last row's
        number can't be read, tries as many numbers as the file has space for.
        """
        last = self._file.stat().st_size // _LEAST_ROW_BYTES
        with self._as_bytes():
            with contextlib.suppress(sqlite3.Error):
                ((stored,),) = self._connection.execute("SELECT coalesce(max(rowid), 0) FROM run")
                last = min(int(stored), last)
            for number in range(1, last + 1):
                with contextlib.suppress(sqlite3.Error):
                    yield from self._connection.execute(f"SELECT {_COLUMNS} FROM run WHERE rowid = ?", [number])

    @contextlib.contextmanager
    def _as_bytes(self) -> Iterator[None]:
        """While the context lasts, SQLite returns text as bytes, because text in a damaged store may not be valid."""
        self._connection.text_factory = bytes
        try:
            yield
        finally:
            self._connection.text_factory = str

    def spec_text(self) -> str:
        """Returns the text of the spec as the user wrote it. Raises StoreError."""
        return str(self._only("spec_text"))

    def attempts(self) -> dict[tuple[str, int], tuple[int, str]]:
        """Returns the stored runs: `{(cell_id, repetition): (latest attempt, its status)}`."""
        rows = self._rows(
            "SELECT cell_id, repetition, attempt, iif(elapsed_s <= 0, 'failed', status) FROM run ORDER BY attempt"
        )
        return {(cell_id, repetition): (attempt, status) for cell_id, repetition, attempt, status in rows}

    def durations(self) -> list[tuple[str, float]]:
        """Returns (cell_id, wall seconds) of every run that did not fail. Estimates of time use this."""
        return self._rows(
            "SELECT cell_id, wall_s FROM run WHERE status <> 'failed' AND wall_s BETWEEN 0 AND "
            f"{MOST_SECONDS} ORDER BY rowid"
        )

    def set_up_share(self) -> float | None:
        """Returns the share of finished runs' time that was outside the measurement. Returns None if no run has
        finished.
        """
        ((counted_s, wall_s),) = self._rows(
            "SELECT sum(elapsed_s), sum(wall_s) FROM run WHERE status <> 'failed' "
            f"AND elapsed_s BETWEEN 0 AND wall_s AND wall_s BETWEEN 0 AND {MOST_SECONDS}"
        )
        return 1 - counted_s / wall_s if wall_s else None

    def would_be_set_aside(self, experiment: Experiment) -> bool:
        """Whether the store belongs to another spec and has no usable run."""
        ((usable,),) = self._rows("SELECT count(*) FROM run WHERE status <> 'failed'")
        stored = self.experiment()
        same = (stored.sha256, stored.race) == (experiment.sha256, experiment.race)
        return usable == 0 and not (same and not given_files.differences(stored.files, experiment.files))

    def refuse_another(self, experiment: Experiment) -> None:
        """Raises StoreError if runs of this experiment must not be added to the stored runs."""
        stored = self.experiment()
        if stored.sha256 != experiment.sha256 or given_files.differences(stored.files, experiment.files):
            raise StoreChanged(self._file, stored, experiment)
        if stored.race == experiment.race:
            return
        kind, options = "results of all repetitions, not of a race", ""
        if stored.race is not None:
            margin = f"{100 * stored.race.within:g}" if stored.race.within else ""
            kind = f"a race with a margin of {margin} %" if margin else "a race without a margin"
            options = " --find-best" + (f" --within {margin}%" if margin else "")
        raise StoreError(
            f"{self._file}: it holds {kind}\n  to continue it: storagelab run SPEC{options}\n  or keep the new results "
            "elsewhere with --results: a race is never mixed with all repetitions"
        )

    def _rows(self, statement: str) -> list[Any]:
        return store_file.ask(self._connection, self._file, statement)

    def _only(self, column: str) -> Any:
        """Returns the value of a column for the experiment. Raises StoreError."""
        rows = self._rows(f"SELECT {column} FROM experiment")
        if len(rows) != 1:
            raise damaged(self._file, [f"its experiment: is stored {len(rows)} times"], None)
        return rows[0][0]


# --- the file --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Holds the lock on the folder's lock file. If the process that holds it dies, the kernel releases the lock."""
    lock = folder / LOCK_FILE
    try:
        file = open_to_append(lock, within=folder)
    except OSError as error:
        raise StoreError(f"{folder} is not writable: {LOCK_FILE}: {error.strerror}\n  {ELSEWHERE}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            unseen = "a process that can't be seen from here, perhaps on another machine"
            raise StoreError(
                f"another storagelab is running this experiment in {folder}: {processes.holders_text(lock) or unseen}\n"
                "  wait for it to end, or keep these results elsewhere with --results"
            ) from error
        except OSError as error:
            raise StoreError(f"{folder} can't be locked: {error.strerror}\n  {ELSEWHERE}") from error
        yield


def _set_aside_failure(folder: Path, experiment: Experiment) -> Path | None:
    """If the store belongs to another spec and has no usable run, renames it to the first free `FILE.failed-N`. Returns
    the new path, or None.
    """
    try:
        with Store.reading(folder) as store:
            if not store.would_be_set_aside(experiment):
                return None
    except NothingStored:
        return None
    file = folder / FILE_NAME
    places = (file.with_name(f"{file.name}.failed-{number}") for number in itertools.count(1))
    place = next(place for place in places if not place.exists())
    try:
        file.rename(place)
    except OSError as error:
        raise StoreError(f"{file} can't be moved aside: {error.strerror}\n  {ELSEWHERE}") from error
    return place


def _checked(experiment: Experiment) -> Experiment:
    """Returns the experiment. Raises SpecError that names the key if no spec could have declared the experiment.

    Somebody may have made the store by hand. storagelab uses its texts and numbers like those of a spec: in paths, on
    terminals and pages, and as sizes of plans. The cells are checked later, when the plan is made.
    """
    reading.refuse_odd_name(experiment.name.removesuffix(_SMALL_WORLDS))
    listed = experiment.canonical.get("listed")
    for names in listed.values() if isinstance(listed, dict) else [] if listed is None else [None]:
        # `canonical` has the order of names in addition to the spec's own keys, because it is used to compare specs.
        if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise SpecError("is no table of names in order", key="canonical.listed", hint="")
    tables = experiment.model_dump(include={"name", "question", "costly", "factors", "excludes"}, exclude_none=True)
    for content in (json.loads(json.dumps(tables)), experiment.canonical, experiment.base):  # JSON makes tuples lists
        foreign.refuse_odd_values(content)
    if all(isinstance(experiment.base.get(table, {}), Mapping) for table in ("volumes", "drives")):
        reading.refuse_odd_places(experiment.base)
    return experiment


def differences(one: Experiment, other: Experiment) -> list[str]:
    """Describes the differences between two specs, and between the files that they name. One line for each
    difference.
    """
    changes = reading.differences(one.canonical, other.canonical)
    return [*changes, *given_files.differences(one.files, other.files)]


class NothingStored(StoreError):
    """There is no store yet, or only the beginning of one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} holds no results yet\n  make some: storagelab run SPEC")


class StoreChanged(StoreError):
    """The store holds results of another spec with the same name."""

    def __init__(self, file: Path, stored: Experiment, experiment: Experiment) -> None:
        listed = "".join(f"\n    {change}" for change in differences(stored, experiment))
        super().__init__(
            f"{file}: it holds results of experiment {stored.name!r} with another spec{':' if listed else ''}{listed}\n"
            "  results of different specs or files are never mixed: give the spec a new name, or keep these results "
            "elsewhere with --results"
        )


def _make(connection: store_file.Connection, experiment: Experiment) -> None:
    """Writes the schema and the experiment in one transaction. So a store is either complete or absent."""
    connection.isolation_level = None
    connection.execute("BEGIN EXCLUSIVE")
    for statement in store_file.schema_statements():
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {store_file.SCHEMA_VERSION}")
    connection.execute(f"PRAGMA application_id = {store_file.APPLICATION_ID}")
    connection.execute(
        "INSERT INTO experiment VALUES (1, ?, ?, ?, ?, ?, ?)",
        [
            experiment.name, experiment.sha256, experiment.text, experiment.model_dump_json(),
            datetime.now(UTC).isoformat(timespec="seconds"), __version__,
        ],
    )  # fmt: skip
    connection.execute("COMMIT")
    connection.isolation_level = "DEFERRED"
