import re

import pytest
from recorded_sqlserver import recorded
from sqlserver_specs import PREFIX, config, facts, plan_of, site

from storagelab.engines.sqlserver.connect import connect
from storagelab.engines.sqlserver.layout import Layout, in_folder
from storagelab.errors import PreflightError
from storagelab.run.engine import open_target, sweep


def layout(**tables) -> Layout:
    return Layout(config(**tables), PREFIX, facts())


def test_data_files_go_round_robin_over_the_volumes_and_the_log_has_its_own():
    made = layout(layout={"data": ["a", "b"], "data_files": 5, "log": "b"})
    assert [file.volume for file in made.data_files] == ["a", "b", "a", "b", "a"]
    assert made.data_files[1].path == f"/data/b/{PREFIX}_data_0002.ndf"
    assert (made.primary_file.path, made.log_file.path) == (
        f"/data/a/{PREFIX}_primary.mdf",
        f"/data/b/{PREFIX}_log.ldf",
    )


def test_a_table_that_is_placed_takes_its_filegroup_along_and_nothing_else():
    made = layout(layout={"data": ["a"], "data_files": 2, "objects": {"dbo.MyBigTable": "b"}})
    assert [file.path for file in made.data_files] == [f"/data/b/{PREFIX}_data_000{number}.ndf" for number in (1, 2)]
    assert (made.primary_file.volume, made.log_file.volume) == ("a", "a")
    assert made.bytes_on("b") == 2 * made.data_file_mb * 2**20


def test_without_volumes_files_lie_where_the_server_keeps_its_own():
    made = layout(volumes={}, layout={"data_files": 2})
    assert made.data_files[1].path == f"/var/opt/mssql/data/{PREFIX}_data_0002.ndf"
    assert made.log_file.path == f"/var/opt/mssql/log/{PREFIX}_log.ldf"


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        ("D:\\data", "D:\\data\\f"), ("D:\\data\\", "D:\\data\\f"), ("D:", "D:\\f"),
        ("\\\\host\\share", "\\\\host\\share\\f"),
        ("/data", "/data/f"), ("/data/", "/data/f"), ("/data/D:", "/data/D:/f"),
    ],
)  # fmt: skip
def test_a_path_is_joined_as_its_system_writes_paths(folder, path):
    assert in_folder(folder, "f") == path


def test_data_files_are_of_equal_length_that_holds_all_rows_from_the_start():
    for files in (1, 3, 16):
        made = layout(workload={"rows_per_connection": 1_000_000}, layout={"data_files": files})
        sizes = re.findall(r"_data_\d+\.ndf', SIZE = (\d+)MB, FILEGROWTH = 64MB", made.create_database())
        assert len(sizes) == files
        assert set(sizes) == {str(made.data_file_mb)}
        # 160 bytes a row in pages that are 69 % full, and room to spare.
        assert files * made.data_file_mb * 2**20 >= 3_000_000 * 160 / 0.69


def test_a_log_that_is_never_truncated_is_as_long_as_all_of_the_run_needs():
    rows = {"rows_per_connection": 10**8}
    simple, full = layout(workload=rows), layout(workload=rows, target={"settings": {"recovery": "full"}})
    assert simple.log_file_mb == 16_384
    assert full.log_file_mb > 100_000
    assert full.alter_database()[-1] == f"BACKUP DATABASE [{PREFIX}] TO DISK = N'NUL'"
    assert not any("BACKUP" in statement for statement in simple.alter_database())


def test_the_table_is_the_articles_one_clustered_on_its_key_in_the_filegroup():
    words = " ".join(layout().create_table().split())
    assert "c1 uniqueidentifier ROWGUIDCOL NOT NULL DEFAULT NEWID()" in words
    assert "c3 char(111) NOT NULL DEFAULT 'a'" in words
    assert "c6 bigint NOT NULL DEFAULT 42" in words
    assert words.endswith("PRIMARY KEY CLUSTERED (c1) ) ON [storagelab_data]")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("recovery", "SIMPLE; DROP DATABASE master"), ("target_recovery_time_s", "1 SECONDS; DROP DATABASE master"),
        ("data_compression", "NONE) DROP TABLE x --"), ("data_file_mb", "8MB"), ("log_file_mb", True),
    ],
)  # fmt: skip
def test_no_value_that_was_not_looked_at_becomes_part_of_a_statement(name, value):
    made = layout(target={"settings": {name: value}})
    with pytest.raises(PreflightError) as refused:
        _ = [made.create_database(), *made.alter_database(), made.create_table()]
    assert refused.value.key == f"target.settings.{name}"


def test_a_database_of_that_name_that_is_not_ours_stops_everything_and_stays(monkeypatch):
    with recorded() as running:
        monkeypatch.setenv("STORAGELAB_TESTED", running.dsn())
        session = connect(config().target)
        session.execute(
            f"CREATE DATABASE [{PREFIX}]\nON PRIMARY (NAME = N'x', FILENAME = N'/data/{PREFIX}.mdf', FILEGROWTH = "
            "64MB) "
            "FILEGROUP LOG ON"
        )
        with pytest.raises(PreflightError, match="storagelab did not make it"):
            sweep(plan_of(config()), site())
        with pytest.raises(Exception, match="storagelab did not make it"), open_target(config(), site()):
            pass
        session.close()
        assert running.server.names == {"master", "somebody", PREFIX}
        assert not any("DROP" in batch for batch in running.server.batches)


def test_what_a_killed_run_left_is_swept_and_said(monkeypatch):
    with recorded() as running:
        monkeypatch.setenv("STORAGELAB_TESTED", running.dsn())
        session = connect(config().target)
        Layout(config(), PREFIX, facts()).create(session)
        session.close()
        assert PREFIX in running.server.names
        assert sweep(plan_of(config(), config()), site()) == [
            f"dropped database {PREFIX}, left on the server by a killed run"
        ]
        assert running.server.names == {"master", "somebody"}
        assert sweep(plan_of(config()), site()) == []
