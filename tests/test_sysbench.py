"""sysbench: its command, its report, its words; and runs of it on PostgreSQL and MariaDB."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from real_mariadb import needs_mariadb, running
from real_servers import got, left_behind, measure, site_at

from storagelab.errors import PreflightError, RunFailed, SpecError
from storagelab.loads import sysbench
from storagelab.loads.own_files import Source
from storagelab.loads.transactions import joined
from storagelab.model.config import Config
from storagelab.model.loads.pgbench import Script
from storagelab.model.loads.sysbench import Sysbench
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse

needs_sysbench = pytest.mark.skipif(
    shutil.which("sysbench") is None, reason="no sysbench (Debian: apt-get install sysbench)"
)
REPORT = (Path(__file__).parent / "given" / "sysbench-report.txt").read_text("utf-8")


SPEC = '[target]\nengine = "mariadb"\n[volumes.a]\npath = "."\n[workload]\nkind = "sysbench"\n'


def test_a_report_counts_from_its_last_checkpoint_on():
    found = sysbench.read_report(REPORT, 1.0, joined([]))
    assert (found.number, found.not_done) == (4, {"retried": 2, "reconnects": 1})
    assert found.elapsed_s == pytest.approx(1.004)
    latency = found.latency()
    assert latency.operations == 4
    assert latency.percentile_s(99) == pytest.approx(0.01009, rel=0.004)
    assert (latency.least_ns, latency.longest_ns, latency.total_ns) == (1_220_000, 10_210_000, 32_200_000)


def test_a_failure_is_told_in_sysbenchs_words_with_the_users_file():
    said = "Threads started!\nFATAL: `thread_run' function failed: ./storagelab-script.lua:3: SQL error, errno = 0\n"
    assert sysbench.words(said, "mine.lua") == "`thread_run' function failed: mine.lua:3: SQL error, errno = 0"
    full = (
        "FATAL: mysql_drv_query() returned error 1114 (The table 'sbtest1' is full) for query "
        "'INSERT INTO sbtest1 VALUES"
    )
    assert sysbench.words(full, "") == "mysql_drv_query() returned error 1114 (The table 'sbtest1' is full)"


@needs_sysbench
def test_what_sysbench_says_is_fatal_is_a_failure_whatever_its_exit_code():
    nowhere = ["--db-driver=mysql", "--mysql-host=127.0.0.1", "--mysql-port=1"]
    output = subprocess.run(
        sysbench.initialise(nowhere, Sysbench(tables=2)), capture_output=True, text=True, check=False
    )
    assert (output.returncode, sysbench.failed(output)) == (0, True)
    assert sysbench.words(output.stdout + output.stderr, "").startswith("error 2002: ")


def cell(scratch: Path, engine: str, layout: dict | None = None, dsn: str | None = None, **load) -> Config:
    volumes = {} if dsn else {name: {"path": str(scratch / name)} for name in "ab"}
    for name in volumes:
        (scratch / name).mkdir(exist_ok=True)
    return Config.model_validate({
        "target": {"engine": engine, **({"dsn": dsn} if dsn else {})}, "volumes": volumes, "layout": layout or {},
        "workload": {"kind": "sysbench", "connections": 2, "duration_s": 2.0, "table_size": 300, **load},
    })  # fmt: skip


@pytest.mark.slow
@needs_sysbench
@pytest.mark.parametrize("engine", ["postgres", pytest.param("mariadb", marks=needs_mariadb)])
def test_its_tables_are_spread_over_the_data_files_and_its_transactions_counted(scratch, engine):
    measured = measure(
        cell(scratch, engine, {"data_files": 2}, tables=2, warm_up_s=1.0, table_size=9000), site_at(scratch)
    )
    found = got(measured)
    assert all(ok for _, ok in found.values()), found
    assert {name for name in found if name.startswith("data files of")} == {
        "data files of sbtest1",
        "data files of sbtest2",
    }
    assert 1.9 < measured.elapsed_s < 6  # it waits for its last transactions
    # Of the transactions that end at a checkpoint of its report, some count on one side and are timed on the other.
    assert measured.latency.operations == pytest.approx(measured.transactions, abs=2)
    # Each connection's first transaction may have begun before, and its last one may end after.
    astride_s = 2 * 2 * measured.latency.longest_ns / 1e9
    assert measured.latency.mean_s * measured.transactions == pytest.approx(
        2 * measured.elapsed_s, rel=0.3, abs=astride_s
    )
    assert left_behind(scratch) == []


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("threads = 4", "workload.options.threads: is an option that storagelab sets\n  Set workload.connections"),
        ("db-driver = 'pgsql'", "workload.options.db-driver: is an option that storagelab sets"),
        ("mysql_host = 'x'", "workload.options.mysql_host: is an option that storagelab sets"),
        ("'--point_selects' = 1", "workload.options.--point_selects: is no option of a script"),
        ("point_selects = [1]", "workload.options.point_selects"),
    ],
)
def test_options_that_are_not_the_script_s_are_refused(option, said):
    with pytest.raises(SpecError, match=re.escape(said)):
        expand(parse(f"{SPEC}options = {{ {option} }}\n", "x.toml"))


@pytest.mark.parametrize(("named", "told"), [("", []), ("tables = 2\n", ["--tables=2"])])
def test_a_script_of_ones_own_is_told_of_tables_if_the_spec_names_them(named, told):
    (cell,) = expand(parse(f"{SPEC}script = 'mine.lua'\n{named}options = {{ cows = 7 }}\n", "x.toml")).cells
    assert sysbench.on_tables([], cell.config.workload)[1:] == [*told, "--cows=7"]


@pytest.mark.slow
@needs_sysbench
def test_a_script_of_ones_own_is_run_watched_in_turns_and_its_mistake_told(scratch):
    script = (
        "require('oltp_common')\nrequire('beside')\nfunction event()\n"
        "  for i = 1, sysbench.opt.index_updates do do_it('{}') end\nend\n"
    )
    (scratch / "beside.lua").write_text("function prepare_statements() end\nfunction do_it(what) con:query(what) end\n")
    (scratch / "mine.lua").write_text(script.format("CHECKPOINT"))
    options = {"index_updates": 2, "skip_trx": True}
    measured = measure(cell(scratch, "postgres", script="mine.lua", duration_s=4.0, options=options), site_at(scratch))
    turns = measured.turns
    assert turns.watched_transactions + turns.unwatched_transactions <= measured.transactions
    assert measured.latency.operations == turns.unwatched_transactions > 0
    # The server's checkpoints are told by the clock of the run, which sysbench doesn't know.
    begun_s = [at_s for name, at_s in measured.counters["checkpoint cycles"].items() if name.startswith("begun")]
    assert begun_s
    assert all(-2 < at_s <= measured.elapsed_s for at_s in begun_s)
    (scratch / "mine.lua").write_text(script.format("SELECT nope"))
    with pytest.raises(RunFailed, match="nope") as caught:
        measure(cell(scratch, "postgres", script="mine.lua"), site_at(scratch))
    assert "sysbench ended early" in str(caught.value)
    assert left_behind(scratch) == []


@pytest.mark.slow
@needs_sysbench
@needs_mariadb
def test_a_password_reaches_sysbench_by_its_environment_and_nothing_of_the_load_stays(scratch, monkeypatch):
    seen = list[list[str]]()
    made = sysbench.command
    monkeypatch.setattr(sysbench, "command", lambda *given, **more: seen.append(made(*given, **more)) or seen[-1])
    with running(scratch / "elsewhere") as server:
        server.said("CREATE USER me@'127.0.0.1' IDENTIFIED BY 's3cret word'", "GRANT ALL ON *.* TO me@'127.0.0.1'")
        config = cell(scratch, "mariadb", {"data_files": 2}, dsn=server.dsn("me", "s3cret word"))
        measured = measure(config, site_at(scratch))
        assert measured.transactions > 0
        assert server.said("SHOW DATABASES LIKE 'storagelab%'") == []
    assert seen
    assert "s3cret" not in " ".join(seen[0])
    assert "s3cret" not in measured.model_dump_json()
    assert left_behind(scratch) == []


# --- transactions of the user's own, written in Lua -------------------------------------------------------------------


ORDER = r"""\set who random(1, 100)
-- a note; with a semicolon
INSERT INTO orders (who) VALUES (:who); SELECT 'a;b', "c",
  nope # another; note
FROM t WHERE x = ':who' AND at > '12:30:00';
\set n 7
SELECT :n /* one; more */ + :unknown
"""


def order(text: str = ORDER) -> sysbench.LuaScript:
    return sysbench.written([Source(Script("order.sql", 3), text.encode()), Source(Script("x.sql", 1), b"SELECT 2")])


def queries(script: sysbench.LuaScript) -> dict[str, tuple[str, int] | None]:
    return {
        line.strip(): origin
        for line, origin in zip(script.text.splitlines(), script.origins, strict=True)
        if "con:query" in line and "ROLLBACK" not in line
    }


def test_statements_end_at_semicolons_outside_of_quotes_and_notes_and_name_their_lines():
    assert queries(order()) == {
        r'con:query("INSERT INTO orders (who) VALUES (" .. v.who .. ")")': ("order.sql", 3),
        r'con:query("SELECT '
        r"'a;b', \034c\034,\010  nope  \010FROM t WHERE x = '"
        r'" .. v.who .. "'
        r"' AND at > '12:30:00'"
        r'")': ("order.sql", 3),
        'con:query("SELECT " .. v.n .. "   + :unknown")': ("order.sql", 7),
        'con:query("SELECT 2")': ("x.sql", 1),
    }


def test_a_failure_is_told_by_the_users_file_and_line():
    script = order()
    place = 1 + list(script.origins).index(("x.sql", 1))
    said = (
        "FATAL: mysql_drv_query() returned error 1054 (Unknown column 'nope') for query 'SELECT nope'\n"
        f"FATAL: `thread_run' function failed: ./storagelab-script.lua:{place}: SQL error, errno = 1054, "
        "state = '42S22': Unknown\n"
    )
    assert script.words(said) == "x.sql, line 1: Unknown"
    assert script.words("FATAL: unable to connect to MySQL server\n") == "unable to connect to MySQL server"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT 1;\n\\sleep 1 ms\n", r"order.sql, line 2: .* does not know \\sleep 1 ms"),
        ("\\set n random_gaussian(1, 9, 2)\nSELECT :n", "line 1"),
        ("\\set n random(9, 1)\nSELECT :n", "no random number is possible from 9 to 1"),
        ("-- nothing;\n\\set n 1\n", "holds no statement"),
    ],
)
def test_what_sysbench_does_not_know_is_refused_with_its_line(text, problem):
    with pytest.raises(PreflightError, match=problem) as caught:
        order(text)
    assert caught.value.key == "workload.transactions[1].file"
