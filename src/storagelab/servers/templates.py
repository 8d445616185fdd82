"""Templates: the prepared data of a private server, kept for a campaign and copied for each run.

A server fills its folders once, and is shut down. Then the content of its folders is moved to other folders on the same
volumes. Each run gets a copy at the original paths, because the server's files contain paths. The first run gets a
copy, too, so that all runs begin in the same state. A template is kept until its campaign ends. `sweep` removes the
templates of an earlier campaign.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from storagelab.errors import RunFailed
from storagelab.machine import descriptors, doctor, host
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.model.plan import one_of_each_template, template_name, wants_template
from storagelab.servers.places import check_same
from storagelab.volumes.folders import Folders, Site

# --- copying ---------------------------------------------------------------------------------------------------------
#
# Copies the folders of a stopped server. If the file system supports it, the copy shares the blocks of the files, as
# with `cp --reflink=auto`. Such a copy takes no time. It takes no space until one of the two files changes.


_FICLONE = 0x40049409
"""The ioctl of Linux that makes a file share all blocks of another file (linux/fs.h)."""
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_DEEPEST = 64
"""The deepest level of folders that is copied. Servers don't nest folders so deeply. Each level keeps two descriptors
open.
"""


class Content(NamedTuple):
    """The number of files below a folder, and the sum of their sizes in bytes."""

    files: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.bytes:,} bytes in {self.files:,} files"


def content_of(folder: int) -> Content:
    """Counts the content of a folder. `folder` is its descriptor."""
    sizes = [facts.st_size for facts in descriptors.content_of(folder) if not stat.S_ISLNK(facts.st_mode)]
    return Content(len(sizes), sum(sizes))


def together(contents: Iterable[Content]) -> Content:
    return Content(*(sum(figures) for figures in zip(Content(0, 0), *contents, strict=True)))


def copy_folder(name: str, source: int, copy: int, depth: int = 0) -> int:
    """Copies the folder `name` from the folder `source` into the folder `copy`. `source` and `copy` are descriptors.
    Copies owners, modes and symbolic links, too. Returns the number of bytes whose blocks are shared.

    Until the copy is complete, only this user can enter it. Raises OSError. It is also raised if the folder contains
    anything other than the server's plain files, folders and links.
    """
    with descriptors.folder(name, source) as original:
        os.mkdir(name, 0o700, dir_fd=copy)
        with descriptors.folder(name, copy) as made:
            shared = sum(_copy_entry(entry, original, made, depth) for entry in sorted(os.listdir(original)))
            _give_same_rights(os.fstat(original), made)
    return shared


def _copy_entry(name: str, source: int, copy: int, depth: int) -> int:
    facts = os.stat(name, dir_fd=source, follow_symlinks=False)
    if stat.S_ISLNK(facts.st_mode):
        os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=copy)
        if os.geteuid() == 0:
            os.chown(name, facts.st_uid, facts.st_gid, dir_fd=copy, follow_symlinks=False)
        return 0
    if not stat.S_ISDIR(facts.st_mode):
        return _copy_file(name, source, copy)
    if depth >= _DEEPEST:
        raise OSError(errno.ENAMETOOLONG, f"folders are nested more than {_DEEPEST} deep", name)
    return copy_folder(name, source, copy, depth + 1)


def _copy_file(name: str, source: int, copy: int) -> int:
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with (
        open(descriptors.open_file(name, source), "rb") as original,
        open(descriptors.open_file(name, copy, new), "wb") as made,
    ):
        facts = os.fstat(original.fileno())
        shared = facts.st_size
        try:
            fcntl.ioctl(made.fileno(), _FICLONE, original.fileno())
        except OSError as error:
            if error.errno in _NO_SPACE:
                raise
            shared = 0
            shutil.copyfileobj(original, made, 2**20)
            with contextlib.suppress(OSError, AttributeError):  # lets the page cache keep the copy instead
                os.posix_fadvise(original.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        _give_same_rights(facts, made.fileno())
    return shared


def _give_same_rights(facts: os.stat_result, copy: int) -> None:
    if os.geteuid() == 0:
        os.fchown(copy, facts.st_uid, facts.st_gid)
    os.fchmod(copy, facts.st_mode & 0o7777)


NOTE = (
    "data is prepared {times}, and copied for each run\n"
    "its template stays on its volumes until the campaign ends; {how}"
)
_BY_US = "a copy shares its blocks if the file system supports that (XFS, Btrfs); if not, it takes time and space"
_BY_SERVER = "the server that already runs makes the copies, file by file, which takes time and space"


def folders_of(site: Site, volumes: Mapping[str, Path]) -> Folders:
    """The folders for an experiment's templates. They are beside the folders of its runs."""
    return Folders(site, volumes, purpose="templates")


def notes(configs: Iterable[Config]) -> list[str]:
    """The lines of `plan` about the templates of these cells."""
    kept = one_of_each_template(configs)
    times = "once" if len(kept) == 1 else f"{len(kept)} times, once for each layout, data and settings"
    how = "; ".join(sorted({_BY_SERVER if one.target.attached else _BY_US for one in kept}))
    return [NOTE.format(times=times, how=how)] if kept else []


BytesOn = Callable[[Config, str], int]
"""The largest disk space in bytes that one run of a cell takes on a volume, which is given by its name."""


def with_kept(configs: Iterable[Config], site: Site, bytes_on: BytesOn, kept_bytes_on: BytesOn) -> BytesOn:
    """The disk space that a run and all templates take on a volume. The run that makes a template does not need space
    for the template in addition: until its files are moved, they are the template. All other runs begin with a copy.
    """
    kept = [(one, site.volume_paths(one)) for one in one_of_each_template(configs)]

    def both(config: Config, volume: str) -> int:
        path = site.volume_paths(config).get(volume)
        beside = sum(kept_bytes_on(one, volume) for one, paths in kept if paths.get(volume) == path)
        if not wants_template(config):
            return bytes_on(config, volume) + beside
        own = kept_bytes_on(config, volume)
        return beside + max(own, bytes_on(config, volume) - own)

    return both if kept else bytes_on


class Restoration(NamedTuple):
    """The copy that was made for a run. `asked` and `got` are the contents of the template and of the copy. `how` says
    in which way it was copied.
    """

    asked: str
    got: str
    how: str
    read_from: str

    def checks(self) -> list[Check]:
        return [check_same("data restored from a template", self.asked, self.got, self.read_from)]


class Template:
    """The template of one cell."""

    def __init__(self, config: Config, site: Site) -> None:
        volumes = site.volume_paths(config)
        self._runs, self._kept = Folders(site, volumes), folders_of(site, volumes)
        self._name = template_name(config)
        self._places = {self._runs[name]: self._kept[name] / self._name for name in volumes}
        """Maps each folder of a run to the folder that keeps its content. Volumes with the same path share a folder."""

    @property
    def exists(self) -> bool:
        with contextlib.suppress(OSError):
            for place in self._places.values():
                with self._kept.held(place.parent) as kept:
                    os.stat(place.name, dir_fd=kept, follow_symlinks=False)
            return True
        return False

    def keep(self) -> None:
        """Moves the content of the run's folders to the template. The server must be shut down. Raises OSError."""
        self._kept.make(again=True)
        for folder, place in self._places.items():
            unfinished = _unfinished(place)
            with self._kept.held(place.parent) as kept, self._runs.held(folder) as run:
                for name in (place.name, unfinished):
                    descriptors.remove(name, kept)  # a previous attempt may have failed before it was complete
                os.mkdir(unfinished, 0o700, dir_fd=kept)
                with descriptors.folder(unfinished, kept) as aside:
                    for name in self._runs.content(run):
                        os.rename(name, name, src_dir_fd=run, dst_dir_fd=aside)
        for place in self._places.values():
            with self._kept.held(place.parent) as kept:
                os.rename(_unfinished(place), place.name, src_dir_fd=kept, dst_dir_fd=kept)

    def restore(self) -> Restoration:
        """Copies the template into the run's empty folders, and writes the copy to the drives. Raises RunFailed."""
        shared, asked, got = 0, list[Content](), list[Content]()
        for folder, place in self._places.items():
            try:
                with (
                    self._kept.held(place.parent) as kept,
                    descriptors.folder(place.name, kept) as template,
                    self._runs.held(folder) as run,
                ):
                    asked.append(content_of(template))
                    for name in sorted(os.listdir(template)):
                        shared += copy_folder(name, template, run)
                        with descriptors.folder(name, run) as copy:
                            got.append(content_of(copy))
                host.sync_filesystem(folder)
            except OSError as error:
                raise RunFailed(_no_copy(error, folder, asked[-1] if asked else None)) from error
        whole = together(asked)
        how = "copied" if not shared else "reflinked" if shared == whole.bytes else "partly reflinked, partly copied"
        return Restoration(str(whole), str(together(got)), how, "the file system")


def _unfinished(place: Path) -> str:
    return f"{place.name}.unfinished"


def _no_copy(error: OSError, folder: Path, kept: Content | None) -> str:
    if error.errno in _NO_SPACE and kept is not None:
        size, free = kept.bytes / 2**30, host.free_bytes(folder.parent) / 2**30
        lacks = "is at its user's quota, too small" if error.errno == errno.EDQUOT else "lacks space"
        lacks = "has no inode left" if error.errno == errno.ENOSPC and doctor.lacks_inodes(folder.parent) else lacks
        return (
            f"{folder.parent} {lacks} to restore the data from its template ({size:.2f} GiB; {free:.2f} GiB are left): "
            'free some, or set between_runs.data = "rebuild"'
        )
    return f"can't restore the data from its template: {error.filename or folder}: {error.strerror}"
