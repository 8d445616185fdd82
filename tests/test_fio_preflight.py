"""The refusals of raw I/O on real drives, before anything is touched: one message each, with the key and a solution."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from raw_io_specs import SPEC, needs_fio, parsed, site_at

from bench import throttled
from storagelab.engines.fio.engine import opened
from storagelab.errors import PreflightError, SpecError
from storagelab.machine import host
from storagelab.run.engine import preflight
from storagelab.run.estimate import estimate
from storagelab.run.scheduling import InFile
from storagelab.spec.matrix import expand

DEVICE = SPEC.replace('path = "."', 'device = "/dev/disk/by-id/nvme-LAB0"').replace('data_size = "8MiB"', "")
root = pytest.mark.skipif(bool(throttled.why_not()), reason=throttled.why_not() or "loop devices work here")


def checked(folder: Path, text: str = SPEC):
    return preflight(expand(parsed(folder, text)), site_at(folder))


def ours(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith("storagelab")]


def refused(folder: Path, text: str) -> str:
    with pytest.raises((PreflightError, SpecError)) as caught:
        checked(folder, text)
    return re.sub(r"\s+", " ", str(caught.value))


@needs_fio
def test_a_sound_spec_tells_what_it_would_use(scratch):
    found = checked(scratch)
    assert found.server.startswith("raw I/O by fio 3.")
    assert [(need.name, need.needed_bytes) for need in found.volumes] == [("a", 8 * 2**20)]
    assert not ours(scratch), "nothing is touched"


@needs_fio
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"8MiB"', '"900TiB"', r".* lacks space: about 921600.00 GiB needed, .* GiB free.*lower layout.data"),
        ('"8MiB"', '"4KiB"', "layout.data_size_bytes: 4096 B has no room for a block of 8192 B for each of 1 threads"),
        ('block = "8KiB"', "block_bytes = 700", "workload.block_bytes: 700 B is no multiple of 512 B"),
        ('data_size = "8MiB"', "", 'layout.data_size_bytes: is missing.* Add data_size = "4GB"'),
        ('path = "."', 'path = "./none"', "volumes.a.path: .*none does not exist"),
        ('path = "."', 'file = "64MiB"', "volumes.a.path: is missing: volumes.a.file is for a volume on this machine"),
        ('path = "."', 'path = "."\nraid = "10"', "volumes.a.raid: is for simulated or remote volumes"),
        ('"raw-io" }', '"raw-io", bin_dir = "x" }', "target.bin_dir: is for databases"),
        ("[workload]", "[measure]\nwaits = false\n[workload]", "measure.waits: is for databases"),
        ("[workload]", "[between_runs]\ncheckpoint = false\n[workload]", "between_runs.checkpoint: is for databases"),
        ('duration = "1s"', 'duration = "1s"\nwarm_up = "0.5s"', "workload.warm_up_s: leaves less than 1 s to count"),
        ('"read"', '"trim"', "workload.operation: "),
        ('"read"', '"mixed"\nsync = "fsync"\ndirect = false', "workload.direct: must be true for mixed requests"),
        ('"read"', '"write"\ndirect = false', "workload.direct: must be true for writes that nothing syncs"),
        ('block = "8KiB"', "block_bytes = 200", "workload.block_bytes: 200 B is no whole number of sectors"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_by_its_key(scratch, old, new, said):
    assert old in SPEC
    assert re.search(said, refused(scratch, SPEC.replace(old, new)))
    assert not ours(scratch)


@needs_fio
def test_volumes_that_are_made_one_after_the_other_share_the_space(scratch):
    most = shutil.disk_usage(scratch).free * 2 // 3
    made = "".join(f'[volumes.{name}]\npath = "."\nfile_bytes = {most}\n' for name in "ab")
    text = SPEC.replace('[volumes.a]\npath = "."\n', made) + '[factors]\n"layout.data" = [["a"], ["b"]]\n'
    assert [need.needed_bytes for need in checked(scratch, text).volumes] == [most, most]


@needs_fio
def test_a_trace_says_what_is_left_out_and_how_long_it_takes_at_least(scratch):
    lines = [
        "fio version 3 iolog", "0 f add", "0 f open", "0 f write 0 4096", "9 f trim 0 4096", "8300000 f read 0 4096",
    ]  # fmt: skip
    (scratch / "requests.iolog").write_text("\n".join(lines) + "\n")
    text = SPEC[: SPEC.index("[workload]")] + '[workload]\nkind = "replay"\ntrace = "requests.iolog"\n'
    found = checked(scratch, text)
    assert found.notes == ("the trace has 2 requests in 8.3 s; left out: 1 trim",)
    plan = expand(parsed(scratch, text))
    assert estimate(plan, plan.runs, [], None, found.least_s).seconds == pytest.approx(8.3 + 1)
    assert checked(scratch, text + 'pace = "as-fast-as-possible"\n').least_s == {}


@needs_fio
def test_a_file_system_in_memory_is_refused(scratch):
    if not host.describe_volume("/dev/shm")["in_memory"]:
        pytest.skip("needs a tmpfs at /dev/shm")
    said = refused(scratch, SPEC.replace('path = "."', 'path = "/dev/shm"'))
    assert (
        "volumes.a.path: /dev/shm is on tmpfs, which is memory: it has no drive to measure, and no direct I/O" in said
    )


def test_a_missing_fio_is_named_with_its_package(scratch, monkeypatch):
    monkeypatch.setenv("PATH", str(scratch))
    assert refused(scratch, SPEC).endswith("install the package fio: apt-get install fio")


@pytest.mark.parametrize("operation", ["write", "mixed"])
def test_a_device_is_never_written(scratch, operation):
    said = refused(scratch, DEVICE.replace('"read"', f'"{operation}"'))
    assert f"workload.operation: {operation} would destroy what is on the device /dev/disk/by-id/nvme-LAB0" in said
    assert "storagelab only reads whole devices" in said


@pytest.mark.parametrize("name", ["/dev/sda", "/dev/disk/by-id/../../sda", "sda"])
def test_a_device_is_named_by_its_identity(scratch, name):
    said = refused(scratch, DEVICE.replace("/dev/disk/by-id/nvme-LAB0", name))
    assert "volumes.a.device: " in said
    assert "Name the drive by its identity: ls -l /dev/disk/by-id/" in said


@needs_fio
@root
@pytest.mark.slow
def test_a_named_device_is_read_and_stays_as_it_was(scratch, monkeypatch):
    image, name = scratch / "disk.img", Path("/dev/disk/by-id/storagelab-test-device")
    image.write_bytes(os.urandom(8 * 2**20))
    before = image.read_bytes()
    made = ["losetup", "--direct-io=on", "--find", "--show", str(image)]
    device = subprocess.run(made, capture_output=True, text=True, check=True).stdout.strip()
    grown = [folder for folder in (name.parent.parent, name.parent) if not folder.exists()]
    name.parent.mkdir(parents=True, exist_ok=True)
    name.symlink_to(device)
    try:
        text = DEVICE.replace("/dev/disk/by-id/nvme-LAB0", str(name))
        found = checked(scratch, text)
        (block,) = expand(parsed(scratch, text)).blocks.values()
        with opened(block, site_at(scratch), InFile(scratch / "state")) as raw, raw.open(block.runs[0]) as target:
            measured = target.run(block.first_cell, 1, 1, lambda _done: None)
    finally:
        name.unlink()
        for folder in reversed(grown):
            folder.rmdir()
        subprocess.run(["losetup", "--detach", device], check=True)
    assert "is read as it is" in found.notes[0]
    assert measured.requests > 0
    assert not measured.unverified, "the kernel counted them at the device itself"
    assert measured.environment["server"]["file_bytes"] == 8 * 2**20
    assert image.read_bytes() == before
    assert not ours(scratch)
