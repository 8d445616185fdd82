"""Which MariaDB is found, and which settings its own parser takes. Every program here is a real one, or a script."""

from pathlib import Path

import pytest
from real_mariadb import needs_mariadb
from real_servers import site_at, small

from storagelab.errors import PreflightError
from storagelab.targets.mariadb import engine, settings
from storagelab.targets.mariadb.server import STARTER
from storagelab.targets.mariadb.settings import check_settings, find_binaries, private_settings


def script(folder: Path, said: str, *names: str) -> Path:
    """A folder of programs that only know how to say their version."""
    folder.mkdir(parents=True)
    for name in names or ("mariadbd", "mariadb-install-db"):
        program = folder / name
        program.write_text(f"#!/bin/sh\necho '{said}'\n")
        program.chmod(0o755)
    return folder


@needs_mariadb
def test_the_systems_server_is_found_without_being_named():
    found = find_binaries(None)
    assert found.release >= settings.OLDEST
    assert found.installer.is_file()
    assert [ability.state for ability in engine.abilities()] == ["yes"]


def test_a_relative_bin_dir_starts_at_the_folder_of_the_spec(scratch):
    script(scratch / "bin", "mariadbd  Ver 11.4.5-MariaDB for Linux")
    found = STARTER.programs(small(scratch, engine="mariadb", bin_dir="bin"), site_at(scratch))
    assert (found.version, found.server, found.origin) == ("11.4.5", scratch / "bin" / "mariadbd", "target.bin_dir")


@pytest.mark.parametrize(
    ("said", "names", "problem", "hint"),
    [
        ("mariadbd  Ver 10.6.18-MariaDB", (), "is MariaDB 10.6.18, which is too old", "10.11 and later"),
        ("mysqld  Ver 8.0.36 for Linux (MySQL Community Server - GPL)", ("mysqld",), "is MySQL", "target.dsn"),
        ("something else", (), "is not MariaDB", "holds mariadbd"),
        ("mariadbd  Ver 11.4.5-MariaDB", ("mariadbd",), "no mariadb-install-db", "mariadb-server-core"),
    ],
)
def test_what_can_not_be_started_is_refused_by_name(scratch, said, names, problem, hint):
    folder = script(scratch / "opt" / "bin", said, *names)
    with pytest.raises(PreflightError) as caught:
        find_binaries(str(folder))
    assert caught.value.key == "target.bin_dir"
    assert problem in caught.value.problem
    assert hint in caught.value.hint


def test_a_folder_without_a_server_is_refused(scratch):
    with pytest.raises(PreflightError, match="holds no mariadbd"):
        find_binaries(str(scratch))


def test_no_server_at_all_is_said_with_the_ways_to_get_one(monkeypatch):
    monkeypatch.setattr(settings.shutil, "which", lambda *_, **__: None)
    with pytest.raises(PreflightError, match="no MariaDB server found") as caught:
        find_binaries(None)
    assert "apt-get install mariadb-server-core" in caught.value.hint
    (ability,) = engine.abilities()
    assert (ability.state, ability.mend) == ("no", caught.value.hint)


@needs_mariadb
def test_the_parsers_reading_of_each_setting_is_told():
    asked = {"innodb_page_size": "4k", "innodb-buffer-pool-size": "64M", "innodb_adaptive_hash_index": True}
    assert check_settings(find_binaries(None), asked) == {
        "innodb_page_size": "4096",
        "innodb-buffer-pool-size": str(64 * 2**20),
        "innodb_adaptive_hash_index": "TRUE",  # as the parser writes it; the server itself says ON
    }


@needs_mariadb
@pytest.mark.parametrize(
    ("name", "value", "words", "hint"),
    [
        ("innodb_flush_log_at_trx_commit", 9, "adjusted to 3", "was asked"),
        ("innodb_page_size", "banana", "Unknown suffix 'b'", "was asked"),
        ("innodb_bufer_pool_size", "1G", "unknown variable", "Did you mean innodb_buffer_pool_size? "),
        ("innodb_buffer_pool_siz", "1G", "ambiguous option", "Did you mean innodb_buffer_pool_size? "),
        ("innodb_flush_log_at_trx", 1, "no setting of that name", "Did you mean innodb_flush_log_at_trx_commit? "),
        ("character_set_server", "nope", "Character set 'nope' is not a compiled character set", "was asked"),
        ("max_connections", 1, "1 adjusted to 10", "was asked"),
        ("sql_mode", "NONSENSE", "NONSENSE", "was asked"),
        ("nothing; rm -rf", 1, "unknown variable", "was asked"),
        ("datadir", "/etc", "storagelab itself sets it", "leave it out"),
        ("innodb-log-group-home-dir", "/etc", "storagelab itself sets it", "leave it out"),
    ],
)
def test_what_the_server_would_refuse_or_change_is_refused_by_key(name, value, words, hint):
    with pytest.raises(PreflightError) as caught:
        check_settings(find_binaries(None), {name: value})
    assert caught.value.key == f"target.settings.{name}"
    assert words in caught.value.problem
    assert hint in caught.value.hint


def test_a_server_takes_as_many_connections_as_the_workload_needs(scratch):
    assert private_settings(small(scratch, engine="mariadb", connections=300))["max_connections"] == 308
