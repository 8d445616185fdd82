"""Formats factors, levels and cells as plain text. The functions are pure.

The text for a known path of a spec is a plain name, such as "data files" for `layout.data_files`. The text for any
other path is its last part, so that each key of the spec can be a factor. A name that the user chose is shown
unchanged, with its dots.

If a cell has several factors, its text has the short forms of its levels: "4 files, basic, log on b". `legend` explains
these factors once. If the spec has short names ([labels]), they are used in all texts for cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

from storagelab.model.measurement import Run
from storagelab.model.objects import KEY
from storagelab.model.plan import Factor
from storagelab.model.values import JsonValue
from storagelab.spec.keys import split_path
from storagelab.spec.units import without_unit

DATA_FILES = "layout.data_files"
_OBJECTS = f"{KEY}."
_FACTOR_NAMES = {
    DATA_FILES: "data files",
    "layout.log": "log volume",
    "layout.data": "data volumes",
    "workload.kind": "workload",
    "workload.connections": "connections",
    "workload.rows_per_connection": "rows per connection",
    "workload.rows_per_transaction": "rows per transaction",
    "between_runs.checkpoint": "checkpoint before each run",
    "between_runs.drop_page_cache": "page cache dropped before each run",
    "between_runs.pause_s": "pause before each run in s",
    "between_runs.data": "data before each run",
    "between_runs.format_drives": "drives formatted before each run",
    "between_runs.move_files": "files moved between runs",
    "server.cores": "cores",
    "server.pfs_latch": "latch of PFS pages",
    "server.pick_file": "choice of the next file",
    "measure.waits": "waits sampled",
    "measure.sample_hz": "samples per second",
    "target.engine": "engine",
    "target.bin_dir": "server",
}
_OF_HARDWARE = {"raid": "RAID level", "lost": "lost drives"}
_COUNTED = (  # factors whose levels have texts such as "4 data files"
    "server.cores", DATA_FILES, "workload.connections", "workload.rows_per_connection", "workload.rows_per_transaction",
)  # fmt: skip
_SHORT = {
    DATA_FILES: "files", "layout.log": "log", "layout.data": "data", "server.pfs_latch": "PFS latch",
    "server.pick_file": "file choice", "between_runs.format_drives": "formatting before each run",
}  # fmt: skip
ALONE = ("layout.log", "layout.data")
"""The factors whose levels are volumes. The text of such a level is "log on b"."""
_CODE = 4
"""A level with at most this many characters is unclear without its factor. A level with exactly this many letters
counts as a word and is clear."""
_STORAGE = ("layout.", "drives.", "volumes.")
Labels = Mapping[str, str]
"""Maps a factor's name to its short name in the spec."""
NO_LABELS: Labels = {}
_HOSTS_NAMED = 4


def factor_text(name: str) -> str:
    """A factor's plain name: "data files" for "layout.data_files", and "X" for "target.settings.X"."""
    if name in _FACTOR_NAMES:
        return _FACTOR_NAMES[name]
    try:
        split_path(without_unit(name))
    except LookupError:
        return name
    parts = name.split(".")
    if name.startswith("target.settings."):
        return ".".join(parts[2:])
    if name.startswith(_OBJECTS):
        return f"volume of {name.removeprefix(_OBJECTS)}"
    if len(parts) == 3 and parts[0] in ("drives", "volumes"):
        return f"{_OF_HARDWARE.get(parts[2]) or parts[2].replace('_', ' ')} of {parts[0].removesuffix('s')} {parts[1]}"
    return parts[-1].replace("_", " ")


def title_of(factor: Factor) -> str:
    """A factor as a heading: the spec's own short name or, if there is none, its plain name."""
    return factor.labels.get(factor.name) or factor_text(factor.name)


def factor_labels(factors: Iterable[Factor]) -> dict[str, str]:
    """Maps each factor's name in a spec to its plain name."""
    return {factor.name: factor_text(factor.name) for factor in factors}


def is_counted(name: str) -> bool:
    """Whether the factor's levels have texts such as "4 data files"."""
    return name in _COUNTED


def factor_noun(name: str) -> str:
    """A factor as a noun: "number of data files", "format of drive ssd"."""
    return f"number of {factor_text(name)}" if name in _COUNTED else factor_text(name)


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def value_text(value: JsonValue) -> str:
    """The text of a level's value: "on" or "off" for a boolean, "a + b" for a list, "none" for an empty list, and
    "1,000" for an integer.
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return " + ".join(value_text(item) for item in value) or "none"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def _quoted(value: JsonValue) -> str:
    text = value_text(value)
    return f'"{text}"' if isinstance(value, str) and ("," in text or not text or text != text.strip()) else text


def level_text(levels: Mapping[str, JsonValue]) -> str:
    """All levels of a cell, each with its factor: "data files = 4, log volume = b". It is "" if the cell has no
    factors."""
    return ", ".join(f"{factor_text(name)} = {_quoted(value)}" for name, value in levels.items())


def phrase(factor: str, values: Sequence[JsonValue]) -> str:
    """One factor at one or several levels, as a noun: "4 and 8 data files", "log on b", "wal_compression = on"."""
    text = listed([_quoted(value) for value in values])
    if factor in _COUNTED:
        many = factor_text(factor)
        return f"{text} {one_of(many) if list(values) == [1] else many}"
    if factor in ALONE:
        return f"{_SHORT[factor]} on {text}"
    if factor.startswith(_OBJECTS):
        return f"{factor.removeprefix(_OBJECTS)} on {text}"
    if factor == "workload.kind":
        return text
    return f"{factor_text(factor)} = {text}"


def level_alone(factor: str, value: JsonValue) -> str:
    """A level for a sentence that has already named its factor: "improved-write", "4 data files", "log on b"."""
    return phrase(factor, [value]) if factor in _COUNTED or factor in ALONE else _quoted(value)


def listed(items: Sequence[str]) -> str:
    """The items as a list in a sentence: "1", "1 and 2", "1, 2 and 4"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


def labels_of(factors: Iterable[Factor]) -> dict[str, str]:
    """The short names that the spec gives to factors."""
    return {factor.name: factor.labels[factor.name] for factor in factors if factor.name in factor.labels}


def short_factor(name: str, labels: Labels = NO_LABELS) -> str:
    """The factor's short name in the spec. If there is none, a short form of its plain name: "files", "format"."""
    if name in labels:
        return labels[name]
    if name in _SHORT:
        return _SHORT[name]
    text = factor_text(name).partition(" of drive ")[0].partition(" of volume ")[0]
    return f"{text.removesuffix(' bytes')} size" if text.endswith(" bytes") else text


def one_of(things: str) -> str:
    """The singular of a plural: "row per transaction" for "rows per transaction"."""
    head, per, rest = things.partition(" per ")
    return f"{head.removesuffix('s')}{per}{rest}"


def says_enough(level: str) -> bool:
    """Whether a level is clear without the name of its factor."""
    return len(level) > _CODE or (len(level) == _CODE and level.isalpha())


def in_reading_order(names: Iterable[str]) -> list[str]:
    """The names of factors in the order of texts. Factors whose levels are counts come first, as in "4 files,
    basic"."""
    return sorted(names, key=lambda name: _COUNTED.index(name) if name in _COUNTED else len(_COUNTED))


def cell_text(levels: Mapping[str, JsonValue], labels: Labels = NO_LABELS) -> str:
    """The text of a cell. With several factors, it has the levels' short forms: "4 files, basic, log on b, X on". With
    one factor, it is "4 data files"; without factors, "the only layout". `labels` has the spec's own short names.
    """
    if not levels:
        return "the only layout"
    if len(levels) < 2 and not levels.keys() & labels.keys():
        return listed([phrase(name, [value]) for name, value in levels.items()])
    return short_text(levels, labels)


def short_text(levels: Mapping[str, JsonValue], labels: Labels = NO_LABELS) -> str:
    """The levels of a cell, or a single level, in their short forms: "4 files, basic"."""
    short = [short_factor(name, labels) for name in levels]
    twice = {name for name in levels if name not in labels and short.count(short_factor(name)) > 1}
    return ", ".join(level_in_short(name, levels[name], labels, twice) for name in in_reading_order(levels))


def level_in_short(name: str, value: JsonValue, labels: Labels = NO_LABELS, twice: Iterable[str] = ()) -> str:
    """The short form of a level, which is clear without a heading: "4 files", "basic", "log on b". `twice` has the
    factors whose short names are also the short names of other factors.
    """
    factor, text = factor_text(name) if name in twice else short_factor(name, labels), value_text(value)
    if (name in labels and is_number(value)) or name in _COUNTED:
        return f"{text} {one_of(factor) if value == 1 else factor}"
    if name in ALONE:
        return f"{factor} on {text}"
    alone = name == "workload.kind" or (isinstance(value, str) and says_enough(text) and name not in twice)
    return text if alone else f"{factor} {text}"


def cell_name(cell_id: str, levels: Mapping[str, JsonValue], labels: Labels = NO_LABELS) -> str:
    """A cell for use in a sentence. With several factors, its text contains its id, as in the table of cells: "c29 (4
    files, basic, log on b)". With one factor, it is "4 data files".
    """
    text = cell_text(levels, labels)
    return f"{cell_id} ({text})" if len(levels) > 1 else text


def cell_entry(cell_id: object, text: object) -> str:
    """A cell for a column of cells in a table: "c07: 4 data files with log on b"."""
    return f"{cell_id}: {text}"


def group_text(cells: Sequence[Mapping[str, JsonValue]], factors: Sequence[Factor], shown: int = 3) -> str:
    """A short text for several cells.

    If the cells are all combinations of some levels, each factor is named once: "4 and 8 data files, log on b". A
    factor with all of its levels is named with "any". Otherwise, the text lists the first `shown` cells and the number
    of the others.
    """
    labels = labels_of(factors)
    if len(cells) == 1:
        return cell_text(cells[0], labels)
    subsets = _product(cells)
    if subsets is not None:
        known = {factor.name: len(factor.levels) for factor in factors}
        names = [name for name in in_reading_order(subsets) if len(subsets[name]) != known.get(name)]
        free = [f"any {labels.get(name) or factor_text(name)}" for name in subsets if name not in names]
        if names:
            return ", ".join([*(_levels_in_short(name, subsets[name], labels) for name in names), *free])
    texts = [cell_text(cell, labels) for cell in cells]
    if len(texts) > shown:
        return "; ".join(texts[:shown]) + f"; and {len(texts) - shown} more"
    return listed(texts) if all(len(cell) < 2 for cell in cells) else "; ".join(texts[:-1]) + f"; and {texts[-1]}"


def _levels_in_short(name: str, values: Sequence[JsonValue], labels: Labels) -> str:
    if len(values) == 1:
        return level_in_short(name, values[0], labels)
    return f"{labels[name]} {listed([_quoted(value) for value in values])}" if name in labels else phrase(name, values)


def _product(cells: Sequence[Mapping[str, JsonValue]]) -> dict[str, list[JsonValue]] | None:
    """The levels of each factor, if `cells` are exactly all combinations of these levels; otherwise None."""
    subsets: dict[str, list[JsonValue]] = {}
    for cell in cells:
        for name, value in cell.items():
            if value not in subsets.setdefault(name, []):
                subsets[name].append(value)
    size = 1
    for values in subsets.values():
        size *= len(values)
    return subsets if size == len(cells) and subsets else None


def noun(factors: Sequence[Factor], number: int = 1) -> str:
    """The noun for cells: "layout(s)" if only storage varies, otherwise "combination(s)"."""
    paths = [path for factor in factors for level in factor.levels for path in level.sets]
    word = "layout" if all(path.startswith(_STORAGE) for path in paths) else "combination"
    return word if number == 1 else f"{word}s"


def repetition_text(repetition: int) -> str:
    """The text for a repetition: "repetition 3". For burn-in runs, whose repetitions are 0, -1, -2 and so on, it is
    "burn-in run 1", "burn-in run 2" and so on."""
    return f"repetition {repetition}" if repetition > 0 else f"burn-in run {1 - repetition}"


def unmet_text(run: Run) -> str:
    """The checks that a run failed, each with the requested and the actual value."""
    checks = run.measurement.unverified if run.measurement is not None else ()
    return "; ".join(f"{check.name}: asked {check.asked}, got {check.got or 'no answer'}" for check in checks)


def hosts_text(names: Sequence[str]) -> str:
    """The names of the first few hosts: "db1, db2, db3, db4 and 2 more"."""
    shown = [name or "a host without a name" for name in names]
    left = len(shown) - _HOSTS_NAMED
    return listed([*shown[:_HOSTS_NAMED], f"{left} more"]) if left > 0 else listed(shown)


# --- texts of servers and machines, adapted for use in a sentence -----------------------------------------------------


def without_stop(text: str) -> str:
    """A server's message without its final full stop."""
    return text.strip().rstrip(".")


def in_brackets(*texts: str) -> str:
    """`texts` in brackets, after a space. Empty texts are left out; "" if all are empty."""
    known = ", ".join(text for text in texts if text)
    return f" ({known})" if known else ""


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
