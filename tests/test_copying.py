"""Copies of folders: the same content, links and rights, whether or not the file system can share blocks."""

import errno
import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from storagelab.targets import descriptors, templates


@pytest.fixture
def folder(tmp_path):
    source = tmp_path / "source"
    (source / "base").mkdir(parents=True)
    (source / "base" / "1").write_bytes(bytes(range(256)) * 400)
    (source / "base" / "empty").touch(mode=0o600)
    (source / "elsewhere").symlink_to("/nowhere/log")
    (source / "base").chmod(0o700)
    return source


def test_a_copy_has_the_same_files_links_and_rights(folder, tmp_path):
    copy = tmp_path / "copy"
    copy_folder(folder, copy)
    assert (copy / "base" / "1").read_bytes() == (folder / "base" / "1").read_bytes()
    assert os.readlink(copy / "elsewhere") == "/nowhere/log"
    for name in ("base", "base/1", "base/empty"):
        ours, theirs = (copy / name).stat(), (folder / name).stat()
        assert (ours.st_mode, ours.st_uid, ours.st_gid) == (theirs.st_mode, theirs.st_uid, theirs.st_gid)
    assert content_of(copy) == content_of(folder) == (2, 102_400)
    assert str(content_of(copy)) == "102,400 bytes in 2 files"


def test_a_copy_can_be_changed_and_leaves_its_original_alone(folder, tmp_path):
    copy_folder(folder, tmp_path / "copy")
    (tmp_path / "copy" / "base" / "1").write_bytes(b"changed")
    assert (folder / "base" / "1").stat().st_size == 102_400


def test_files_that_the_file_system_shares_are_counted(folder, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(fcntl, "ioctl", lambda *what: asked.append(what[1]))
    assert copy_folder(folder, tmp_path / "copy") == 102_400
    assert asked == [0x40049409, 0x40049409]


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EXDEV, errno.ENOTTY, errno.EINVAL])
def test_files_that_it_can_not_share_are_copied(folder, tmp_path, monkeypatch, number):
    monkeypatch.setattr(fcntl, "ioctl", refusing(number))
    assert copy_folder(folder, tmp_path / "copy") == 0
    assert content_of(tmp_path / "copy") == content_of(folder)


def test_a_full_disk_is_not_hidden_by_a_second_try(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "ioctl", refusing(errno.ENOSPC))
    monkeypatch.setattr(templates.shutil, "copyfileobj", lambda *_: pytest.fail("it tried again"))
    with pytest.raises(OSError, match="No space left"):
        copy_folder(folder, tmp_path / "copy")


def copy_folder(source: Path, copy: Path) -> int:
    """Copies a folder under its name, and renames the copy."""
    with descriptors.folder(source.parent) as here, tempfile.TemporaryDirectory(dir=copy.parent) as beside:
        with descriptors.folder(beside) as there:
            shared = templates.copy_folder(source.name, here, there)
        Path(beside, source.name).rename(copy)
    return shared


def content_of(folder: Path) -> templates.Content:
    with descriptors.folder(folder) as opened:
        return templates.content_of(opened)


def refusing(number: int):
    def ioctl(*_):
        raise OSError(number, os.strerror(number))

    return ioctl
