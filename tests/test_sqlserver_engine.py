import importlib.metadata

from sqlserver_specs import config, plan_of, site

from storagelab.engines.sqlserver import engine
from storagelab.run.engine import server_abilities, try_starting


def test_the_doctor_tells_of_the_driver():
    (found,) = [one for one in server_abilities() if one.name == "driver for SQL Server"]
    assert (found.state, importlib.metadata.version("pymssql") in found.detail) == ("yes", True)


def test_a_driver_that_is_absent_is_no_fault_of_the_machines_other_servers(monkeypatch):
    monkeypatch.setattr(engine, "DRIVER", "no-such-driver")
    (found,) = engine.abilities()
    assert (found.state, "storagelab[sqlserver]" in found.mend) == ("no", True)


def test_nothing_is_started_so_nothing_is_tried_or_left_running(tmp_path):
    assert list(engine.ENGINE.kinds(plan_of(config()), site())) == []
    assert not engine.ENGINE.stop_orphan(tmp_path)
    try_starting(plan_of(config()), site())
