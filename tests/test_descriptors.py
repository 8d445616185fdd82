"""Root follows no link that a server's user put into the server's folders, and neither waits for pipes nor trusts files
there.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from real_servers import left_behind, needs_root, plan_of, run_of, site_at
from test_postgres_generated import own

from storagelab.engines.postgres.server import stop_orphan
from storagelab.loads.transactions import read_log
from storagelab.machine import descriptors, temporary
from storagelab.machine.rights import give, give_to_server, unprivileged
from storagelab.model.config import Config
from storagelab.run.engine import remove_templates
from storagelab.servers.templates import copy_folder

REFUSED = "it is not a plain file of the folder's owner"


@pytest.fixture
def secret(scratch) -> Path:
    """A file of root's."""
    file = scratch / "secret"
    file.write_text("root's\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def theirs(scratch) -> Path:
    """A folder of the server's user."""
    folder = scratch / "theirs"
    folder.mkdir(mode=0o700)
    give_to_server(folder)
    return folder


def swapped_after(monkeypatch, function: str, place: Path, target: Path) -> None:
    """The next call of a function of `os` for `place` is the last moment before a link to `target` stands there."""
    real = getattr(os, function)

    def swapping(name, *words, **keys):
        try:
            return real(name, *words, **keys)
        finally:
            if name == place.name and not place.is_symlink():
                place.rename(place.with_name("aside"))
                place.symlink_to(target)

    monkeypatch.setattr(os, function, swapping)


# --- what stands in the place of a file ------------------------------------------------------------------------------


def put(kind: str, file: Path, secret: Path) -> None:
    if kind == "a link":
        file.symlink_to(secret)
    elif kind == "a second name":
        file.hardlink_to(secret)
    elif kind == "a pipe":
        os.mkfifo(file)
    else:
        file.write_text("4711")
        give((12345, 12345), file)


KINDS = [
    "a link", "a second name", "a pipe",
    pytest.param("another user's file", marks=needs_root),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_plain_file_of_the_folders_owner_is_neither_read_nor_written(theirs, secret, kind):
    file = theirs / "file"
    put(kind, file, secret)
    for action in (
        lambda: descriptors.read_file(file),
        lambda: descriptors.appending(file).__enter__(),
        lambda: write(file),
    ):
        with pytest.raises(PermissionError, match=REFUSED) as caught:
            action()
        assert caught.value.filename == str(file)
    assert secret.read_text() == "root's\n"


def write(file: Path) -> None:
    with descriptors.folder(file.parent) as folder:
        descriptors.write(file.name, folder, b"mine")


def test_a_link_in_the_place_of_the_folder_leads_nowhere(theirs, scratch):
    (scratch / "link").symlink_to(theirs)
    with pytest.raises(NotADirectoryError):
        descriptors.read_file(scratch / "link" / "file")


def test_a_plain_file_is_read_replaced_and_added_to(theirs):
    write(theirs / "file")
    write(theirs / "file")
    with descriptors.appending(theirs / "file") as file:
        file.write(b" and yours")
    assert descriptors.read_file(theirs / "file") == b"mine and yours"
    assert descriptors.read_file(theirs / "file", 4) == b"mine"


def test_a_log_of_a_generator_that_became_a_link_is_not_read(theirs, secret):
    (theirs / "transactions.1").symlink_to(secret)
    with pytest.raises(PermissionError, match=REFUSED):
        read_log(theirs)


@needs_root
def test_a_folder_is_given_away_without_what_a_link_in_it_leads_to(theirs, secret):
    (theirs / "link").symlink_to(secret)
    give_to_server(theirs / "link", theirs)
    assert secret.stat().st_uid == 0
    assert (theirs / "link").lstat().st_uid == unprivileged().owner[0]


# --- removing --------------------------------------------------------------------------------------------------------


def test_folders_nested_deeper_than_there_are_descriptors_are_removed(scratch):
    top = scratch / "top"
    top.mkdir()
    deep = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("down", dir_fd=deep)
        deeper = os.open("down", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = deeper
    os.close(deep)
    with descriptors.folder(scratch) as folder:
        descriptors.remove("top", folder)
    assert not top.exists()


def test_what_can_be_removed_is_removed_although_something_can_not(scratch, theirs):
    with contextlib.ExitStack() as undo:
        for number in range(5):
            (theirs / str(number)).mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(theirs / "2")], check=True, capture_output=True)
        undo.callback(subprocess.run, ["umount", "--lazy", str(theirs / "2")], check=True)
        with descriptors.folder(scratch) as folder, pytest.raises(OSError, match="busy") as caught:
            descriptors.remove("theirs", folder)
        assert caught.value.filename == str(theirs / "2")
        assert os.listdir(theirs) == ["2"]


def test_a_folder_that_becomes_a_link_amid_removing_takes_nothing_along(scratch, theirs, monkeypatch):
    precious = scratch / "precious"
    for folder in (precious, theirs / "folder"):
        folder.mkdir()
        (folder / "file").write_text("x")
    swapped_after(monkeypatch, "unlink", theirs / "folder", precious)
    with descriptors.folder(theirs) as opened:
        with pytest.raises(NotADirectoryError):
            descriptors.empty(opened)
        assert (precious / "file").read_text() == "x"
        descriptors.empty(opened)
    assert os.listdir(theirs) == []
    assert (precious / "file").read_text() == "x"


def test_a_file_that_becomes_a_link_amid_copying_does_not_bring_along_what_it_leads_to(
    scratch, theirs, secret, monkeypatch
):
    (scratch / "copies").mkdir()
    (theirs / "file").write_text("own")
    give_to_server(theirs / "file")
    swapped_after(monkeypatch, "stat", theirs / "file", secret)
    with (
        descriptors.folder(scratch) as here,
        descriptors.folder(scratch / "copies") as there,
        pytest.raises(PermissionError, match=REFUSED),
    ):
        copy_folder("theirs", here, there)
    assert list((scratch / "copies" / "theirs").iterdir()) == []


@needs_root
def test_a_forged_pid_file_does_not_make_root_stop_a_process_of_its_own(theirs):
    """Not even one that was started with the folder among its arguments, as a backup or a search is."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()", str(theirs)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as innocent:
        (theirs / "postmaster.pid").write_text(f"{innocent.pid}\n{theirs}\n")
        give_to_server(theirs / "postmaster.pid")
        assert not stop_orphan(theirs)
        assert innocent.poll() is None
        innocent.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("kind", ["a pipe", "a link"])
def test_a_pid_file_that_is_none_stops_nothing_and_is_not_waited_for(theirs, secret, kind):
    put(kind, theirs / "postmaster.pid", secret)
    assert not stop_orphan(theirs)


def doing(scratch: Path, command: str) -> Config:
    """A cell whose set-up has the server run a command in its data folder; its data is kept as a template."""
    config = own(scratch)
    with (scratch / "schema.sql").open("a") as file:
        file.write(f"COPY (SELECT '') TO PROGRAM '{command}';\n")
    return config.model_copy(update={"between_runs": config.between_runs.model_copy(update={"data": "template"})})


def failure(config: Config, scratch: Path) -> str:
    run = run_of(config, scratch)
    remove_templates(plan_of(config), site_at(scratch))
    assert run.status == "failed"
    assert left_behind(scratch) == []
    return str(run.reason)


@needs_root
def test_a_setup_that_puts_a_link_in_the_place_of_the_settings_does_not_make_root_write_there(scratch, secret):
    said = failure(doing(scratch, f"ln -sf {secret} postgresql.conf"), scratch)
    assert "can't write the settings: " in said
    assert f"server/postgresql.conf: {REFUSED}" in said
    assert secret.read_text() == "root's\n"


def test_a_setup_that_leaves_a_pipe_fails_its_run_and_holds_nobody_up(scratch):
    said = failure(doing(scratch, "mkfifo pipe"), scratch)
    assert "can't restore the data from its template: " in said
    assert f"server/pipe: {REFUSED}" in said


def test_nothing_is_removed_through_a_link_in_the_place_of_the_own_temporary_folder(scratch):
    place = temporary.path("trial")
    (scratch / "precious" / place.name).mkdir(parents=True)
    place.parent.symlink_to(scratch / "precious")
    temporary.remove(place)
    assert (scratch / "precious" / place.name).is_dir()
    assert not temporary.remove_left_behind(place.parent)
    assert (scratch / "precious" / place.name).is_dir()


@needs_root
def test_a_temporary_folder_of_another_user_is_neither_used_nor_removed(scratch):
    place = temporary.path("trial")
    (place / "file").mkdir(parents=True)
    give((12345, 12345), place.parent)
    with pytest.raises(PermissionError, match="is in the way, and another user made it"):
        temporary.prepare(place)
    temporary.remove(place)
    assert not temporary.remove_left_behind(place.parent)
    assert (place / "file").is_dir()
