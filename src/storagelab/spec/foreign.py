"""Refuses content that no spec may have under any key: too many entries, passwords, values of types that no key takes,
and control characters that a terminal or a chart can't show."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from storagelab.errors import SpecError, code_point_of_odd
from storagelab.spec.keys import Parts, Tables, dotted

MOST_ENTRIES = 1024
"""The largest number of entries in a table or list, such as levels, volumes or exclusions."""
_DEEPEST = 12
_MOST_DOTS = 2 * MOST_ENTRIES
"""The largest number of dots in a line. TOML's parser takes quadratic time for a key with many dots. A list of at most
MOST_ENTRIES numbers has fewer dots."""
_URL_WITH_PASSWORD = re.compile(r"://[^\s/@:\[]*:(?:[^\s/@]*|(?!\d*[/?,])[^\s@]*)@")
"""Matches scheme://user:password@host. If "@" follows a port later in the text, as in some user names, the port is not
taken for a password."""
_PASSWORD_WORD = re.compile(r"\b(?:ssl)?password\s*=\s*\S", re.IGNORECASE)


def refuse_long_keys(text: str) -> None:
    """Refuses lines with too many dots, before the text is parsed as TOML. Raises SpecError that names the line."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.count(".") > _MOST_DOTS:
            raise _too_deep(f"line {number}")


def _too_deep(key: str) -> SpecError:
    return SpecError("is nested too deeply", key=key, hint="A spec has only tables in tables.")


def refuse_foreign(raw: Tables, text: str) -> None:
    """Refuses everything in `raw` (parsed from `text`) that no spec may contain. Raises SpecError that names the
    key.
    """
    _refuse_too_much(raw, ())
    _refuse_passwords(raw, text)
    for parts, value in _leaves(raw, ()):
        # Control characters are refused. Only the question may have several lines.
        odd = next((found for part in parts if isinstance(part, str) and (found := code_point_of_odd(part))), "")
        where = "its key" if odd else ""
        if isinstance(value, str) and not odd:
            odd = code_point_of_odd(value, lines=parts == ("question",))
        if odd:
            hint = "Remove it: it can't be displayed, or it changes the text around it."
            raise SpecError(f"{where or 'it'} contains the control character {odd}", key=dotted(parts), hint=hint)
        _refuse_foreign_value(parts, value)


def refuse_odd_values(raw: Tables) -> None:
    """Refuses a stored spec that has too many entries, or values of types that no key takes. Raises SpecError that
    names the key.

    Control characters are allowed, because earlier versions stored them, and all output escapes them.
    """
    _refuse_too_much(raw, ())
    for parts, value in _leaves(raw, ()):
        _refuse_foreign_value(parts, value)


def _refuse_too_much(value: object, parts: Parts) -> None:
    if not isinstance(value, dict | list):
        return
    if len(parts) > _DEEPEST:
        raise _too_deep(dotted(parts[:2]))
    if len(value) > MOST_ENTRIES:
        problem = f"has {len(value):,} entries; at most {MOST_ENTRIES:,} are allowed"
        raise SpecError(problem, key=dotted(parts), hint="Split the experiment into several specs.")
    for place, inside in value.items() if isinstance(value, dict) else enumerate(value):
        _refuse_too_much(inside, (*parts, place))


def _refuse_passwords(raw: Tables, text: str) -> None:
    """Refuses a password in values, names or comments. The message says where the password is, but does not show it."""
    way_out = (
        "A spec is stored with its results, so it must hold no password. Use dsn_env (names the variable that holds\n"
        "  the DSN), ~/.pgpass, or the variables PGPASSWORD (PostgreSQL) and MYSQL_PWD (MariaDB, MySQL)."
    )
    for parts, value in _leaves(raw, ()):
        for depth, part in enumerate(parts):
            if isinstance(part, str) and _URL_WITH_PASSWORD.search(part):
                raise SpecError("a key here holds a password", key=dotted(parts[:depth]), hint=way_out)
        if isinstance(value, str) and _holds_password(value):
            raise SpecError("holds a password", key=dotted(parts), hint=way_out)
    for number, line in enumerate(text.splitlines(), start=1):
        if _holds_password(line):
            raise SpecError("holds a password", key=f"line {number}", hint=way_out)


def _holds_password(text: str) -> bool:
    return bool(_URL_WITH_PASSWORD.search(text) or _PASSWORD_WORD.search(text))


def _refuse_foreign_value(parts: Parts, value: object) -> None:
    """Refuses values that are valid TOML but that no key takes: dates, infinite numbers, and numbers beyond 64 bits."""
    match value:
        case bool() | str() | dict() | list():
            return
        case int() if -(2**63) <= value < 2**63:
            return
        case float() if math.isfinite(value):
            return
        case int() | float():
            problem = "is a number out of range"
            hint = "Numbers must be finite, such as 120, and whole numbers must fit in 64 bits."
        case _:
            problem, hint = "is a date or a time", "No key takes one: if it is text, put it in quotes."
    raise SpecError(problem, key=dotted(parts), hint=hint)


def _leaves(value: object, parts: Parts) -> Iterator[tuple[Parts, object]]:
    """Yields every value that is not a table or a list, with its place. Also yields every empty table and every empty
    list.
    """
    if isinstance(value, dict) and value:
        for name, inside in value.items():
            yield from _leaves(inside, (*parts, name))
    elif isinstance(value, list) and value:
        for position, inside in enumerate(value):
            yield from _leaves(inside, (*parts, position))
    else:
        yield parts, value
