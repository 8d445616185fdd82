"""The kinds of workload, and every engine's loop checked against their keys: a forgotten key is named."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError
from simulated_specs import planned

from storagelab import _sim
from storagelab.engines.mariadb.loads import inserts as mariadb
from storagelab.engines.postgres.loads import inserts as postgres
from storagelab.engines.simulated import scenario
from storagelab.engines.sqlserver import layout as sqlserver
from storagelab.model.config import Config
from storagelab.model.engines import ENGINES
from storagelab.model.loads.base import Work
from storagelab.model.loads.inserts import InsertLoad, Mixed, RandomInsert, SequentialInsert
from storagelab.model.loads.raw_io import RawIo
from storagelab.model.workload import KINDS

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


def test_a_key_that_the_simulator_does_not_know_is_refused_by_name():
    content = scenario.scenario(planned().blocks[0], Path())
    _sim.check(json.dumps(content))
    content["runs"][0]["workload"]["think_s"] = 1
    with pytest.raises(_sim.Refused, match="think_s"):
        _sim.check(json.dumps(content))


def test_every_key_has_a_line_of_documentation():
    fields = {f"{kind}: {name}": field for kind, one in KINDS.items() for name, field in one.model_fields.items()}
    assert [name for name, field in fields.items() if not field.description and not name.endswith(": kind")] == []


def test_work_has_a_unit():
    assert RandomInsert(connections=4, rows_per_connection=10).work == Work(amount=40, unit="rows")
    raw_io = RawIo(operation="read", pattern="random", block_bytes=8192, duration_s=2.5)
    assert raw_io.work == Work(amount=2500, unit="ms")


def test_a_table_that_names_no_kind_means_random_inserts():
    tables = {"target": {"engine": "postgres"}, "workload": {"connections": 2}}
    assert Config.model_validate(tables).workload == RandomInsert(connections=2)
    with pytest.raises(ValidationError, match="read_fraction"):
        Config.model_validate({**tables, "workload": {"read_fraction": 0.5}})
