"""Placed objects on every engine: where each will lie, which names match nothing, where files lie after a run, and
which were replaced meanwhile.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from storagelab.errors import DataRefused, PreflightError
from storagelab.model.config import Config
from storagelab.model.measurement import REWRITTEN, Check
from storagelab.model.objects import KEY, TEMPORARY, WORDS, Object
from storagelab.servers.interfaces import tables_of
from storagelab.volumes.folders import Site
from storagelab.words.numbers import bytes_

_WORTH_TELLING_BYTES = 2**20


def refuse_misfits(config: Config, objects: Iterable[Object]) -> None:
    """Raises DataRefused if the layout names objects that are not there, or wants one on two volumes."""
    problem = config.placement.problem(list(objects))
    if problem is not None:
        raise DataRefused(f"{KEY}: {problem.problem}\n  {problem.hint}")


def check_files(files: Mapping[str, tuple[Path, Path]]) -> Check:
    """One check over all placed objects, each with its file and the folder that is to hold it: the file system must
    have each file below its folder. Unknown if this user may not look there.
    """
    asked = ", ".join(sorted({str(folder) for _, folder in files.values()}))
    wrong, unseen = list[str](), list[str]()
    for name, (file, folder) in files.items():
        place = Path(os.path.realpath(file))
        try:
            place.stat()
        except FileNotFoundError:
            wrong.append(f"{name}: no file {place}")
        except OSError as error:
            unseen.append(f"{name}: {place} can't be seen ({error.strerror})")
        else:
            if not place.is_relative_to(os.path.realpath(folder)):
                wrong.append(f"{name}: {place.parent}")
    got = (wrong or unseen or [asked])[0]
    ok = False if wrong else None if unseen else True
    return Check(name="files of the placed objects", asked=asked, got=got, ok=ok, read_from="the file system")


def changed_files(
    before: Mapping[str, str], after: Mapping[str, str], placed: Collection[str], read_from: str
) -> Iterator[Check]:
    """A check if objects have other files after a run than before it, or are gone. A rewritten one is no fault of the
    run, as its place is checked then as well. Where one of the `placed` objects lay that is gone can't be read any
    more.
    """
    gone = [name for name in before if name not in after]
    texts = [f"{name} was dropped" for name in gone]
    texts += [f"{name} was rewritten" for name, file in before.items() if after.get(name, file) != file]
    if texts:
        ok = None if any(name in placed for name in gone) else True
        got = ", ".join(texts)
        yield Check(name=REWRITTEN, asked="the files of its beginning", got=got, ok=ok, read_from=read_from)


# --- before a run ----------------------------------------------------------------------------------------------------


def lying(config: Config, known: Sequence[Object]) -> list[tuple[Object, str | None]]:
    """The volume of each object that a load is known to make; None if the server chooses. Partitions that are spread
    come in the order of their data files, the same for a table as for each of its indexes.
    """
    numbers = Counter[tuple[str, str]]()
    placed = list[tuple[Object, str | None]]()
    for one in known:
        whole = (one.kind, one.names[-1])
        own = config.placement.volume_of(one)
        place = numbers[whole] % config.layout.data_files if one.spread else 0
        placed.append((one, own or config.volume_of_data_file(place)))
        numbers[whole] += 1
    return placed


def share_on(config: Config, known: Sequence[Object] | None, volume: str) -> float:
    """The share of a load's data on a volume: of the objects that it is known to make, or else of its data files."""
    files = config.layout.data_files
    total = sum(one.bytes or 0 for one in known or ())
    if known is None or not total:
        return sum(config.volume_of_data_file(number) == volume for number in range(files)) / files
    return sum(one.bytes or 0 for one, there in lying(config, known) if there == volume) / total


def planned(configs: Iterable[Config], site: Site) -> tuple[str, ...]:
    """Which object lies on which volume in these cells, with its size, if the layout of any cell places objects. Raises
    PreflightError for names that match nothing.
    """
    cells = [config for config in configs if config.generated and config.kind.provenance == "measured"]
    if not any(config.placed for config in cells):
        return ()
    volumes, sizes = defaultdict[str, dict[str, None]](dict), defaultdict[str, float](float)
    for config in cells:
        known = tables_of(config)(config, site.prefix, None).known_objects
        problem = None if known is None else config.placement.problem(known)
        if problem is not None:
            raise PreflightError(problem.problem, key=KEY, hint=problem.hint)
        found = lying(config, known) if known is not None else _named(config)
        here = defaultdict[str, float](float)
        for one, volume in found:
            volumes[_title(one)][volume or "the server's own folder"] = None
            here[_title(one)] += one.bytes or 0
        for title, size in here.items():
            sizes[title] = max(sizes[title], size)
        if TEMPORARY in config.placed:
            volumes["temporary files"][config.placed[TEMPORARY]] = None
    together = defaultdict[tuple[str, ...], list[str]](list)
    for title, there in volumes.items():
        together[tuple(there)].append(f"{title}{_size(sizes[title])}")
    return tuple(f"{', '.join(titles)}: on {' or '.join(there)}" for there, titles in together.items())


def _named(config: Config) -> Iterator[tuple[Object, str]]:
    """What the layout names, for tables that are not known before they are made."""
    for what, volume in config.placed.items():
        if what != TEMPORARY:
            yield Object((WORDS.get(what, what),), "table"), volume


def _title(one: Object) -> str:
    return one.names[-1]


def _size(size_bytes: float) -> str:
    return f" (about {bytes_(round(size_bytes))})" if size_bytes >= _WORTH_TELLING_BYTES else ""
