"""The programs that a CPU quota of control groups delayed, on recorded machines with groups of either version, and on
this machine.
"""

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import make_environment, make_experiment, make_plan, make_runs
from raw_io_specs import SPEC, needs_fio, runs_of
from real_servers import run_of, small
from recorded_machine import RecordedMachine, stat

from storagelab.errors import PreflightError
from storagelab.findings.analysis import analyse
from storagelab.machine.counts import DeviceCounters, Throttling, read_group, throttle
from storagelab.machine.disks import mounts_here
from storagelab.machine.doctor import cpu_quota
from storagelab.model.measurement import THROTTLED, held_back
from storagelab.run.one_run import OneRun
from storagelab.volumes import limits

ROOT = "1 0 4000:1 / / rw - ext4 /dev/sda1 rw"
V1 = "31 21 0:4027 / {place} rw - cgroup cgroup rw,cpu,cpuacct"
V2 = "30 21 0:4026 / {place} rw - cgroup2 cgroup2 rw,nsdelegate"


def newer(machine: RecordedMachine, group: str, throttled_us: int, usage_us: int) -> None:
    text = f"usage_usec {usage_us}\nuser_usec 1\nnr_periods 9\nnr_throttled 5\nthrottled_usec {throttled_us}\n"
    machine.write(f"groups/{group}/cpu.stat", text)


def test_the_newer_groups_count_microseconds_and_the_group_that_held_a_process_back_the_longest_is_told(machine):
    machine.mounts(ROOT, V2.format(place=machine.root / "groups"))
    machine.write("proc/self/cgroup", "0::/user\n")
    machine.write("proc/77/cgroup", "0::/pod/app\n")
    newer(machine, "user", 0, 10)
    newer(machine, "pod", 1_000_000, 5_000_000)
    newer(machine, "pod/app", 500_000, 4_000_000)
    throttling = Throttling(77, machine.kernel)
    newer(machine, "pod", 9_000_000, 7_000_000)
    newer(machine, "pod/app", 600_000, 6_000_000)
    assert throttling.end() == {
        "server_throttled_s": pytest.approx(8), "server_group_cpu_s": pytest.approx(2), "storagelab_throttled_s": 0,
    }  # fmt: skip


def test_the_older_groups_count_nanoseconds_and_a_process_may_join_one_on_the_way(machine):
    machine.mounts(ROOT, V1.format(place=machine.root / "groups"))
    machine.write("proc/self/cgroup", "7:cpu,cpuacct:/\n0::/\n")
    machine.write("proc/77/cgroup", "7:cpu,cpuacct:/\n")
    machine.write("groups/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n")
    machine.write("groups/slow/cpu.stat", "nr_periods 50\nnr_throttled 40\nthrottled_time 70000000000\n")
    machine.write("groups/slow/cpuacct.usage", "1000000000\n")
    throttling = Throttling(77, machine.kernel)
    machine.write("proc/77/cgroup", "7:cpu,cpuacct:/slow\n")
    machine.write("groups/slow/cpu.stat", "nr_periods 90\nnr_throttled 80\nthrottled_time 73500000000\n")
    machine.write("groups/slow/cpuacct.usage", "1600000000\n")
    found = throttling.end()
    assert found["server_throttled_s"] == pytest.approx(3.5)
    assert found["server_group_cpu_s"] == pytest.approx(0.6)


def test_a_group_that_is_made_during_the_run_counts_from_nothing_and_a_program_is_seen_while_it_lives(machine):
    machine.mounts(ROOT, V2.format(place=machine.root / "groups"))
    machine.write("proc/self/cgroup", "0::/\n")
    throttling = Throttling(None, machine.kernel)
    machine.write("proc/self/task/5/children", "88 ")
    machine.write("proc/88/cgroup", "0::/new\n")
    newer(machine, "new", 250_000, 1_000)
    throttling.look()
    machine.write("proc/self/task/5/children", "")
    assert throttling.end()["load_throttled_s"] == pytest.approx(0.25)


def test_nothing_is_told_where_no_group_counts(machine):
    machine.mounts(ROOT)
    assert Throttling(77, machine.kernel).end() == {}


def test_one_busy_cpu_loses_as_much_of_the_run_as_it_was_held_back_and_several_what_they_were_denied():
    one = {"server_throttled_s": 8.5, "server_group_cpu_s": 1.5}
    assert held_back(one, elapsed_s=10.0) == {"server": (8.5, 0.85)}
    forty = {"server_throttled_s": 6.4, "server_group_cpu_s": 393.6}
    assert held_back(forty, elapsed_s=10.0)["server"][1] == pytest.approx(0.016)
    mostly_waiting = {"load_throttled_s": 0.05, "load_group_cpu_s": 0.1}
    assert held_back(mostly_waiting, elapsed_s=10.0)["load"][1] == pytest.approx(0.005)
    assert held_back({"server_throttled_s": 0.0}, elapsed_s=10.0) == {}


def test_the_doctor_tells_a_quota_that_is_in_force(machine):
    machine.mounts(ROOT, V2.format(place=machine.root / "groups"))
    machine.write("proc/self/cgroup", "0::/pod\n")
    newer(machine, "pod", 2_500_000, 1)
    assert cpu_quota(machine.kernel).state == "yes"
    machine.write("groups/pod/cpu.max", "50000 100000\n")
    found = cpu_quota(machine.kernel)
    assert found.state == "partly"
    assert "allow 0.5 CPUs" in found.detail
    assert "2.5 s" in found.detail


def cpu_groups() -> Path | None:
    """Where groups with a CPU quota can be made, if they can."""
    for mount in mounts_here():
        root = Path(mount.mount_point)
        older = mount.filesystem == "cgroup" and "cpu" in mount.super_options
        if older or (mount.filesystem == "cgroup2" and "cpu" in (root / "cgroup.subtree_control").read_text().split()):
            return root if os.access(root, os.W_OK) else None
    return None


needs_quota = pytest.mark.skipif(
    cpu_groups() is None, reason="needs the cpu controller of control groups, and the right to make groups (root)"
)


@contextlib.contextmanager
def quota(share: float) -> Iterator[Path]:
    """A group whose processes get so many CPUs. At the end they are put back where they all may be."""
    root = cpu_groups()
    assert root is not None
    group = Path(tempfile.mkdtemp(prefix="storagelab-test-", dir=root))
    try:
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{round(share * 100_000)} 100000")
        else:
            (group / "cpu.cfs_quota_us").write_text(str(round(share * 100_000)))
        yield group
    finally:
        deadline = time.monotonic() + 20
        while members := (group / "cgroup.procs").read_text().split():
            for process in members:
                with contextlib.suppress(OSError):
                    join(root, int(process))
            assert time.monotonic() < deadline
        group.rmdir()


def join(group: Path, process: int) -> None:
    (group / "cgroup.procs").write_text(str(process))


@needs_quota
@pytest.mark.slow
def test_a_server_held_back_in_the_middle_of_a_run_makes_the_run_unverified(scratch, monkeypatch):
    on_poll = OneRun._on_poll
    with quota(0.05) as group:
        root, joined = group.parent, []

        def slowed(self, progress, rows):
            server = Path(f"/proc/{self.server.process.pid}")
            if not joined:
                sessions = (server / "task" / server.name / "children").read_text().split()
                joined.extend([server.name, *sessions])
                for process in joined:
                    join(group, int(process))
            elif read_group(group).throttled_s > 3 and (group / "cgroup.procs").read_text():
                for process in (group / "cgroup.procs").read_text().split():
                    with contextlib.suppress(OSError):
                        join(root, int(process))
            on_poll(self, progress, rows)

        monkeypatch.setattr(OneRun, "_on_poll", slowed)
        run = run_of(small(scratch, connections=4, rows_per_connection=20_000, rows_per_transaction=500), scratch)
    assert run.status == "unverified", run.reason
    (check,) = [one for one in run.measurement.checks if one.name == THROTTLED]
    assert check.got.startswith("the server held back for ")
    assert run.measurement.counters["cpu"]["server_throttled_s"] > 3
    assert run.measurement.counters["cpu"]["storagelab_throttled_s"] == 0


@needs_fio
@needs_quota
@pytest.mark.slow
def test_raw_io_whose_program_is_held_back_is_unverified(scratch, monkeypatch):
    inside = scratch / "bin" / "fio"
    inside.parent.mkdir()
    with quota(0.05) as group:
        inside.write_text(f'#!/bin/sh\necho $$ > {group}/cgroup.procs && exec {shutil.which("fio")} "$@"\n')
        inside.chmod(0o755)
        monkeypatch.setenv("PATH", f"{inside.parent}:{os.environ['PATH']}")
        text = SPEC.replace('"1s"', '"4s"').replace("outstanding = 2", "outstanding = 32")
        (run,) = runs_of(scratch, text)
    assert run.status == "unverified", run.reason
    assert "the load's own program held back" in run.reason
    assert run.measurement.counters["cpu"]["load_throttled_s"] > 0.4


# --- runs that are short against the slices of a throttle -------------------------------------------------------------


@pytest.mark.parametrize(("elapsed_s", "share"), [(2.5, 0.04), (40.0, None)])
def test_short_runs_on_a_throttled_volume_are_noted_with_the_share_of_a_slice(elapsed_s, share):
    experiment = make_experiment({"layout.data_files": [1, 2]}, 5)
    plan, made = make_plan(experiment), []
    environment = make_environment()
    volumes = {name: {**facts, "throttle": {"write_iops": 300}} for name, facts in environment["volumes"].items()}
    for run in make_runs(experiment, plan):
        measured = run.measurement.model_copy(
            update={"elapsed_s": elapsed_s + run.repetition / 1000, "environment": {**environment, "volumes": volumes}}
        )
        made.append(run.model_copy(update={"measurement": measured}))
    findings = analyse(experiment, plan, made)
    found = [one for one in findings.cautions if one.kind == "throttle-slices"]
    assert [one.share for one in found] == ([] if share is None else [pytest.approx(share, rel=0.01)])
    [compared] = findings.comparisons
    assert (compared.ratio.high > 1.039) == (share is not None)


# --- how fast groups let a process read and write ---------------------------------------------------------------------


V1_IO = "31 21 0:4027 / {place} rw - cgroup cgroup rw,blkio"


@pytest.fixture
def machine(machine):
    machine.disk("sda", "4000:0", stat_text=stat())
    machine.partition("sda", "sda1", "4000:1", stat_text=stat())
    return machine


@pytest.fixture
def throttled(machine):
    """A process in a group of version 1 that may write 600 times a second."""
    machine.mounts(ROOT, V1_IO.format(place=machine.root / "groups"))
    machine.write("proc/self/cgroup", "4:memory:/other\n7:blkio:/lab\n0::/\n")
    machine.write("groups/lab/blkio.throttle.write_iops_device", "4000:0 600\n4000:16 70\n")
    machine.write("groups/lab/blkio.throttle.read_bps_device", "4000:0 20000000\n")
    machine.write("groups/lab/blkio.throttle.io_serviced_recursive", "4000:0 Read 5\n4000:0 Write 90\nTotal 95\n")
    machine.write("groups/lab/blkio.throttle.io_service_bytes_recursive", "4000:0 Read 50\n4000:0 Write 900\n")
    return machine


def test_the_limits_of_the_older_groups_are_those_of_the_partitions_disk(throttled):
    assert throttle(["sda1"], throttled.kernel).limits == {"write_iops": 600, "read_bytes_per_s": 20_000_000}


def test_requests_are_counted_as_the_throttle_counts_them(throttled):
    with DeviceCounters({"a": Path("/srv")}, throttled.kernel) as counters:
        counted = {name: value for name, value in counters.read().items() if "throttled" in name}
    assert counted == {
        "volume.a.throttled_reads": 5, "volume.a.throttled_writes": 90,
        "volume.a.throttled_read_bytes": 50, "volume.a.throttled_write_bytes": 900,
    }  # fmt: skip


def test_the_newer_groups_limits_are_read_and_the_innermost_group_with_a_limit_counts(machine):
    machine.mounts(ROOT, V2.format(place=machine.root / "groups"))
    machine.write("proc/self/cgroup", "0::/pod/app\n")
    machine.write("groups/pod/app/io.max", "")
    machine.write("groups/pod/io.max", "4000:16 riops=9\n4000:0 rbps=max wbps=5000000 riops=max wiops=250\n")
    machine.write("groups/pod/io.stat", "4000:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n")
    found = throttle(["sda1"], machine.kernel)
    assert found.limits == {"write_bytes_per_s": 5_000_000, "write_iops": 250}
    assert found.counted() == {"read_bytes": 1, "write_bytes": 2, "reads": 3, "writes": 4}


def test_nothing_is_said_without_groups_or_of_several_devices_together(machine, throttled):
    assert throttle(["sda1", "sdb"], throttled.kernel) is None
    assert throttle([], throttled.kernel) is None
    machine.mounts(ROOT)
    assert throttle(["sda1"], machine.kernel) is None


def test_a_process_in_the_root_group_of_version_2_is_told_that_it_can_not_be_limited(machine):
    machine.mounts(ROOT, V2.format(place=machine.root / "groups"))
    machine.write("groups/cgroup.controllers", "cpu io memory\n")
    machine.write("proc/self/cgroup", "0::/\n")
    with pytest.raises(PreflightError, match=r"runs in the root group.*\n.*systemd-run --scope"):
        limits.check("volumes.a.limit", machine.kernel)
    machine.write("proc/self/cgroup", "0::/lab/own\n")
    machine.write("groups/lab/own/io.max", "4000:0 wbps=1 rbps=max wiops=max riops=max\n")
    machine.write("groups/lab/io.max", "4000:0 wbps=7 rbps=max wiops=max riops=max\n")
    machine.write("groups/another/io.max", "4000:0 wbps=9 rbps=max wiops=max riops=max\n")
    limits.check("volumes.a.limit", machine.kernel)
    assert limits.Limiter("sda", machine.kernel).read() == {"write_bytes_per_s": 7}


@pytest.mark.timeout(900)
def test_version_2_limits_what_a_process_in_a_group_writes_and_nothing_in_the_root_group(quick_guest):
    finished = quick_guest("limits_groups", 1, 256, limit_s=600)
    assert finished.exit_code == 0, finished.output
    told = [json.loads(line) for line in finished.output.splitlines() if line.startswith("{")]
    assert "runs in the root group" in told[1]["refused"]
    assert told[2]["direct_bytes_per_s"] > 2 * 2**20
    assert told[3]["refused"] == ""
    assert told[4]["read_back"] == {"write_bytes_per_s": 2**20}
    # On a busy machine, the process does less than the limit allows.
    assert 0.7 < told[4]["direct_bytes_per_s"] / 2**20 < 1.05
    assert 0.7 < told[4]["buffered_bytes_per_s"] / 2**20 < 1.05
    assert told[5]["direct_bytes_per_s"] > 2 * 2**20
