"""Dumps on their way to a client program: owners and definers are left out, rows and bodies stay."""

from storagelab.engines.mariadb.loads.sql import without_definers
from storagelab.engines.postgres.loads.sql import leaving_out_owners
from storagelab.loads.own_files import changed, newer_words, without_data


def test_owners_and_rights_are_left_out_but_not_from_rows_and_bodies(tmp_path):
    kept = [
        "CREATE TABLE t (a text);", "COPY public.t (a) FROM stdin;", "GRANT ALL ON t TO me;", "\\.",
        "CREATE FUNCTION f() AS $$", "REVOKE ALL ON t FROM me;", "$$;", "ALTER TABLE t ADD b int;",
    ]  # fmt: skip
    left_out = [
        "ALTER TABLE public.t OWNER TO shop;", "GRANT SELECT ON TABLE t TO shop;", "SET default_tablespace = fast;",
        "ALTER DEFAULT PRIVILEGES FOR ROLE shop GRANT SELECT ON TABLES TO shop;",
    ]  # fmt: skip
    (tmp_path / "dump.sql").write_text("\n".join([*left_out, *kept, *left_out, ""]))
    with changed(tmp_path / "dump.sql", leaving_out_owners()) as given:
        found = given.read_text().split("\n")
    assert found == ["", "", "", "", *kept, "", "", "", "", ""], "lines keep their numbers"


def test_definers_are_left_out_of_views_and_triggers_but_not_of_rows():
    view = b"/*!50013 DEFINER=`shop`@`%` SQL SECURITY DEFINER */\n"
    assert without_definers(view) == b"/*!50013  SQL SECURITY DEFINER */\n"
    row = b"INSERT INTO t VALUES ('DEFINER=`a`@`b`');\n"
    assert without_definers(row) == row


def test_values_of_the_data_are_in_no_message_and_names_are():
    for words, shown in (
        ('ERROR:  invalid input syntax for type integer: "s3cret"', 'ERROR:  invalid input '
        'syntax for type integer: "..."'),
        ("ERROR 1062 (23000) at line 7: Duplicate entry 's3c'ret' for key 'PRIMARY'",
         "ERROR 1062 (23000) at line 7: Duplicate entry '...' for key 'PRIMARY'"),
        ('ERROR:  column "nope" does not exist', 'ERROR:  column "nope" does not exist'),
    ):  # fmt: skip
        assert without_data(words) == shown


def test_only_a_dump_of_a_newer_server_is_said_to_be_newer():
    assert newer_words((18, 4), (18,), "PostgreSQL") == ""
    assert newer_words(None, (18,), "PostgreSQL") == ""
    assert "PostgreSQL 19.1, and this server is 18," in newer_words((19, 1), (18,), "PostgreSQL")
