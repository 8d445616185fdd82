"""What must hold within a cell: the way to its server, its volumes and its load."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_specs import SMALL
from spec_texts import MINIMAL, TARGET, VOLUMES, factor, planned, refusal

from storagelab.errors import SpecError
from storagelab.spec.reading import parse
from storagelab.spec.rules import config_of

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


# --- The way to the server -------------------------------------------------------------------------------------------

SECRETS = [
    'dsn = "postgresql://me:s3cret@db/lab"',
    'dsn = "postgresql://:s3cret@db/lab"',
    'dsn = "postgres://me:s3cret@db1:5432,db2/lab"',
    'dsn = "postgresql://me:s3/cret@db/lab"',
    'dsn = "postgresql://me@db/lab?password=s3cret"',
    'dsn = "host=db user=me password=s3cret"',
    "dsn = \"host=db PASSWORD = 's3cret'\"",
    'dsn = ["host=db password=s3cret"]',
    'dsn_env = "postgresql://me:s3cret@db/lab"',
    'dns = "postgresql://me:s3cret@db/lab"',
    'settings = { primary_conninfo = "host=db password=s3cret" }',
    '"postgresql://me:s3cret@db/lab" = 1',
    'dsn_env = "LAB"  # was postgresql://me:s3cret@db/lab',
    '# dsn = "host=db password=s3cret"',
]


@pytest.mark.parametrize("line", SECRETS)
def test_a_password_in_a_spec_is_refused_and_never_shown(line: str) -> None:
    error = refusal(f"{TARGET}{line}\n")
    assert "password" in error.problem
    assert "s3" not in str(error)
    assert "db/lab" not in str(error)
    assert "dsn_env" in error.hint
    assert "~/.pgpass" in error.hint


def test_a_password_among_the_levels_of_a_factor_is_refused_by_its_place() -> None:
    error = refusal(factor('"target.dsn" = ["postgresql://a@db/x", "postgresql://a:s3cret@db/x"]'))
    assert error.key == 'factors."target.dsn"[2]'
    assert "s3cret" not in str(error)


def test_a_password_in_broken_toml_is_not_shown() -> None:
    assert "s3cret" not in str(refusal(f'{TARGET}dsn = "postgresql://me:s3cret@db/lab\n'))


@pytest.mark.parametrize(
    "dsn", ["postgresql://me@db:5432/lab", "postgresql://db:5432/lab?user=me@there", "host=db user=me passfile=/x", ""]
)
def test_a_dsn_without_a_password_is_taken(dsn: str) -> None:
    assert planned(f'{TARGET}dsn = "{dsn}"\n').cells[0].config.target.dsn == dsn


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        ('dsn = "host=db"\ndsn_env = "LAB"', "target.dsn"),
        ('dsn = "host=db"\nbin_dir = "/usr/bin"', "target.bin_dir"),
        ('dsn_env = "LAB"\nbin_dir = "/usr/bin"', "target.bin_dir"),
        ('dsn_env = "host=db user=me"', "target.dsn_env"),
        ('dsn_env = ""', "target.dsn_env"),
        ('dsn_env = "LAB"\n[layout]\nlog = "a"', "layout.log"),
        ('dsn = "host=db"\n[layout]\nlog = "a"', "layout.log"),
    ],
)
def test_ways_to_a_server_that_contradict_each_other_are_refused(lines: str, key: str) -> None:
    error = refusal(f"{VOLUMES}{TARGET}{lines}\n")
    assert error.key == key
    assert error.hint


def test_the_log_of_a_running_server_can_t_be_a_factor_either() -> None:
    error = refusal(f'{VOLUMES}{TARGET}dsn_env = "LAB"\n[factors]\n"layout.log" = ["a", "b"]\n')
    assert error.key == "layout.log"
    assert error.problem == 'the log of a running server can\'t be moved (in the cell layout.log = "a")'


# --- Volumes and workload --------------------------------------------------------------------------------------------


def test_a_private_server_without_a_volume_is_refused_with_the_lines_to_add() -> None:
    error = refusal(TARGET)
    assert error.key == "volumes"
    assert "[volumes.a]\n    path = " in error.hint


@pytest.mark.parametrize(("line", "key"), [('data = ["a", "fast1"]', "layout.data"), ('log = "fast1"', "layout.log")])
def test_a_volume_that_is_not_declared_is_refused_with_the_nearest_one(line: str, key: str) -> None:
    error = refusal(f'{MINIMAL}[volumes.fast]\npath = "."\n[layout]\n{line}\n')
    assert (error.key, error.problem) == (key, 'no volume is named "fast1"')
    assert error.hint == "Did you mean fast? The spec's volumes: a, b, fast."


def test_a_volume_that_only_a_level_names_is_refused_naming_the_cell() -> None:
    error = refusal(factor('"layout.data_files" = [1, 2]\n"layout.log" = ["a", "c"]'))
    assert error.problem == 'no volume is named "c" (in the cell layout.data_files = 1, layout.log = "c")'


@pytest.mark.parametrize("path", ["", "  ", "a\\u0000b"])
def test_a_volume_with_an_empty_path_is_refused(path: str) -> None:
    assert refusal(f'{TARGET}[volumes.a]\npath = "{path}"\n').key == "volumes.a.path"


def test_a_volume_with_a_name_that_can_t_name_a_folder_is_refused() -> None:
    assert refusal(f'{TARGET}[volumes."a/b"]\npath = "."\n').key == 'volumes."a/b"'


def test_a_volume_named_twice_for_data_is_refused() -> None:
    assert "more than once" in refusal(f'{MINIMAL}[layout]\ndata = ["a", "a"]\n').problem


def test_a_transaction_of_more_rows_than_a_connection_has_is_refused_if_the_spec_asked_for_it() -> None:
    text = MINIMAL + "[workload]\nrows_per_connection = 500\n"
    assert planned(text).cells[0].config.workload.rows_per_connection == 500
    assert refusal(f"{text}rows_per_transaction = 501\n").key == "workload.rows_per_transaction"
    assert planned(f"{text}rows_per_transaction = 500\n").cells


MIXED = {"target": {"engine": "postgres"}, "volumes": {"a": {"path": "."}}}


def test_a_mixed_workload_says_how_many_of_its_operations_are_reads():
    with pytest.raises(SpecError) as caught:
        config_of({**MIXED, "workload": {"kind": "mixed"}})
    assert caught.value.key == "workload.read_fraction"
    config = config_of({**MIXED, "workload": {"kind": "mixed", "read_fraction": 0.75}})
    assert config.workload.reads_per_row == pytest.approx(3.0)


def test_reads_are_refused_where_there_are_none():
    with pytest.raises(SpecError, match="is for mixed workloads") as caught:
        config_of({**MIXED, "workload": {"read_fraction": 0.5}})
    assert caught.value.key == "workload.read_fraction"


def test_a_mixed_workload_can_be_simulated():
    simulated = {
        "target": {"engine": "simulated"}, "server": {"cores": 1, "memory_bytes": 2**30},
        "drives": {"d": {"profile": "iodrive-320"}}, "volumes": {"a": {"drives": ["d"]}},
        "workload": {"kind": "mixed", "read_fraction": 0.5},
    }  # fmt: skip
    assert config_of(simulated).workload.reads_per_row == 1.0


def test_a_burn_in_is_refused_where_drives_are_formatted_before_every_run() -> None:
    text = refusal(SMALL + "[between_runs]\nburn_in = 1\nformat_drives = true\n")
    assert text.key == "between_runs.burn_in"
    assert "leaves no run to judge" in text.problem
    for sound in (SMALL, MINIMAL):
        assert planned(sound + "[between_runs]\nburn_in = 1\n").runs[0].burn_in


# --- Loads of a generator --------------------------------------------------------------------------------------------

PGBENCH = f'{TARGET}{VOLUMES}[workload]\nkind = "pgbench"\nconnections = 4\n'


@pytest.mark.parametrize(
    ("keys", "key", "words"),
    [
        ('scripts = ["tpcb-like@0"]', "workload.scripts[1]", "weight 0"),
        ('scripts = ["tpcb"]', "workload.scripts[1]", 'no script of pgbench\'s is named "tpcb"'),
        ('transactions_per_connection = 5\nduration = "5s"', "workload.duration_s", "conflicts"),
        ('transactions_per_connection = 5\nwarm_up = "auto"', "workload.warm_up_s", "conflicts"),
        ('warm_up = "5s"\nwarm_up_at_most = "60s"', "workload.warm_up_at_most_s", "a warm-up that is to be found"),
        ('warm_up = "auto"\nwarm_up_at_most = "5s"', "workload.warm_up_at_most_s", "at least 10"),
        ('warm_up = "soon"', "workload.warm_up", 'one of us, ms, s, min, h, d, or "auto"'),
        ('warm_up_s = "soon"', "workload.warm_up_s", 'or "auto", not "soon"'),
        ("threads = 8", "workload.threads", "8 threads can't share 4 connections"),
        ("latency_limit_s = 1.0", "workload.latency_limit_s", "rate"),
        ("partitions = 2\n[layout]\ndata_files = 4", "workload.partitions", "can't be spread"),
        ('[layout]\nindexes = "z"', "layout.indexes", "no volume"),
        ("rows_per_connection = 5", "workload.rows_per_connection", "workload.kind is pgbench"),
    ],
)
def test_what_contradicts_itself_in_a_load_of_pgbench_is_refused(keys: str, key: str, words: str) -> None:
    error = refusal(f"{PGBENCH}{keys}\n")
    assert error.key == key
    assert words in error.problem


def test_a_warm_up_of_pgbench_can_be_left_to_be_found() -> None:
    load = planned(f'{PGBENCH}duration = "20s"\nwarm_up = "auto"\n').cells[0].config.workload
    assert load.warm_up_s == "auto"
    assert load.longest_warm_up_s == 100
    limited = planned(f'{PGBENCH}warm_up = "auto"\nwarm_up_at_most = "2min"\n').cells[0].config.workload
    assert limited.longest_warm_up_s == 120


def test_a_warm_up_of_other_loads_is_a_time() -> None:
    error = refusal(f'{PGBENCH.replace("pgbench", "sysbench")}warm_up = "auto"\n')
    assert error.key == "workload.warm_up_s"
    assert 'can\'t be "auto" for sysbench' in error.problem


def test_a_template_needs_a_generator_and_a_server_that_can_be_copied() -> None:
    between = '[between_runs]\ndata = "template"\n'
    attached = PGBENCH.replace("[target]", '[target]\ndsn_env = "MY_SERVER"')
    for sound in (PGBENCH, attached):
        assert planned(sound + between).cells[0].config.between_runs.data == "template"
    mariadb = refusal(attached.replace("postgres", "mariadb").replace("pgbench", "sysbench") + between)
    assert mariadb.key == "between_runs.data"
    assert "no command that copies a database" in mariadb.problem
    assert "leave the DSN out" in mariadb.hint
    elsewhere = refusal(attached.replace('path = "./a"', 'path = "/a"\nremote = true') + between)
    assert (elsewhere.key, "volumes on this machine" in elsewhere.problem) == ("between_runs.data", True)
    inserts = refusal(f"{TARGET}{VOLUMES}{between}")
    assert (inserts.key, "inserted into an empty table" in inserts.problem) == ("between_runs.data", True)


def test_pgbench_is_for_postgresql() -> None:
    error = refusal(PGBENCH.replace("postgres", "mariadb"))
    assert error.problem == "pgbench loads postgres, and target.engine is mariadb"


def test_a_layout_of_a_generators_tables_is_refused_for_inserts() -> None:
    assert "loads of a generator" in refusal(f'{MINIMAL}[layout]\nindexes = "a"\n').problem


def test_pgbench_spreads_its_big_table_and_no_other() -> None:
    error = refusal(f'{PGBENCH}[layout]\nspread = ["accounts"]\n')
    assert (error.key, error.problem) == ("layout.spread", 'pgbench spreads no table "accounts"')
    assert "pgbench_accounts" in error.hint
    assert planned(f'{PGBENCH}[layout]\nspread = ["pgbench_accounts"]\n').cells


def test_what_is_judged_changes_no_run() -> None:
    one, other = (parse(f"{PGBENCH}{judge}", "x.toml") for judge in ("", '[measure]\njudge = "p99"\n'))
    assert one.sha256 == other.sha256
