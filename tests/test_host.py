"""The descriptions of this machine and of recorded machines, and the allowed actions on a volume."""

import json
import os
import platform
from pathlib import Path

import pytest

from storagelab.errors import PreflightError
from storagelab.machine import host
from storagelab.machine.disks import Kernel

ROOT = "21 1 4000:1 / / rw,relatime - ext4 /dev/sda1 rw"
V2 = "30 21 0:4026 / {place} rw - cgroup2 cgroup2 rw,nsdelegate"
V1 = "31 21 0:4027 / {place} rw - cgroup cgroup rw,cpu,cpuacct"
X86 = "processor\t: 0\nmodel name\t: AMD EPYC 9354 32-Core Processor\nflags\t\t: fpu vme {more} lahf_lm\n"


@pytest.fixture
def nothing_shown(tmp_path) -> Kernel:
    """A system without /proc and /sys, such as macOS."""
    return Kernel(tmp_path / "no" / "proc", tmp_path / "no" / "sys")


def test_this_machine_describes_itself_in_json():
    found = host.describe_host()
    assert json.loads(json.dumps(found)) == found
    assert 1 <= found["cpu_count"] <= os.cpu_count()
    assert found["memory_bytes"] > 64 * 2**20
    assert found["kernel"] == f"{platform.system()} {platform.release()}"
    assert found["hostname"] == platform.node()


def test_a_machine_without_proc_and_sys_still_describes_itself(nothing_shown):
    found = host.describe_host(nothing_shown)
    assert json.dumps(found)
    assert found["cpu_count"] >= 1
    assert found["virtual_machine"] is None
    assert found["cpu_quota"] is None
    assert found["clocksource"] is None
    assert found.keys() == host.describe_host().keys()


def test_a_quota_of_a_parent_group_cuts_the_cpus_that_count(machine):
    machine.mounts(ROOT, V2.format(place=machine.root / "groups"))
    machine.write("proc/self/cgroup", "0::/pod/app\n")
    machine.write("groups/pod/app/cpu.max", "max 100000\n")
    machine.write("groups/pod/cpu.max", "50000 100000\n")
    assert host.cpu_quota(machine.kernel) == 0.5
    assert host.usable_cpus(machine.kernel) == 1


def test_a_quota_of_the_older_control_groups_is_read_and_minus_one_means_none(machine):
    machine.mounts(ROOT, V1.format(place=machine.root / "groups"))
    machine.write("proc/self/cgroup", "4:memory:/other\n1:cpu,cpuacct:/app\n0::/\n")
    machine.write("groups/app/cpu.cfs_quota_us", "150000\n")
    machine.write("groups/app/cpu.cfs_period_us", "100000\n")
    assert host.cpu_quota(machine.kernel) == 1.5
    machine.write("groups/app/cpu.cfs_quota_us", "-1\n")
    assert host.cpu_quota(machine.kernel) is None


def test_a_memory_limit_is_read_and_the_kernels_word_for_none_is_none(machine):
    machine.mounts(ROOT, V2.format(place=machine.root / "groups"))
    machine.write("proc/self/cgroup", "0::/app\n")
    machine.write("groups/app/memory.max", "536870912\n")
    assert host.memory_limit_bytes(machine.kernel) == 512 * 2**20
    for unlimited in ("max", "9223372036854771712"):
        machine.write("groups/app/memory.max", f"{unlimited}\n")
        assert host.memory_limit_bytes(machine.kernel) is None


def test_the_cpus_own_flag_tells_a_virtual_machine_from_a_real_one(machine):
    machine.write("proc/cpuinfo", X86.format(more="hypervisor"))
    assert host.virtual_machine(machine.kernel) == (True, "")
    machine.write("sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
    assert host.virtual_machine(machine.kernel) == (True, "Amazon EC2")
    machine.write("proc/cpuinfo", X86.format(more="sse2"))
    assert host.virtual_machine(machine.kernel) == (False, "")


def test_where_the_cpu_says_nothing_only_a_name_proves_a_virtual_machine(machine):
    machine.write("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\n")
    assert host.virtual_machine(machine.kernel) == (None, "")
    machine.write("sys/class/dmi/id/sys_vendor", "QEMU\n")
    assert host.virtual_machine(machine.kernel) == (True, "QEMU")


@pytest.mark.parametrize(
    ("maker", "clocks", "sys_hypervisor", "name"),
    [
        ("VMware, Inc. VMware Virtual Platform", "tsc hpet", "", "VMware"),
        ("Microsoft Corporation Virtual Machine", "tsc", "", "Hyper-V"),
        ("Microsoft Corporation Surface Pro", "tsc hpet", "", ""), ("Amazon EC2 m5.metal", "tsc hpet", "", ""),
        ("Amazon EC2 m5.large", "kvm-clock tsc", "", "Amazon EC2"), (" ", "tsc kvm-clock", "", "KVM"),
        (" ", "tsc", "xen", "Xen"), ("Supermicro X11", "tsc hpet acpi_pm", "", ""),
    ],
)  # fmt: skip
def test_a_hypervisor_is_named_by_firmware_kernel_or_clock(maker, clocks, sys_hypervisor, name):
    assert host.hypervisor_of(maker, clocks, sys_hypervisor) == name


def test_a_container_is_hinted_at_by_its_marks(machine, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert host.container(machine.kernel) == ""
    machine.write("proc/self/cgroup", "0::/lxc/one\n")
    assert host.container(machine.kernel) == "lxc"
    machine.write(".dockerenv", "")
    assert host.container(machine.kernel) == "docker"


def test_this_machines_temporary_folder_is_described_in_json(tmp_path):
    found = host.describe_volume(tmp_path)
    assert json.loads(json.dumps(found)) == found
    assert found["path"] == str(tmp_path)
    assert 0 < found["free_bytes"] <= found["size_bytes"]
    assert tmp_path.is_relative_to(found["mount_point"])
    if found["device"]:
        assert found["queue"]["logical_block_bytes"] >= 512
        assert (Path("/sys/class/block") / found["device"]).exists()


def test_a_drive_of_a_real_machine_is_described_down_to_its_queue(machine):
    machine.write("proc/cpuinfo", X86.format(more="sse2"))
    machine.mounts(ROOT, "22 21 4001:0 / /srv/data rw,noatime - xfs /dev/mapper/vg-data rw,attr2")
    machine.disk("nvme0n1", "4002:0", model="SAMSUNG MZQL23T8HCLS-00A07")
    machine.partition("nvme0n1", "nvme0n1p2", "4002:2")
    machine.stacked("dm-0", "4001:0", "nvme0n1p2")
    found = host.describe_volume("/srv/data", machine.kernel)
    assert (found["device"], found["disks"]) == ("nvme0n1", ["nvme0n1"])
    assert found["device_stack"] == ["dm-0", "nvme0n1p2", "nvme0n1"]
    assert found["device_model"] == "SAMSUNG MZQL23T8HCLS-00A07"
    assert found["mount_options"] == "rw,noatime,attr2"
    assert (found["virtual"], found["virtual_reason"], found["in_memory"]) == (False, "", False)
    assert found["queue"]["logical_block_bytes"] == 512
    assert found["file_system_queue"]["logical_block_bytes"] == 4096


def test_a_volume_on_a_system_that_shows_nothing_is_described_as_unknown(tmp_path, nothing_shown):
    found = host.describe_volume(tmp_path, nothing_shown)
    assert (found["device"], found["filesystem"], found["virtual"], found["queue"]) == ("", None, None, {})
    assert found["free_bytes"] > 0


def test_asking_whether_a_folder_is_writable_touches_nothing(tmp_path):
    before = tmp_path.stat().st_mtime_ns
    assert host.why_not_writable(tmp_path) == ""
    assert tmp_path.stat().st_mtime_ns == before
    assert os.listdir(tmp_path) == []


def test_a_file_a_missing_folder_and_a_read_only_mount_are_each_refused_by_name(tmp_path, machine):
    (tmp_path / "file").write_text("")
    machine.mounts(ROOT.replace("rw,relatime", "ro,relatime"))
    assert host.why_not_writable(tmp_path / "file") == "is not a folder"
    assert host.why_not_writable(tmp_path / "absent") == "does not exist"
    assert "read-only (/)" in host.why_not_writable(tmp_path, machine.kernel)


def test_a_folder_without_the_right_to_write_is_refused(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    assert host.why_not_writable(tmp_path) == "is not writable by this user"


def test_trying_to_write_leaves_nothing_behind_and_says_why_it_failed(tmp_path):
    host.try_writing(tmp_path)
    assert os.listdir(tmp_path) == []
    with pytest.raises(PreflightError, match=r"does not exist\n  make the folder"):
        host.try_writing(tmp_path / "absent")


def test_the_page_cache_is_dropped_where_that_is_allowed(machine):
    machine.write("proc/sys/vm/drop_caches", "0\n")
    assert host.can_drop_page_cache(machine.kernel)
    host.drop_page_cache(machine.kernel)
    assert (machine.kernel.proc / "sys/vm/drop_caches").read_text() == "1\n"


def test_where_the_page_cache_may_not_be_dropped_the_way_out_is_named(nothing_shown):
    assert not host.can_drop_page_cache(nothing_shown)
    with pytest.raises(PreflightError, match=r"(?s)can't be dropped.*root.*drop_page_cache = false"):
        host.drop_page_cache(nothing_shown)
