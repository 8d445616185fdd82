"""The table on N data files of a real MariaDB: made in the requested folders, whatever their names."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from real_mariadb import DATABASE, Elsewhere, needs_mariadb, running
from real_servers import open_folder, site_at, small

from storagelab.model.config import VolumeConfig
from storagelab.targets.folders import Folders
from storagelab.targets.mariadb.connecting import ask
from storagelab.targets.mariadb.loads.inserts import Tables

pytestmark = needs_mariadb

# Every folder name that a file system accepts, except those that preflight refuses: see test_mariadb_preflight.
NAMES = st.text(
    st.characters(codec="utf-8", max_codepoint=0xFFFF, exclude_characters="\0/", exclude_categories=["Cs"]),
    min_size=1,
    max_size=40,
).filter(lambda name: name not in (".", "..") and len(name.encode()) <= 120)


@pytest.fixture(scope="module")
def server() -> Iterator[Elsewhere]:
    with open_folder() as folder, running(folder / "s") as one:
        yield one


@pytest.fixture(scope="module")
def volumes() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@hypothesis_settings(max_examples=25)
@given(name=NAMES)
@example(name='it\'s "here"; DROP DATABASE mysql; -- \\')
@example(name="Laufwerk für %s, 数据 `x`")
@example(name="\\'")
@example(name="a\nb\tc")
def test_data_files_lie_where_they_were_asked_to_whatever_the_folder_is_called(server, volumes, name):
    place = volumes / name
    place.mkdir(exist_ok=True)
    config = small(volumes, engine="mariadb", data_files=2, volumes=[])
    config = config.model_copy(update={"volumes": {"a": VolumeConfig(path=str(place))}})
    site = site_at(volumes)
    folders = Folders(site, site.volume_paths(config))
    folders.make()
    layout = Tables(config, DATABASE, folders)
    layout.make_folders()
    connection = server.connect()
    try:
        before = ask(connection, "SHOW DATABASES")
        layout.create(connection)
        assert [check.ok for check in layout.read_back(connection)] == [True, True]
        assert len(list(folders["a"].rglob("*.ibd"))) == 2
        assert layout.drop(connection) == [f"database {DATABASE}"]
        assert ask(connection, "SHOW DATABASES") == before
    finally:
        layout.drop(connection)
        connection.close()
        folders.remove()


def filled(server, scratch, **changes) -> list[int]:
    """How many rows lie in each data file, of 400 for each."""
    layout = Tables(small(scratch, engine="mariadb", volumes=[], **changes), DATABASE, None)
    connection = server.connect()
    try:
        layout.create(connection)
        rows = 400 * changes["data_files"]
        ask(connection, f"INSERT INTO {layout.table} (c4) SELECT seq FROM mysql.seq_1_to_{rows}")
        counts = f"SELECT count(*) FROM {layout.table} PARTITION ({{}})"
        return [ask(connection, counts.format(layout.partition(n)))[0][0] for n in layout.data_files]
    finally:
        layout.drop(connection)
        connection.close()


@pytest.mark.parametrize("data_files", [1, 2, 3, 7, 16, 64])
def test_keys_are_divided_evenly_over_any_number_of_data_files(server, scratch, data_files):
    counts = filled(server, scratch, data_files=data_files)
    assert max(counts) < 1.4 * 400
    assert min(counts) > 0.6 * 400


def test_ascending_keys_go_round_the_data_files(server, scratch):
    assert filled(server, scratch, data_files=4, kind="sequential-insert") == [400, 400, 400, 400]


def test_the_largest_number_of_data_files_is_one_that_the_engine_can_have(server, scratch):
    """A spec may ask for 1024 at most, and MariaDB can have 8192 partitions."""
    layout = Tables(small(scratch, engine="mariadb", data_files=1024, volumes=[]), DATABASE, None)
    connection = server.connect()
    try:
        layout.create(connection)
        assert layout.read_back(connection)[0].got == "1024"
    finally:
        layout.drop(connection)
        connection.close()
