"""Template databases on a PostgreSQL that already runs: made once, copied for each run, and gone with the campaign."""

import os
from pathlib import Path

import pytest
from real_servers import ask, cell_of, connect, got, left_behind, mounted, needs_root, plan_of, run_of, running, site_at

from storagelab.engines.postgres.layout import TemplateDatabase, of_template
from storagelab.engines.postgres.server import Server
from storagelab.errors import DataRefused, PreflightError
from storagelab.model.config import Config
from storagelab.model.measurement import Measurement
from storagelab.run.engine import open_target, preflight, remove_templates, sweep

PREFIX = "storagelab_0badcafe"


def cell(scratch: Path, server: Server, layout: dict | None = None, volumes: str = "ab", **load) -> Config:
    for name in volumes:
        (scratch / name).mkdir(exist_ok=True)
    return Config.model_validate({
        "target": {"engine": "postgres", "dsn": server.conninfo}, "layout": layout or {},
        "volumes": {name: {"path": str(scratch / name)} for name in volumes},
        "workload": {"kind": "pgbench", "connections": 2, "duration_s": 0.5, **load},
        "between_runs": {"data": "template"},
    })  # fmt: skip


def own(scratch: Path, server: Server) -> Config:
    (scratch / "schema.sql").write_text("CREATE TABLE orders AS SELECT generate_series(1, 500) AS id;\n")
    (scratch / "order.sql").write_text("INSERT INTO orders VALUES (0);\n")
    load = {"kind": "sql", "setup": ("schema.sql",), "transactions": ({"file": "order.sql"},)}
    return cell(scratch, server, volumes="", **load)


def run(config: Config, scratch: Path) -> Measurement:
    with open_target(config, site_at(scratch)) as target:
        return target.run(cell_of(config), 1, 1, lambda _: None)


def made(server: Server) -> list[str]:
    """What storagelab has on the server, without its identity."""
    with connect(server) as connection:
        names = connection.execute(
            "SELECT datname FROM pg_database UNION ALL SELECT spcname FROM pg_tablespace "
            "UNION ALL SELECT nspname FROM pg_namespace ORDER BY 1"
        ).fetchall()
    return [name.removeprefix(PREFIX) for (name,) in names if name.startswith("storagelab")]


def test_every_run_finds_the_same_data_in_every_tablespace_of_its_layout(scratch, attached):
    config = cell(scratch, attached, {"data": ["a", "b"], "data_files": 2, "indexes": "b"}, scripts=["simple-update"])
    spread, single = config, cell(scratch, attached, {"data": ["b"]})
    measured = [run(spread, scratch), run(single, scratch), run(spread, scratch)]
    for one in measured:
        assert one.environment["data"]["state"] == "restored from a template, copied by the server"
        assert all(ok for _, ok in got(one).values()), got(one)
    first, other, second = (got(one)["data restored from a template"][0] for one in measured)
    assert first == second != other, "the run before has changed its own data"
    assert "templates" in got(measured[0])["place of the tables"][0]
    templates = [TemplateDatabase(one, site_at(scratch)).prefix.removeprefix(PREFIX) for one in (spread, single)]
    spaces = [f"{templates[0]}_f0001", f"{templates[0]}_f0002", f"{templates[0]}_on_b", f"{templates[1]}_f0001"]
    assert sorted(made(attached)) == sorted([*templates, *spaces])
    assert measured[2].setup_s < measured[0].setup_s
    remove_templates(plan_of(spread, single), site_at(scratch))
    assert (made(attached), left_behind(scratch)) == ([], [])


def test_what_a_killed_campaign_left_is_swept_and_a_template_of_others_is_not(scratch, attached):
    config = own(scratch, attached)
    assert run(config, scratch).transactions > 10
    name = TemplateDatabase(config, site_at(scratch)).prefix
    assert sweep(plan_of(config), site_at(scratch)) == [f"dropped database {name}, left on the server by a killed run"]
    assert made(attached) == []
    with connect(attached) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        with pytest.raises(PreflightError, match=f"database {name} has a name that storagelab needs"):
            preflight(plan_of(config), site_at(scratch))
        with pytest.raises(PreflightError, match="storagelab did not make it"):
            sweep(plan_of(config), site_at(scratch))
        assert ask(connection, "SELECT count(*) FROM pg_database WHERE datname = %s", name) == 1
        connection.execute(f"DROP DATABASE {name}")


def test_a_template_that_could_not_be_made_leaves_nothing(scratch, attached):
    config = own(scratch, attached)
    (scratch / "schema.sql").write_text("CREATE TABLE orders (id int);\nSELECT nope;\n")
    with pytest.raises(DataRefused, match=r'schema.sql:2: ERROR:  column "nope" does not exist'):
        run_of(config, scratch)
    assert made(attached) == []


@needs_root
def test_a_volume_without_room_for_a_copy_is_named_and_the_template_goes_with_the_campaign(scratch):
    with running(scratch / "attached", fsync=False) as server, mounted(scratch / "b", "-o", "size=26m") as drive:
        os.chmod(drive, 0o755)
        config = cell(scratch, server, {"data": ["b"]})
        said = run_of(config, scratch).reason
        assert said.startswith(f"the set-up filled volume b ({drive}: 26 MiB, ")
        assert 'set between_runs.data = "rebuild"' in said
        remove_templates(plan_of(config), site_at(scratch))
        assert (made(server), os.listdir(drive)) == ([], [])


@pytest.mark.parametrize(
    ("tablespace", "template"),
    [("p_f0001", None), ("p_tables", None), ("p_t0123456789ab_f0001", "p_t0123456789ab")],
)  # fmt: skip
def test_a_tablespace_says_whose_it_is(tablespace, template):
    assert of_template("p", tablespace) == template
