"""Volumes on a server's own machine, as its operator describes them; real servers play the remote machine."""

import subprocess
import tempfile
from pathlib import Path

import pytest
import real_mariadb
from real_mariadb import needs_mariadb
from real_servers import ROWS, left_behind, measure, plan_of, running, site_at, small

from storagelab.engines.postgres.engine import opened
from storagelab.errors import PreflightError
from storagelab.machine.rights import make_folder, unprivileged
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.model.plan import Cell, Plan
from storagelab.run.engine import preflight, sweep
from storagelab.servers import places
from storagelab.servers.places import Mount


def elsewhere(config: Config, path: Path | str, data_files: int = 2) -> Config:
    """The same cell, its data files on the volume `far`, a folder of the server's machine."""
    tables = config.model_dump(exclude_unset=True)
    volumes = {"far": {"path": str(path), "remote": True}}
    return Config.model_validate({**tables, "volumes": volumes, "layout": {"data_files": data_files}})


def checks_of(measurement) -> dict[str, Check]:
    return {check.name: check for check in measurement.checks}


@pytest.fixture
def far():
    """A folder of the server's machine; whoever runs the server may write there."""
    with tempfile.TemporaryDirectory(prefix="slab-far-", dir="/tmp") as name:
        Path(name).chmod(0o777)
        yield Path(name) / "data's"


def operators_step(hint: str) -> str:
    """The command in a hint, adapted to this machine, where the server runs as storagelab's server user."""
    command = hint.split("run there: ")[1].split(" (postgres")[0]
    owner = unprivileged().owner
    return command.replace("-o postgres ", f"-o {owner[0]} " if owner else "")


def test_postgresql_asks_its_operator_for_the_folders_and_measures_in_them(scratch):
    with running(scratch / "server") as server, tempfile.TemporaryDirectory(prefix="slab far-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        config = elsewhere(small(scratch, dsn=server.conninfo), f"{name}/data")
        plan = plan_of(config, elsewhere(config, f"{name}/data", data_files=3))
        with pytest.raises(PreflightError, match="the server sees no folder") as caught:
            preflight(plan, site_at(scratch))
        assert caught.value.key == "volumes.far.path"
        step = operators_step(caught.value.hint)
        assert step.endswith("/storagelab-data-file-{0001..0003}")
        subprocess.run(["bash", "-c", step], check=True)

        found = preflight(plan, site_at(scratch))
        assert (found.volumes[0].device, found.volumes[0].free_bytes) == ("on the server", None)
        assert places.NOTE in found.notes
        measured = measure(config, site_at(scratch))
        checks = checks_of(measured)
        assert measured.rows == ROWS
        assert (checks["place of the data files"].ok, checks["place of the data files"].got) == (True, f"{name}/data")
        assert checks["volume far"].ok is True
        assert "mounted at /" in checks["volume far"].got
        assert measured.environment["volumes"]["far"]["path"] == f"{name}/data"
        # The operator's folders stay, and nothing is in them.
        assert sorted(path.name for path in Path(name).rglob("*")) == [
            "data", *(f"storagelab-data-file-{n:04d}" for n in (1, 2, 3)),
        ]  # fmt: skip
    assert left_behind(scratch) == []


def test_what_a_killed_run_left_in_an_operators_folders_is_swept(scratch):
    with running(scratch / "server") as server, tempfile.TemporaryDirectory(prefix="slab-far-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        make_folder(Path(name) / "storagelab-data-file-0001")
        config = elsewhere(small(scratch, dsn=server.conninfo), name, data_files=1)
        target = opened(config, site_at(scratch))
        target.__enter__()  # and is killed without leaving it
        target.server.own.close()
        plan = Plan(cells=(Cell(cell_id="c01", levels={}, config=config),), runs=())
        assert any("tablespace storagelab_0badcafe_f0001" in said for said in sweep(plan, site_at(scratch)))
        assert list((Path(name) / "storagelab-data-file-0001").iterdir()) == []


@needs_mariadb
def test_mariadb_makes_its_folder_itself_and_leaves_it_empty(scratch, far):
    with real_mariadb.running(scratch / "server") as server:
        config = elsewhere(small(scratch, engine="mariadb", dsn=server.socket_dsn), far)
        found = preflight(plan_of(config), site_at(scratch))
        assert found.volumes[0].device == "on the server"
        assert any("leaves an empty folder named storagelab_0badcafe" in note for note in found.notes)
        measured = measure(config, site_at(scratch))
        checks = checks_of(measured)
        assert (measured.rows, checks["data files"].got, checks["place of the data files"].ok) == (ROWS, "2", True)
        assert checks["volume far"].ok is None  # Debian's server comes without the plugin DISKS
        assert [path.name for path in far.rglob("*")] == ["storagelab_0badcafe"]
        assert server.said("SHOW DATABASES LIKE 'storagelab%'") == []


@pytest.mark.parametrize(
    ("path", "point"), [("/data/fast", "/data"), ("/database", "/"), ("/data", "/data"), ("D:/lab", None)]
)
def test_a_folder_is_on_the_mount_with_the_longest_path_above_it(path, point):
    found = places.mount_of(path, [Mount("/", "sda"), Mount("/data", "sdb"), Mount("/data", "sdc")])
    assert (found.point if found else None) == point
    assert found is None or found.device != "sdb"  # hidden under the later one
