"""What preflight says about a plan with MariaDB before anything is touched."""

import os

import pytest
from real_mariadb import mariadb, needs_mariadb, running
from real_servers import plan_of, site_at, small

from storagelab.errors import PreflightError
from storagelab.targets import preflight

pytestmark = needs_mariadb


def found(scratch, *configs):
    return preflight(None, plan_of(*configs), site_at(scratch))


def test_each_kind_of_server_is_named_and_nothing_is_touched(scratch):
    both = found(scratch, mariadb(scratch), mariadb(scratch, data_files=4), small(scratch))
    mariadb_text, postgres_text = both.server.split("; ")
    assert mariadb_text.startswith("MariaDB ")
    assert "private, started" in mariadb_text
    assert postgres_text.startswith("PostgreSQL ")
    assert os.listdir(scratch / "a") == os.listdir(scratch / "tmp") == []


def test_volumes_of_several_engines_are_told_once_with_the_larger_need(scratch):
    one, other = mariadb(scratch, rows_per_connection=200_000), small(scratch)
    (need,) = found(scratch, other, one).volumes
    assert need.needed_bytes == max(found(scratch, config).volumes[0].needed_bytes for config in (one, other))


def test_engines_that_promise_the_same_after_a_crash_are_compared_without_a_warning(scratch):
    both = found(scratch, mariadb(scratch), small(scratch))
    assert [line.partition(":")[0] for line in both.durability] == ["MariaDB", "PostgreSQL"]
    assert both.notes == ()
    assert found(scratch, mariadb(scratch)).durability == ()


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


def test_what_an_engine_does_in_its_own_way_is_said(scratch):
    (note,) = found(scratch, mariadb(scratch, kind="sequential-insert")).notes
    assert "two rows on a page" in note


def test_a_folder_whose_name_the_server_would_change_is_refused_by_key(scratch):
    """InnoDB would write its data file into a folder called "?"."""
    with pytest.raises(PreflightError, match="has a letter in it") as caught:
        found(scratch, mariadb(scratch, volumes=["a", "𐀀"]))
    assert caught.value.key == "volumes.𐀀.path"
