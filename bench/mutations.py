"""Breaks specs and stores at random. The same seed breaks them in the same way."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

from storagelab.run.store import FILE_NAME

Place = tuple[Any, Any]
"""A dict or a list, and a key or a position in it."""

_DEEP: Any = 1
for _ in range(200):
    _DEEP = [_DEEP]
ODD: tuple[Any, ...] = (
    0, -1, 1, 3, 1000, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 10**400, 0.1, -0.5, 1e308, -1e308, 1e-320,
    math.inf, math.nan, "", " ", "a" * 300, "k" * 100_000, "\0", "a\0b", "\x1b[2J\x1b[31m", "\x07", "\x7f", "\x9b",
    "\u202egpj", "\ufffe", "\n", "a\tb", "..", "../..", "/", "/dev/zero", "/dev/full", "/proc/self/mem",
    "~nobody-at-all/x", "./x\ny", "日本", "e\u0301", "🙂", "\uff14MB", "9000TB", "1e400GB", "1ms", "1000000h", "{",
    "[/b]",
    "[bold]", "%s%n", "${HOME}", "'; DROP TABLE run; --", "<script>", "\\", "on", "true", "nan", "-1", "simulated",
    "postgres", "mariadb", "raw-io", "sqlserver", "basic", "2.2.3", "x=y", True, False, [], {}, [[]], [{}], [1, "a"],
    ["a", "a"], _DEEP, list(range(5000)), {f"k{n}": n for n in range(3000)}, {"label": "a"}, {"path": "."},
    {"drives": ["ssd"]}, None,
)  # fmt: skip
"""Values to put in wrong places. None becomes a date, because TOML has no null."""
_NAMES = (
    "", "a", "x.y", "PostgreSQL 17.5 vs 18.4", "label", "path", "\x1b[0m", "k" * 5000, "日本", "data_files", "layout",
    "layout.data_files", "target.settings.x", "volumes.a.path", "[/b]", "ssd", "name", "costly", "0", "__class__",
)  # fmt: skip


def _odd(chance: Random) -> Any:
    """Returns a copy of an odd value, because later steps may change it."""
    return deepcopy(chance.choice(ODD))


def mutate(document: Any, chance: Random) -> Any:
    """Returns a copy of the document with one to three mistakes."""
    copy = json.loads(json.dumps(document))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = list(_places(copy))
        if not places:
            return _odd(chance)
        chance.choice(_WRONGS)(copy, chance.choice(places), chance)
    return copy


def _places(inside: Any) -> Iterator[Place]:
    items = inside.items() if isinstance(inside, dict) else enumerate(inside) if isinstance(inside, list) else ()
    for key, value in items:
        yield inside, key
        yield from _places(value)


def _replaced(_: Any, place: Place, chance: Random) -> None:
    place[0][place[1]] = _odd(chance)


def _gone(_: Any, place: Place, __: Random) -> None:
    del place[0][place[1]]


def _renamed(_: Any, place: Place, chance: Random) -> None:
    value = place[0].pop(place[1])
    if isinstance(place[0], dict):
        word = str(place[1])
        at = chance.randrange(len(word) + 1)
        place[0][chance.choice((chance.choice(_NAMES), word[:at] + word[at + 1 :], word.upper(), f"{word}.{word}"))] = (
            value
        )


def _other_type(_: Any, place: Place, chance: Random) -> None:
    value = place[0][place[1]]
    place[0][place[1]] = chance.choice(
        (str(value), [value], {"x": value}, [value, value], json.dumps(value), len(str(value)))
    )


def _scaled(_: Any, place: Place, chance: Random) -> None:
    value = place[0][place[1]]
    if isinstance(value, int | float) and not isinstance(value, bool):
        place[0][place[1]] = value * chance.choice((-1, 0, 10, 10**3, 10**6, 10**12, 10**300, 0.1, 1e-9))
    else:
        place[0][place[1]] = _odd(chance)


def _added(document: Any, place: Place, chance: Random) -> None:
    table = place[0] if isinstance(place[0], dict) else document
    if isinstance(table, dict):
        table[chance.choice(_NAMES)] = _odd(chance)


def _moved(_: Any, place: Place, chance: Random) -> None:
    others = list(_places(place[0]))
    inside, key = chance.choice(others)
    place[0][place[1]] = json.loads(json.dumps(inside[key], default=str))


_WRONGS: tuple[Callable[[Any, Place, Random], None], ...] = (
    _replaced, _replaced, _replaced, _gone, _renamed, _other_type, _scaled, _added, _moved,
)  # fmt: skip


# --- specs -----------------------------------------------------------------------------------------------------------


def toml(document: dict[str, Any]) -> str:
    """Returns the content as TOML, with every value on one line."""
    return "".join(f"{_name(key)} = {_value(value)}\n" for key, value in document.items())


def _name(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)


def _value(value: Any) -> str:
    match value:
        case None:
            return "1979-05-27"
        case dict():
            return "{" + ", ".join(f"{_name(key)} = {_value(inner)}" for key, inner in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_value, value)) + "]"
        case float() if not math.isfinite(value):
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def torn(content: bytes, chance: Random) -> bytes:
    """Returns the bytes of a file, damaged in one of several ways."""
    at, size = chance.randrange(len(content) + 1), chance.choice((1, 3, 40, 2000))
    return chance.choice((
        content[:at],
        content[at:],
        content[:at] + chance.randbytes(size) + content[at + size :],
        content[:at] + chance.randbytes(size) + content[at:],
        content[:at] + bytes(size) + content[at + size :],
        content[:at] + content[at + size :],
        content + content,
    ))  # fmt: skip


def wrong_spec(document: dict[str, Any], text: bytes, chance: Random) -> bytes:
    """Returns a broken copy of a spec. The spec is given both parsed and as text."""
    return (
        torn(text, chance) if chance.random() < 0.15 else toml(mutate(document, chance)).encode(errors="surrogatepass")
    )


# --- stores ----------------------------------------------------------------------------------------------------------


def wrong_store(folder: Path, chance: Random) -> str:
    """Damages the store in `folder`. Returns how."""
    name, how = chance.choice(_STORES)
    how(folder / FILE_NAME, chance)
    return name


def _torn_file(file: Path, chance: Random) -> None:
    file.write_bytes(torn(file.read_bytes(), chance))


def _random_bytes(file: Path, chance: Random) -> None:
    """Overwrites one place of the file, sometimes in the first page."""
    content = bytearray(file.read_bytes())
    size = min(chance.choice((20, 2000)), len(content))
    at = chance.choice((0, 100, chance.randrange(len(content) - size + 1)))
    content[at : at + size] = chance.randbytes(size)
    file.write_bytes(content)


def _pages_gone(file: Path, chance: Random) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(chance.choice((1, 3))):
        page = chance.randrange(max(1, len(content) // 4096))
        content[page * 4096 : page * 4096 + 4096] = chance.choice((bytes(4096), chance.randbytes(4096)))
    file.write_bytes(content)


def _json_wrong(file: Path, chance: Random) -> None:
    """Changes one value of a JSON column. Usually the JSON stays valid and a value in it changes. Otherwise the text is
    damaged."""
    column = chance.choice(("experiment", "levels", "config", "measurement", "measurement"))
    table = "experiment" if column == "experiment" else "run"
    with _unlocked(file) as connection:
        ids = connection.execute(f"SELECT rowid, {column} FROM {table} WHERE {column} NOT NULL").fetchall()
        number, text = chance.choice(ids)
        broken = torn(text.encode(), chance).decode(errors="replace")
        wrong = broken if chance.random() < 0.2 else json.dumps(mutate(json.loads(text), chance))
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", [wrong, number])


def _all_json_wrong(file: Path, chance: Random) -> None:
    """Makes the same change in every run, so that more than one run is lost."""
    column = chance.choice(("levels", "config", "measurement", "measurement"))
    seed = chance.random()
    with _unlocked(file) as connection:
        for number, text in connection.execute(f"SELECT rowid, {column} FROM run").fetchall():
            wrong = json.dumps(mutate(json.loads(text), Random(seed)))
            connection.execute(f"UPDATE run SET {column} = ? WHERE rowid = ?", [wrong, number])


def _column_wrong(file: Path, chance: Random) -> None:
    names = ("cell_id", "repetition", "attempt", "sequence", "block", "seed", "status", "reason", "started_at",
    "finished_at",
             "wall_s", "elapsed_s", "levels", "measurement")  # fmt: skip
    value = chance.choice(
        [odd for odd in ODD if isinstance(odd, str | float) or (isinstance(odd, int) and abs(odd) < 2**63)]
    )
    with _unlocked(file) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        where = chance.choice(("", " WHERE rowid = 1"))
        connection.execute(f"UPDATE OR IGNORE run SET {chance.choice(names)} = ?{where}", [value])


def _schema_wrong(file: Path, chance: Random) -> None:
    statements = (
        "DELETE FROM experiment", "DROP TABLE run", "DROP TABLE experiment", "DELETE FROM run", "PRAGMA "
        "user_version = 99",
        "PRAGMA user_version = 0", "PRAGMA application_id = 7", "ALTER TABLE run RENAME COLUMN levels TO level",
        "CREATE TABLE other (x)", "UPDATE experiment SET spec_text = 'x', experiment = '{}'",
        "UPDATE experiment SET spec_text = cast(x'ff00' AS TEXT), experiment = cast(x'ff' AS TEXT)",
        "UPDATE run SET reason = cast(x'fffe' AS TEXT)",
    )  # fmt: skip
    with _unlocked(file) as connection:
        connection.execute(chance.choice(statements))


def _other_thing(file: Path, chance: Random) -> None:
    """Replaces the store by a file that is not a store."""
    file.unlink()
    kind = chance.choice(("loop", "folder", "text", "empty", "dangling", "zero"))
    match kind:
        case "loop":
            file.symlink_to(file.name)
        case "folder":
            file.mkdir()
        case "text":
            file.write_text("this is no store\n" * 300)
        case "empty":
            file.touch()
        case "dangling":
            file.symlink_to("nothing-here")
        case "zero":
            file.symlink_to("/dev/zero")


class _unlocked:  # noqa: N801 - used as a function
    """Opens the store without its protection against changes. A change that the store still refuses is dropped."""

    def __init__(self, file: Path) -> None:
        self._connection = sqlite3.connect(file, isolation_level=None)

    def __enter__(self) -> sqlite3.Connection:
        for (name,) in self._connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            self._connection.execute(f"DROP TRIGGER {name}")
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self._connection.close()
        return kind is not None and issubclass(kind, sqlite3.Error)


_STORES: tuple[tuple[str, Callable[[Path, Random], None]], ...] = (
    ("torn", _torn_file), ("random bytes", _random_bytes), ("pages gone", _pages_gone), ("json", _json_wrong),
    ("json", _json_wrong), ("json", _json_wrong), ("json of all", _all_json_wrong), ("column", _column_wrong),
    ("schema", _schema_wrong), ("other thing", _other_thing),
)  # fmt: skip


def fresh_copy(store: Path, place: Path) -> None:
    """Replaces `place` by a copy of the results folder `store`."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(store, place)
