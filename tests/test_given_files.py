"""Files that others wrote: endless files are not read, and damaged files are refused with a message."""

import json
import math
import os
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from test_fitting import TRUTHS, drive_of, simulated

from storagelab import profiles
from storagelab.capture import folder
from storagelab.drives.measured import MeasuredDrive, as_toml
from storagelab.engines.mariadb.loads.sql import without_definers
from storagelab.engines.postgres.loads.sql import leaving_out_owners
from storagelab.errors import PreflightError, SpecError, StoragelabError
from storagelab.loads import traces
from storagelab.loads.own_files import changed, newer_words, without_data
from storagelab.predicting import prediction, reckoning
from storagelab.run import measuring
from storagelab.servers.attached import pid_in
from storagelab.spec import given_files, reading


def test_a_device_and_a_fifo_are_refused_before_they_are_read(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.toml"
    os.mkfifo(fifo)
    for place in (Path("/dev/zero"), fifo):
        with pytest.raises(SpecError, match="is not a regular file"):
            reading.load(place)
        with pytest.raises(PreflightError, match="is not a regular file"):
            profiles.load(str(place), Path())
        with pytest.raises(PreflightError, match=f"^{place}: is not a regular file\n"):
            MeasuredDrive.read(place)


def test_a_servers_file_of_its_process_may_be_anything(tmp_path: Path) -> None:
    fifo, file = tmp_path / "postmaster.pid", tmp_path / "mariadb.pid"
    os.mkfifo(fifo)
    file.write_text("4711\n/var/lib\n")
    assert [pid_in(one) for one in (fifo, Path("/dev/zero"), tmp_path / "gone", file)] == ["", "", "", "4711"]


def test_a_file_of_a_mebibyte_is_read_and_a_larger_one_is_not(tmp_path: Path) -> None:
    file = tmp_path / "large.toml"
    file.write_text("#" * given_files.MOST_BYTES)
    assert len(given_files.text_of(file)) == given_files.MOST_BYTES
    file.write_text("#" * (given_files.MOST_BYTES + 1))
    with pytest.raises(SpecError, match="is larger than 1 MiB"):
        reading.load(file)


def test_a_spec_in_a_folder_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    file = folder / "x.toml"
    file.write_text('[target]\nengine = "postgres"\n[volumes.a]\npath = "."\n')
    with pytest.raises(SpecError, match="its path is not UTF-8"):
        reading.load(file)


CAPTURE = Path(__file__).parent / "golden" / "capture-postgres"
ASKED = '[volumes.data]\nlimit = { read_iops = 500, write_iops = 500 }\n[layouts.a]\nobjects = { tables = "data" }\n'
IOLOG = "fio version 3 iolog\n5 /a add\n5 /a open\n100 /a read 4096 512\n350 /a write 0 1024\n400 /a sync\n"
BLKTRACE = b"".join(
    struct.pack("<IIQQIIIIIHH", 0x65617407, 1, at, 8 * at, 4096, (1 << 16 + at % 3) | 1, 1, 7, 0, 0, 0)
    for at in range(9)
)
ODD = (
    "NaN", "Infinity", "-1", "1e308", "1e999", "9" * 400, "-0.0", "null", "true", '""', "[[" * 40_000, "x" * 200_000,
    "\0",
    "\ud800",    "2**63", str(2**63), "-9223372036854775809", "0.1", "1e-320", "\x1b[31m", '"', ",", "\r", "{}",
)  # fmt: skip


def prediction_text() -> str:
    figures = {"value": 1.0}
    return json.dumps(
        {
            "schema": prediction.SCHEMA, "engine": "postgres", "captured_per_s": 1.0, "sessions": 2.0,
            "layouts": [figures], "notes": [],
        }
    )  # fmt: skip


DISK = drive_of(TRUTHS["a disk"], simulated(TRUTHS["a disk"]))


def of_capture(name: str) -> tuple[bytes, Callable[[Path], object]]:
    def read(file: Path) -> None:
        for one in CAPTURE.iterdir():
            if one.name != name:
                shutil.copy(one, file.parent)
        found = folder.read(file.parent)
        figures = [value for row in (*found.io, *found.devices) for value in row if isinstance(value, int | float)]
        assert all(math.isfinite(value) and 0 <= value < 2**63 for value in figures)

    return (CAPTURE / name).read_bytes(), read


FORMATS: dict[str, Callable[[], tuple[bytes, Callable[[Path], object]]]] = {
    "manifest.json": lambda: of_capture("manifest.json"),
    "io.csv": lambda: of_capture("io.csv"),
    "devices.csv": lambda: of_capture("devices.csv"),
    "prediction.json": lambda: (prediction_text().encode(), prediction.read),
    "volumes.toml": lambda: (ASKED.encode(), reckoning.load),
    "drive.toml": lambda: (as_toml(DISK, usable_bytes=2**30, sector_bytes=512).encode(), MeasuredDrive.read),
    "partial": lambda: (b'{"a": 1}\n{"asked": [4096, 0.5, 1, false, false], "requests_per_s": 1.0, "mean_latency_s": '
    b'0.1}\n',
                        lambda file: measuring.KeptResults(file, {"a": 1})),
    "requests.iolog": lambda: (IOLOG.encode(), traces.read),
    "trace.blktrace": lambda: (BLKTRACE, traces.read),
}  # fmt: skip


def mutated(content: bytes, chance: Random) -> bytes:
    """A figure or a text in it replaced, bytes changed, or the end cut off."""
    if chance.random() < 0.5 and (places := list(re.finditer(rb'[\w.+-]+|"[^"\n]*"', content))):
        place = chance.choice(places)
        return content[: place.start()] + chance.choice(ODD).encode("utf-8", "surrogatepass") + content[place.end() :]
    at = chance.randrange(len(content))
    return (
        content[:at]
        + bytes(chance.randrange(256) for _ in range(chance.randrange(4)))
        + content[at + chance.randrange(9) :]
    )


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("number", [200, pytest.param(2000, marks=pytest.mark.campaign)])
def test_a_damaged_file_is_read_or_refused_in_words_that_name_it(tmp_path: Path, name: str, number: int) -> None:
    content, read = FORMATS[name]()
    file, chance, refused, unnamed = tmp_path / name, Random(name), 0, []
    for _ in range(number):
        file.write_bytes(mutated(content, chance))
        try:
            read(file)
        except StoragelabError as error:
            refused += file.name in str(error)
            unnamed += [str(error)] if file.name not in str(error) else []
    assert unnamed == []
    assert refused > number / 10


@pytest.mark.parametrize("name", FORMATS)
def test_a_fifo_and_a_device_without_an_end_are_refused(tmp_path: Path, name: str) -> None:
    _, read = FORMATS[name]()
    fifo, endless = tmp_path / name, tmp_path / "endless" / name
    os.mkfifo(fifo)
    endless.parent.mkdir()
    endless.symlink_to("/dev/zero")
    for file in (fifo, endless):
        with pytest.raises(StoragelabError, match="is not a regular file"):
            read(file)


POSTGRES = """repetitions = 1
[target]
engine = "postgres"
[volumes.a]
path = "."
[workload]
connections = 1
duration = "1s"
"""
SCRIPTS = {
    "workload.scripts": POSTGRES + 'kind = "pgbench"\nscripts = ["{file}"]\n',
    "workload.restore": POSTGRES + 'kind = "sql"\ntransactions = [{{ file = "s.sql" }}]\nrestore = "{file}"\n',
    "workload.trace": 'repetitions = 1\n[target]\nengine = "raw-io"\n[volumes.a]\npath = "."\n[layout]\ndata_size = '
    '"8MiB"\n'
    '[workload]\nkind = "replay"\ntrace = "{file}"\n',
}


@pytest.mark.parametrize("key", SCRIPTS)
def test_a_spec_that_names_a_fifo_or_a_device_is_refused_by_key(typed, tmp_path: Path, key: str) -> None:
    os.mkfifo(tmp_path / "fifo.sql")
    (tmp_path / "endless.sql").symlink_to("/dev/zero")
    (tmp_path / "s.sql").write_text("SELECT 1;\n")
    for name in ("fifo.sql", "endless.sql"):
        (tmp_path / "x.toml").write_text(SCRIPTS[key].format(file=name))
        code, _, err = typed("plan", tmp_path / "x.toml")
        assert code == 2
        assert key in err
        assert "is not a regular file" in err


# --- dumps on their way to a client: owners and definers are left out, rows and bodies stay ---------------------------


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
