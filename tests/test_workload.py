"""The kinds of workload, and every engine's loop checked against their keys: a forgotten key is named."""

import pytest
from pydantic import ValidationError

from storagelab.engines.mariadb.loads import inserts as mariadb
from storagelab.engines.postgres.loads import inserts as postgres
from storagelab.engines.simulated import scenario
from storagelab.engines.sqlserver import layout as sqlserver
from storagelab.model.config import KINDS, Config
from storagelab.model.engines import ENGINES
from storagelab.model.loads.inserts import InsertLoad, Mixed, RandomInsert, SequentialInsert

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
