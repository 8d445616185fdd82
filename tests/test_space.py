"""Space in memory and on volumes, and a set-up that uses a small volume's last bytes."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_mariadb import needs_mariadb
from real_servers import ask, connect, left_behind, mounted, needs_root, run_of, running
from test_sysbench import needs_sysbench

from storagelab.machine import doctor, temporary
from storagelab.model.config import Config
from storagelab.model.loads.pgbench import Pgbench
from storagelab.model.loads.sql import Sql
from storagelab.model.loads.sysbench import Sysbench
from storagelab.servers.space import Memory, SpaceWatch, memory_note

SCHEMA = {
    "postgres": "CREATE TABLE orders (id int PRIMARY KEY);\nINSERT INTO orders SELECT generate_series(1, 900000);\n",
    "mariadb": "CREATE TABLE orders (id int PRIMARY KEY);\nINSERT INTO orders SELECT seq FROM seq_1_to_200000;\n",
}


def cell(scratch: Path, engine: str, layout: dict, kind: str, **load) -> Config:
    """A cell on the volumes a and b, whose log lies on b."""
    for name in "ab":
        (scratch / name).mkdir(exist_ok=True)
    if kind == "sql":
        (scratch / "schema.sql").write_text(SCHEMA[engine])
        (scratch / "order.sql").write_text("SELECT count(*) FROM orders;\n")
        load |= {"setup": ("schema.sql",), "transactions": ({"file": "order.sql"},)}
    return Config.model_validate({
        "target": {"engine": engine, "settings": {"max_wal_size": "2GB"} if engine == "postgres" else {}},
        "volumes": {name: {"path": str(scratch / name)} for name in "ab"},
        "layout": {"data": ["a"], "log": "b", **layout},
        "workload": {"kind": kind, "connections": 2, "duration_s": 1.0, **load},
    })  # fmt: skip


@contextlib.contextmanager
def small_drive(scratch: Path, name: str, size: str) -> Iterator[Path]:
    with mounted(scratch / name, "-o", f"size={size}") as drive:
        os.chmod(drive, 0o755)
        yield drive


SPREAD = {"data": ["a", "b"], "data_files": 2, "log": "a", "spread": ["orders"]}


@needs_root
@needs_mariadb
@needs_sysbench
@pytest.mark.parametrize(
    ("engine", "drive", "size", "layout", "load", "way_out"),
    [
        pytest.param("postgres", "a", 50, {}, {"kind": "sql"}, "let workload.setup", id="the "
        "data directory, by own SQL"),
        # The server stops for good, and the generator only says that it lost it.
        pytest.param("postgres", "b", 36, {}, {"kind": "pgbench", "scale": 6}, "lower workload.scale", id="the log"),
        pytest.param("mariadb", "b", 3, SPREAD, {"kind": "sql"}, "let workload.setup", id="MariaDB, by own SQL"),
        # The server calls an index corrupt that it had no room to finish.
        pytest.param("mariadb", "a", 60, {}, {"kind": "sysbench", "table_size": 200_000}, "lower workload.tables",
                     id="MariaDB, by sysbench"),
    ],
)  # fmt: skip
def test_a_setup_that_takes_a_volumes_last_bytes_names_it_and_leaves_nothing(
    scratch, engine, drive, size, layout, load, way_out
):
    with small_drive(scratch, drive, f"{size}m") as place:
        run = run_of(cell(scratch, engine, layout, **load), scratch)
        assert (run.status, run.measurement) == ("failed", None)
        said = (
            f"the set-up filled volume {drive} ({place}: {size} MiB, {size} MiB of them free "
            "before): free some, name a "
        )
        assert run.reason.startswith(f"{said}larger volume, or {way_out}")
        assert len(run.reason.splitlines()) == 1
        assert len(run.reason) < 600
        assert os.listdir(place) == []
        assert left_behind(scratch) == []


@needs_root
def test_so_does_one_on_a_server_that_already_runs_by_a_volume_for_tables(scratch):
    with running(scratch / "attached") as server, small_drive(scratch, "b", "2m") as place:
        config = cell(scratch, "postgres", {"tables": "b", "log": None}, "pgbench")
        target = {"engine": "postgres", "dsn": server.conninfo}
        run = run_of(Config.model_validate({**config.model_dump(), "target": target}), scratch)
        assert run.reason.startswith(f"the set-up filled volume b ({place}: 2 MiB, ")
        assert os.listdir(place) == []
        with connect(server) as connection:
            assert ask(connection, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'storagelab%'") == 0
            assert ask(connection, "SELECT count(*) FROM pg_tablespace WHERE spcname LIKE 'storagelab%'") == 0


def test_volumes_on_one_file_system_share_the_blame_and_other_failures_have_none(scratch):
    config = cell(scratch, "postgres", {}, "pgbench")
    with SpaceWatch({name: scratch / name for name in "ab"}) as filling:
        assert filling.explain("relation does not exist", "", config, None) is None
        full = filling.explain("a lost connection", "PANIC: No space left on device", config, None)
    assert str(full).startswith(f"the set-up filled volumes a and b, one file system ({scratch}/")


@needs_root
def test_the_file_that_a_server_names_tells_the_volume(scratch):
    config = cell(scratch, "postgres", {}, "pgbench")
    (scratch / "a" / "server").mkdir()
    (scratch / "a" / "server" / "pg_wal").symlink_to(scratch / "b")
    with small_drive(scratch, "c", "4m"), SpaceWatch({name: scratch / name for name in "abc"}) as filling:
        words = 'could not write to file "pg_wal/xlogtemp.7": No space left on device'
        assert "volumes a and b, one" in str(filling.explain(words, "", config, scratch / "a" / "server"))
        assert "volume c (" in str(filling.explain("The table 't' is full", "", config, scratch / "a" / "server"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ('could not resize shared memory segment "/PostgreSQL.7" to 9 bytes: No space left on device',
         "filled shared memory (/dev/shm: "),
        ("[Errno 28] No space left on device: '{own}/scripts-2'", "filled the temporary folder ({tmp}: "),
        ("Error writing file '/proc/fd/MLx' (Errcode: 28 \"No space left on device\")",
         "filled a folder that belongs to no volume (/proc: "),
        ("could not extend file: Disk quota exceeded", "used up its user's disk quota on volumes "
        "a and b, one file system"),
    ],
)  # fmt: skip
def test_what_was_full_is_named_whatever_it_was(scratch, words, said):
    config = cell(scratch, "postgres", {}, "pgbench")
    with SpaceWatch({name: scratch / name for name in "ab"}) as filling:
        own = temporary.path("scripts").parent
        full = str(filling.explain(words.format(own=own), "", config, scratch / "a"))
        assert full.startswith(f"the set-up {said.format(tmp=scratch / 'tmp')}")
        attached = str(filling.explain("Error writing file '/x/MLx' (Errcode: 28)", "", config, None))
    assert attached.startswith("the set-up filled the disk of /x on the server's machine: free some there; it said: ")


@needs_root
def test_a_volume_without_inodes_is_not_said_to_be_full(scratch, fresh_databases):
    with mounted(scratch / "a", "-o", "nr_inodes=300") as place:
        os.chmod(place, 0o755)
        config = cell(scratch, "postgres", {"log": "a"}, "pgbench")
        assert run_of(config, scratch).reason.startswith(f"the set-up used up the inodes of volume a ({place}: ")
        for number in range(400):
            with contextlib.suppress(OSError):
                (place / str(number)).touch()
        assert doctor.place("volume a", place).detail.endswith("it has no inode left")


@needs_root
def test_shared_memory_that_is_full_is_named_before_a_run_and_by_the_doctor(scratch):
    (scratch / "my.toml").write_text(
        '[target]\nengine = "postgres"\n[volumes.a]\npath = "."\n[workload]\nkind = "pgbench"\n'
    )
    lab = f"cd {scratch} && {sys.executable} -m storagelab"
    small = f"mount -t tmpfs -o size=8k tmpfs /dev/shm && {lab} doctor; {lab} run my.toml"
    said = subprocess.run(["unshare", "--mount", "sh", "-c", small], capture_output=True, text=True, check=False)
    assert "/dev/shm is full: PostgreSQL does not start" in " ".join(said.stdout.split())
    assert "does not start: /dev/shm is full\n  remove files that others left in /dev/shm" in said.stderr


GIB = 2**30
UNIT_BYTES = {Pgbench: 17 * 2**20, Sysbench: 300, Sql: 0}
PGBENCH = Pgbench(scale=100)  # 1.7 GiB


def said(load, buffers: float | None, machine: float | None, *, cached: bool = True) -> str:
    sizes = [None if one is None else round(one * GIB) for one in (buffers, machine)]
    return memory_note(load, UNIT_BYTES[type(load)], Memory("shared_buffers", *sizes, cached=cached))


@pytest.mark.parametrize(
    ("buffers", "machine", "cached", "says"),
    [
        (2, 8, True, "takes about 1.7 GiB, 0.83 of shared_buffers and 0.21 of the machine's memory, so it fits"),
        (1, 8, True, "the kernel's page cache can hold it"),
        (1, None, True, "how much memory the server's machine has for its page cache is not known"),
        (None, 8, True, "how large shared_buffers is on the server is not known"),
    ],
)
def test_what_fits_and_what_is_not_known_is_said(buffers, machine, cached, says):
    assert says in said(PGBENCH, buffers, machine, cached=cached)


def test_direct_io_and_more_data_than_memory_leave_nothing_to_warn_of():
    assert said(PGBENCH, 1, 8, cached=False) == said(PGBENCH, 0.5, 1) == ""


@pytest.mark.parametrize(
    "load", [Sysbench(script="mine.lua"), Sql.model_validate({"transactions": ({"file": "x.sql"},)})]
)
def test_of_what_the_users_own_files_make_nothing_is_claimed(load):
    text = said(load, 1, 8)
    assert "is not known before a run" in text
    assert "shared_buffers (1 GiB)" in text


def test_a_page_cache_that_is_dropped_before_each_run_holds_nothing_at_first():
    memory = Memory("shared_buffers", 2**28, 8 * 2**30, cached=True)
    assert memory_note(PGBENCH, 17 * 2**20, memory).startswith("few reads reach the drive\n")
    assert memory_note(PGBENCH, 17 * 2**20, memory, dropped=True).startswith("only first reads reach the drive\n")
