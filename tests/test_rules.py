"""The rules within a cell: about its server, its volumes and its load."""

from pathlib import Path

import pytest
from pydantic import ValidationError
from simulated_specs import SMALL
from spec_texts import MINIMAL, TARGET, VOLUMES, factor, planned, refusal

from storagelab.engines.mariadb.loads import inserts as mariadb
from storagelab.engines.postgres.loads import inserts as postgres
from storagelab.engines.simulated import scenario
from storagelab.engines.sqlserver import layout as sqlserver
from storagelab.model.config import KINDS, Config
from storagelab.model.engines import ENGINES
from storagelab.model.loads.inserts import InsertLoad, Mixed, RandomInsert, SequentialInsert
from storagelab.spec.reading import parse
from storagelab.spec.rules import config_of

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


SECRETS = [
    'dsn = "postgresql://me:s3cret@db/lab"', 'dsn = "postgresql://:s3cret@db/lab"',
    'dsn = "postgres://me:s3cret@db1:5432,db2/lab"', 'dsn = "postgresql://me:s3/cret@db/lab"',
    'dsn = "postgresql://me@db/lab?password=s3cret"', 'dsn = "host=db user=me password=s3cret"',
    "dsn = \"host=db PASSWORD = 's3cret'\"", 'dsn = ["host=db password=s3cret"]',
    'dsn_env = "postgresql://me:s3cret@db/lab"', 'dns = "postgresql://me:s3cret@db/lab"',
    'settings = { primary_conninfo = "host=db password=s3cret" }', '"postgresql://me:s3cret@db/lab" = 1',
    'dsn_env = "LAB"  # was postgresql://me:s3cret@db/lab', '# dsn = "host=db password=s3cret"',
]  # fmt: skip


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


def test_a_connection_may_have_fewer_rows_than_a_transaction_has_by_default_and_as_many_as_one_is_asked_for() -> None:
    text = MINIMAL + "[workload]\nrows_per_connection = 500\n"
    assert planned(text).cells[0].config.workload.rows_per_connection == 500
    assert planned(f"{text}rows_per_transaction = 500\n").cells


MIXED = {"target": {"engine": "postgres"}, "volumes": {"a": {"path": "."}}}


def test_a_mixed_workload_says_how_many_of_its_operations_are_reads():
    config = config_of({**MIXED, "workload": {"kind": "mixed", "read_fraction": 0.75}})
    assert config.workload.reads_per_row == pytest.approx(3.0)


def test_a_mixed_workload_can_be_simulated():
    simulated = {
        "target": {"engine": "simulated"}, "server": {"cores": 1, "memory_bytes": 2**30},
        "drives": {"d": {"profile": "iodrive-320"}}, "volumes": {"a": {"drives": ["d"]}},
        "workload": {"kind": "mixed", "read_fraction": 0.5},
    }  # fmt: skip
    assert config_of(simulated).workload.reads_per_row == 1.0


def test_simulated_and_measured_runs_may_have_a_burn_in() -> None:
    for sound in (SMALL, MINIMAL):
        assert planned(sound + "[between_runs]\nburn_in = 1\n").runs[0].burn_in


PGBENCH = f'{TARGET}{VOLUMES}[workload]\nkind = "pgbench"\nconnections = 4\n'


def test_a_warm_up_of_pgbench_can_be_left_to_be_found() -> None:
    load = planned(f'{PGBENCH}duration = "20s"\nwarm_up = "auto"\n').cells[0].config.workload
    assert load.warm_up_s == "auto"
    assert load.longest_warm_up_s == 100
    limited = planned(f'{PGBENCH}warm_up = "auto"\nwarm_up_at_most = "2min"\n').cells[0].config.workload
    assert limited.longest_warm_up_s == 120


def test_a_template_is_for_generators_and_servers_that_can_be_copied() -> None:
    between = '[between_runs]\ndata = "template"\n'
    attached = PGBENCH.replace("[target]", '[target]\ndsn_env = "MY_SERVER"')
    for sound in (PGBENCH, attached):
        assert planned(sound + between).cells[0].config.between_runs.data == "template"


def test_pgbench_spreads_its_big_table() -> None:
    assert planned(f'{PGBENCH}[layout]\nspread = ["pgbench_accounts"]\n').cells


def test_what_is_judged_changes_no_run() -> None:
    one, other = (parse(f"{PGBENCH}{judge}", "x.toml") for judge in ("", '[measure]\njudge = "p99"\n'))
    assert one.sha256 == other.sha256


@pytest.mark.parametrize("drives", [2, 3, 4])
def test_a_raid_10_takes_two_drives_or_more_as_linux_does(drives) -> None:
    devices = ", ".join(f'"/dev/disk/by-id/d{number}"' for number in range(drives))
    made = f'{TARGET}[volumes.a]\npath = "."\nraid_level = "raid10"\ndevices = [{devices}]\n'
    assert planned(made).cells[0].config.volumes["a"].raid_level == "raid10"


# --- the kinds of workload, and every engine's loop checked against their keys ----------------------------------------


LOADS = (RandomInsert(), SequentialInsert(), Mixed(read_fraction=0.5))
KEYS = [(load, name) for load in LOADS for name in type(load).model_fields if name != "kind"]
WORKERS = {
    "postgres": lambda load, number: postgres.call(load, "lab", 1, 1, number).as_string(None),
    "mariadb": lambda load, number: mariadb.call(load, "`lab`", 1, number),
    "sqlserver": lambda load, number: sqlserver.call(load, "lab", 1, number),
    "simulated": lambda load, _: scenario.workload(load),
}
"""What each connection's loop is sent, by the engine."""


def sent(engine: str, load: InsertLoad) -> list[object]:
    return [WORKERS[engine](load, number) for number in range(1, load.connections + 1)]


def another(value: object) -> object:
    """Another valid value for a key; add a case here for a key of a new type."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value / 2
    raise AssertionError(f"no other value is known for {value!r}")


@pytest.mark.parametrize("engine", WORKERS)
@pytest.mark.parametrize(("load", "name"), KEYS, ids=lambda one: one if isinstance(one, str) else one.kind)
def test_every_key_reaches_the_loop_of_every_engine(engine, load, name):
    changed = load.model_copy(update={name: another(getattr(load, name))})
    assert sent(engine, changed) != sent(engine, load), f"workload.{name} of {load.kind} changes nothing on {engine}"


def test_no_engine_with_a_database_is_left_out():
    assert WORKERS.keys() == {name for name, engine in ENGINES.items() if not engine.raw_io}
    assert {type(load) for load in LOADS} == {member for member in KINDS.values() if issubclass(member, InsertLoad)}


def test_a_table_that_names_no_kind_means_random_inserts():
    tables = {"target": {"engine": "postgres"}, "workload": {"connections": 2}}
    assert Config.model_validate(tables).workload == RandomInsert(connections=2)
    with pytest.raises(ValidationError, match="read_fraction"):
        Config.model_validate({**tables, "workload": {"read_fraction": 0.5}})
