"""How fast control groups let a process read and write, on recorded machines with groups of either version."""

import json
from pathlib import Path

import pytest
from recorded_machine import RecordedMachine, stat

from storagelab.errors import PreflightError
from storagelab.machine.counts import DeviceCounters, throttle
from storagelab.volumes import limits

ROOT = "1 0 4000:1 / / rw - ext4 /dev/sda1 rw"
V1 = "31 21 0:4027 / {place} rw - cgroup cgroup rw,blkio"
V2 = "30 21 0:4026 / {place} rw - cgroup2 cgroup2 rw,nsdelegate"


@pytest.fixture
def machine(tmp_path):
    machine = RecordedMachine(tmp_path)
    machine.disk("sda", "4000:0", stat_text=stat())
    machine.partition("sda", "sda1", "4000:1", stat_text=stat())
    return machine


@pytest.fixture
def throttled(machine):
    """A process in a group of version 1 that may write 600 times a second."""
    machine.mounts(ROOT, V1.format(place=machine.root / "groups"))
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
    place = machine.root / "groups"
    machine.mounts(ROOT, V2.format(place=place))
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
