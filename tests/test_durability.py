"""What survives a crash: each engine's verdict on its settings."""

import pytest
from real_servers import site_at, small
from recorded_sqlserver import recorded
from sqlserver_specs import config, plan_of

from storagelab.model.engines import ENGINES
from storagelab.run.engine import engine_in, preflight
from storagelab.servers.durability import judged

SAFE = "each commit is on the disk, half-written pages are mended"
LATE = "the last second of commits may be lost, half-written pages are mended"
TORN = "each commit is on the disk, a half-written page stays corrupt"
NOTHING = "nothing is forced to the disk, half-written pages are mended"


def verdict(engine, settings, version=""):
    return judged({"server": {"engine": engine, "settings": settings, "version_text": version}})


@pytest.mark.parametrize(
    ("engine", "settings", "promise", "lost"),
    [
        ("postgres", {"fsync": "on", "synchronous_commit": "remote_apply", "full_page_writes": "on"}, SAFE, {}),
        ("postgres", {"fsync": "off", "synchronous_commit": "off"}, NOTHING,
         {"fsync": "everything", "synchronous_commit": "last commits"}),
        ("postgres", {"synchronous_commit": "off"}, LATE, {"synchronous_commit": "last commits"}),
        ("postgres", {"full_page_writes": "off"}, TORN, {"full_page_writes": "pages not in the log"}),
        ("mariadb", {"innodb_flush_method": "O_DIRECT", "log_bin": "OFF", "sync_binlog": "0"}, SAFE, {}),
        ("mariadb", {"innodb_flush_log_at_trx_commit": "1", "log_bin": "ON", "sync_binlog": "1"}, SAFE, {}),
        ("mariadb", {"innodb_flush_log_at_trx_commit": "2"}, LATE,
         {"innodb_flush_log_at_trx_commit": "last second of commits"}),
        ("mariadb", {"innodb_doublewrite": "DETECT_ONLY"}, TORN, {"innodb_doublewrite": "pages not written twice"}),
        ("mariadb", {"innodb_flush_method": "nosync"}, NOTHING, {"innodb_flush_method": "everything"}),
        ("mariadb", {"log_bin": "ON", "sync_binlog": 0}, LATE, {"sync_binlog": "commits not in the binary log"}),
        ("mariadb", {"log_bin": "1", "sync_binlog": 100}, LATE, {"sync_binlog": "commits not in the binary log"}),
        ("sqlserver", {"delayed_durability_desc": "ALLOWED", "page_verify_option_desc": "CHECKSUM"}, TORN, {}),
        ("sqlserver", {"delayed_durability_desc": "FORCED"},
         "the last second of commits may be lost, a half-written page stays corrupt",
         {"delayed_durability": "commits not in the log"}),
    ],
)  # fmt: skip
def test_the_verdict_follows_from_the_settings(engine, settings, promise, lost):
    found = verdict(engine, settings)
    assert found.promise == promise
    assert {setting.name: setting.loses for setting in found.settings if setting.loses} == lost


def test_the_verdict_names_its_engine_and_the_settings_it_rests_on():
    assert verdict("postgres", {"fsync": "off"}).text == (
        f"PostgreSQL: {NOTHING} (fsync = off, synchronous_commit = on, full_page_writes = on)"
    )
    settings = {"innodb_doublewrite": "ON"}
    assert verdict("mariadb", settings, "10.11.6-MariaDB Debian 12").engine == "MariaDB"
    assert verdict("mariadb", settings, "8.4.3 MySQL Community Server").engine == "MySQL"


@pytest.mark.parametrize(
    "environment",
    [{}, {"server": None}, {"server": {"engine": "simulated", "settings": {"a": 1}}}, {"server": {"engine": []}},
     {"server": {"engine": "postgres", "settings": "unknown"}}, {"server": {"engine": "postgres"}}],
)  # fmt: skip
def test_of_a_server_whose_settings_are_not_known_there_is_no_verdict(environment):
    assert judged(environment) is None


# --- a plan with several real engines ---------------------------------------------------------------------------------


@pytest.fixture
def server(monkeypatch):
    with recorded() as running:
        monkeypatch.setenv("STORAGELAB_TESTED", running.dsn())
        yield running.server


def test_postgresql_and_sql_server_are_each_asked_about_their_own_cells(server, scratch):
    found = preflight(plan_of(small(scratch), config(), config(layout={"data_files": 2})), site_at(scratch))
    postgres, sqlserver = found.server.split("; ")
    assert postgres.startswith("PostgreSQL")
    assert sqlserver.startswith("SQL Server 2019")
    assert {need.path for need in found.volumes} == {str(scratch / "a"), "/data/a", "/data/b"}
    assert [line.partition(":")[0] for line in found.durability] == ["PostgreSQL", "SQL Server"]
    assert any("do not promise the same after a crash" in note for note in found.notes)


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_that_a_spec_may_name_stands_behind_the_seam(name):
    engine, kind = engine_in(ENGINES[name].folder), ENGINES[name]
    assert (engine.open is None) == kind.drives_remember, "either each run is opened, or whole blocks are"
    assert (engine.durability is None) == (kind.provenance == "simulated")


def test_a_plan_that_moves_files_between_volumes_of_one_device_says_that_it_separates_nothing(scratch):
    moved = plan_of(small(scratch, volumes=["a", "b"], log="a"), small(scratch, volumes=["a", "b"], log="b"))
    notes = preflight(moved, site_at(scratch)).notes
    assert any(f"volumes a ({scratch / 'a'}), b ({scratch / 'b'}) are on one device" in note for note in notes)
    stays = plan_of(small(scratch, volumes=["a", "b"]), small(scratch, volumes=["a", "b"], data_files=2))
    notes = preflight(stays, site_at(scratch)).notes
    assert not any("on one device" in note for note in notes)
