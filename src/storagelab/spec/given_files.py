"""Opens files that people or other programs wrote: specs, profiles, captures, predictions, traces, scripts and dumps.
Also finds the files that a spec names.

Only regular files are read, because a device may never end, and a FIFO may have no writer. A test
(`tests/test_tidy.py`) refuses code that opens such a file in any other way."""

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
"""The largest size, in bytes, of a file that people write."""


@contextlib.contextmanager
def opened(path: Path, most_bytes: int | None = None) -> Iterator[BinaryIO]:
    """Opens a regular file of at most `most_bytes` for reading. Raises OSError, whose `strerror` explains the
    problem.
    """
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
    """Returns the text of a file. Raises OSError like `opened`, and ValueError if the text is not UTF-8."""
    with opened(path, most_bytes) as file:
        return file.read(most_bytes).decode("utf-8-sig")


def json_of(path: Path, most_bytes: int) -> Any:
    """Returns the content of a JSON file. Raises OSError like `opened`, and ValueError if the file has NaN, infinite
    numbers or an error.
    """
    try:
        return json.loads(text_of(path, most_bytes), parse_constant=_refuse)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def toml_of(text: str) -> dict[str, Any]:
    """Returns the content of a TOML text. Raises ValueError if the text is not valid TOML."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no figure")


def begin_of(path: Path, most_bytes: int, key: str) -> bytes:
    """Returns the first `most_bytes` bytes of a file that the key `key` of a spec names. Raises PreflightError."""
    try:
        with opened(path) as file:
            return file.read(most_bytes)
    except OSError as error:
        raise PreflightError(
            f"{path} can't be read: {error.strerror}", key=key, hint="check its name and rights"
        ) from error


# --- the files that a spec names, with their hashes: campaigns belong together only if their specs and hashes are equal
# ---

_CHUNK_BYTES = 2**20
_INCLUDED = re.compile(
    rb"^\s*(?:\\(?:i|ir|include|include_relative|\.)|source)\s+'?([^\s';]+)|\\copy\s[^\n]*\sfrom\s+'([^'\n]+)'|"
    rb"\binfile\s+'([^'\n]+)'",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches the commands in an SQL file with which psql and mariadb read other files."""


def named(configs: Iterable[Config], folder: Path) -> dict[str, Path]:
    """Maps each existing file or folder that a key names to its path: `{"workload.trace: requests.iolog": path}`.
    Relative paths start at `folder`, the spec's folder.
    """
    found = dict[str, Path]()
    for config in configs:
        for key, text in _texts(config):
            path = (folder / Path(text).expanduser()).resolve()
            if path.is_file() or path.is_dir():
                found[f"{key}: {text}"] = path
            if key == "workload.setup":
                found |= {f"{key}: {os.path.relpath(one, folder)}": one for one in _included(path, folder, {path})}
            if path.suffix == ".lua":  # a script may load the other scripts of its folder
                beside = Path(text).parent
                found |= {f"{key}: {beside / one.name}": one for one in path.parent.glob("*.lua") if one != path}
        for name, volume in config.volumes.items():
            for key, command in (("prepare", volume.prepare), ("check", volume.check)):
                if command is not None and command != BY_HAND:
                    found |= _called(f"volumes.{name}.{key}", command, folder.resolve())
    return found


def _included(path: Path, folder: Path, known: set[Path]) -> set[Path]:
    """Returns the files that an SQL file includes or loads, directly or through other files. Relative names start at
    the file's folder or at `folder`.
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
    """Yields the files that a command names, if they are below the spec's folder or have a relative name. If such a
    file is in a subfolder of the spec's folder, the whole subfolder counts, because a script may call other scripts
    there. A folder that the command names does not count, because the volume may be mounted there.
    """
    try:
        words = shlex.split(command, comments=True)
    except ValueError:  # the shell may accept what shlex refuses
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
    """Returns the SHA-256 of each file. For a folder, the hash covers the names and contents of all its files. Raises
    OSError.
    """
    return {name: _of_folder(path) if path.is_dir() else _of_file(path) for name, path in sorted(files.items())}


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Returns a line for each file whose content differs. Returns no lines if a campaign comes from a version that
    stored no hashes.
    """
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
    """Returns the SHA-256 of a regular file. Other kinds of files are not read, because they may never end."""
    digest = hashlib.sha256()
    if path.is_file():
        with opened(path) as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()
