"""Drafts of specs from running servers and answers: they describe the server, and `plan` accepts them unchanged."""

import io
import sys
import tomllib
from pathlib import Path

import pytest
from real_mariadb import needs_mariadb
from real_mariadb import running as mariadb_running
from real_servers import connect, open_folder

from storagelab.errors import SpecError
from storagelab.experiments import text_of
from storagelab.machine.disks import Mount
from storagelab.machine.rights import give_to_server
from storagelab.servers import drafts
from storagelab.servers.attached import RunningServer
from storagelab.servers.drafts import filled, of_server
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse

MEMORY = Path("/dev/shm")
SPACES = ("fast one", "log", "жж", "щщ")


@pytest.mark.slow
@pytest.mark.skipif(not MEMORY.is_dir(), reason="no second file system")
def test_a_running_postgresql_gives_its_settings_tablespaces_and_volumes(typed, home, attached, monkeypatch, tmp_path):
    places = {name: MEMORY / f"storagelab-test-{tmp_path.name}-{number}" for number, name in enumerate(SPACES)}
    try:
        with connect(attached) as connection:
            for name, place in places.items():
                place.mkdir()
                give_to_server(place)
                connection.execute(f"CREATE TABLESPACE \"{name}\" LOCATION '{place}'")
        monkeypatch.setenv("MINE", attached.conninfo)
        assert typed("init", "--from-server", "MINE", "--output", "my.toml")[0] == 0
        spec = tomllib.loads((home / "my.toml").read_text("utf-8"))
        assert spec["target"]["settings"]["shared_buffers"]
        assert Path(spec["target"]["bin_dir"], "postgres").exists()
        assert spec["volumes"] == {"data": {"path": "."}, "fast-one": {"path": str(MEMORY)}}
        assert [level["label"] for level in spec["factors"]["layout"]] == [
            "as now",
            "all on fast-one",
            "log on fast-one",
        ]
        assert spec["factors"]["layout"][0]["layout.log"] == "data"
        text = (home / "my.toml").read_text("utf-8")
        assert "PASSWORD" not in text
        assert all(str(place) in text for place in places.values()), "each tablespace, whatever its name"
        code, out, _ = typed("plan", "my.toml")
        assert code == 0
        assert "3 cells x 3 repetitions" in out
    finally:
        with connect(attached) as connection:
            for name, place in places.items():
                connection.execute(f'DROP TABLESPACE IF EXISTS "{name}"')
                place.rmdir()


@pytest.mark.slow
@needs_mariadb
def test_a_running_mariadb_gives_its_settings_and_volumes(typed, home):
    with open_folder() as folder, mariadb_running(folder, "--innodb-flush-log-at-trx-commit=2") as server:
        assert typed("init", "--from-server", server.socket_dsn, "--output", "my.toml")[0] == 0
    spec = tomllib.loads((home / "my.toml").read_text("utf-8"))
    assert spec["target"]["engine"] == "mariadb"
    assert spec["target"]["settings"]["innodb_flush_log_at_trx_commit"] == 2
    assert list(spec["volumes"]) == ["data"]
    code, _, err = typed("plan", "my.toml")
    assert code == 0, err


def test_a_server_that_is_not_there_is_one_message(typed, home):
    code, out, err = typed("init", "--from-server", "postgresql://nobody@127.0.0.1:1/postgres")
    assert (code, out) == (2, "")
    assert "can't connect" in err


@pytest.mark.slow
def test_three_answers_make_a_spec_that_plans(typed, home, monkeypatch):
    (home / "second").mkdir()
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n., second\n\n"))
    assert typed("init", "--ask", "--output", "my.toml")[0] == 0
    spec = tomllib.loads((home / "my.toml").read_text("utf-8"))
    assert spec["volumes"] == {"volume1": {"path": "."}, "volume2": {"path": "second"}}
    code, out, _ = typed("plan", "my.toml")
    assert code == 0
    assert "all on volume1" in out


def test_an_answer_that_does_not_fit_is_one_message(typed, home, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("mariadb\n.\npgbench\n"))
    code, out, err = typed("init", "--ask")
    assert (code, out) == (2, "")
    assert "MariaDB has no load of that name" in err


RUNNING = RunningServer(
    "PostgreSQL 17.2", {"data_checksums": False, "shared_buffers": "8GB", "wal_level": "logical"},
    {"data": Path("/"), "log": MEMORY}, here=True, data_bytes=3 * 2**30, bin_dir=Path("/usr/lib/postgresql/17/bin"),
    asked=frozenset({"data_checksums", "shared_buffers", "max_wal_size", "wal_level", "checkpoint_timeout"}),
    left_out=("archive_mode: a command would run",), checkpoint_s=900.0,
)  # fmt: skip
FOR_A_SERVER = (
    "a-a", "ceiling", "cloud-disks", "drive-formats", "encryption", "file-systems", "files-and-log-place", "hot-table",
    "index-volume", "io-method", "quickstart", "raid-levels", "three-drives", "wal-volume",
    "your-own", "zfs-by-your-own-commands",
)  # fmt: skip


@pytest.mark.parametrize("name", FOR_A_SERVER)
def test_a_ready_made_spec_takes_a_servers_programs_settings_and_checkpoints(name):
    text = filled(name, text_of(name), "postgres", RUNNING, "MINE")
    before, spec = tomllib.loads(text_of(name)), tomllib.loads(text)
    assert spec["target"]["bin_dir"] == "/usr/lib/postgresql/17/bin"
    own = {one: value for one, value in before["target"].get("settings", {}).items() if one not in RUNNING.asked}
    assert spec["target"]["settings"] == own | RUNNING.settings
    assert spec["factors"].keys() == before["factors"].keys()
    assert "# - archive_mode: a command would run" in text
    load = spec["workload"]
    if load.get("warm_up") == "auto":
        assert load["warm_up_at_most"] == "1740s", "twice checkpoint_timeout, with the minute that counts"
    assert expand(parse(text, "my.toml")).cells


def test_the_volumes_and_the_size_are_the_servers():
    spec = tomllib.loads(filled("wal-volume", text_of("wal-volume"), "postgres", RUNNING, "MINE"))
    assert spec["volumes"]["log"] == {"path": str(MEMORY)}
    ceiling = tomllib.loads(filled("ceiling", text_of("ceiling"), "postgres", RUNNING, "MINE"))
    assert ceiling["volumes"]["memory"] == {"path": "/dev/shm"}, "what a recipe compares with is not the server's"
    assert spec["workload"]["scale"] == 205, "3 GiB of 15 MiB each"


def test_a_volume_to_try_is_a_mounted_drive_with_room(monkeypatch, tmp_path):
    on_one = RUNNING._replace(places={"data": Path("/")})
    drive = Mount(str(tmp_path), "259:0", "ext4", "/dev/nvme0n1", ("rw",), ())
    monkeypatch.setattr(drafts, "mounts_here", lambda: (drive,))
    for free, path in ((5 * 2**30, str(tmp_path)), (2**30, ".")):
        monkeypatch.setattr(drafts, "free_bytes", lambda _, free=free: free)
        spec = tomllib.loads(filled("wal-volume", text_of("wal-volume"), "postgres", on_one, "MINE"))
        assert spec["volumes"]["log"]["path"] == path


def test_a_spec_of_another_engine_takes_no_server():
    for name in ("mariadb-durability", "quickstart-engines", "drive-to-buy", "replay"):
        with pytest.raises(SpecError, match="and the server is PostgreSQL"):
            filled(name, text_of(name), "postgres", RUNNING, "MINE")


@pytest.mark.slow
def test_a_ready_made_spec_for_a_running_server_plans(typed, home, attached, monkeypatch):
    monkeypatch.setenv("MINE", attached.conninfo)
    assert typed("init", "wal-volume", "--from-server", "MINE", "--output", "my.toml")[0] == 0
    code, out, err = typed("plan", "my.toml")
    assert code == 0, err
    assert "too short" not in out


def test_a_folder_with_a_newline_in_its_name_writes_nothing_into_a_draft():
    odd = Path("/fast\n[between_runs]\npause_s = 9\n#")
    text = of_server("postgres", RunningServer("PostgreSQL 15", {}, {"fast": odd}, True, 0), "MINE")
    assert "between_runs" not in tomllib.loads(text)
