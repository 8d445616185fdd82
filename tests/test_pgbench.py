"""pgbench's command, its log and its words; and the transactions that every program of a load counts."""

from pathlib import Path

import numpy as np
import pytest

from storagelab.loads import pgbench
from storagelab.loads.own_files import Source
from storagelab.loads.transactions import Transactions, in_turns, read_log
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


# --- transactions of a run: what counts, their histogram and series ---------------------------------------------------


def drawn(number: int = 5000, seconds: float = 10.0) -> Transactions:
    rng = np.random.default_rng(19)
    ended_s = 1.7e9 + np.sort(rng.uniform(0, seconds, number))
    return Transactions(ended_s, np.round(rng.lognormal(8, 1, number)), np.zeros(number), np.empty(0), np.empty(0))


def test_percentiles_of_the_histogram_are_within_a_hundredth_of_those_of_the_log():
    found = drawn()
    latency = found.latency()
    for per_cent in (50, 95, 99, 99.9):
        assert latency.percentile_s(per_cent) * 1e6 == pytest.approx(
            np.percentile(found.latency_us, per_cent, method="inverted_cdf"), rel=0.01
        )
    assert latency.mean_s * 1e6 == pytest.approx(found.latency_us.mean())
    assert latency.operations == found.number


def test_only_what_ended_in_the_part_that_counts_counts():
    found = drawn()
    half = found.within(1.7e9 + 5, 1.7e9 + 10)
    assert half.number + found.within(1.7e9, 1.7e9 + 5).number == found.number
    assert half.ended_s.min() > 1.7e9 + 5


def test_latency_and_throughput_come_from_the_stretches_in_which_nothing_looked():
    """Watched seconds have 3 transactions of 2 ms, unwatched ones 4 of 1 ms. A rest that begins before the part that
    counts is cut off.
    """
    ends = [
        (second + place / 10, 2e3 if second % 2 else 1e3)
        for second in range(4)
        for place in range(1, 4 + (not second % 2))
    ]
    at_s, latency_us = np.array(ends).T
    found = Transactions(at_s, latency_us, np.zeros(len(ends)), np.empty(0), np.empty(0))
    latency, turns = in_turns(found, [(-1.0, 1.0), (2.0, 3.0)], 0.0, 4.0)
    assert (latency.operations, latency.longest_ns) == (8, 1_000_000)
    assert (turns.unwatched_s, turns.unwatched_transactions) == (2.0, 8)
    assert (turns.watched_s, turns.watched_transactions, turns.watched_latency.least_ns) == (2.0, 6, 2_000_000)


def test_a_latency_begins_when_the_load_was_let_go():
    found = Transactions(
        np.array([10.0, 10.5]), np.array([3e6, 2e5]), np.array([1e6, 0.0]), np.empty(0), np.empty(0)
    ).begun_at_earliest(9.8)
    assert list(found.latency_us) == pytest.approx([2e5, 2e5])
    assert list(found.lag_us) == pytest.approx([2e5, 0.0])
    assert found.span_s == pytest.approx((9.8, 10.5))


def test_the_series_adds_up_to_the_run():
    found = drawn()
    edges = [1.7e9 + second for second in range(11)]
    series = found.series(edges)
    assert sum(series["transactions_per_s"]) == found.number
    first = found.within(edges[0], edges[1])
    assert series["latency_p99_s"][0] == pytest.approx(np.percentile(first.latency_us, 99) / 1e6)
