"""A plan with several real engines: each checks its own cells, and their durability is compared."""

import pytest
from real_servers import site_at, small
from recorded_sqlserver import recorded
from sqlserver_specs import config, plan_of

from storagelab.model.engines import ENGINES
from storagelab.run.engine import engine_in, preflight


@pytest.fixture
def server(monkeypatch):
    with recorded() as running:
        monkeypatch.setenv("STORAGELAB_TESTED", running.dsn())
        yield running.server


def test_postgresql_and_sql_server_are_each_asked_about_their_own_cells(server, scratch):
    plan = plan_of(small(scratch), config(), config(layout={"data_files": 2}))
    found = preflight(plan, site_at(scratch))
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
