"""Campaigns of one spec, each made on one host, become one campaign, or a message says why they can't."""

import json
import random
import sqlite3
from pathlib import Path

import pytest
from builders import make_environment, make_runs

from storagelab.run.store import FILE_NAME, Store
from storagelab.spec import matrix, reading

SPEC = """
repetitions = 2
seed = SEED
target = { engine = "postgres" }
volumes.a = { path = "." }
[factors]
"layout.data_files" = [1, 4, 8]
"""
TIMES = {1: 11.0, 4: 9.0, 8: 10.0}


def elapsed_s(slower: float, seed: int):
    return lambda levels, repetition: (
        slower * TIMES[levels["layout.data_files"]] * (1 + random.Random(f"{levels}{repetition}{seed}").gauss(0, 0.002))
    )


def made(home: Path, host: str, seed: int, slower: float = 1.0, spec: str = SPEC, **facts: object) -> None:
    """The results of a host, FABRICATED."""
    (home / "files.toml").write_text(spec.replace("SEED", str(seed)))
    experiment = reading.load(home / "files.toml")
    known = make_environment()
    environment = {**known, "host": {**known["host"], "hostname": host, **facts}}
    runs = make_runs(
        experiment, matrix.expand(experiment), elapsed=elapsed_s(slower, seed), environment=environment, waits=None
    )
    with Store.writing(home / host / "files", experiment) as store:
        store.append(*runs)


@pytest.mark.slow
def test_three_hosts_make_one_campaign_and_the_slow_one_is_named(typed, home):
    for seed, (host, slower) in enumerate({"db1": 1.0, "db2": 1.2, "db3": 1.01}.items(), 1):
        made(home, host, seed, slower)
    code, out, err = typed("gather", "db1/files", "db2/files", "db3/files")
    assert code == 0
    assert "18 runs of 3 campaigns are in" in err
    assert "MEASURED, 18 runs, 3 layouts" in out
    assert "in front on 3 of 3; db2 is odd" in out
    assert (home / "results/files/report.html").exists()
    code, out, _ = typed("export", "files")
    fleet = json.loads(out)["findings"]["fleet"]
    assert [(host["name"], host["rounds"], host["odd_level"]) for host in fleet["hosts"]] == [
        ("db1", 2, False), ("db2", 2, True), ("db3", 2, False),
    ]  # fmt: skip
    before = (home / "results/files" / FILE_NAME).read_bytes()
    code, _, err = typed("gather", "db1/files", "db2/files")
    assert (code, (home / "results/files" / FILE_NAME).read_bytes()) == (2, before)
    assert "has results already" in err


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"seed": 1}, "ran in the same order"),
        ({"seed": 2, "spec": SPEC.replace("[1, 4, 8]", "[1, 4]")}, "only their seeds may differ"),
        ({"seed": 2, "container": "docker"}, "set STORAGELAB_HOST"),
    ],
)
def test_what_can_not_be_one_campaign_is_refused_with_the_way_out(typed, home, second, words):
    made(home, "db1", 1)
    made(home, "db2", **second)
    code, _, err = typed("gather", "db1/files", "db2/files")
    assert code == 2
    assert words in err
    assert not (home / "results").exists()


def test_one_folder_alone_or_one_that_is_not_there_is_refused(typed, home):
    made(home, "db1", 1)
    assert "two or more campaigns" in typed("gather", "db1/files", "db1/files")[2]
    code, _, err = typed("gather", "db1/files", "db9/files")
    assert (code, "does not exist" in err) == (2, True)


def changed(store: Path, statement: str) -> None:
    connection = sqlite3.connect(store / FILE_NAME, isolation_level=None)
    connection.execute("DROP TRIGGER experiment_is_never_changed")
    connection.execute("DROP TRIGGER run_is_never_changed")
    connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("name", ["/elsewhere/deep", "../x", "files/../../x", "a/b", "", ".hidden", "x/small"])
def test_a_strangers_name_is_no_path(typed, home, name):
    name = name.replace("/elsewhere", str(home / "elsewhere"))
    for seed, host in enumerate(("db1", "db2"), 1):
        made(home, host, seed)
        changed(home / host / "files", f"UPDATE experiment SET experiment = json_set(experiment, '$.name', '{name}')")
    before = sorted(home.rglob("*"))
    code, _, err = typed("gather", "db1/files", "db2/files")
    assert code == 2
    assert "can't be the name of a results folder" in err or "at a small scale" in err
    assert [path for path in sorted(home.rglob("*")) if path.name != "__pycache__"] == before


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "UPDATE experiment SET experiment = json_set(experiment, '$.repetitions', 10000000)",
            "repetitions: is out of range",
        ),
        ("UPDATE experiment SET experiment = json_set(experiment, '$.seed', 1e300)", "seed: "),
        (
            "UPDATE experiment SET experiment = json_set(experiment, '$.canonical.listed', 7)",
            "canonical.listed: is no table",
        ),
        (
            "UPDATE experiment SET experiment = json_set(experiment, '$.base.volumes', "
            'json(\'{"../a": {"path": "."}}\'))',
            'volumes."../a": can\'t name a volume',
        ),
        (
            "UPDATE experiment SET experiment = json_set(experiment, '$.canonical.x', json('1' || hex(zeroblob(10))))",
            "its experiment: x: is a number out of range",
        ),
        ("UPDATE run SET repetition = 4000000000000 WHERE rowid = 1", "repetition: is out of range"),
        ("UPDATE run SET sequence = -1 WHERE rowid = 1", "sequence: is out of range"),
        ("UPDATE run SET block = 1000000000000 WHERE rowid = 1", "block: is out of range"),
        ("UPDATE run SET attempt = 4000000000000 WHERE rowid = 1", "attempt: is out of range"),
        ("UPDATE run SET seed = -1 WHERE rowid = 1", "seed: is out of range"),
    ],
)
def test_a_strangers_values_are_held_to_a_specs_limits(typed, home, statement, words):
    for seed, host in enumerate(("db1", "db2"), 1):
        made(home, host, seed)
    changed(home / "db2" / "files", statement)
    for command in (
        ["gather", "db1/files", "db2/files"],
        ["report", "files", "--results", "db2"],
        ["compare", "db1/files", "db2/files"],
    ):
        code, _, err = typed(*command)
        assert (code, "is damaged" in err) == (2, True)
        assert words in err


def test_campaigns_of_too_many_repetitions_are_not_gathered(typed, home):
    for seed, host in enumerate(("db1", "db2"), 1):
        made(home, host, seed)
        where = "experiment = json_set(experiment, '$.repetitions', 6000, '$.canonical.repetitions', 6000)"
        changed(home / host / "files", f"UPDATE experiment SET {where}")
    code, _, err = typed("gather", "db1/files", "db2/files")
    assert code == 2
    assert "12,000 repetitions together, and one may have at most 10,000\n  gather fewer" in err
