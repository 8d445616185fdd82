"""The files that a spec names are part of its campaign: runs of changed files are never mixed."""

import os
from pathlib import Path

import pytest
from shell import typed

from storagelab.spec import given_files, matrix, reading

REPLAY = """
target = { engine = "raw-io" }
volumes.a = { path = "." }
layout = { data = ["a"], data_size = "16MiB" }
workload = { kind = "replay", trace = "requests.iolog" }
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
    assert given_files.differences({}, {"workload.trace: t": "1"}) == []
    assert given_files.differences({"workload.trace: t": "1"}, {"workload.trace: t": "1"}) == []


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


def named_in(folder: Path, workload: str, *, volume: str = "") -> dict[str, Path]:
    """What a spec names with these keys of its workload and its volume."""
    spec = folder / "spec.toml"
    spec.write_text(
        f'[target]\nengine = "postgres"\n[volumes.a]\npath = "."\n{volume}\n[layout]\ndata = '
        f'["a"]\n[workload]\n{workload}\n'
    )
    return given_files.named((cell.config for cell in matrix.expand(reading.load(spec)).cells), folder)


def files(folder: Path, *names: str, content: str = "x") -> None:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ('kind = "pgbench"\nscripts = ["own/order.sql@9", "select-only"]', {"workload.scripts: own/order.sql"}),
        ('kind = "sysbench"\nscript = "own/order.lua"', {"workload.script: own/order.lua"}),
        (
            'kind = "sql"\nsetup = ["own/order.sql"]\nrestore = "own"\ntransactions = [{ file = "own/order.lua" }]',
            {"workload.setup: own/order.sql", "workload.restore: own", "workload.transactions: own/order.lua"},
        ),
    ],
)
def test_every_key_that_takes_a_file_is_known(tmp_path, workload, expected):
    files(tmp_path, "own/order.sql", "own/order.lua")
    found = named_in(tmp_path, workload)
    assert set(found) == expected
    before = given_files.hashes(found)
    files(tmp_path, "own/order.sql", "own/order.lua", content="y")
    assert len(given_files.differences(before, given_files.hashes(found))) == len(expected)


def test_what_a_volumes_command_calls_is_hashed_with_its_neighbours_but_no_folder_that_it_mounts(tmp_path):
    files(tmp_path, "zfs/prepare.sh", "zfs/common.sh", "check.sh", "mounted/table")
    commands = 'prepare = "sh ./zfs/prepare.sh mounted && echo it\'s"\ncheck = "sh check.sh; uname"'
    found = named_in(tmp_path, 'kind = "random-insert"', volume=commands)
    assert set(found) == {"volumes.a.prepare: zfs", "volumes.a.check: check.sh"}
    before = given_files.hashes(found)
    files(tmp_path, "zfs/common.sh", content="y")
    assert given_files.differences(before, given_files.hashes(found)) == ["volumes.a.prepare: zfs: its content changed"]


def test_so_is_a_script_above_the_specs_folder_but_no_program_of_the_system(tmp_path):
    files(tmp_path, "prepare.sh", "spec/x")
    found = named_in(tmp_path / "spec", 'kind = "random-insert"', volume='prepare = "/bin/sh ../prepare.sh"')
    assert set(found) == {"volumes.a.prepare: ../prepare.sh"}


def test_what_a_file_of_sql_includes_or_loads_is_hashed(tmp_path):
    files(tmp_path, "own/more.sql", "own/rows.csv", "last.sql", "order.sql")
    files(
        tmp_path,
        "own/tables.sql",
        content="\\ir more.sql\n\\copy t from 'rows.csv'\nSOURCE last.sql\n\\ir tables.sql\n",
    )
    files(tmp_path, "last.sql", content="LOAD DATA LOCAL INFILE 'own/rows.csv' INTO TABLE t;\n\\i gone.sql\n")
    workload = 'kind = "sql"\nsetup = ["own/tables.sql"]\ntransactions = [{ file = "order.sql" }]'
    names = {name.partition(": ")[2] for name in named_in(tmp_path, workload)}
    assert names == {"own/tables.sql", "own/more.sql", "own/rows.csv", "last.sql", "order.sql"}


def test_neighbours_of_equal_names_in_two_folders_are_two_files(tmp_path):
    files(tmp_path, "a/order.lua", "a/common.lua", "b/order.lua", "b/common.lua")
    varied = 'kind = "sysbench"\n[factors]\n"workload.script" = ["a/order.lua", "b/order.lua"]'
    assert len(named_in(tmp_path, varied)) == 4


def test_nothing_is_read_of_what_never_ends(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert given_files.hashes({"workload.trace: pipe": tmp_path / "pipe"})
