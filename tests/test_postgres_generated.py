"""pgbench on a private PostgreSQL: its tables on the layout, its transactions, their latency and its failures."""

import subprocess
import threading
import time
from pathlib import Path

import psycopg
import pytest
from real_servers import ask, cell_of, connect, got, keeps_schedstat, left_behind, measure, running, site_at

from storagelab.engines.postgres.layout import relations_like
from storagelab.engines.postgres.loads.generated import generator_sessions
from storagelab.errors import DataRefused, PreflightError, RunFailed
from storagelab.machine.rights import give_to_server
from storagelab.model.config import Config, TargetConfig
from storagelab.model.measurement import Measurement
from storagelab.model.waits import conservation, normalise
from storagelab.run.engine import open_target
from storagelab.servers.places import tables_of

pytestmark = pytest.mark.slow


def cell(
    scratch: Path, layout: dict | None = None, target: dict | None = None, measure: dict | None = None, **load
) -> Config:
    """A cell with a second of pgbench on the volumes a, b and c."""
    volumes = {} if target else {name: {"path": str(scratch / name)} for name in "abc"}
    for name in volumes:
        (scratch / name).mkdir(exist_ok=True)
    length = {} if "transactions_per_connection" in load else {"duration_s": 1.0}
    return Config.model_validate({
        "target": {"engine": "postgres", **(target or {})}, "volumes": volumes, "layout": layout or {},
        "workload": {"kind": "pgbench", "connections": 3, **length, **load}, "measure": measure or {},
    })  # fmt: skip


def failure(config: Config, scratch: Path) -> str:
    with pytest.raises(RunFailed) as caught:
        measure(config, site_at(scratch))
    assert left_behind(scratch) == []
    return str(caught.value)


@pytest.fixture(scope="module")
def spread_out(tmp_path_factory) -> tuple[Measurement, str]:
    """A run whose tables are spread over two volumes, with indexes and temporary files on a third; and its folder."""
    from real_servers import open_folder

    with open_folder() as scratch:
        layout = {"data_files": 3, "data": ["a", "b"], "indexes": "c", "temp": "c", "tables": "b", "log": "c"}
        measured = measure(
            cell(scratch, layout, scripts=["select-only@3", "tpcb-like"], warm_up_s=0.2), site_at(scratch)
        )
        assert left_behind(scratch) == []
        return measured, str(scratch)


def test_every_table_and_index_lies_where_the_layout_says(spread_out):
    measured, scratch = spread_out
    found = got(measured)
    assert found["partitions of pgbench_accounts"] == ("3", True)
    assert found["data files of pgbench_accounts"] == ("3", True)
    tables, ok = found["place of the tables"]
    assert ok
    assert [
        text.removeprefix(f"{scratch}/").replace("storagelab-tested-0badcafe/", "") for text in tables.split(", ")
    ] == ["a/data-file-0001", "a/data-file-0003", "b/data-file-0002", "b/on-b"]
    assert found["place of the indexes"][0].endswith("c/storagelab-tested-0badcafe/on-c")
    assert found["place of temporary files"] == (found["place of the indexes"][0], True)
    assert all(ok for _, ok in found.values())


def test_a_run_of_set_time_counts_its_transactions_and_their_latencies(spread_out):
    measured, _ = spread_out
    assert measured.elapsed_s == pytest.approx(1.0, abs=0.1), "the warm-up of 0.2 s is in no figure"
    assert measured.latency.operations == measured.transactions > 10
    # Three connections without a pause: their time is that of their transactions, but for what pgbench itself needs.
    assert measured.latency.mean_s * measured.transactions == pytest.approx(3 * measured.elapsed_s, rel=0.25)


def test_waits_and_cpu_of_the_generators_sessions_add_up_to_their_time(spread_out):
    measured, _ = spread_out
    assert {"Client:ClientRead"} <= {row.wait_type for row in normalise(measured.waits)}
    assert 0.5 < conservation(measured.waits).explained < 1.2


def test_the_series_holds_transactions_latency_and_checkpoints(spread_out):
    columns = spread_out[0].series.columns
    assert {"transactions_per_s", "latency_p99_s", "checkpoint_s_per_s"} <= columns.keys()
    assert "rows_per_s" not in columns
    assert set(columns["checkpoint_s_per_s"]) <= {0.0}  # a checkpoint was made before the run


def test_a_warm_up_is_found_and_kept_with_the_run(scratch):
    # So short a counted part lets throughput settle as soon as there are seconds enough. The rate spares the machine.
    config = cell(scratch, scripts=["select-only"], connections=1, duration_s=0.5, warm_up_s="auto", rate=500)
    measured = measure(config, site_at(scratch))
    assert 9 < measured.counters["generator"]["warm_up_s"] <= 60
    assert measured.elapsed_s == pytest.approx(0.5, abs=0.2)
    assert all(ok for _, ok in got(measured).values())


def test_the_session_in_which_pgbench_asks_for_the_scale_is_not_taken_for_the_loads(scratch):
    with open_target(cell(scratch, connections=1, scripts=["select-only"]), site_at(scratch)) as target:
        server = target.server
        sessions = target.system.layout.sessions(server.own, server.reach, 1)
        asked = server.reach.connect("storagelab gate")  # what keeps pgbench's question waiting, as a busy server does
        asked.execute("BEGIN")
        asked.execute(f'LOCK TABLE "{target.system.layout.home}".pgbench_branches IN ACCESS EXCLUSIVE MODE')
        let_go = threading.Timer(1.0, asked.close)
        let_go.start()
        try:
            sessions.open()
            sessions.gather()
            let_go.join()
            time.sleep(0.5)
            assert generator_sessions(server.own) == sessions.ids, "what is watched is what works"
        finally:
            let_go.join()
            sessions.close()


def test_one_connection_of_pgbench_is_watched_and_its_time_is_explained(scratch):
    measured = measure(cell(scratch, connections=1, scripts=["select-only"], duration_s=4.0), site_at(scratch))
    assert all(ok for _, ok in got(measured).values())
    assert measured.waits.passes > 0
    assert measured.waits.no_split_reason == "" or not keeps_schedstat()
    turns = measured.turns
    assert turns.unwatched_s + turns.watched_s == pytest.approx(measured.elapsed_s)
    assert turns.unwatched_transactions == measured.latency.operations < measured.transactions


def test_a_run_with_a_set_number_of_transactions_counts_all_of_them(scratch):
    measured = measure(cell(scratch, transactions_per_connection=40), site_at(scratch))
    assert measured.transactions == measured.latency.operations == 120
    # None of them began before the counters did, and none is as long as it waited for that.
    assert measured.counters["database"]["tup_updated"] == 3 * 120
    assert measured.latency.longest_ns / 1e9 <= measured.elapsed_s


def test_a_rate_that_the_server_cannot_reach_is_said_with_the_lag(scratch):
    config = cell(scratch, rate=50_000, latency_limit_s=0.05, measure={"waits": False})
    measured = measure(config, site_at(scratch))
    text, ok = got(measured)["rate"]
    assert not ok
    assert "begun up to 0.05 s late" in text
    assert measured.counters["generator"]["skipped"] > 1000


def test_a_script_that_fails_is_told_by_its_line_and_the_servers_words(scratch):
    (scratch / "order.sql").write_text("SELECT 1;\n\\set aid 7\nSELECT nope\nFROM pgbench_accounts;\n")
    assert failure(cell(scratch, scripts=["order.sql"]), scratch).endswith(
        'order.sql, line 3: column "nope" does not exist'
    )


def checked(config: Config, scratch: Path) -> str:
    """What a plan says of the cell's generator."""
    return tables_of(config)(config, "storagelab_0badcafe", None).check(site_at(scratch), None)


def test_a_password_in_a_script_is_refused_without_showing_it(scratch):
    (scratch / "who.sql").write_text("SELECT 1;\nALTER ROLE me PASSWORD 's3cret';\n")
    with pytest.raises(PreflightError, match="line 2") as caught:
        checked(cell(scratch, scripts=["who.sql"]), scratch)
    assert "s3cret" not in str(caught.value)


# --- A database of the user's own ------------------------------------------------------------------------------------

SCHEMA = """CREATE TABLE orders (id bigserial PRIMARY KEY, who int NOT NULL);
CREATE INDEX ON orders (who);
INSERT INTO orders (who) SELECT g % 100 FROM generate_series(1, 500) g;
"""


def own(scratch: Path, layout: dict | None = None, **load) -> Config:
    """A cell with a second of the user's own transactions."""
    (scratch / "order.sql").write_text("\\set who random(1, 100)\nINSERT INTO orders (who) VALUES (:who);\n")
    if not (scratch / "schema.sql").exists():
        (scratch / "schema.sql").write_text(SCHEMA)
    more = {"kind": "sql", "setup": ["schema.sql"], "transactions": [{"file": "order.sql"}], **load}
    return cell(scratch, layout, **more)


def test_the_users_own_tables_are_spread_with_their_rows_and_keys(scratch):
    measured = measure(own(scratch, {"data_files": 2, "spread": ["orders"], "indexes": "c"}), site_at(scratch))
    found = got(measured)
    assert found["partitions of orders"] == ("2", True)
    assert found["place of the indexes"][0].endswith("/on-c")
    assert all(ok for _, ok in found.values()), found
    assert measured.transactions > 10
    assert left_behind(scratch) == []


def test_a_dump_of_any_form_is_restored_without_its_owners_and_tablespaces(scratch, postgres_bin_dirs):
    bin_dir = postgres_bin_dirs[0]
    (scratch / "fast").mkdir()
    give_to_server(scratch / "fast")
    with running(scratch / "before", str(bin_dir)) as server, connect(server) as connection:
        connection.execute("CREATE ROLE shop")
        connection.execute(f"CREATE TABLESPACE fast LOCATION '{scratch / 'fast'}'")
        connection.execute(SCHEMA)
        for change in ("ALTER TABLE orders OWNER TO shop", "ALTER TABLE orders SET TABLESPACE fast",
                       "GRANT SELECT ON orders TO shop"):  # fmt: skip
            connection.execute(change)
        for form, name in (("directory", "before"), ("plain", "before.txt")):
            dump = [bin_dir / "pg_dump", f"--format={form}", f"--file={scratch / f'{name}.dump'}", server.conninfo]
            subprocess.run(list(map(str, dump)), check=True)
    subprocess.run(["chmod", "-R", "a+rX", str(scratch)], check=True)
    layout = {"data": ["a"], "objects": {"public.orders": "b"}}
    for name in ("before.dump", "before.txt.dump"):
        config = own(scratch, layout, setup=[], restore=name)
        tables_of(config)(config, "storagelab_0badcafe", None).check(site_at(scratch), bin_dir)
        assert got(measure(config, site_at(scratch)))["files of the placed objects"][1], name


def test_what_is_wrong_in_a_dump_is_told_without_its_data(scratch):
    text = "-- Dumped from database version 99.1\nCREATE TABLE t (a int);\nCOPY t (a) FROM stdin;\n1\ns3cret\n\\.\n"
    (scratch / "before.sql").write_text(text)
    assert failure(own(scratch, setup=[], restore="before.sql"), scratch).startswith(
        'restoring before.sql failed: psql:before.sql:6: ERROR:  invalid input syntax for type integer: "..." (line '
        "2 of its "
        "rows); the dump is of PostgreSQL 99.1, and this server is "
    )


def test_on_a_server_that_already_runs_they_have_a_database_of_their_own(scratch, postgres_bin_dirs):
    config = own(scratch)
    with running(scratch / "attached", str(postgres_bin_dirs[0])) as server:
        with connect(server) as connection:
            connection.execute("CREATE ROLE me LOGIN CREATEDB PASSWORD 's3cret word'")
            connection.execute("CREATE TABLE orders (mine int)")
        dsn = psycopg.conninfo.make_conninfo(server.conninfo, user="me", password="s3cret word")
        config = config.model_copy(update={
            "target": TargetConfig(engine="postgres", dsn=dsn), "volumes": {},
            "between_runs": config.between_runs.model_copy(update={"checkpoint": False}),
        })  # fmt: skip
        measured = measure(config, site_at(scratch))
        with connect(server) as connection:
            assert ask(connection, "SELECT count(*) FROM pg_database WHERE datname LIKE 'storagelab%'") == 0
            assert ask(connection, "SELECT count(*) FROM orders") == 0
    assert measured.transactions > 10
    assert "s3cret" not in measured.model_dump_json()


def test_single_objects_lie_where_they_are_named_and_a_rewritten_one_is_told(scratch):
    (scratch / "schema.sql").write_text(
        f"{SCHEMA}CREATE SCHEMA shop; CREATE TABLE shop.items (id int PRIMARY KEY) PARTITION BY LIST (id);"
        "CREATE TABLE shop.items_1 PARTITION OF shop.items FOR VALUES IN (1); CREATE TABLE work (x int);"
    )
    objects = {"public.orders": "b", "orders_*idx": "c", "shop.items": "c", "shop.items_1_pkey": "b", "temp": "c"}
    config = own(scratch, {"data": ["a"], "objects": objects})
    (scratch / "order.sql").write_text("INSERT INTO orders (who) VALUES (1);\nTRUNCATE work;\n")
    with open_target(config, site_at(scratch)) as target:
        measured = target.run(cell_of(config), 1, 1, lambda _: None)
        placed = {
            one.name: one.place.rpartition("/")[2] for one in relations_like(target.server.own, "^(public|shop)$")
        }
    assert placed == {
        "orders": "on-b", "orders_pkey": "data-file-0001", "orders_who_idx": "on-c", "items_1": "on-c",
        "items_1_pkey": "on-b", "work": "data-file-0001",
    }  # fmt: skip
    found = got(measured)
    assert all(ok for _, ok in found.values()), found
    assert found["objects rewritten meanwhile"][0] == "public.work was rewritten"
    assert "on-b" in found["files of the placed objects"][0]


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        (
            {"public.order": "b"},
            '"public.order" matches no table and no index\n  There are public.orders, public.orders_pkey',
        ),
        ({"orders": "b", "ord*": "c"}, 'two patterns match public.orders: "orders" on b and "ord*" on c'),
    ],
)
def test_a_name_of_nothing_or_two_names_of_one_object_stop_the_campaign(scratch, objects, said):
    with pytest.raises(DataRefused) as caught, open_target(own(scratch, {"objects": objects}), site_at(scratch)):
        pass
    assert str(caught.value).startswith(f"layout.objects: {said}")
    assert left_behind(scratch) == []


@pytest.mark.parametrize("line", ["\\connect shop", "CREATE DATABASE shop;"])
def test_a_setup_that_leads_to_another_database_is_refused(scratch, line):
    config = own(scratch)
    (scratch / "schema.sql").write_text(f"SELECT 1;\n{line}\n")
    with pytest.raises(PreflightError, match=r"schema.sql, line 2, says .* leads out of the database"):
        checked(config, scratch)


def test_a_dump_that_is_none_is_told_in_the_words_of_its_tool(scratch):
    (scratch / "before.dump").write_text("PGDMP of tomorrow")
    said = failure(own(scratch, setup=[], restore="before.dump"), scratch)
    assert said.startswith("restoring before.dump failed: pg_restore: error: unsupported version")
    assert said.endswith("or measure a newer server (target.bin_dir)")


def test_a_setup_that_fails_is_told_by_file_and_line(scratch):
    (scratch / "schema.sql").write_text("CREATE TABLE orders (id int);\nSELECT nope;\n")
    said = failure(own(scratch), scratch)
    assert "setup by schema.sql failed" in said
    assert 'schema.sql:2: ERROR:  column "nope" does not exist' in said


def test_a_table_without_a_primary_key_cannot_be_spread(scratch):
    (scratch / "schema.sql").write_text("CREATE TABLE orders (who int);\n")
    said = failure(own(scratch, {"data_files": 2, "spread": ["orders"]}), scratch)
    assert "the table orders has no primary key" in said
