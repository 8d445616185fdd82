"""storagelab's own folders on the user's volumes: it removes only folders that it made."""

import contextlib
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_servers import mounted, needs_root, site_at, small

from storagelab.errors import PreflightError, RunFailed
from storagelab.model.config import Config
from storagelab.volumes.folders import Folders, Site


@pytest.fixture
def volumes(tmp_path):
    places = {"a": tmp_path / "a", "b": tmp_path / "b"}
    for place in places.values():
        place.mkdir()
    return places


@pytest.fixture
def folders(tmp_path, volumes) -> Folders:
    return Folders(site_at(tmp_path), volumes)


def test_a_folder_is_made_on_each_volume_and_is_gone_afterwards(volumes, folders):
    folders.make()
    assert [os.listdir(place) for place in volumes.values()] == [["storagelab-tested-0badcafe"]] * 2
    (folders["a"] / "deep" / "deeper").mkdir(parents=True)
    (folders["a"] / "deep" / "deeper" / "file").write_text("x")
    (folders["b"] / "file").write_text("x")
    folders.remove()
    assert [os.listdir(place) for place in volumes.values()] == [[], []]


def test_two_volumes_on_one_path_share_their_folder(tmp_path, volumes):
    folders = Folders(site_at(tmp_path), {"a": volumes["a"], "log": volumes["a"]})
    folders.make()
    assert folders["a"] == folders["log"]
    folders.remove()
    assert os.listdir(volumes["a"]) == []


def test_two_experiments_on_one_volume_do_not_see_each_other(tmp_path, volumes):
    one, other = (Folders(site_at(tmp_path, identity), volumes) for identity in ("11111111", "22222222"))
    one.make()
    other.make()
    one.remove()
    assert other["a"].is_dir()
    assert other.leftovers() == [other["a"], other["b"]]


def test_the_modes_of_a_volume_and_the_folders_above_it_stay_as_they_are(tmp_path, volumes, folders):
    volumes["a"].chmod(0o750)
    before = [stat.S_IMODE(place.stat().st_mode) for place in (tmp_path, volumes["a"])]
    folders.make()
    during = [stat.S_IMODE(place.stat().st_mode) for place in (tmp_path, volumes["a"])]
    folders.remove()
    after = [stat.S_IMODE(place.stat().st_mode) for place in (tmp_path, volumes["a"])]
    assert before == during == after


def test_what_a_killed_run_left_is_recognised_and_removed(folders):
    folders.make()
    (folders["a"] / "server").mkdir()
    assert folders.leftovers() == [folders["a"], folders["b"]]
    folders.remove()
    assert folders.leftovers() == []


@pytest.mark.parametrize("written", [None, "", '{"made_by": "sto'])
def test_a_making_that_was_killed_is_recognised_and_removed(folders, written):
    folders["a"].mkdir()
    if written is not None:
        (folders["a"] / ".storagelab.json").write_text(written)
    assert folders.leftovers() == [folders["a"]]
    folders.remove()
    assert not folders["a"].exists()


def test_a_removal_that_was_itself_killed_is_recognised_and_resumed(folders):
    folders.make()
    (folders["a"] / ".storagelab.json").unlink()  # it goes last, after everything else
    assert folders.leftovers() == [folders["a"], folders["b"]]
    folders.remove()
    assert folders.leftovers() == []


@pytest.mark.parametrize(
    "marker",
    [
        None, "not JSON", "[]", json.dumps({"made_by": "storagelab", "identity": "another1"}),
        json.dumps({"made_by": "somebody else", "identity": "0badcafe"}),
    ],
)  # fmt: skip
def test_a_folder_of_that_name_that_is_not_ours_is_refused_and_stays(folders, marker):
    folders["a"].mkdir()
    (folders["a"] / "thesis.txt").write_text("years of work")
    if marker is not None:
        (folders["a"] / ".storagelab.json").write_text(marker)
    with pytest.raises(PreflightError, match="is in the way, and this experiment did not make it"):
        folders.leftovers()
    folders.remove()
    assert (folders["a"] / "thesis.txt").read_text() == "years of work"


def test_a_link_inside_is_removed_and_what_it_leads_to_stays(tmp_path, folders):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    folders.make()
    (folders["a"] / "link").symlink_to(precious)
    (folders["a"] / "deep").mkdir()
    (folders["a"] / "deep" / "link").symlink_to(precious)
    folders.remove()
    assert (precious / "file").read_text() == "x"


@pytest.fixture
def sticky(tmp_path) -> Path:
    """A folder in which every user may put something, as /tmp."""
    folder = tmp_path / "sticky"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@needs_root
@pytest.mark.parametrize("purpose", ["", "templates"])
def test_a_link_of_another_user_to_a_folder_with_a_fitting_marker_is_refused_and_nothing_removed(
    tmp_path, sticky, purpose
):
    precious = Folders(site_at(tmp_path), {"a": tmp_path}, purpose)
    precious.make()
    (precious["a"] / "thesis.txt").write_text("years of work")
    folders = Folders(site_at(tmp_path), {"a": sticky}, purpose)
    folders["a"].symlink_to(precious["a"])
    os.chown(folders["a"], 12345, 12345, follow_symlinks=False)
    with pytest.raises(PreflightError, match="is in the way, and this experiment did not make it"):
        folders.leftovers()
    for again in (False, True):
        with pytest.raises(RunFailed, match=r"can't make .*/sticky/storagelab-tested-0badcafe"):
            folders.make(again=again)
    folders.remove()
    assert (precious["a"] / "thesis.txt").read_text() == "years of work"
    assert folders["a"].is_symlink()


@needs_root
def test_a_folder_of_another_user_is_neither_used_nor_removed_whatever_its_marker_says(tmp_path, sticky):
    folders = Folders(site_at(tmp_path), {"a": sticky})
    folders.make()
    (folders["a"] / "file").write_text("x")
    os.chown(folders["a"], 12345, 12345)
    with pytest.raises(PreflightError, match="is in the way, and this experiment did not make it"):
        folders.leftovers()
    with pytest.raises(RunFailed, match=r"can't make .*: this experiment did not make it"):
        folders.make(again=True)
    folders.remove()
    assert (folders["a"] / "file").read_text() == "x"


@needs_root
def test_what_a_user_left_on_a_volume_of_his_own_is_removed_by_root_as_well(tmp_path, sticky):
    folders = Folders(site_at(tmp_path), {"a": sticky})
    folders.make()
    for place in (sticky, folders["a"], folders["a"] / ".storagelab.json"):
        os.chown(place, 12345, 12345)
    assert folders.leftovers() == [folders["a"]]
    folders.remove()
    assert os.listdir(sticky) == []


def test_a_marker_that_is_a_pipe_is_not_waited_for(folders):
    folders["a"].mkdir()
    os.mkfifo(folders["a"] / ".storagelab.json")
    with pytest.raises(PreflightError, match="is in the way"):
        folders.leftovers()


def test_a_folder_that_cannot_be_made_fails_the_run_with_the_reason(tmp_path):
    (tmp_path / "file").write_text("x")
    folders = Folders(site_at(tmp_path), {"a": tmp_path / "file"})
    with pytest.raises(RunFailed, match=r"can't make .*storagelab-tested-0badcafe: Not a directory"):
        folders.make()


@needs_root
def test_a_volume_that_cannot_be_cleaned_does_not_keep_the_others_from_it(volumes, folders):
    folders.make()
    (folders["a"] / "server").mkdir()
    with (
        mounted(folders["a"] / "busy", "-o", "size=1m"),
        pytest.raises(RunFailed, match=r"can't remove .*/a/storagelab-.*/busy: Device or resource busy"),
    ):
        folders.remove()
    assert os.listdir(volumes["b"]) == []
    assert sorted(os.listdir(folders["a"])) == [".storagelab.json", "busy"]
    folders.remove()
    assert os.listdir(volumes["a"]) == []


def test_a_relative_volume_starts_at_the_folder_of_the_spec(tmp_path):
    site = Site(experiment="tested", identity="0badcafe", spec_folder=tmp_path / "specs")
    config = Config.model_validate(small(tmp_path).model_dump() | {"volumes": {"a": {"path": "../a"}}})
    assert site.volume_paths(config) == {"a": tmp_path / "a"}


def test_a_path_longer_than_any_folder_s_is_refused_by_key(tmp_path):
    with pytest.raises(PreflightError, match=r"^volumes\.a\.path: .*: File name too long"):
        site_at(tmp_path).place("a" * 300, "volumes.a.path")


def test_the_home_of_a_user_that_there_is_not_is_refused_by_key(tmp_path):
    with pytest.raises(PreflightError, match=r"^volumes\.a\.path: \"~nobody-at-all/x"):
        site_at(tmp_path).place("~nobody-at-all/x", "volumes.a.path")


@contextlib.contextmanager
def that_can_not_be_removed(folder: Path) -> Iterator[None]:
    """As after an I/O error: something is mounted there, or, for other users than root, it is closed."""
    folder.mkdir()
    if os.geteuid() == 0:
        mount = ["mount", "-t", "tmpfs", "none", str(folder)]
        if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            pytest.skip("root may not mount here")
    else:
        (folder / "file").touch()
        folder.chmod(0o500)
    try:
        yield
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", str(folder)], check=True)
        else:
            folder.chmod(0o700)


def test_what_a_failed_run_could_not_remove_is_named_with_the_cause_and_removed_once_that_is_gone(folders, volumes):
    folders.make()
    left = folders["a"]
    with that_can_not_be_removed(left / "held"):
        with pytest.raises(RunFailed) as caught:
            folders.make()
        said = str(caught.value)
        assert ": left from an earlier run, and it can't be removed: can't remove " in said
        assert said.startswith(str(left))
        assert said.endswith(("Device or resource busy", "Permission denied"))
    folders.make()
    assert folders.content(left) == []
    folders.remove()
    assert [os.listdir(place) for place in volumes.values()] == [[], []]
