"""pgbench's command, its log and its words."""

import math
import subprocess
from pathlib import Path

import pytest
from real_servers import running

from storagelab.engines.postgres.connect import client_environment
from storagelab.engines.postgres.loads.generated import find
from storagelab.loads import pgbench
from storagelab.loads.own_files import Source
from storagelab.loads.transactions import read_log
from storagelab.model.latency import merged
from storagelab.model.loads.pgbench import Pgbench, Script, script_of

OWN = rb"""\set aid random(1, 100000)
SELECT 1;
-- a note; with a semicolon
SELECT 'a;b',
  nope
FROM t; SELECT 2;
\sleep 1 ms
END"""
SOURCES = (Source(Script("select-only", 9), None), Source(Script("order.sql", 1), OWN))


def command(load: Pgbench, sources=SOURCES) -> str:
    return " ".join(pgbench.command("pgbench", load, sources, Path("/log"), 93.2, seed=7, scale=load.scale))


def test_the_command_of_a_run_of_set_time_ends_later_than_the_run_and_logs_every_transaction():
    said = command(Pgbench(connections=8, threads=2, protocol="prepared", duration_s=60))
    assert "--time 94" in said
    assert "--log --log-prefix /log/transactions" in said
    assert "--client 8 --jobs 2 --protocol prepared --random-seed 7" in said
    assert "--builtin select-only@9 --file script-1.sql@1" in said
    assert "--rate" not in said


def test_the_command_of_a_run_with_a_rate_and_a_set_number_of_transactions():
    said = command(Pgbench(transactions_per_connection=50, rate=120.5, latency_limit_s=0.25))
    assert "--transactions 50" in said
    assert "--time" not in said
    assert "--rate 120.5 --latency-limit 250" in said


def test_a_warm_up_that_is_to_be_found_needs_reports_of_progress():
    assert "--progress 1" in command(Pgbench(warm_up_s="auto"))
    assert "--progress" not in command(Pgbench(warm_up_s=5))


def test_reports_of_progress_are_throughput_second_by_second_and_a_late_one_stands_for_all_its_seconds():
    said = "pgbench (15.14)\nprogress: 1.0 s, 120.5 tps, lat 8 ms\nprogress: 4.1 s, 60.0 tps, lat 9 ms\nprogress: 5."
    assert pgbench.per_second(said) == [120.5, 60.0, 60.0, 60.0]


def test_a_script_of_ones_own_alone_needs_the_scale_that_pgbench_cannot_see():
    assert "--scale 3" in command(Pgbench(scale=3), SOURCES[1:])
    assert "--scale" not in command(Pgbench(scale=3))


def test_a_log_holds_latencies_lags_and_what_was_skipped_or_refused(tmp_path):
    (tmp_path / "transactions.12").write_text("0 1 5000 0 1700000000 500000 1200\n0 2 skipped 0 1700000001 0 900\n")
    (tmp_path / "transactions.12.1").write_text("1 1 7000 0 1700000000 250000 10\n1 2 failed 0 1700000002 0 3\n1 3 80")
    read = read_log(tmp_path)
    assert sorted(read.latency_us) == [5000, 7000]
    assert sorted(read.lag_us) == [10, 1200]
    assert list(read.skipped_s) == [1700000001.0]
    assert list(read.failed_s) == [1700000002.0]
    assert read.within(1700000000.4, 1700000001.0).number == 1


@pytest.mark.slow
def test_percentiles_of_merged_histograms_are_those_of_the_raw_logs_to_a_hundredth(scratch):
    load, raw, histograms = Pgbench(connections=2, threads=2, transactions_per_connection=300), list[int](), []
    with running(scratch / "attached") as server:
        program = str(find("pgbench", None))
        given = client_environment(server.conninfo, {}, private=True)
        subprocess.run(pgbench.initialise(program, load, "dtgp", 0), env=given, check=True, capture_output=True)
        for seed in (1, 2):
            folder = scratch / f"log-{seed}"
            folder.mkdir()
            sources = (Source(Script("tpcb-like", 1), None),)
            made = pgbench.command(program, load, sources, folder, 60.0, seed=seed, scale=load.scale)
            subprocess.run(made, env=given, check=True, capture_output=True)
            raw += [int(line.split()[2]) for file in folder.iterdir() for line in file.read_text().splitlines()]
            histograms.append(read_log(folder).latency())
    whole, in_order = merged(histograms), sorted(raw)
    assert whole.operations == len(in_order) == 1200
    for per_cent in (50, 95, 99, 99.9):
        exact_us = in_order[math.ceil(len(in_order) * per_cent / 100) - 1]
        assert whole.percentile_s(per_cent) * 1e6 == pytest.approx(exact_us, rel=0.01)
    assert whole.longest_ns == in_order[-1] * 1000


def test_an_empty_log_has_no_transactions(tmp_path):
    (tmp_path / "transactions.12").write_text("")
    assert read_log(tmp_path).number == 0


@pytest.mark.parametrize(("number", "line"), [(0, 1), (1, 2), (2, 4), (3, 6), (4, 7), (5, 8)])
def test_a_command_of_a_script_is_found_by_its_line(number, line):
    assert pgbench.line_of(OWN.decode(), number) == line


def test_a_failure_is_told_by_script_line_and_the_servers_words():
    said = (
        'pgbench: error: client 2 script 1 aborted in command 2 query 0: ERROR:  column "nope" does not exist\n'
        "LINE 1: SELECT\npgbench: error: Run was aborted; the above results are incomplete.\n"
    )
    assert pgbench.words(said, SOURCES) == 'order.sql, line 4: column "nope" does not exist'


def test_a_mistake_that_pgbench_finds_itself_names_the_users_file():
    said = 'script-1.sql:3: syntax error in command "set"\n'
    assert pgbench.words(said, SOURCES) == 'order.sql:3: syntax error in command "set"'


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("select-only@9", Script("select-only", 9)),
        ("a@b/order.sql@2", Script("a@b/order.sql", 2)),
        ("x.sql", Script("x.sql", 1)),
    ],
)
def test_a_script_is_written_with_its_weight(text, meant):
    assert script_of(text) == meant


@pytest.mark.parametrize("text", ["select-only@0", "select-only@-1", "x.sql@many", "x.sql@", "@3"])
def test_a_script_without_a_name_or_a_weight_is_refused(text):
    with pytest.raises(ValueError, match=r"weight|names no script"):
        script_of(text)
