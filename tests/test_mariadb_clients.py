"""The client mariadb: its command, and the files that it is given."""

import shutil

import pytest
from real_servers import site_at

from storagelab.engines.mariadb.connect import Address, _for_client
from storagelab.engines.mariadb.loads.sql import files_of, find
from storagelab.errors import PreflightError
from storagelab.model.loads.sql import Sql


def load(**keys) -> Sql:
    return Sql.model_validate({"transactions": ({"file": "order.sql"},), **keys})


def test_no_password_is_on_its_command_line(tmp_path):
    address = Address(user="me", password="s3cret", host="db", port=3307, ssl="verified", ssl_ca="/ca.pem")
    said = " ".join(_for_client(address, "lab"))
    assert "s3cret" not in said
    assert "--host=db --port=3307 --protocol=tcp --ssl --ssl-verify-server-cert --ssl-ca=/ca.pem" in said
    assert said.endswith("--user=me --database=lab")


def test_the_dump_comes_before_the_setup(tmp_path):
    for name in ("before.sql", "schema.sql"):
        (tmp_path / name).write_text("SELECT 1;\n")
    found = files_of(load(restore="before.sql", setup=("schema.sql",)), site_at(tmp_path))
    assert found == [
        ("restoring before.sql", tmp_path / "before.sql"), ("setup by schema.sql", tmp_path / "schema.sql"),
    ]  # fmt: skip


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


def test_a_missing_client_is_named_with_its_package(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(PreflightError, match="mariadb is not on this machine") as caught:
        find(tmp_path)
    assert "mariadb-client" in caught.value.hint
