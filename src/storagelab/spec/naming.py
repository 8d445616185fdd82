"""Finds the cell that a user names by its id or by its levels.

    c07                              the id that every table shows; c7 and c007 name the same cell
    data_files=4,driver=2.2.3        factors and levels: a factor by its path, the last part of its path, or its short
                                     name; a level in full; other factors may be left out if only one cell fits

An id is the cell's place in its spec, so it stays valid as long as the results exist. Cells of different specs are
matched by their levels."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from storagelab.errors import SpecError, shown
from storagelab.model.plan import Factor
from storagelab.model.values import JsonValue

_ID = re.compile(r"[cC]0*(\d+)")
_SHOWN = 6


class Named(Protocol):
    """A planned or a judged cell."""

    @property
    def cell_id(self) -> str: ...

    @property
    def levels(self) -> dict[str, JsonValue]: ...


def find_cell(asked: str, cells: Sequence[Named], labels: Mapping[str, str]) -> str:
    """Returns the id of the cell that `asked` names. `labels` maps factors to their names in words. Raises SpecError
    that lists the possible names.
    """
    if "=" not in asked:
        return _by_id(asked.strip(), cells)
    fitting = list(cells)
    for name, value in _parts(asked):
        factor = _factor(name, asked, cells, labels)
        known = list(dict.fromkeys(_text(cell.levels[factor]) for cell in cells if factor in cell.levels))
        levels = [level for level in known if _comparable(level) == _comparable(value)]
        if not levels:
            raise _error(f"{asked!r}: no level of {factor} is {value!r}", f"levels: {', '.join(known)}")
        fitting = [cell for cell in fitting if factor in cell.levels and _text(cell.levels[factor]) in levels]
    if len(fitting) == 1:
        return fitting[0].cell_id
    if fitting:
        raise _error(f"{asked!r} fits {len(fitting)} cells", f"name one of them: {_listed(fitting)}")
    raise _error(f"no cell has {asked!r}", f"cells: {_listed(cells)}")


def pairs_by(asked: str, cells: Sequence[Named], labels: Mapping[str, str]) -> tuple[str, list[tuple[str, str]]]:
    """Returns the factor that `asked` names, and the ids of each pair of cells that differ only in this factor. In each
    pair, the first cell has the level of `cells[0]`, and the second cell has another level. Raises SpecError if there
    is no such pair.
    """
    try:
        factor = _factor(asked, asked, cells, labels)
    except SpecError as error:
        raise SpecError(error.problem, key="--by", hint=error.hint) from None
    first, groups = cells[0].levels[factor], dict[str, list[Named]]()
    for cell in cells:
        groups.setdefault(
            _levels_text({name: level for name, level in cell.levels.items() if name != factor}), []
        ).append(cell)
    pairs = [
        (one.cell_id, other.cell_id)
        for group in groups.values() for one in group for other in group
        if one.levels[factor] == first != other.levels[factor]
    ]  # fmt: skip
    if not pairs:
        raise SpecError(f"no two cells differ in {factor} alone", key="--by", hint=f"cells: {_listed(cells)}")
    return factor, pairs


def _by_id(asked: str, cells: Sequence[Named]) -> str:
    for cell in cells:
        if asked == cell.cell_id or (_number(asked) is not None and _number(asked) == _number(cell.cell_id)):
            return cell.cell_id
    ids = ", ".join(cell.cell_id for cell in cells[:_SHOWN]) + (
        f" ... {cells[-1].cell_id}" if len(cells) > _SHOWN else ""
    )
    some = next((cell.levels for cell in cells if cell.levels), None)
    example = f'; or by levels: "{_levels_text(some)}"' if some else ""
    raise _error(f"there is no cell {asked!r}", f"cells: {ids}{example}")


def is_cell(asked: str) -> bool:
    """Whether the text has the form of a cell's name."""
    return "=" in asked or _number(asked) is not None


def _number(cell_id: str) -> int | None:
    found = _ID.fullmatch(cell_id)
    return int(found[1]) if found else None


def _parts(asked: str) -> list[tuple[str, str]]:
    """Splits the text into (factor, level) pairs. If text after a comma has no "=", it belongs to the level before the
    comma.
    """
    parts: list[str] = []
    for piece in asked.split(","):
        if "=" in piece or not parts:
            parts.append(piece)
        else:
            parts[-1] += f",{piece}"
    pairs = (part.partition("=") for part in parts)
    return [(name.strip(), value.strip().strip('"')) for name, _, value in pairs]


def _factor(name: str, asked: str, cells: Sequence[Named], labels: Mapping[str, str]) -> str:
    known = list(dict.fromkeys(factor for cell in cells for factor in cell.levels))
    for names_of in (lambda one: (one,), lambda one: (one.rsplit(".", 1)[-1], labels.get(one, one))):
        fitting = [one for one in known if _plain(name) in map(_plain, names_of(one))]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise _error(f"{asked!r}: {name!r} fits several factors", f"write one of: {', '.join(fitting)}")
    raise _error(f"{asked!r}: no factor is called {name!r}", f"factors: {', '.join(known) or 'none'}")


def _comparable(level: str) -> str | float:
    with contextlib.suppress(ValueError):
        return float(level.replace("_", "").replace(",", ""))
    return _plain(level)


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]+", "_", text.strip().lower())


def _text(value: JsonValue) -> str:
    """Returns a level as a user would type it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return "+".join(map(_text, value)) or "none"
    return value if isinstance(value, str) else shown(value)


def _levels_text(levels: Mapping[str, JsonValue]) -> str:
    return ",".join(f"{name.rsplit('.', 1)[-1]}={_text(value)}" for name, value in levels.items())


def _listed(cells: Sequence[Named]) -> str:
    some = "; ".join(f"{cell.cell_id} ({_levels_text(cell.levels)})" for cell in cells[:_SHOWN])
    return some + (f"; and {len(cells) - _SHOWN} more" if len(cells) > _SHOWN else "")


def _error(problem: str, hint: str) -> SpecError:
    return SpecError(problem, key="CELL", hint=hint)


# --- the factor on the axis of charts and trends, and the order of its levels ------

FILES_FACTOR = "layout.data_files"


def axis_factor(factors: Sequence[Factor]) -> Factor | None:
    """If the number of data files varies, returns that factor. Otherwise returns the numeric factor with the most
    levels, or None.
    """
    varied = [factor for factor in factors if len(factor.levels) > 1]
    files = [factor for factor in varied if sets_data_files(factor)]
    numeric = [factor for factor in varied if is_numeric(factor)]
    return next(iter(files), None) or max(numeric, key=lambda factor: len(factor.levels), default=None)


def sets_data_files(factor: Factor) -> bool:
    """Whether the factor sets the number of data files. Either its name is the path of this key, or each of its
    labelled levels sets the key.
    """
    return factor.name == FILES_FACTOR or all(FILES_FACTOR in level.sets for level in factor.levels)


def is_numeric(factor: Factor) -> bool:
    return all(isinstance(level.value, int | float) and not isinstance(level.value, bool) for level in factor.levels)


def in_order(factor: Factor) -> list[JsonValue]:
    """Returns the factor's levels. Numbers are sorted from small to large. Other levels keep the order of the spec."""
    values = [level.value for level in factor.levels]
    if not is_numeric(factor):
        return values
    return sorted(values, key=lambda value: value if isinstance(value, int | float) else math.nan)
