"""Reads an Experiment from one spec, or from two specs that are to be compared.

Every mistake in a spec is refused. The error names the file, the key and a solution. `matrix` later makes the
combinations of levels, and checks the rules between keys in each combination."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from storagelab.errors import SpecError, choices, nearest, noting, refuse, shown
from storagelab.model.engines import engine_of
from storagelab.model.plan import Experiment, Factor
from storagelab.model.values import JsonValue, share_of
from storagelab.model.volume import PRICE
from storagelab.spec import given_files, keys, units
from storagelab.spec.factors import is_price, read_excludes, read_factors, with_labels
from storagelab.spec.foreign import refuse_foreign, refuse_long_keys

_READY_MADE = Path(__file__).parent.parent / "experiments"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VOLUME_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


def load(path: Path, second: Path | None = None) -> Experiment:
    """Returns the experiment that a spec file declares. With `second`, returns the experiment that compares the two
    specs. Raises only SpecError.
    """
    if second is not None:
        return against(path, second)
    try:
        os.path.abspath(path).encode()
    except UnicodeEncodeError:
        hint = "The spec is stored with its results under its name, as text: rename the folder or the file."
        raise SpecError("its path is not UTF-8", file=path, hint=hint) from None
    try:
        text = given_files.text_of(path)
    except FileNotFoundError:
        meant = nearest(path.stem, [file.stem for file in _READY_MADE.glob("*.toml")])
        hint = f"Is it the ready-made spec? Write it first: storagelab init {meant} > {meant}.toml"
        if meant is None:
            hint = "Check the name; `storagelab init` lists the ready-made specs, and writes them."
        raise SpecError("there is no such file", file=path, hint=hint) from None
    except IsADirectoryError:
        hint = f"Name a file in it: {path / 'my-experiment.toml'}"
        raise SpecError("is a folder, not a spec", file=path, hint=hint) from None
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text: byte {error.start + 1} can't be read"
        raise SpecError(problem, file=path, hint="TOML must be UTF-8: save the file as UTF-8.") from None
    except OSError as error:
        raise SpecError(f"can't be read: {error.strerror}", file=path, hint="Check its name and permissions.") from None
    except ValueError as error:
        hint = "Check its name: a spec is a small TOML file."
        raise SpecError(f"can't be read: {error}", file=path, hint=hint) from None
    return parse(text, str(path))


def parse(text: str, source: str) -> Experiment:
    """Returns the experiment that `text` declares. `source` is the file name for messages. Raises SpecError."""
    try:
        return _experiment(_read_toml(text), text, source)
    except SpecError as error:
        raise error.at(source) from None
    except RecursionError:
        raise SpecError("is nested too deeply", file=source, hint="A spec has only tables in tables.") from None


def differences(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    """Returns the differences between two specs as lines `key: old -> new`. `old` and `new` are the specs' `canonical`
    content.
    """
    return list(_differences(old, new))


def with_repetitions(experiment: Experiment, repetitions: int, why: str) -> Experiment:
    """Returns the same experiment with another number of repetitions. The result counts as another spec, so its hash
    differs.
    """
    canonical = {**experiment.canonical, "repetitions": repetitions}
    return experiment.model_copy(
        update={
            "repetitions": repetitions,
            "text": f"# {why}, with repetitions = {repetitions} in all:\n{experiment.text}",
            "sha256": _sha256(canonical),
            "canonical": canonical,
        }
    )


# ---------------------------------------------------------------------------------------------------------------------
# From text to checked content
# ---------------------------------------------------------------------------------------------------------------------


def _read_toml(text: str) -> dict[str, Any]:
    refuse_long_keys(text)
    try:
        return tomllib.loads(text)
    except ValueError as error:
        # The line is not quoted, because it may hold a password.
        hint = 'Put text in quotes ("..."), a list in [ ], and a table header [name] on a line of its own.'
        raise SpecError(f"is not valid TOML: {error}", hint=hint) from None


def _experiment(raw: dict[str, Any], text: str, source: str) -> Experiment:
    refuse_foreign(raw, text)
    errors: list[SpecError] = []
    for name, value in raw.items():
        with noting(errors):
            _check_top(name, value, raw)
    raw = {name: value for name, value in raw.items() if (name,) not in {(error.key,) for error in errors}}
    header, base, factors = Experiment(name="x"), dict[str, Any](), tuple[Factor, ...]()
    excludes: tuple[dict[str, JsonValue], ...] = ()
    with noting(errors):
        header = _header(raw, source)
    with noting(errors):
        base = _base(raw)
    refuse(errors)  # factors are checked against the base
    with noting(errors):
        factors = with_labels(read_factors(raw.get("factors", {}), base), raw.get("labels", {}))
    brought = {keys.split_path(path) for factor in factors for level in factor.levels for path in level.sets}
    refuse(errors)
    refuse([
        keys.error_for(problem, keys.Written, base) for problem in keys.problems(keys.Written, base)
        if not any(parts[: len(problem.parts)] == problem.parts for parts in brought)
    ])  # fmt: skip
    with noting(errors):
        _check_costly(header, factors)
    with noting(errors):
        excludes = read_excludes(raw.get("exclude", []), factors)
    refuse(errors)
    canonical = _canonical(raw)
    return header.model_copy(
        update={
            "source": source,
            "text": text,
            "sha256": _sha256(canonical),
            "canonical": canonical,
            "base": base,
            "factors": factors,
            "excludes": excludes,
        }
    )


def _check_top(name: str, value: object, raw: keys.Tables) -> None:
    if name == "fleet":  # version 0.2.0 was the last version with this table
        hint = "Run the spec on each host, then put the campaigns together: storagelab gather."
        raise SpecError("is a table of version 0.2.0 and earlier", key=name, hint=hint)
    if name not in keys.TOP_LEVEL:
        raise keys.unknown_key((name,), raw)
    if name in (*keys.TABLES, "factors") and not isinstance(value, dict):
        hint = f"Write [{name}] on a line of its own, and its keys below it."
        raise SpecError(f"must be a table, not {shown(value)}", key=name, hint=hint)


def _header(raw: keys.Tables, source: str) -> Experiment:
    given = {name: raw[name] for name in keys.HEADER if name in raw}
    margin = given.get("indifferent")
    if isinstance(margin, str) and not 0 < (share_of(margin) or 0) < 1:
        hint = 'Write it as a share of the time: indifferent = "3%"'
        raise SpecError(f"must be above 0 % and below 100 %, not {shown(margin)}", key="indifferent", hint=hint)
    header = keys.checked(Experiment, {"name": Path(source).stem, **given})
    if header.blocks > 1 and header.order != "randomised":
        raise SpecError(
            'needs order = "randomised"', key="blocks",
            hint="Blocks of one level come in random order, so that no level owes its times to when it ran.",
        )  # fmt: skip
    if header.repetitions % header.blocks:
        more = header.repetitions + header.blocks - header.repetitions % header.blocks
        raise SpecError(
            f"must divide repetitions = {header.repetitions}", key="blocks",
            hint=f"Each block has the same number of rounds: repetitions = {more} gives "
            f"{more // header.blocks} in each.",
        )  # fmt: skip
    refuse_odd_name(header.name, "" if "name" in given else ", taken from the file's name,")
    return header


def refuse_odd_name(name: str, whose: str = "") -> None:
    """Raises SpecError if an experiment can't have that name."""
    if _NAME.fullmatch(name) is None:
        raise SpecError(
            f"{shown(name)}{whose} can't be the name of a results folder",
            key="name",
            hint="Use lower-case letters, digits, and . _ - between them, at most 64: "
            f'name = "{name.lower() if _NAME.fullmatch(name.lower()) else "files-and-log-place"}"',
        )


def _base(raw: keys.Tables) -> dict[str, Any]:
    """Returns the tables that define a cell. Their keys are known, and their values have valid types. Keys may be
    missing, because a factor may supply them.
    """
    base = units.with_unit_read({name: raw[name] for name in keys.TABLES if name in raw})
    refuse([
        keys.error_for(problem, keys.Written, base)
        for problem in keys.problems(keys.Written, base) if problem.kind != "missing"
    ])  # fmt: skip
    refuse_odd_places(base)
    target = base.get("target", {})
    if "engine" not in target and (engine := engine_of(target.get("dsn", ""))) is not None:
        return {**base, "target": {"engine": engine, **target}}
    return base


def refuse_odd_places(base: keys.Tables) -> None:
    """Raises SpecError if volumes or drives can't have their names."""
    for table, what in (("volumes", "volume"), ("drives", "drive")):
        for name in base.get(table, ()):
            if _VOLUME_NAME.fullmatch(name) is None:
                hint = f"Use letters, digits, _ and -, at most 32: [{table}.ssd-1]"
                raise SpecError(f"can't name a {what}", key=keys.dotted((table, name)), hint=hint)


def _check_costly(header: Experiment, factors: tuple[Factor, ...]) -> None:
    names = [factor.name for factor in factors]
    for position, name in enumerate(header.costly):
        if name not in names:
            hint = choices(name, names, "The spec's factors")
            raise SpecError(f"no factor is named {shown(name)}", key=keys.dotted(("costly", position)), hint=hint)


# ---------------------------------------------------------------------------------------------------------------------
# The content by which two specs are compared
# ---------------------------------------------------------------------------------------------------------------------


def _canonical(raw: keys.Tables) -> dict[str, Any]:
    """Returns the content without comments and blanks, so that the order of keys does not matter. Only two orders are
    kept: cells are numbered in the order of the factors, and data files are placed in turn on the volumes in their
    order. Prices and keys for judging are left out.
    """
    raw = _without_prices(raw)
    given = {name: raw[name] for name in raw if name not in keys.JUDGEMENT}
    if "measure" in given:
        measure = {name: value for name, value in given["measure"].items() if name != "judge"}
        given = {**given, "measure": measure} if measure else {name: given[name] for name in given if name != "measure"}
    return {**given, "listed": {name: list(raw[name]) for name in ("factors", "volumes") if name in raw}}


def _without_prices(raw: keys.Tables) -> keys.Tables:
    """Returns the content without the prices of volumes, which may stand in the volumes' tables and in the levels of
    factors.
    """
    volumes = {
        name: {key: value for key, value in volume.items() if key != PRICE}
        for name, volume in raw.get("volumes", {}).items()
    }
    factors = {
        name: [
            {path: value for path, value in level.items() if not is_price(path)}
            if isinstance(level, Mapping)
            else level
            for level in levels
        ]
        for name, levels in raw.get("factors", {}).items()
    }
    return {**raw, **{name: table for name, table in (("volumes", volumes), ("factors", factors)) if name in raw}}


def _sha256(canonical: keys.Tables) -> str:
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


_NOT_SET = object()


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for parts, before, after in _values(old, new, ()):
        if _written(before) == _written(after):
            continue
        if parts[0] != "listed":
            # A DSN may have a password in any place, so no part of it is shown.
            change = "changed" if parts[-1] == "dsn" else f"{_written(before)} -> {_written(after)}"
            yield f"{keys.dotted(parts)}: {change}"
        elif isinstance(before, list) and isinstance(after, list) and sorted(before) == sorted(after):
            yield f"order of {parts[1]}: {', '.join(before)} -> {', '.join(after)}"  # additions are listed already


def _values(old: Any, new: Any, parts: keys.Parts) -> Iterator[tuple[keys.Parts, object, object]]:
    """Yields every place at which at least one of the two has a value that is not a table. Yields both values with the
    place.
    """
    if isinstance(old, Mapping) or isinstance(new, Mapping):
        one, other = (value if isinstance(value, Mapping) else {} for value in (old, new))
        for name in dict.fromkeys([*one, *other]):
            yield from _values(one.get(name, _NOT_SET), other.get(name, _NOT_SET), (*parts, name))
    elif (
        isinstance(old, list)
        and isinstance(new, list)
        and old
        and len(old) == len(new)
        and (all(isinstance(one, Mapping) for one in (*old, *new)))
    ):
        for position, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _values(before, after, (*parts, position))
    else:
        yield parts, old, new


def _written(value: object) -> str:
    return "(not set)" if value is _NOT_SET else json.dumps(value, ensure_ascii=False)


# --- two specs -> one experiment that runs their cells in random order: the specs are the two levels of one factor ----


SPEC_FACTOR = "spec"
_LONGEST_NAME = 64
_NAMED_TABLES = ("volumes", "drives")
_OF_THE_FIRST = ("name", "question", "order", *keys.JUDGEMENT)
"""Keys that may differ between the two specs. The experiment takes the values of the first spec."""


def against(first: Path, second: Path) -> Experiment:
    """Returns the experiment that compares two specs under equal conditions. Its runs are always in random order, even
    if the specs set another order. Raises SpecError if a spec is wrong, or if the two differ in keys that all cells of
    an experiment share.
    """
    one, other = load(first), load(second)
    if first.resolve().parent != second.resolve().parent:
        hint = f"Move it into {first.parent}: relative paths start at the folder of the specs."
        raise SpecError("is in another folder than the spec that it is compared with", file=str(second), hint=hint)
    written = [tomllib.loads(spec.text) for spec in (one, other)]
    _refuse_other_experiment(written[0], written[1], second)
    text = _text(one, other, [first.stem, second.stem], written)
    return parse(text, str(first.with_name(f"{first.stem} against {second.name}")))


def _refuse_other_experiment(first: keys.Tables, second: keys.Tables, file: Path) -> None:
    for name in (*keys.HEADER, "factors", "exclude"):
        if name not in _OF_THE_FIRST and first.get(name) != second.get(name):
            hint = "Write the same into both specs: only the tables of a cell may differ, such as [target] or [layout]."
            raise SpecError("differs from the spec that it is compared with", file=str(file), key=name, hint=hint)
    for table in _NAMED_TABLES:
        for name in sorted(first.get(table, {}).keys() ^ second.get(table, {}).keys()):
            hint = f"Declare the same {table} in both specs; layout says which of them a cell uses."
            raise SpecError("only one of the two specs has it", file=str(file), key=f"{table}.{name}", hint=hint)
    if SPEC_FACTOR in first.get("factors", {}):
        hint = "Give your factor another name."
        problem = "is reserved for the factor that stands for the two specs"
        raise SpecError(problem, file=str(file), key=f"factors.{SPEC_FACTOR}", hint=hint)


def _text(one: Experiment, other: Experiment, names: Sequence[str], written: Sequence[keys.Tables]) -> str:
    """Returns the experiment as the text of a spec. Keys that are the same in both specs stand in its tables. All other
    keys stand in one level for each spec.
    """
    first = written[0]
    cells = [dict(keys.leaves({table: spec[table] for table in keys.TABLES if table in spec})) for spec in written]
    same = {place: value for place, value in cells[0].items() if place in cells[1] and cells[1][place] == value}
    # An empty table sets no key, so it can't be part of a level.
    own = [
        {".".join(place): value for place, value in cell.items() if place not in same and value != {}} for cell in cells
    ]
    if not any(own):
        raise SpecError(
            "is equal to the other spec", file=other.source, hint="Change there the keys that you want to compare."
        )
    levels = [{"label": name, **sets} for name, sets in zip(names, own, strict=True)]
    header = {
        **{name: first[name] for name in keys.HEADER if name in first},
        "name": f"{one.name}-against-{other.name}"[:_LONGEST_NAME].rstrip("._-"),
        "order": "randomised",
    }
    of_the_first = {name: first[name] for name in ("labels", "exclude") if name in first}
    factors = {SPEC_FACTOR: levels, **first.get("factors", {})}
    return "\n".join([
        f"# {names[0]} against {names[1]}: what differs between the two is the factor {SPEC_FACTOR}.",
        *(keys.line((name,), value) for name, value in header.items()),
        *(keys.line(place, value) for place, value in (same | _declared(first, same)).items()),
        *(keys.line((name,), value) for name, value in of_the_first.items()),
        *(keys.line(("factors", name), value) for name, value in factors.items()),
        "",
    ])  # fmt: skip


def _declared(spec: keys.Tables, same: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], Any]:
    """Returns the volumes and drives that have the same name in both specs but share no key with the same value."""
    there = {place[:2] for place in same}
    names = ((table, name) for table in _NAMED_TABLES for name in spec.get(table, {}))
    return {place: {} for place in names if place not in there}
