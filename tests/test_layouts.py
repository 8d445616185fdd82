"""The articles' table on N data files of each engine: the real places of its files, and its owner."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from each_engine import SCHEMA, inventory, on_mariadb
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from real_servers import ask, connect, open_folder, plan_of, running, site_at, small

from storagelab.engines.mariadb import connect as mariadb
from storagelab.engines.mariadb.loads import inserts as mariadb_inserts
from storagelab.engines.postgres import connect as postgres
from storagelab.engines.postgres.loads.inserts import Tables
from storagelab.engines.postgres.preflight import check
from storagelab.errors import PreflightError
from storagelab.machine.rights import make_folder
from storagelab.model.config import TargetConfig
from storagelab.model.volume import VolumeConfig
from storagelab.servers.attached import OWNERSHIP
from storagelab.servers.places import tables_of
from storagelab.volumes.folders import Folders


@pytest.fixture
def connection(attached):
    with connect(attached) as session:
        yield session
        session.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


@pytest.fixture
def make(scratch, connection):
    """Makes the layout of a cell on volumes, and removes it at the end."""
    made: list[tuple[Tables, Folders]] = []

    def make_layout(**changes: object) -> Tables:
        config = small(scratch, **changes)
        site = site_at(scratch)
        folders = Folders(site, site.volume_paths(config))
        layout = Tables(config, site.prefix, folders)
        folders.make()
        made.append((layout, folders))
        layout.make_folders()
        layout.create(connection)
        return layout

    yield make_layout
    for layout, folders in made:
        layout.drop(connection)
        folders.remove()


def by_name(checks):
    return {check.name: check for check in checks}


def files_of(connection: psycopg.Connection, table: str) -> tuple[Path, Path]:
    """Where the table and its index really lie, links resolved."""
    folder = Path(ask(connection, "SHOW data_directory"))
    index = ask(connection, "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = %s::regclass", table)
    table_place, index_place = (
        ask(connection, "SELECT pg_relation_filepath(%s::regclass)", name) for name in (table, index)
    )
    return Path(os.path.realpath(folder / table_place)), Path(os.path.realpath(folder / index_place))


# --- where files lie -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data_files", [1, 2, 5, 16])
def test_table_and_index_of_every_data_file_lie_in_a_folder_of_their_own(scratch, connection, make, data_files):
    layout = make(data_files=data_files)
    folders = set()
    for number in layout.data_files:
        table, index = files_of(connection, f"{SCHEMA}.my_big_table_p{number}")
        assert table.is_relative_to(layout.folder_of(number))
        assert index.is_relative_to(layout.folder_of(number))
        folders.add(layout.folder_of(number))
    assert len(folders) == data_files
    assert all(check.ok for check in layout.read_back(connection))


def test_data_files_go_round_robin_over_the_volumes_as_listed(scratch, connection, make):
    layout = make(data_files=5, volumes=["a", "b"], data=["b", "a"])
    volumes = [
        files_of(connection, f"{SCHEMA}.my_big_table_p{n}")[0].relative_to(scratch).parts[0] for n in layout.data_files
    ]
    assert volumes == ["b", "a", "b", "a", "b"]
    checks = by_name(layout.read_back(connection))
    assert checks["data files"].got == "5"
    assert checks["place of the data files"].ok
    assert (
        checks["place of the data files"].got
        == f"{scratch}/a/storagelab-tested-0badcafe, {scratch}/b/storagelab-tested-0badcafe"
    )


# --- what is not as asked is seen ------------------------------------------------------------------------------------


def test_an_index_that_was_moved_is_named(connection, make):
    layout = make(data_files=3)
    connection.execute(f"ALTER INDEX {SCHEMA}.my_big_table_p3_pkey SET TABLESPACE {SCHEMA}_f0001")
    checks = by_name(layout.read_back(connection))
    assert checks["place of the data files"].ok
    assert checks["place of the indexes"].ok is False
    assert checks["place of the indexes"].got.startswith("data file 3: ")


def test_a_data_file_that_is_gone_is_missed(connection, make):
    layout = make(data_files=3)
    connection.execute(f"DROP TABLE {SCHEMA}.my_big_table_p1")
    checks = by_name(layout.read_back(connection))
    assert (checks["data files"].asked, checks["data files"].got, checks["data files"].ok) == ("3", "2", False)
    assert checks["place of the data files"].got == "data file 1: absent"


def test_rows_that_share_a_page_are_seen(connection, make, scratch):
    one_row = {"kind": "sequential-insert", "connections": 1}
    layout = make(data_files=1, **one_row, rows_per_connection=100)
    connection.execute(f"INSERT INTO {SCHEMA}.my_big_table SELECT FROM generate_series(1, 100)")
    assert layout.check_after(connection)[0].ok
    connection.execute(f"TRUNCATE {SCHEMA}.my_big_table")
    connection.execute(f"INSERT INTO {SCHEMA}.my_big_table (c3) SELECT 'a' FROM generate_series(1, 100)")
    more = Tables(small(scratch, **one_row, rows_per_connection=201), SCHEMA, None)
    assert more.check_after(connection)[0].ok is False


# --- the table -------------------------------------------------------------------------------------------------------


def test_the_random_table_is_the_articles(connection, make):
    make(data_files=1)
    connection.execute(f"INSERT INTO {SCHEMA}.my_big_table DEFAULT VALUES")
    row = connection.execute(f"SELECT c1::text, c2, c3, c4, c5, c6 FROM {SCHEMA}.my_big_table").fetchone()
    assert len(row[0]) == 36
    assert row[2:] == ("a".ljust(111), 1, 2, 42)


# --- only what is ours is dropped ------------------------------------------------------------------------------------


def test_another_layouts_leftovers_are_dropped_as_well(scratch, connection, make):
    make(data_files=8)
    assert len(Tables(small(scratch, dsn="-"), SCHEMA, None).drop(connection)) == 9


def test_a_schema_of_that_name_that_is_not_ours_is_left_alone(scratch, connection):
    connection.execute(f"CREATE SCHEMA {SCHEMA}")
    connection.execute(f"CREATE TABLE {SCHEMA}.thesis AS SELECT 'years of work' AS text")
    layout = Tables(small(scratch, dsn="-"), SCHEMA, None)
    for do in (layout.drop, layout.check_nothing_in_the_way):
        with pytest.raises(
            PreflightError, match=f"schema {SCHEMA} has a name that storagelab needs, but storagelab did not make it"
        ):
            do(connection)
    with pytest.raises(psycopg.errors.DuplicateSchema):
        layout.create(connection)
    assert ask(connection, f"SELECT text FROM {SCHEMA}.thesis") == "years of work"


def test_a_tablespace_of_that_name_that_is_not_ours_is_left_alone(scratch, connection):
    place = scratch / "precious"
    make_folder(place)
    connection.execute(f"CREATE TABLESPACE {SCHEMA}_f0001 LOCATION '{place}'")
    try:
        layout = Tables(small(scratch, dsn="-"), SCHEMA, None)
        with pytest.raises(PreflightError, match=f"tablespace {SCHEMA}_f0001 has a name that storagelab needs"):
            layout.drop(connection)
    finally:
        connection.execute(f"DROP TABLESPACE {SCHEMA}_f0001")


def test_other_experiments_on_the_same_server_are_left_alone(scratch, connection):
    other = Tables(small(scratch, dsn="-"), "storagelab_11111111", None)
    other.create(connection)
    assert ask(connection, "SELECT obj_description('storagelab_11111111'::regnamespace, 'pg_namespace')") == OWNERSHIP
    assert Tables(small(scratch, dsn="-"), SCHEMA, None).drop(connection) == []
    assert other.drop(connection) == ["schema storagelab_11111111"]


def test_many_data_files_need_no_larger_lock_table_to_be_made_and_dropped(scratch):
    """No transaction locks them all; with the settings that servers come with, 1024 files are as well."""
    with running(scratch / "server", max_connections=10, max_locks_per_transaction=10) as server:
        config = small(scratch, dsn=server.conninfo, data_files=200, connections=2)
        layout = Tables(config, SCHEMA, None)
        with connect(server) as connection:
            layout.create(connection)
            assert next((each.name, each.got) for each in layout.read_back(connection)) == ("data files", "200")
            assert layout.drop(connection) == [f"schema {SCHEMA}"]
        wide = config.workload.model_copy(update={"rows_per_transaction": 5_000, "rows_per_connection": 5_000})
        (note,) = check(plan_of(config.model_copy(update={"workload": wide})), site_at(scratch)).notes
        assert note.startswith("transactions may hold 800 locks at once")
        assert check(plan_of(small(scratch, dsn=server.conninfo, connections=2)), site_at(scratch)).notes == ()


# --- on MariaDB ------------------------------------------------------------------------------------------------------


def filled(server, scratch, **changes) -> list[int]:
    """How many rows lie in each data file, of 400 for each."""
    layout = mariadb_inserts.Tables(small(scratch, engine="mariadb", volumes=[], **changes), SCHEMA, None)
    with contextlib.closing(server.process.connect()) as connection:
        layout.create(connection)
        assert layout.read_back(connection)[0].got == str(changes["data_files"])
        rows = 400 * changes["data_files"]
        mariadb.ask(connection, f"INSERT INTO {layout.table} (c4) SELECT seq FROM mysql.seq_1_to_{rows}")
        counts = f"SELECT count(*) FROM {layout.table} PARTITION ({{}})"
        found = [mariadb.ask(connection, counts.format(layout.partition(n)))[0][0] for n in layout.data_files]
        assert layout.drop(connection) == [f"database {SCHEMA}"]
    return found


@on_mariadb
@pytest.mark.parametrize("data_files", [1, 2, 3, 7, 16, 64])
def test_keys_are_divided_evenly_over_any_number_of_data_files(server, scratch, data_files):
    counts = filled(server, scratch, data_files=data_files)
    assert 0.6 * 400 < min(counts) <= max(counts) < 1.4 * 400


@on_mariadb
def test_ascending_keys_go_round_the_data_files(server, scratch):
    assert filled(server, scratch, data_files=4, kind="sequential-insert") == [400, 400, 400, 400]


@on_mariadb
def test_the_largest_number_of_data_files_is_one_that_the_engine_can_have(server, scratch):
    """A spec may ask for 1024 at most, and MariaDB can have 8192 partitions."""
    assert len(filled(server, scratch, data_files=1024)) == 1024


# --- folders of any name ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def places() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


def lie_where_they_were_asked_to(server, places: Path, name: str) -> None:
    (places / name).mkdir(exist_ok=True)
    config = small(places, engine=server.engine, data_files=2, volumes=[])
    config = config.model_copy(update={"volumes": {"a": VolumeConfig(path=str(places / name))}})
    site = site_at(places)
    folders = Folders(site, site.volume_paths(config))
    folders.make()
    layout = tables_of(config)(config, site.prefix, folders)
    layout.make_folders()
    opening = mariadb.connect if server.engine == "mariadb" else postgres.connect
    with opening(TargetConfig(engine=server.engine, dsn=server.dsn)) as connection:
        before = inventory(server)
        try:
            layout.create(connection)
            assert {each.ok for each in layout.read_back(connection)} == {True}
            assert sum(file.is_file() for file in folders["a"].rglob("*")) >= 2
            assert layout.drop(connection)
            assert inventory(server) == before
        finally:
            layout.drop(connection)
            folders.remove()


def names(**letters: object) -> st.SearchStrategy[str]:
    text = st.text(st.characters(codec="utf-8", **letters), min_size=1, max_size=20)
    return text.filter(lambda name: name not in (".", "..") and len(name.encode()) < 60)


# A single quote in a place is refused before: PostgreSQL can't have it there.
@hypothesis_settings(max_examples=25)
@given(name=names(exclude_characters="\0/'", exclude_categories=["Cs", "Cc"]))
@example(name='"; DROP TABLE pg_class; -- \\')
@example(name="Laufwerk für %s, 数据 `x` 🎲")
@example(name="{schema} {} %(x)s $body$")
@pytest.mark.parametrize("shared", ["postgres"], indirect=True)
def test_data_files_lie_where_they_were_asked_to_whatever_the_folder_is_called(shared, places, name):
    lie_where_they_were_asked_to(shared, places, name)


# A letter of four bytes is refused before: MariaDB would write another.
@hypothesis_settings(max_examples=25)
@given(name=names(exclude_characters="\0/", exclude_categories=["Cs"], max_codepoint=0xFFFF))
@example(name='it\'s "here"; DROP DATABASE mysql; -- \\')
@example(name="Laufwerk für %s, 数据 `x`")
@example(name="\\'")
@example(name="a\nb\tc")
@on_mariadb
def test_so_they_do_on_mariadb(shared, places, name):
    lie_where_they_were_asked_to(shared, places, name)
