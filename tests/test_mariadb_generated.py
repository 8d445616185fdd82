"""The user's own tables and transactions on MariaDB: spread, run by sysbench, and gone afterwards."""

from pathlib import Path

import pytest
from real_mariadb import needs_mariadb, running
from real_servers import cell_of, got, left_behind, measure, site_at
from test_sysbench import needs_sysbench

from storagelab.engines.mariadb.connect import Address, _for_client, ask
from storagelab.engines.mariadb.loads.sql import files_of
from storagelab.errors import DataRefused, PreflightError, RunFailed
from storagelab.model.config import Config
from storagelab.model.loads.sql import Sql
from storagelab.run.engine import open_target

pytestmark = [needs_mariadb, needs_sysbench]

SCHEMA = """CREATE TABLE orders (id bigint AUTO_INCREMENT PRIMARY KEY, who int NOT NULL, KEY (who));
CREATE TABLE people (name varchar(20) PRIMARY KEY);
INSERT INTO orders (who) SELECT seq % 100 FROM seq_1_to_500;
"""


def own(scratch: Path, layout: dict | None = None, dsn: str | None = None, **load) -> Config:
    """A cell with a second of the user's own transactions."""
    (scratch / "schema.sql").write_text(SCHEMA)
    (scratch / "order.sql").write_text("\\set who random(1, 100)\nINSERT INTO orders (who) VALUES (:who);\n")
    volumes = {} if dsn else {name: {"path": str(scratch / name)} for name in "ab"}
    for name in volumes:
        (scratch / name).mkdir(exist_ok=True)
    return Config.model_validate({
        "target": {"engine": "mariadb", **({"dsn": dsn} if dsn else {})}, "volumes": volumes, "layout": layout or {},
        "workload": {
            "kind": "sql", "setup": ("schema.sql",), "transactions": ({"file": "order.sql"},), "connections": 2,
            "duration_s": 1.0, **load,
        },
    })  # fmt: skip


def test_tables_are_spread_by_keys_of_any_kind_and_the_others_stay_with_the_server(scratch):
    layout = {"data_files": 2, "data": ("a", "b"), "spread": ("orders", "people")}
    measured = measure(own(scratch, layout), site_at(scratch))
    found = got(measured)
    assert found["data files of orders"] == found["data files of people"] == ("2", True)
    assert all(ok for _, ok in found.values()), found
    assert measured.transactions == measured.latency.operations > 10
    assert left_behind(scratch) == []


def test_single_tables_and_partitions_lie_where_they_are_named(scratch):
    layout = {
        "data": ("a",), "spread": ("orders",), "data_files": 2,
        "objects": {"people": "b", "orders#P#p2": "b", "temp": "b"},
    }  # fmt: skip
    config = own(scratch, layout)
    with (scratch / "schema.sql").open("a") as file:
        file.write("INSERT INTO people VALUES ('me'); CREATE TABLE pets (name varchar(20), "
                   "CONSTRAINT owner FOREIGN KEY (name) REFERENCES people (name));")  # fmt: skip
    with open_target(config, site_at(scratch)) as target:
        measured = target.run(cell_of(config), 1, 1, lambda _: None)
        own_connection = target.server.own
        files = {
            name.partition("/")[2]: str(file.path)
            for name, file in target.system.layout.all_files(own_connection).items()
        }
        kept = ask(own_connection, "SELECT count(*) FROM storagelab_0badcafe.people")
        keys = ask(own_connection, "SELECT count(*) FROM information_schema.innodb_sys_foreign")
    assert {name for name, file in files.items() if "/on-b/" in file} == {"people", "orders#p#p2"}
    assert (kept[0][0], keys[0][0]) == (1, 1), "rows and the key of another table stay"
    found = got(measured)
    assert all(ok for _, ok in found.values()), found
    assert found["files of the placed objects"][0].endswith("/on-b")
    assert found["place of temporary files"][0].endswith("/temp")
    assert left_behind(scratch) == []


def test_an_index_cannot_be_placed_apart_from_its_table(scratch):
    with pytest.raises(DataRefused, match="InnoDB keeps indexes in their table's own file\\n  place the table: orders"):
        measure(own(scratch, {"objects": {"who": "b"}}), site_at(scratch))


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        (
            "schema.sql",
            "CREATE TABLE orders (id int);\nSELECT nope;\n",
            "setup by schema.sql failed: ERROR 1054 .* line 2",
        ),
        ("order.sql", "SELECT 1;\nSELECT nope;\n", "order.sql, line 2: Unknown column 'nope'"),
    ],
)
def test_what_fails_is_told_by_file_and_line(scratch, file, content, said):
    config = own(scratch)
    (scratch / file).write_text(content)
    with pytest.raises(RunFailed, match=said):
        measure(config, site_at(scratch))
    assert left_behind(scratch) == []


def test_a_server_that_already_runs_keeps_nothing_of_it_and_nobody_sees_the_password(scratch):
    with running(scratch / "elsewhere") as server:
        server.said("CREATE USER me@'127.0.0.1' IDENTIFIED BY 's3cret word'", "GRANT ALL ON *.* TO me@'127.0.0.1'")
        measured = measure(own(scratch, dsn=server.dsn("me", "s3cret word")), site_at(scratch))
        assert measured.transactions > 10
        assert got(measured)["place of the other tables"] == ("default", True)
        assert server.said("SHOW DATABASES LIKE 'storagelab%'") == []
        # A run that was killed has left its database with tables of any name.
        server.said("CREATE DATABASE storagelab_0badcafe",
                    "CREATE TABLE storagelab_0badcafe.all_made_by_storagelab (x INT) "
                    "COMMENT 'made by storagelab, which removes it again'",
                    "CREATE TABLE storagelab_0badcafe.orders (x INT)")  # fmt: skip
        assert measure(own(scratch, dsn=server.dsn("me", "s3cret word")), site_at(scratch)).transactions > 10
    assert "s3cret" not in measured.model_dump_json()


# --- its client program -----------------------------------------------------------------------------------------------


def load(**keys) -> Sql:
    return Sql.model_validate({"transactions": ({"file": "order.sql"},), **keys})


def test_no_password_is_on_its_command_line(tmp_path):
    address = Address(user="me", password="s3cret", host="db", port=3307, ssl="verified", ssl_ca="/ca.pem")
    said = " ".join(_for_client(address, "lab"))
    assert "s3cret" not in said
    assert "--host=db --port=3307 --protocol=tcp --ssl --ssl-verify-server-cert --ssl-ca=/ca.pem" in said
    assert said.endswith("--user=me --database=lab")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"PGDMP\x01\x0e", "is a dump of pg_dump, not SQL"),
        (b"\x1f\x8b\x08", "is compressed by gzip"),
        (b"-- MariaDB dump\n\nCREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop`;\n", "line 3, says CREATE DATABASE"),
        (b"CREATE TABLE a (x INT);\nUSE `shop`;\n", "line 2, says USE"),
    ],
)
def test_a_file_that_is_no_sql_or_leads_to_another_database_is_refused(tmp_path, content, problem):
    (tmp_path / "before.sql").write_bytes(content)
    with pytest.raises(PreflightError, match=problem) as caught:
        files_of(load(restore="before.sql"), site_at(tmp_path))
    assert caught.value.key == "workload.restore"


def test_words_of_a_text_are_no_statement(tmp_path):
    (tmp_path / "schema.sql").write_text("INSERT INTO notes VALUES ('\nuse the other door\n');\n")
    assert files_of(load(setup=("schema.sql",)), site_at(tmp_path))
