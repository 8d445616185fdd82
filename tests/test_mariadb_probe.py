"""What the contract suite knows of a MariaDB in addition to the interface."""

import pytest
from real_mariadb import needs_mariadb, running
from real_servers import measure, site_at, small

from storagelab.engines.mariadb.engine import MariaDBProbe
from storagelab.errors import PreflightError
from storagelab.model.config import TargetConfig

pytestmark = needs_mariadb
NAME = 'storagelab_"`%s'


def test_what_is_there_is_seen_what_is_in_the_way_is_made_and_removed(scratch):
    probe = MariaDBProbe()
    with running(scratch / "s") as server:
        target = TargetConfig(engine="mariadb", dsn=server.socket_dsn)
        before = probe.inventory(target)
        probe.obstruct(target, NAME)
        assert probe.inventory(target) - before == {f"database {NAME}"}
        with pytest.raises(PreflightError, match="the server says: Can't create database"):
            probe.obstruct(target, NAME)
        probe.clear(target, NAME)
        assert probe.inventory(target) == before


def test_a_run_leaves_the_inventory_as_it_was(scratch):
    probe = MariaDBProbe()
    with running(scratch / "s") as server:
        server.said("CREATE DATABASE theirs", "CREATE TABLE theirs.table1 (x INT)")
        target = TargetConfig(engine="mariadb", dsn=server.socket_dsn)
        before = probe.inventory(target)
        assert any(name.startswith("table theirs.table1 (") for name in before)
        name, value = probe.setting
        measured = measure(
            small(scratch, engine="mariadb", dsn=server.socket_dsn, settings={name: value}), site_at(scratch)
        )
        assert measured.unverified == ()
        assert probe.inventory(target) == before


def test_what_somebody_put_into_the_way_is_not_cleared(scratch):
    probe = MariaDBProbe()
    with running(scratch / "s") as server:
        target = TargetConfig(engine="mariadb", dsn=server.socket_dsn)
        probe.obstruct(target, NAME)
        server.said('CREATE TABLE `storagelab_"``%s`.theirs (x INT)')
        probe.clear(target, NAME)
        assert f"database {NAME}" in probe.inventory(target)
