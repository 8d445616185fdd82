"""The file of a store, which anybody may have made. This module opens it, refuses content that storagelab didn't write,
and reads its rows.

A database can contain code: views, triggers, generated columns, checks. So before any table is read, the file's schema
must equal storagelab's schema word for word. After that, SQLite allows only storagelab's own statements. Each statement
may take only as many steps as a store of that size needs. SQLite's defensive mode is on if Python can set it (3.12 and
later)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from storagelab.errors import StoreError
from storagelab.machine import processes
from storagelab.model.config import KINDS, Config
from storagelab.model.measurement import NO_TIME, Measurement, Run
from storagelab.model.values import MOST
from storagelab.servers.durability import judged

SCHEMA_VERSION = 3
_READABLE = (1, 2, SCHEMA_VERSION)
"""The versions of the schema that can be read. In version 1, every repetition was judged, so its table allows no
repetition below 1. The last part of this file converts runs of versions 1 and 2."""
APPLICATION_ID = 0x736C6162  # "slab"
_BUSY_TIMEOUT_S = 15.0
_MOVE_IT = "move it away and run again"
ELSEWHERE = "keep the results in another folder with --results"
_NOT_OURS = "something else changed it; if it is somebody else's store, ask them for an export"
_TABLES = ("experiment", "run")

_STEPS_A_CALL = 10_000
_FEWEST_STEPS = 1_000_000
"""The number of steps that SQLite may take for a statement, in addition to one step for each byte of the file. A row
needs about a hundred steps and has about a thousand bytes, so this is enough."""
_LONGEST_VALUE_BYTES = 2**28
_LONGEST_STATEMENT_BYTES = 100_000
_SMALL_BYTES, _MOST_HOLLOW = 2**26, 100
_JOURNAL_OF_SEVERAL = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of a journal that names another file. SQLite would read and delete that file. Transactions of a single
store never need such a journal."""
_SETTINGS = ("DEFENSIVE", True), ("TRUSTED_SCHEMA", False), ("ENABLE_VIEW", False), ("ENABLE_LOAD_EXTENSION", False)


class Connection(sqlite3.Connection):
    """A connection that interrupts every statement that takes too many steps."""

    file: Path | None = None
    """The store's file. It is set after the schema was found to be storagelab's. The size of the file then limits the
    steps of a statement.
    """
    _steps_left = 0

    def execute(self, *statement: Any) -> sqlite3.Cursor:
        self._steps_left = _FEWEST_STEPS + (self.file.stat().st_size if self.file is not None else 0)
        return super().execute(*statement)

    def take_steps(self) -> bool:
        """SQLite calls this method from time to time. Returns whether to interrupt the statement."""
        self._steps_left -= _STEPS_A_CALL
        return self._steps_left < 0


def connect(file: Path, mode: str) -> Connection:
    """Opens the file. Raises StoreError, for example if the file is not a regular file."""
    _refuse_odd_file(file, mode)
    with plain_errors(file):
        uri = f"{file.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT_S, factory=Connection)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _LONGEST_STATEMENT_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_progress_handler(connection.take_steps, _STEPS_A_CALL)
        for name, on in _SETTINGS:
            if (number := getattr(sqlite3, f"SQLITE_DBCONFIG_{name}", None)) is not None:  # Python 3.12 and later
                getattr(connection, "setconfig")(number, on)  # noqa: B009 - the types are those of 3.11
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "temp_store = MEMORY"):
            connection.execute(f"PRAGMA {setting}").close()
        return connection


def _refuse_odd_file(file: Path, mode: str) -> None:
    """Raises StoreError if the file is not a regular file, if nearly all of it is holes, or if its journal would make
    SQLite use another file.
    """
    try:
        facts = file.stat()
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not file.is_symlink():
            return
        raise _unreadable(file) from None
    if not stat.S_ISREG(facts.st_mode):
        raise _unreadable(file)
    if mode == "rwc" and file.is_symlink():
        raise StoreError(
            f"{file} is a link, to {os.path.realpath(file)}\n"
            "  storagelab adds no runs through a link: name the folder of that file, or of its own, with --results"
        )
    if facts.st_size > _SMALL_BYTES and facts.st_blocks * 512 < facts.st_size // _MOST_HOLLOW:
        raise StoreError(f"{file} is not a storagelab store: nearly all of it is holes\n  {_MOVE_IT}")
    for journal in (file.with_name(f"{file.name}{end}") for end in ("-journal", "-wal", "-shm")):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(journal.lstat().st_mode):
                raise StoreError(f"{journal} is no regular file, as SQLite's journals are\n  {_MOVE_IT}")
            with journal.open("rb") as content:
                content.seek(max(0, os.fstat(content.fileno()).st_size - len(_JOURNAL_OF_SEVERAL)))
                if content.read() == _JOURNAL_OF_SEVERAL:
                    raise StoreError(f"{journal} names another file, which SQLite would delete\n  {_NOT_OURS}")


def _unreadable(file: Path) -> StoreError:
    return StoreError(f"{file} is not a readable file\n  {_MOVE_IT}")


@contextlib.contextmanager
def plain_errors(file: Path) -> Iterator[None]:
    """Converts SQLite's errors to StoreErrors."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise StoreError(f"{file}: {error}\n  stored runs never change, and each run is stored only once") from error
    except sqlite3.Error as error:
        raise StoreError(f"{file}: {_plain_text(error, file)}") from error


def _plain_text(error: sqlite3.Error, file: Path) -> str:
    """Returns SQLite's message, and what the user can do. The lowest byte of the error code is the kind of error."""
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            holder = processes.holders_text(file) or "a process that can't be seen from here"
            return f"{error}\n  {holder} holds its lock: wait for it, or end it, and do this again"
        case sqlite3.SQLITE_FULL:
            return f"{error}\n  make room on its disk, or {ELSEWHERE}"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return f"{error}\n  check that you may read and write it, and make files in its folder; or {ELSEWHERE}"
        case sqlite3.SQLITE_TOOBIG:
            return f"{error}: a value has more than {_LONGEST_VALUE_BYTES:,} bytes\n  {_NOT_OURS}"
        case sqlite3.SQLITE_INTERRUPT | sqlite3.SQLITE_AUTH:
            return f"is not as storagelab makes it: {error}\n  {_NOT_OURS}"
    return f"{error}\n  is the disk full, or the file damaged or not writable?"


def ask(connection: sqlite3.Connection, file: Path, statement: str) -> list[Any]:
    """Returns the rows of a statement. Raises StoreError."""
    with plain_errors(file):
        return connection.execute(statement).fetchall()


def is_empty(connection: sqlite3.Connection, file: Path) -> bool:
    """Whether there is no store yet, or only the beginning of one. Raises StoreError if the file is not a database."""
    with plain_errors(file):
        try:
            return connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            with file.open("rb") as content:  # the application number in the header survives most damage
                if content.read(72)[68:] == APPLICATION_ID.to_bytes(4, "big"):
                    raise damaged(file, [str(error)], None) from error
            raise StoreError(f"{file} is not a storagelab store: {error}\n  {_MOVE_IT}") from error


def check_made_by_us(connection: Connection, file: Path) -> None:
    """Raises StoreError if another program or an unknown version made the store, or if it has content that storagelab
    didn't make. After that, SQLite allows only storagelab's own statements.
    """
    ((version,),) = ask(connection, file, "PRAGMA user_version")
    ((application,),) = ask(connection, file, "PRAGMA application_id")
    if application != APPLICATION_ID:
        raise StoreError(f"{file} is not a storagelab store\n  {_MOVE_IT}")
    if version not in _READABLE:
        raise StoreError(
            f"{file} was written with schema version {version}; this storagelab reads version {SCHEMA_VERSION}\n"
            "  use the storagelab that wrote it, or keep new results elsewhere with --results"
        )
    found = ask(connection, file, "SELECT type, name, tbl_name, sql FROM sqlite_schema")
    for kind, name, table, sql in found:
        if not _is_ours(kind, name, table, sql):
            what = f"{str(kind)[:20]} {str(name)[:60]!r}"
            raise StoreError(f"{file} is not as storagelab makes it: {what}\n  {_NOT_OURS}")
    tables = {name for kind, name, _, _ in found if kind == "table"}
    if lost := [name for name in _TABLES if name not in tables]:
        raise StoreError(f"{file} is not as storagelab makes it: it has no table {lost[0]!r}\n  {_NOT_OURS}")
    connection.file = file
    connection.set_authorizer(_allowed)


def _is_ours(kind: object, name: object, table: object, sql: object) -> bool:
    if sql is None:  # SQLite's own index of a primary key has no statement
        return kind == "index" and table in _TABLES and str(name).startswith("sqlite_autoindex_")
    return isinstance(sql, str) and _bare(sql) in _our_statements()


@cache
def _our_statements() -> frozenset[str]:
    """Returns the statements that any readable version of the schema may contain, without comments and blanks."""
    ours = {_bare(statement.rstrip().removesuffix(";")) for statement in schema_statements()}
    today, first = "repetition INTEGER NOT NULL,", "repetition INTEGER NOT NULL CHECK (repetition >= 1),"
    return frozenset(ours | {one.replace(today, first) for one in ours})


def _bare(statement: str) -> str:
    return " ".join(re.sub(r"--[^\n]*", " ", statement).split())


def schema_statements() -> Iterator[str]:
    """Yields the statements of the schema one by one. SQLite's own function for scripts would commit between them."""
    statement = ""
    for line in resources.files("storagelab.run").joinpath("schema.sql").read_text("utf-8").splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


_ALLOWED = {
    sqlite3.SQLITE_READ: (0, {*_TABLES, "sqlite_master", "sqlite_schema"}),
    sqlite3.SQLITE_INSERT: (0, {"run"}),
    sqlite3.SQLITE_FUNCTION: (1, {"coalesce", "count", "iif", "json_remove", "json_valid", "max", "sum"}),
    sqlite3.SQLITE_PRAGMA: (0, {"query_only", "quick_check"}),
}
"""The actions that a statement may take. Each has the position of the argument that SQLite passes, and the names that
are allowed there."""


def _allowed(action: int, *names: str | None) -> int:
    """Decides whether an action is allowed. SQLite calls this for each action of a statement when it prepares the
    statement.
    """
    place, known = _ALLOWED.get(action, (0, set()))
    ok = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_TRANSACTION) or names[place] in known
    return sqlite3.SQLITE_OK if ok else sqlite3.SQLITE_DENY


def check_whole(connection: sqlite3.Connection, file: Path) -> None:
    """Lets SQLite check every page. This takes 0.4 s for half a gigabyte. Raises StoreError."""
    try:
        found = connection.execute("PRAGMA quick_check(5)").fetchall()
    except sqlite3.OperationalError:
        with plain_errors(file):
            raise
    except sqlite3.DatabaseError as error:
        raise damaged(file, [str(error)], None) from error
    if found != [("ok",)]:
        raise damaged(file, [line for (problem,) in found for line in str(problem).splitlines()], None)


# --- rows -------------------------------------------------------------------------------------------------------------


_LISTED = 5
_SHOWN = 60
_OUT_OF_BOUNDS = "is out of range"


Shared = dict[object, Any]
"""Maps texts in a store to the configurations, levels and environments that they describe. Many runs share them."""


RUN_COLUMNS = tuple(Run.model_fields)


def read_run(row: Sequence[Any], shared: Shared) -> Run | str:
    """Reads a stored row, whose texts are text or bytes. Returns the run. If the run can't be read, returns a message
    that names it and the reason.

    A run without elapsed time counts as failed, because no rate can be computed. All rows of one store use the same
    `shared`.
    """
    fields = dict(zip(RUN_COLUMNS, row, strict=True))
    try:
        texts = {name: value.decode() if isinstance(value, bytes) else value for name, value in fields.items()}
        run = _run_of(texts, shared)
    except (ValueError, TypeError, RecursionError) as error:
        which = f"run {_text(fields['cell_id'])}, repetition {_text(fields['repetition'])}"
        return f"{which}: {reason_of(error)}"
    if run.measurement is not None and run.measurement.elapsed_s <= 0 and run.status != "failed":
        return run.model_copy(update={"status": "failed", "reason": "; ".join(filter(None, (run.reason, NO_TIME)))})
    return run


def _run_of(row: Mapping[str, Any], shared: Shared) -> Run:
    key = row["config"], row["levels"]
    config, levels = shared.get(key) or (_config(row["config"]), json.loads(row["levels"]))
    measurement = _measurement(row["measurement"], config, shared) if row["measurement"] else None
    run = Run(**{**row, "levels": levels, "config": config, "measurement": measurement})
    shared[key] = run.config, run.levels
    return run


def _config(text: str) -> Config:
    try:
        return Config.model_validate(config_of_today(json.loads(text)))
    except ValidationError as error:
        raise ValueError(f"config.{reason_of(error)}") from None


def _measurement(text: str, config: Config, shared: Shared) -> Measurement:
    try:
        measurement = Measurement.model_validate_json(measurement_of_today(text, config.workload.kind))
    except ValueError as error:
        raise ValueError(f"measurement: {reason_of(error)}") from None
    # The model has no such check, because a target may return a value that is not a number. Reports show such a value
    # as unknown.
    for group, counters in measurement.counters.items():
        for name, value in counters.items():
            if abs(value) > MOST:
                raise ValueError(f"measurement: counters.{group}.{name}: {_OUT_OF_BOUNDS}"[: 3 * _SHOWN])
    environment = shared.setdefault(json.dumps(measurement.environment), measurement.environment)
    durability = measurement.durability or judged(environment)  # earlier versions stored no durability
    return measurement.model_copy(update={"environment": environment, "durability": durability})


_WRONG = {
    "missing": "is missing", "extra_forbidden": "is not known to this version", "json_invalid": "is not complete JSON",
    "finite_number": _OUT_OF_BOUNDS, "greater_than_equal": _OUT_OF_BOUNDS, "less_than_equal": _OUT_OF_BOUNDS,
}  # fmt: skip


def _text(value: object) -> str:
    return value.decode(errors="replace")[:_SHOWN] if isinstance(value, bytes) else str(value)[:_SHOWN]


def reason_of(error: Exception) -> str:
    """Describes an invalid stored value: its place and its content."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))[:_SHOWN]
        wrong = _WRONG.get(first["type"]) or f"can't be {repr(first['input'])[:_SHOWN]}"
        return f"{place}: {wrong}" if place else wrong
    return (str(error) or type(error).__name__)[: 3 * _SHOWN]


def damaged(file: Path, lost: Sequence[str], readable: int | None) -> StoreError:
    """Makes the error for a damaged store. It says what can't be read, how many runs can still be read, and how to
    save them. `readable` is the number of these runs, or None if storagelab has not tried to read them.
    """
    listed = "".join(f"\n    {one}" for one in lost[:_LISTED])
    more = f"\n    and {len(lost) - _LISTED} more" if len(lost) > _LISTED else ""
    still = "export what can still be read:" if readable is None else f"{readable} runs can still be read; export them:"
    return StoreError(
        f"{file} is damaged:{listed}{more}\n  {still} `storagelab export --salvage {file.parent.name} --results "
        f"{file.parent.parent}`\n  nothing in it has changed; to measure again, move it away"
    )


# --- conversion of what earlier versions stored -----------------------------------------------------------------------


_KEYS = {name for member in KINDS.values() for name in member.model_fields}


def config_of_today(config: Any) -> Any:
    """Returns a stored configuration in today's form: its workload has only the keys of its kind."""
    match config:
        case {"workload": {"kind": "random-insert" | "sequential-insert" | "mixed" as named_kind, **keys}}:
            kind = named_kind if keys.get("block_bytes") is None else "raw-io"
            unused = _KEYS - KINDS[kind].model_fields.keys()
            used = {name: value for name, value in keys.items() if name not in unused}
            return {**config, "workload": {"kind": kind, **used}}
    return config


def measurement_of_today(text: str, kind: str) -> str:
    """Returns a stored measurement in today's form. `kind` is the kind of its workload. The amount of work has the name
    of its unit.
    """
    if KINDS[kind].raw_io:
        measurement = json.loads(text)
        match measurement:
            case {"rows": int(requests)}:
                return json.dumps({**measurement, "rows": None, "requests": requests})
    return text


def experiment_of_today(experiment: Any) -> Any:
    """Returns a stored experiment in today's form. Two kinds of races no longer exist: races for a good layout, and
    races that began with runs at a small scale. They are read as experiments of all repetitions, most of which are
    missing. So reports show all runs, and compare only the layouts that ran. The list of hosts that shared the rounds
    is left out, because each run names its host. If a store does not say whether orders are balanced, its rounds
    continue to be shuffled separately.
    """
    if not isinstance(experiment, dict):
        return experiment
    experiment = {"balanced": False, **{name: value for name, value in experiment.items() if name != "fleet"}}
    match experiment:
        case {"race": {"goal": "good"} | {"small": dict()}}:
            judged_before = "a race of a kind that version 0.2.0 was the last to judge"
            return {**experiment, "race": None, "judged_before": judged_before}
        case {"race": dict(race)}:
            kept = {name: value for name, value in race.items() if name not in ("small", "goal")}
            return {**experiment, "race": kept}
    return experiment
