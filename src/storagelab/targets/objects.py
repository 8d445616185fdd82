"""Placed objects on every engine: refuses names that match nothing, and checks where files lie and which were replaced."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from storagelab.errors import DataRefused
from storagelab.model.config import Config
from storagelab.model.measurement import REWRITTEN, Check
from storagelab.model.objects import KEY, Object


def refuse_misfits(config: Config, objects: Iterable[Object]) -> None:
    """Raises DataRefused if the layout names objects that are not there, or wants one on two volumes."""
    problem = config.placement.problem(list(objects))
    if problem is not None:
        raise DataRefused(f"{KEY}: {problem.problem}\n  {problem.hint}")


def check_files(files: Mapping[str, tuple[Path, Path]]) -> Check:
    """One check over all placed objects, each with its file and the folder that is to hold it: the file system must have each
    file below its folder. Unknown if this user may not look there.
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
    """A check if objects have other files after a run than before it, or are gone. A rewritten one is no fault of the run,
    since its place after it is checked as well; but where one of the `placed` objects lay that is gone can't be read any more.
    """
    gone = [name for name in before if name not in after]
    texts = [f"{name} was dropped" for name in gone]
    texts += [f"{name} was rewritten" for name, file in before.items() if after.get(name, file) != file]
    if texts:
        ok = None if any(name in placed for name in gone) else True
        got = ", ".join(texts)
        yield Check(name=REWRITTEN, asked="the files of its beginning", got=got, ok=ok, read_from=read_from)
