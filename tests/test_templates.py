"""Templates: which cells share one, how it is kept and copied, and that none outlives its campaign."""

import errno
import fcntl
import os
import tempfile
from pathlib import Path

import pytest
from real_servers import cell_of, got, left_behind, mounted, needs_root, plan_of, site_at

from storagelab.errors import RunFailed
from storagelab.machine import descriptors
from storagelab.model.config import Config
from storagelab.model.plan import one_of_each_template, template_name
from storagelab.run.engine import open_target, remove_templates, sweep
from storagelab.servers import templates
from storagelab.servers.templates import Template, folders_of, notes, with_kept
from storagelab.volumes.folders import Folders


def cell(scratch, engine="postgres", layout=None, settings=None, data="template", **load) -> Config:
    for name in "ab":
        (scratch / name).mkdir(exist_ok=True)
    return Config.model_validate({
        "target": {"engine": engine, "settings": settings or {}},
        "volumes": {name: {"path": str(scratch / name)} for name in "ab"},
        "layout": {"data": ["a", "b"], **(layout or {})},
        "workload": {"kind": "pgbench", "connections": 2, "duration_s": 0.5, **load}, "between_runs": {"data": data},
    })  # fmt: skip


def run_folders(config, scratch) -> Folders:
    return Folders(site_at(scratch), site_at(scratch).volume_paths(config))


def kept(config, scratch, text="data") -> Template:
    """A template with one file on each volume."""
    folders = run_folders(config, scratch)
    folders.make()
    for folder in folders.paths:
        (folder / "server").mkdir()
        (folder / "server" / "1").write_text(text)
    template = Template(config, site_at(scratch))
    assert not template.exists
    template.keep()
    assert all(os.listdir(folder) == [".storagelab.json"] for folder in folders.paths)
    return template


@pytest.mark.parametrize(
    "load",
    [{"connections": 9}, {"duration_s": 9.0}, {"rate": 5.0}, {"scripts": ["select-only"]}, {"warm_up_s": "auto"}],
)
def test_cells_that_only_use_their_data_differently_share_a_template(scratch, load):
    assert template_name(cell(scratch, **load)) == template_name(cell(scratch))


@pytest.mark.parametrize(
    "other",
    [{"scale": 2}, {"fillfactor": 50}, {"layout": {"data_files": 2}}, {"layout": {"log": "b"}},
     {"settings": {"wal_level": "logical"}}],
)  # fmt: skip
def test_cells_with_other_data_layout_or_settings_have_their_own(scratch, other):
    assert template_name(cell(scratch, **other)) != template_name(cell(scratch))


def test_plan_says_how_often_data_is_prepared_and_counts_the_room_for_it(scratch):
    cells = [cell(scratch), cell(scratch, connections=5), cell(scratch, layout={"data_files": 2})]
    assert len(one_of_each_template(cells)) == 2
    assert notes(cells)[0].startswith("data is prepared 2 times, once for each layout")
    both = with_kept(cells, site_at(scratch), lambda *_: 100, lambda *_: 7)
    assert both(cells[0], "a") == 107, "beside the other template; the first run of each is its own template at first"
    rebuilt = [cell(scratch, data="rebuild")]
    assert notes(rebuilt) == []
    assert with_kept(rebuilt, site_at(scratch), lambda *_: 100, lambda *_: 7)(rebuilt[0], "a") == 100


def test_a_template_gives_every_run_the_same_data_on_every_volume(scratch):
    config = cell(scratch)
    template, folders = kept(config, scratch), run_folders(config, scratch)
    for _ in range(2):
        restored = template.restore()
        assert restored.how in ("copied", "reflinked")
        assert [check.ok for check in restored.checks()] == [True]
        for folder in folders.paths:
            assert (folder / "server" / "1").read_text() == "data"
            (folder / "server" / "1").write_text("changed by a run")
        folders.remove()
        folders.make()


@needs_root
def test_a_disk_that_fills_up_while_data_is_copied_fails_the_run_with_the_room_that_it_takes(scratch):
    with mounted(scratch / "a", "-o", "size=3m") as drive:
        os.chmod(drive, 0o755)
        template = kept(cell(scratch), scratch, "x" * 2_000_000)
        with pytest.raises(RunFailed, match=r"/a lacks space to restore the data from its template \(0.00 GiB;"):
            template.restore()


def test_templates_go_with_their_campaign(scratch):
    config = cell(scratch)
    kept(config, scratch)
    run_folders(config, scratch).remove()
    assert len(list(scratch.glob("*/storagelab-*-templates"))) == 2
    remove_templates(plan_of(config), site_at(scratch))
    assert left_behind(scratch) == []


def test_what_a_killed_campaign_left_is_swept_by_the_next(scratch):
    config = cell(scratch)
    kept(config, scratch)
    said = sweep(plan_of(config, cell(scratch, data="rebuild")), site_at(scratch))
    assert sum("-templates, left behind by a killed run" in line for line in said) == 2
    assert left_behind(scratch) == []


def test_a_template_whose_making_was_cut_short_is_made_again(scratch):
    config = cell(scratch)
    template = kept(config, scratch)
    for folder in folders_of(site_at(scratch), site_at(scratch).volume_paths(config)).paths[:1]:
        (folder / template_name(config)).rename(folder / f"{template_name(config)}.unfinished")
    assert not template.exists
    template.keep()
    assert template.exists


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "load"), [("postgres", {}), ("mariadb", {"kind": "sysbench", "table_size": 20_000, "duration_s": 1.0})]
)
def test_runs_from_a_template_find_the_tables_where_the_layout_says(scratch, engine, load):
    config = cell(scratch, engine, {"data_files": 2, "log": "b"}, **load)
    measured = []
    for _ in range(2):
        with open_target(config, site_at(scratch)) as target:
            measured.append(target.run(cell_of(config), 1, 1, lambda _: None))
    assert all(str(one.environment["data"]["state"]).startswith("restored from a template, ") for one in measured)
    assert all(ok for one in measured for _, ok in got(one).values())
    # Each begins with the same data, although the one before has changed its own.
    first, second = (got(one)["data restored from a template"] for one in measured)
    assert first == second
    assert measured[1].setup_s < measured[0].setup_s
    remove_templates(plan_of(config), site_at(scratch))
    assert left_behind(scratch) == []


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
