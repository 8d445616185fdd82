"""Disks that fill up under a store, a report and a capture: a sentence with a solution, and the next try continues."""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest
from real_servers import mounted
from simulated_specs import SMALL

from bench.faults import views
from storagelab.capture import folder

KIB = 1024
FILLER = "filler"


@pytest.fixture
def disk(scratch, monkeypatch):
    monkeypatch.chdir(scratch)
    (scratch / "small.toml").write_text(SMALL)
    with mounted(scratch / "disk", "-o", "size=8m,mode=1777") as place:
        yield place


def fill(disk: Path, *, but_kib: int = 0) -> None:
    with (disk / FILLER).open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4 * KIB))
    os.truncate(disk / FILLER, (disk / FILLER).stat().st_size - but_kib * KIB)


def files(place: Path) -> dict[str, bytes]:
    found = (file for file in place.rglob("*") if file.is_file() and file.name != FILLER)
    return {str(file.relative_to(place)): file.read_bytes() for file in found}


@pytest.mark.parametrize("but_kib", [0, 4, 16, 24, 64])
def test_a_campaign_ends_in_one_sentence_keeps_what_is_stored_and_goes_on_when_there_is_room(typed, disk, but_kib):
    fill(disk, but_kib=but_kib)
    code, _, err = typed("run", "small.toml", "--results", disk, "--jobs", 1)
    assert code == 2, err
    assert "make room" in err.splitlines()[-1]
    assert "FAILED" not in err, "a disk for drives that only save time"
    assert {Path(name).name for name in files(disk)} <= {".lock", "experiment.sqlite", "run.log", "block-1.bin"}
    code, out, err = typed("export", "small", "--results", disk, "--format", "csv", "-o", "-")
    kept = out.splitlines()[1:]
    assert (code == 0 and but_kib) or "holds no results yet" in err
    (disk / FILLER).unlink()
    code, _, err = typed("run", "small.toml", "--results", disk, "--jobs", 1)
    assert code == 0, err
    rows = typed("export", "small", "--results", disk, "--format", "csv", "-o", "-")[1].splitlines()[1:]
    assert rows[: len(kept)] == kept
    assert len(rows) == 8


def test_a_report_on_a_full_disk_is_the_old_one_or_none_and_the_hint_names_what_the_verb_has(typed, disk):
    assert typed("run", "small.toml", "--results", disk, "--jobs", 1)[0] == 0
    fill(disk)
    before = files(disk)
    for words in ("report small", "report small --brief", "report small --format svg", "export small --format sqlite",
                  "report small --format png --chart cells", f"report small --format md -o {disk}/r.md",
                  f"export small -o {disk}/small.json"):  # fmt: skip
        code, _, err = typed(*words.split(), "--results", disk)
        assert code == 2, words
        assert "can't be written: No space left on device\n  make room, or name another place" in err
        assert files(disk) == before
    code, _, err = typed("run", "small.toml", "--results", disk)
    way = f": storagelab report {disk}/small --output FILE"
    assert (code, err.endswith(f"No space left on device\n  make room, or name another place{way}\n")) == (2, True)
    (disk / FILLER).unlink()
    assert typed("report", "small", "--results", disk)[0] == 0


@pytest.mark.parametrize(("but_kib", "kept"), [(0, False), (8, False), (12, True)])
def test_a_capture_that_fills_the_disk_can_be_read_or_is_gone(typed, disk, shared_server, but_kib, kept):
    fill(disk, but_kib=but_kib)
    words = ("capture", shared_server.conninfo, "--for", "1s", "--no-trace", "-o")
    code, _, err = typed(*words, disk / "shop")
    assert code == 2
    assert f"storagelab: {disk}/shop: can't be written: No space left on device\n" in err
    assert ("is kept: make room" in err) == kept
    assert (disk / "shop").exists() == kept
    (disk / FILLER).unlink()
    if kept:
        assert not folder.read(disk / "shop").manifest.complete
        assert typed("report", disk / "shop")[0] == 0
    assert typed(*words, disk / ("again" if kept else "shop"))[0] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_than_root_is_told_the_same(disk, scratch):
    nobody = pwd.getpwnam("nobody")
    os.chown(scratch, nobody.pw_uid, nobody.pw_gid)
    fill(disk)
    command = [sys.executable, "-m", "storagelab", "run", "small.toml", "--results", str(disk), "--jobs", "1"]
    for code, said in ((2, "make room on its disk"), (0, "report: ")):
        done = subprocess.run(
            command, cwd=scratch, env={**os.environ, "HOME": str(scratch)}, capture_output=True, text=True, check=False,
            preexec_fn=views.own_view("nobody"),
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        assert said in done.stderr
        (disk / FILLER).unlink(missing_ok=True)
    assert {file.owner() for file in (disk / "small").iterdir()} == {"nobody"}
