"""From a folder down to its disks, on this machine and on recorded other machines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_machine import RecordedMachine

from storagelab.machine import disks
from storagelab.machine.disks import Mount

ROOT = "21 1 4000:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw"


def stack_under(path: str, machine: RecordedMachine) -> tuple[str, ...]:
    mount = disks.mount_of(path, disks.mounts_here(machine.kernel))
    return disks.device_stack(disks.block_devices_of(mount, machine.kernel), machine.kernel)


def test_a_line_of_mountinfo_is_read_with_and_without_optional_fields():
    with_fields, without = disks.parse_mounts(
        "36 35 98:0 /mnt1 /srv/data rw,noatime master:1 shared:2 - ext3 /dev/sdb1 rw,errors=continue\n"
        "37 35 0:27 / /dev/shm rw - tmpfs tmpfs rw,size=64k\n"
    )
    assert with_fields.device_numbers == "98:0"
    assert with_fields.mount_point == "/srv/data"
    assert (with_fields.filesystem, with_fields.source) == ("ext3", "/dev/sdb1")
    assert with_fields.all_options == ("rw", "noatime", "errors=continue")
    assert (without.filesystem, without.all_options) == ("tmpfs", ("rw", "size=64k"))


@given(st.text(max_size=200))
def test_no_text_breaks_the_reading_of_mountinfo(text):
    assert isinstance(disks.parse_mounts(text), tuple)


def test_the_longest_mount_point_wins_and_a_like_named_neighbour_does_not():
    mounts = disks.parse_mounts(
        f"{ROOT}\n"
        "22 21 4000:2 / /srv/fast rw - xfs /dev/sdb1 rw\n"
        "23 21 4000:3 / /srv/fast-and-more rw - xfs /dev/sdc1 rw\n"
    )
    assert disks.mount_of("/srv/fast/x/y", mounts).mount_point == "/srv/fast"
    assert disks.mount_of("/srv/fast-and", mounts).mount_point == "/"


def test_of_two_mounts_on_one_place_the_later_is_meant():
    mounts = disks.parse_mounts(
        f"{ROOT}\n22 21 4000:2 / /srv/x rw - xfs /dev/sdb1 rw\n23 22 4000:3 / /srv/x rw - ext4 /dev/sdc1 rw\n"
    )
    assert disks.mount_of("/srv/x", mounts).filesystem == "ext4"


def test_the_device_number_decides_against_a_longer_prefix_that_is_hidden(tmp_path):
    real = disks.device_numbers_of(tmp_path)
    above, hidden = (
        Mount(place, numbers, "ext4", "/dev/x", ("rw",), ())
        for place, numbers in ((str(tmp_path.parent), real), (str(tmp_path), "4000:9"))
    )
    assert disks.mount_of(tmp_path, (above, hidden)) == above


def test_read_only_is_seen_in_the_mount_and_in_its_file_system():
    texts = ("ro - xfs /dev/a rw", "rw - xfs /dev/a ro,x", "rw,errors=remount-ro - xfs /dev/a rw")
    mounts = [disks.parse_mounts(f"36 35 98:0 / /srv {text}")[0] for text in texts]
    assert [mount.read_only for mount in mounts] == [True, True, False]


def test_lvm_on_an_nvme_partition_leads_to_the_drive(machine):
    machine.mounts(ROOT, "22 21 4001:0 / /srv/data rw - xfs /dev/mapper/vg-data rw")
    machine.disk("nvme0n1", "4002:0", model="SAMSUNG MZQL23T8HCLS-00A07")
    machine.partition("nvme0n1", "nvme0n1p2", "4002:2")
    machine.stacked("dm-0", "4001:0", "nvme0n1p2")
    stack = stack_under("/srv/data/x", machine)
    assert stack == ("dm-0", "nvme0n1p2", "nvme0n1")
    assert disks.whole_disks(stack, machine.kernel) == ("nvme0n1",)


def test_lvm_over_md_raid_leads_to_every_drive_once(machine):
    machine.mounts("22 21 4001:0 / /srv/data rw - xfs /dev/mapper/vg-data rw")
    for letter, numbers in (("a", "4003:0"), ("b", "4003:16")):
        machine.disk(f"sd{letter}", numbers)
    machine.partition("sda", "sda3", "4003:3")
    machine.stacked("md127", "4004:127", "sda3", "sdb")
    machine.stacked("dm-1", "4001:0", "md127")
    stack = stack_under("/srv/data", machine)
    assert stack == ("dm-1", "md127", "sda3", "sdb", "sda")
    assert set(disks.whole_disks(stack, machine.kernel)) == {"sda", "sdb"}


def test_a_loop_device_leads_to_the_disk_that_holds_its_file(machine):
    machine.mounts(ROOT, "22 21 4005:0 / /srv/image rw - ext4 /dev/loop0 rw")
    machine.disk("sda", "4000:0")
    machine.partition("sda", "sda1", "4000:1")
    machine.loop("loop0", "4005:0", "/var/lib/images/one.img")
    assert stack_under("/srv/image", machine) == ("loop0", "sda1", "sda")


def test_a_loop_device_whose_file_lies_on_itself_does_not_run_in_circles(machine):
    machine.mounts("22 21 4005:0 / /srv/image rw - ext4 /dev/loop0 rw")
    machine.loop("loop0", "4005:0", "/srv/image/one.img")
    assert stack_under("/srv/image", machine) == ("loop0",)


def test_btrfs_is_found_by_its_source_and_with_all_its_devices(machine):
    # btrfs gives every subvolume an anonymous device number, which leads nowhere in /sys.
    machine.mounts("22 21 0:4044 /@data /srv/data rw - btrfs /dev/sdx9 rw,subvol=/@data")
    machine.disk("sdx9", "4006:0")
    machine.disk("sdy9", "4006:16")
    for name in ("sdx9", "sdy9"):
        machine.write(f"sys/fs/btrfs/0f3c/devices/{name}", "")
    assert stack_under("/srv/data", machine) == ("sdx9", "sdy9")


@pytest.mark.parametrize(
    "line",
    [
        "22 21 0:4027 / /srv/data rw - tmpfs tmpfs rw,size=64k",
        "22 21 0:4045 / /srv/data rw - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w",
        "22 21 0:4046 / /srv/data rw - nfs4 filer:/export/data rw,vers=4.2",
        "22 21 0:4047 / /srv/data rw - zfs tank/data rw,xattr",
    ],
)
def test_file_systems_without_a_block_device_have_none(machine, line):
    machine.mounts(ROOT, line)
    assert stack_under("/srv/data", machine) == ()


def test_where_the_kernel_shows_nothing_nothing_is_found(tmp_path):
    kernel = disks.Kernel(tmp_path / "proc", tmp_path / "sys")
    assert disks.mounts_here(kernel) == ()
    assert disks.mount_of(tmp_path, ()) is None
    assert disks.device_stack(("sda",), kernel) == ("sda",)
    assert disks.describe_disk("sda", kernel) == {"model": "", "vendor": "", "firmware": "", "driver": "", "queue": {}}


def test_the_queue_is_read_in_bytes_and_a_missing_or_broken_key_is_none(machine):
    machine.disk("sda", "4000:0")
    (machine.kernel.sys / "class/block/sda/queue/nr_requests").unlink()
    machine.write("sys/class/block/sda/queue/discard_max_bytes", "many\n")
    assert disks.describe_queue("sda", machine.kernel) == {
        "scheduler": "none", "write_cache": "write through", "rotational": False, "logical_block_bytes": 512,
        "physical_block_bytes": 4096, "nr_requests": None, "read_ahead_bytes": 131072, "discard_max_bytes": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("vendor", "model", "who"),
    [
        ("QEMU", "QEMU HARDDISK", "QEMU"), ("", "QEMU NVMe Ctrl", "QEMU"), ("VMware", "Virtual disk", "VMware"),
        ("Msft", "Virtual Disk", "Hyper-V"), ("ATA", "VBOX HARDDISK", "VirtualBox"),
        ("", "Amazon Elastic Block Store", "Amazon EBS"), ("Google", "PersistentDisk", "Google Persistent Disk"),
        ("LIO-ORG", "block1", "iSCSI"), ("DELL", "PERC H740P Mini", "a RAID controller"),
    ],
)  # fmt: skip
def test_a_virtual_disk_is_known_by_its_maker_or_model(machine, vendor, model, who):
    machine.mounts(ROOT)
    machine.disk("sda", "4000:1", model, vendor)
    (mount,) = disks.mounts_here(machine.kernel)
    virtual, reason = disks.virtual_disk(mount, ("sda",), None, machine.kernel)
    assert virtual is True
    assert f"({who})" in reason
    assert "before they are durable" in reason


@pytest.mark.parametrize("model", ["SAMSUNG MZQL23T8HCLS-00A07", "INTEL SSDPE2KX040T8", "ST4000NM0035", "Micron_7450"])
@pytest.mark.parametrize(("on_virtual_machine", "expected"), [(False, False), (None, None), (True, None)])
def test_a_drives_own_model_is_believed_only_outside_a_virtual_machine(machine, model, on_virtual_machine, expected):
    machine.mounts(ROOT)
    machine.disk("sda", "4000:1", model)
    (mount,) = disks.mounts_here(machine.kernel)
    virtual, reason = disks.virtual_disk(mount, ("sda",), on_virtual_machine, machine.kernel)
    assert virtual is expected
    assert (reason == "") is (expected is False)


@pytest.mark.parametrize(
    ("name", "sign"),
    [("vda", "virtio"), ("xvdb", "Xen"), ("loop3", "a file"), ("zram0", "memory"), ("nbd1", "network")],
)
def test_a_virtual_disk_is_known_by_its_kernel_name(machine, name, sign):
    machine.mounts(ROOT)
    machine.disk(name, "4000:1")
    (mount,) = disks.mounts_here(machine.kernel)
    virtual, reason = disks.virtual_disk(mount, (name,), False, machine.kernel)
    assert virtual is True
    assert reason.startswith(f"{name}: ")
    assert sign in reason


@pytest.mark.parametrize("filesystem", ["tmpfs", "overlay", "nfs", "nfs4", "cifs", "9p", "virtiofs", "fuse.sshfs"])
def test_a_file_system_without_a_disk_of_its_own_is_virtual(filesystem):
    assert disks.virtual_disk(Mount("/srv", "0:4000", filesystem, "x", ("rw",), ()), (), False)[0] is True
