"""Opens files that others wrote: specs, profiles, captures, predictions, traces, scripts and dumps. Also finds the
files that a spec names.

It reads only regular files, because a device may never end, and a FIFO may have no writer. A lint
(`tests/test_tidy.py`) refuses any other way to open such a file.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shlex
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from storagelab.errors import PreflightError
from storagelab.model.config import Config
from storagelab.model.volume import BY_HAND

MOST_BYTES = 2**20
"""The largest size of a file that people write."""


@contextlib.contextmanager
def opened(path: Path, most_bytes: int | None = None) -> Iterator[BinaryIO]:
    """Opens a regular file of at most `most_bytes` for reading. Raises OSError; its `strerror` explains the problem."""
    # Without O_NONBLOCK, opening a FIFO would block.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        if most_bytes is not None and found.st_size > most_bytes:
            raise OSError(errno.EFBIG, f"is larger than {most_bytes // 2**20} MiB", str(path))
        yield file


def text_of(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """The text of a file, which must be UTF-8. Raises OSError as `opened`, and ValueError."""
    with opened(path, most_bytes) as file:
        return file.read(most_bytes).decode("utf-8-sig")


def json_of(path: Path, most_bytes: int) -> Any:
    """The content of a JSON file, without NaN and infinities. Raises OSError as `opened`, and ValueError."""
    try:
        return json.loads(text_of(path, most_bytes), parse_constant=_refuse)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def toml_of(text: str) -> dict[str, Any]:
    """Raises ValueError."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no figure")


def begin_of(path: Path, most_bytes: int, key: str) -> bytes:
    """The first bytes of a file that a spec's key names. Raises PreflightError."""
    try:
        with opened(path) as file:
            return file.read(most_bytes)
    except OSError as error:
        raise PreflightError(
            f"{path} can't be read: {error.strerror}", key=key, hint="check its name and rights"
        ) from error


# --- the files that a spec names, with their hashes: campaigns belong together only if both are equal ---------

_CHUNK_BYTES = 2**20
_INCLUDED = re.compile(
    rb"^\s*(?:\\(?:i|ir|include|include_relative|\.)|source)\s+'?([^\s';]+)|\\copy\s[^\n]*\sfrom\s+'([^'\n]+)'|"
    rb"\binfile\s+'([^'\n]+)'",
    re.IGNORECASE | re.MULTILINE,
)
"""The commands in a file of SQL with which psql and mariadb read other files."""


def named(configs: Iterable[Config], folder: Path) -> dict[str, Path]:
    """`{"workload.trace: requests.iolog": path}` for every existing file or folder that a key for files names. Relative
    paths start at `folder`, the spec's folder.
    """
    found = dict[str, Path]()
    for config in configs:
        for key, text in _texts(config):
            path = (folder / Path(text).expanduser()).resolve()
            if path.is_file() or path.is_dir():
                found[f"{key}: {text}"] = path
            if key == "workload.setup":
                found |= {f"{key}: {os.path.relpath(one, folder)}": one for one in _included(path, folder, {path})}
            if path.suffix == ".lua":  # a script may require its neighbours
                beside = Path(text).parent
                found |= {f"{key}: {beside / one.name}": one for one in path.parent.glob("*.lua") if one != path}
        for name, volume in config.volumes.items():
            for key, command in (("prepare", volume.prepare), ("check", volume.check)):
                if command is not None and command != BY_HAND:
                    found |= _called(f"volumes.{name}.{key}", command, folder.resolve())
    return found


def _included(path: Path, folder: Path, known: set[Path]) -> set[Path]:
    """The files that a file of SQL includes or loads, directly or through other files. Relative names start at the
    file's folder, or at `folder`.
    """
    text = begin_of(path, MOST_BYTES, "workload.setup") if path.is_file() else b""
    names = [os.fsdecode(b"".join(found)) for found in _INCLUDED.findall(text)]
    new = {(above / name).resolve() for name in names for above in (path.parent, folder)} - known
    new = {one for one in new if one.is_file()}
    return new.union(*(_included(one, folder, known | new) for one in new))


def _texts(config: Config) -> Iterator[tuple[str, str]]:
    yield from config.workload.own_files
    for name, drive in config.drives.items():
        if drive.profile.endswith(".toml") or "/" in drive.profile:
            yield f"drives.{name}.profile", drive.profile


def _called(key: str, command: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """The files that a command names, below the spec's folder or relative to it. If such a file is in a folder below
    the spec's, the whole folder counts: a script may call its neighbours. A folder in the command does not count: the
    volume may be mounted there.
    """
    try:
        words = shlex.split(command, comments=True)
    except ValueError:  # the shell may read it nevertheless
        words = command.split()
    for word in words:
        name = word.rstrip(";&|)")
        if not name or len(name) > 4096 or "\0" in name:
            continue
        path = (folder / name).resolve()
        inside = path.is_relative_to(folder)
        if path.is_file() and (inside or not Path(name).is_absolute()):
            whole = path.parent if inside and path.parent != folder else path
            yield f"{key}: {os.path.relpath(whole, folder)}", whole


def hashes(files: Mapping[str, Path]) -> dict[str, str]:
    """The SHA-256 of each file; of a folder, of the names and contents of its files. Raises OSError."""
    return {name: _of_folder(path) if path.is_dir() else _of_file(path) for name, path in sorted(files.items())}


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """A line for each file whose content differs. Campaigns of versions that stored no hashes have no lines."""
    if not old or not new:
        return []
    return [
        f"{name}: its content changed" for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)
    ]


def _of_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(folder).as_posix()}\0{_of_file(path)}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _of_file(path: Path) -> str:
    """Only regular files are read: another kind of file may never end."""
    digest = hashlib.sha256()
    if path.is_file():
        with opened(path) as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()
