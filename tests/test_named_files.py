"""The files that a spec names are part of its campaign: runs of changed files are never mixed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from shell import typed

from storagelab.run.store import FILE_NAME, Store
from storagelab.spec import matrix, named_files, reading

REPLAY = """
[target]
engine = "raw-io"
[volumes.a]
path = "."
[layout]
data = ["a"]
data_size = "16MiB"
[workload]
kind = "replay"
trace = "requests.iolog"
[factors]
"workload.outstanding" = [1, 8]
"""


def trace(reads: int) -> str:
    lines = [f"{number * 1000} /data/table read {number * 4096} 4096" for number in range(reads)]
    return "\n".join(["fio version 3 iolog", "0 /data/table add", "0 /data/table open", *lines, ""])


def replay(folder: Path, reads: int = 20) -> Path:
    spec = folder / "replayed.toml"
    spec.write_text(REPLAY)
    (folder / "requests.iolog").write_text(trace(reads))
    return spec


def test_a_trace_that_changed_between_two_runs_is_refused_and_plan_says_so_before(tmp_path):
    spec = replay(tmp_path)
    assert typed(tmp_path, "run", str(spec)).returncode == 0
    assert typed(tmp_path, "run", str(spec)).returncode == 0
    (tmp_path / "requests.iolog").write_text(trace(40))
    planned = " ".join(typed(tmp_path, "plan", str(spec)).stdout.split())
    assert "workload.trace: requests.iolog: its content changed" in planned
    refused = typed(tmp_path, "run", str(spec))
    assert refused.returncode == 2
    assert "workload.trace: requests.iolog: its content changed" in refused.stderr
    assert "another name" in refused.stderr or "new name" in refused.stderr


def test_a_campaign_of_a_version_that_kept_no_hashes_goes_on(tmp_path):
    assert named_files.differences({}, {"workload.trace: t": "1"}) == []
    assert named_files.differences({"workload.trace: t": "1"}, {"workload.trace: t": "1"}) == []


def test_hosts_whose_files_differ_are_not_gathered_into_one_campaign(tmp_path):
    stores = []
    for host, reads in (("one", 20), ("other", 21)):
        folder = tmp_path / host
        folder.mkdir()
        assert typed(folder, "run", str(replay(folder, reads))).returncode == 0
        stores.append(str(folder / "results" / "replayed"))
    refused = typed(tmp_path, "gather", *stores)
    assert refused.returncode == 2
    assert "requests.iolog: its content changed" in refused.stderr


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ('kind = "pgbench"\nscripts = ["own/order.sql@9", "select-only"]', {"workload.scripts: own/order.sql"}),
        ('kind = "sysbench"\nscript = "own/order.lua"', {"workload.script: own/order.lua"}),
        (
            'kind = "sql"\nsetup = ["own/order.sql"]\nrestore = "own"\n[[workload.transactions]]\nfile = "own/order.lua"',
            {"workload.setup: own/order.sql", "workload.restore: own", "workload.transactions: own/order.lua"},
        ),
    ],
)
def test_every_key_that_takes_a_file_is_known(tmp_path, workload, expected):
    (tmp_path / "own").mkdir()
    for name in ("order.sql", "order.lua"):
        (tmp_path / "own" / name).write_text("x")
    text = f'[target]\nengine = "postgres"\n[volumes.a]\npath = "."\n[layout]\ndata = ["a"]\n[workload]\n{workload}\n'
    spec = tmp_path / "spec.toml"
    spec.write_text(text)
    cells = matrix.expand(reading.load(spec)).cells
    found = named_files.named((cell.config for cell in cells), tmp_path)
    assert set(found) == expected
    before = named_files.hashes(found)
    for name in ("order.sql", "order.lua"):
        (tmp_path / "own" / name).write_text("y")
    assert len(named_files.differences(before, named_files.hashes(found))) == len(expected)


def test_what_a_volumes_command_calls_is_hashed_with_its_neighbours(tmp_path):
    (tmp_path / "zfs").mkdir()
    for name in ("prepare.sh", "common.sh"):
        (tmp_path / "zfs" / name).write_text("x")
    (tmp_path / "check.sh").write_text("x")
    text = (
        '[target]\nengine = "postgres"\n[volumes.a]\npath = "."\nprepare = "sh ./zfs/prepare.sh && echo it\'s"\n'
        'check = "sh check.sh; uname"\n[layout]\ndata = ["a"]\n[workload]\nkind = "random-insert"\n'
    )
    spec = tmp_path / "spec.toml"
    spec.write_text(text)
    cells = matrix.expand(reading.load(spec)).cells
    found = named_files.named((cell.config for cell in cells), tmp_path)
    assert set(found) == {"volumes.a.prepare: zfs", "volumes.a.check: check.sh"}
    before = named_files.hashes(found)
    (tmp_path / "zfs" / "common.sh").write_text("y")
    assert named_files.differences(before, named_files.hashes(found)) == ["volumes.a.prepare: zfs: its content changed"]


def test_nothing_is_read_of_what_never_ends(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert named_files.hashes({"workload.trace: pipe": tmp_path / "pipe"})


def test_a_store_keeps_the_hashes(tmp_path):
    spec = replay(tmp_path)
    assert typed(tmp_path, "run", str(spec)).returncode == 0
    assert (tmp_path / "results" / "replayed" / FILE_NAME).is_file()
    with Store.reading(tmp_path / "results" / "replayed") as store:
        assert list(store.experiment().files) == ["workload.trace: requests.iolog"]
