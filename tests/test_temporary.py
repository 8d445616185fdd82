"""A temporary folder belongs to its process, and is swept only once that process is gone."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from storagelab.machine import temporary

MAKES_ONE = """
import os, sys
from storagelab.machine import temporary
place = temporary.path("trial")
temporary.prepare(place)
place.mkdir()
(place / "file").write_text("of a server")
print(place, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other(scratch):
    """Another process that has a folder, and waits."""
    command = [sys.executable, "-c", MAKES_ONE]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.place = Path(process.stdout.readline().strip())
    yield process
    process.kill()
    process.communicate()


def test_a_folder_is_removed_with_the_one_around_it(scratch):
    with temporary.folder("check") as folder, temporary.folder("trial") as other:
        assert folder.parent == other.parent
        assert list((scratch / "tmp").iterdir()) == [folder.parent]
    assert list((scratch / "tmp").iterdir()) == []


def test_what_a_living_process_has_is_left_alone_and_what_a_killed_one_had_is_swept(scratch, other):
    assert temporary.left_behind() == []
    other.kill()
    other.wait()
    assert temporary.left_behind() == [other.place.parent]
    assert temporary.remove_left_behind(other.place.parent)
    assert list((scratch / "tmp").iterdir()) == []


def test_a_process_that_got_the_number_of_a_dead_one_is_not_taken_for_it(scratch):
    mine = temporary.path("trial").parent.name
    _, pid, start, boot, world = mine.split("-")
    assert f"{os.getpid():x}" == pid
    earlier = scratch / "tmp" / "-".join(("storagelab", pid, f"{int(start, 16) - 1:x}", boot, world))
    for folder in (earlier, scratch / "tmp" / mine):
        folder.mkdir()
    assert temporary.left_behind() == [earlier]


@pytest.mark.parametrize(
    ("name", "swept"),
    [
        ("storagelab-1-1-00000000-1", True),  # the machine was started anew since
        ("storagelab-ffffff-1-{boot}-1", False),  # of a container: its numbers mean nothing here
        ("storagelab-ffffff-1-{boot}-{world}", True),
        ("storagelab-mine", False),
        ("storagelab-volumes-1-2", False),
    ],
)
def test_only_what_is_named_after_a_process_that_is_gone_is_swept(scratch, name, swept):
    *_, boot, world = temporary.path("trial").parent.name.split("-")
    (scratch / "tmp" / name.format(boot=boot, world=world)).mkdir()
    assert bool(temporary.left_behind()) == swept


def test_a_link_or_a_file_of_such_a_name_is_nobodys_to_remove(scratch):
    (scratch / "kept").mkdir()
    (scratch / "tmp" / "storagelab-1-1-00000000-1").symlink_to(scratch / "kept")
    (scratch / "tmp" / "storagelab-2-1-00000000-1").write_text("a file")
    assert temporary.left_behind() == []


def test_a_link_in_the_place_of_the_own_folder_is_refused(scratch):
    place = temporary.path("trial")
    place.parent.symlink_to(scratch)
    with pytest.raises(OSError, match="in the way"):
        temporary.prepare(place)


@pytest.mark.parametrize("length", [30, 35, 40, 60, 200])
def test_a_socket_has_a_short_name_however_long_the_temporary_folder_is(scratch, monkeypatch, length):
    monkeypatch.setattr(tempfile, "tempdir", f"{scratch}/".ljust(length, "x"))
    assert len(str(temporary.short_path("socket") / ".s.PGSQL.65535")) <= 107
    assert str(temporary.path("trial")).startswith(tempfile.gettempdir())
