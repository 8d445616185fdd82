"""Two campaigns never measure on one volume at once; the lock leaves nothing behind and ends with its process."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import shortcuts
from real_servers import left_behind, plan_of, site_at, small, until
from test_interruptions import SPEC, TOO_LONG, Running

from storagelab.errors import PreflightError
from storagelab.model.config import Config
from storagelab.model.volume import VolumeConfig
from storagelab.volumes.folders import volumes_locked

HOLDS = """
import sys
from pathlib import Path
from real_servers import plan_of, site_at, small
from storagelab.volumes.folders import volumes_locked
scratch = Path(sys.argv[1])
with volumes_locked(plan_of(small(scratch)), site_at(scratch, "11111111")):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(scratch) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the volume `a`."""
    (scratch / "a").mkdir()
    command = [sys.executable, "-c", HOLDS, str(scratch)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def hold(scratch: Path, *configs: Config) -> None:
    with volumes_locked(plan_of(*configs), site_at(scratch)):
        pass


def test_a_volume_in_use_is_refused_by_its_key_with_the_process_that_uses_it(scratch, holder):
    with pytest.raises(PreflightError) as caught:
        hold(scratch, small(scratch))
    assert str(caught.value).startswith(
        f"volumes.a.path: {scratch}/a is in use by another storagelab (process {holder.pid})\n"
    )
    assert "wait until its campaign has ended, or name another place" in caught.value.hint
    assert os.listdir(scratch / "a") == []


def test_another_folder_of_the_same_disk_is_free(scratch, holder):
    hold(scratch, small(scratch, volumes=["b"], data=["b"], log="b"))


def test_the_lock_ends_with_its_process_however_that_ends(scratch, holder):
    holder.kill()
    hold(scratch, small(scratch))
    assert os.listdir(scratch / "a") == []


def test_volumes_of_one_spec_that_share_a_folder_share_its_lock(scratch):
    config = small(scratch, volumes=["a", "b"], data=["a"], log="b")
    changes = {"volumes": {"a": {"path": str(scratch / "a")}, "b": {"path": str(scratch / "b" / ".." / "a")}}}
    (scratch / "link").symlink_to(scratch / "a")
    linked = {"volumes": {"a": {"path": str(scratch / "a")}, "b": {"path": str(scratch / "link")}}}
    same = [Config.model_validate(config.model_dump(exclude_unset=True) | each) for each in (changes, linked)]
    hold(scratch, *same)


@pytest.mark.parametrize("number", [errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_volume_that_can_not_be_locked_as_on_a_network_is_used_without(scratch, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    hold(scratch, small(scratch))


def test_an_attached_servers_volume_on_this_machine_is_locked_and_a_remote_one_is_not(scratch, holder):
    with pytest.raises(PreflightError, match=r"^volumes\.a\.path: .* is in use by another storagelab"):
        hold(scratch, small(scratch, dsn="host=/nowhere", volumes=["a"], data=["a"]))
    there = Config.model_validate({
        "target": {"engine": "postgres", "dsn": "host=/nowhere"}, "layout": {"data": ["a"]},
        "volumes": {"a": {"path": str(scratch / "a"), "remote": True}},
    })  # fmt: skip
    hold(scratch, there)


def test_a_device_that_is_only_read_is_locked_as_well(scratch):
    device = scratch / "device"
    device.touch()
    config = small(scratch)
    config = config.model_copy(update={"volumes": {"a": VolumeConfig(device=str(device))}})
    with device.open("rb") as used:
        fcntl.flock(used, fcntl.LOCK_EX)
        with pytest.raises(PreflightError, match=rf"^volumes\.a\.device: .* \(process {os.getpid()}\)"):
            hold(scratch, config)
    hold(scratch, config)


@pytest.fixture
def under_way(scratch, templates) -> Iterator[Running]:
    """A campaign that is loading on the volume `a`."""
    (scratch / "a").mkdir()
    (scratch / "long.toml").write_text(SPEC.format(rows=TOO_LONG, repetitions=1))
    running = Running(scratch, shortcuts.command(templates))
    until(running.loading, timeout_s=300)
    yield running
    os.kill(running.process.pid, signal.SIGINT)
    running.process.communicate(timeout=300)
    assert left_behind(scratch) == []


def test_a_second_campaign_on_a_volume_is_refused_with_the_first_ones_name_and_touches_nothing(under_way, home, typed):
    (home / "other.toml").write_text(SPEC.format(rows=1000, repetitions=1).replace('"long"', '"other"'))
    before = sorted((home / "a").iterdir())
    code, out, err = typed("run", "other.toml")
    assert code == 2
    assert out == ""
    place = f"other.toml: volumes.a.path: {home}/a is in use by another storagelab"
    assert f"{place} (experiment long, process {under_way.process.pid})" in err
    assert not (home / "results" / "other").exists()
    assert sorted((home / "a").iterdir()) == before
    assert under_way.process.poll() is None


def test_results_are_reported_while_another_campaign_uses_the_volume(home, holder, typed):
    holder.kill()
    (home / "done.toml").write_text(SPEC.format(rows=1000, repetitions=1).replace('"long"', '"done"'))
    assert typed("run", "done.toml")[0] == 0
    with volumes_locked(plan_of(small(home)), site_at(home)):
        code, _, err = typed("run", "done.toml")
    assert code == 0, err
    assert "0 runs to make, 1 stored already" in err
