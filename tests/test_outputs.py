"""Files are written whole, and devices, pipes and links stay what they are."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from storagelab.machine.descriptors import descriptor_of, open_to_append, write_whole

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices and other users' files")


@as_root
def test_a_device_is_written_to_and_stays_a_device(tmp_path):
    device = tmp_path / "null"
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    write_whole(device, [b"gone"])
    assert stat.S_ISCHR(device.lstat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["null"]


@as_root
def test_no_report_is_written_over_a_disk(tmp_path):
    device = tmp_path / "disk"
    os.mknod(device, 0o666 | stat.S_IFBLK, os.makedev(7, 0))
    with pytest.raises(OSError):  # noqa: PT011 - some machines have no such device
        write_whole(device, [b"report"])
    assert stat.S_ISBLK(device.lstat().st_mode)


def test_a_pipe_gets_all_of_it_and_stays_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_whole(tmp_path / "pipe", [b"a" * 300_000, b"b"])
    reader.join()
    assert got == [b"a" * 300_000 + b"b"]
    assert (tmp_path / "pipe").is_fifo()


def test_a_links_target_is_replaced_and_the_link_stays(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "old").write_text("old")
    for name, target in (("link", "there/old"), ("dangling", "there/new")):
        (tmp_path / name).symlink_to(target)
        write_whole(tmp_path / name, [name.encode()])
        assert os.readlink(tmp_path / name) == target
        assert (tmp_path / target).read_text() == name
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == ["new", "old"]


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
def test_a_file_keeps_its_mode(tmp_path, mode):
    file = tmp_path / "report.html"
    file.write_text("old")
    file.chmod(mode)
    write_whole(file, [b"new"])
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("new", mode)


def test_a_new_file_has_the_mode_that_the_user_wants_of_files(tmp_path):
    before = os.umask(0o077)
    try:
        write_whole(tmp_path / "report.html", [b"new"])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o600


@as_root
def test_a_file_keeps_its_owner_when_root_replaces_it(tmp_path):
    file = tmp_path / "report.html"
    file.write_text("old")
    os.chown(file, 1234, 4321)
    write_whole(file, [b"new"])
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 4321)


WRITES = """
import sys
from pathlib import Path
from storagelab.machine.descriptors import write_whole
print("before")
write_whole(Path(sys.argv[1]), [b"data"])
"""


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
def test_where_stdout_is_a_file_it_is_gone_on_with_and_not_replaced(tmp_path, name):
    (tmp_path / "link").symlink_to("/dev/stdout")
    (tmp_path / "all").write_text("first\n")
    with (tmp_path / "all").open("a") as stdout:
        subprocess.run([sys.executable, "-c", WRITES, str(tmp_path / name)], stdout=stdout, check=True)
    assert (tmp_path / "all").read_text() == "first\nbefore\ndata"


def test_open_files_are_known_by_their_numbers(tmp_path):
    assert [descriptor_of(Path(name)) for name in ("/dev/stderr", "/dev/fd/63")] == [2, 63]
    assert descriptor_of(tmp_path / "63") is None
    assert descriptor_of(Path(f"/proc/{os.getppid()}/fd/1")) is None


def test_no_link_leads_out_of_a_folder_of_results(tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    (tmp_path / "mine").write_text("mine")
    (results / "report.html").symlink_to(tmp_path / "mine")
    (results / "run.log").symlink_to(tmp_path / "mine")
    (results / "charts").symlink_to(tmp_path)
    with pytest.raises(OSError, match="it leads out of"):
        write_whole(results / "report.html", [b"theirs"], within=results)
    with pytest.raises(OSError, match="it leads out of"):
        write_whole(results / "charts" / "waits.svg", [b"theirs"], within=results)
    with pytest.raises(OSError, match="it leads out of"):
        open_to_append(results / "run.log", within=results)
    assert (tmp_path / "mine").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "results"]


def test_nobody_waits_at_a_pipe_in_a_folder_of_results(tmp_path):
    os.mkfifo(tmp_path / "run.log")
    with pytest.raises(OSError, match="not a regular file"):
        open_to_append(tmp_path / "run.log", within=tmp_path)
    with pytest.raises(OSError, match="not a regular file"):
        write_whole(tmp_path / "run.log", [b"x"], within=tmp_path)
