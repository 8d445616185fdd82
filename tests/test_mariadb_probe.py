"""What the contract suite knows of a MariaDB in addition to the interface."""

from collections.abc import Iterator

import pytest
from real_mariadb import Elsewhere, needs_mariadb, running
from real_servers import measure, open_folder, site_at, small

from storagelab.errors import PreflightError
from storagelab.model.config import TargetConfig
from storagelab.targets.mariadb.engine import MariaDBProbe

pytestmark = needs_mariadb
PROBE = MariaDBProbe()
NAME = 'storagelab_"`%s'


@pytest.fixture(scope="module")
def server() -> Iterator[Elsewhere]:
    with open_folder() as folder, running(folder / "s") as one:
        yield one


@pytest.fixture
def target(server) -> TargetConfig:
    return TargetConfig(engine="mariadb", dsn=server.socket_dsn)


def test_what_is_there_is_seen_what_is_in_the_way_is_made_and_removed(target):
    before = PROBE.inventory(target)
    PROBE.obstruct(target, NAME)
    assert PROBE.inventory(target) - before == {f"database {NAME}"}
    with pytest.raises(PreflightError, match="the server says: Can't create database"):
        PROBE.obstruct(target, NAME)
    PROBE.clear(target, NAME)
    assert PROBE.inventory(target) == before


def test_a_run_leaves_the_inventory_as_it_was(server, target, scratch):
    server.said("CREATE DATABASE theirs", "CREATE TABLE theirs.table1 (x INT)")
    before = PROBE.inventory(target)
    assert any(name.startswith("table theirs.table1 (") for name in before)
    name, value = PROBE.setting
    measured = measure(
        small(scratch, engine="mariadb", dsn=server.socket_dsn, settings={name: value}), site_at(scratch)
    )
    assert measured.unverified == ()
    assert PROBE.inventory(target) == before


def test_what_somebody_put_into_the_way_is_not_cleared(server, target):
    PROBE.obstruct(target, NAME)
    server.said('CREATE TABLE `storagelab_"``%s`.theirs (x INT)')
    PROBE.clear(target, NAME)
    assert f"database {NAME}" in PROBE.inventory(target)
    server.said('DROP DATABASE `storagelab_"``%s`')
