"""The kernel's disk counters, on this machine's real disk and on recorded ones."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_machine import RecordedMachine, stat

from storagelab.machine.devices import DeviceCounters, difference, parse_stat

MB = 2**20
TICK_S = 0.02
"""Of the sampler, at 50 Hz."""
ROOT = "21 1 4000:1 / / rw,relatime - ext4 /dev/sda1 rw"


@pytest.fixture
def machine(tmp_path) -> RecordedMachine:
    return RecordedMachine(tmp_path / "machine")


@pytest.fixture
def folder_on_a_disk(tmp_path) -> Path:
    """A folder of this checkout or of the system's temporary place, whichever lies on a disk that is counted."""
    for folder in (tmp_path, Path(__file__).parent):
        with DeviceCounters({"a": folder}) as counters:
            if counters.read():
                return folder
    pytest.skip("no folder here lies on a disk that the kernel counts")


def test_eight_megabytes_written_and_synced_are_counted_on_the_real_disk(folder_on_a_disk):
    file = folder_on_a_disk / ".counted"
    with DeviceCounters({"a": folder_on_a_disk}) as counters:
        before = counters.read()
        try:
            with file.open("wb", buffering=0) as out:
                out.write(os.urandom(8 * MB))
                os.fsync(out.fileno())
            change = difference(before, counters.read())
        finally:
            file.unlink()
    assert change["volume.a.write_bytes"] >= 8 * MB
    assert change["volume.a.writes"] >= 1
    assert change["volume.a.write_time_s"] >= 0
    assert change["volume.a.flushes"] >= 0


def test_two_volumes_on_one_disk_get_the_same_figures(folder_on_a_disk):
    with DeviceCounters({"a": folder_on_a_disk, "b": folder_on_a_disk}) as counters:
        figures = counters.read()
    assert {name.removeprefix("volume.a.") for name in figures if name.startswith("volume.a.")} != set()
    assert all(figures[name.replace(".a.", ".b.")] == value for name, value in figures.items() if ".a." in name)


def test_reading_takes_far_less_than_a_tick(folder_on_a_disk):
    with DeviceCounters({"a": folder_on_a_disk, "b": folder_on_a_disk}) as counters:
        times_s = []
        for _ in range(200):
            begin = time.perf_counter()
            counters.read()
            times_s.append(time.perf_counter() - begin)
    assert sorted(times_s)[len(times_s) // 2] < 0.05 * TICK_S


def test_closing_twice_is_allowed_and_leaves_no_file_open(folder_on_a_disk):
    before = len(os.listdir("/proc/self/fd"))
    counters = DeviceCounters({"a": folder_on_a_disk})
    assert len(os.listdir("/proc/self/fd")) == before + 1
    counters.close()
    counters.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert counters.read() == {}


def test_a_sector_is_512_bytes_and_times_are_seconds():
    counters = parse_stat(stat(reads=5, sectors_read=100, writes=6, sectors_written=200))
    assert counters == {
        "reads": 5,
        "read_bytes": 51_200,
        "read_time_s": pytest.approx(0.020),
        "writes": 6,
        "write_bytes": 102_400,
        "write_time_s": pytest.approx(0.040),
        "busy_s": pytest.approx(1.5),
        "discards": 3,
        "discard_bytes": 12_288,
        "flushes": 7,
        "flush_time_s": pytest.approx(0.021),
    }


def test_older_kernels_have_no_discards_or_flushes_and_no_figure_is_made_up_for_them():
    kernel_4_17 = parse_stat("1 0 8 1 2 0 16 2 0 3 3")
    kernel_4_18 = parse_stat("1 0 8 1 2 0 16 2 0 3 3 9 0 72 1")
    assert "discards" not in kernel_4_17
    assert kernel_4_18["discards"] == 9
    assert "flushes" not in kernel_4_18
    assert parse_stat("") == {}


def test_a_volume_on_a_partition_has_the_whole_disks_figures_and_its_own_share(machine):
    machine.mounts(ROOT)
    machine.disk("sda", "4000:0", stat_text=stat(writes=100, sectors_written=2000))
    machine.partition("sda", "sda1", "4000:1", stat_text=stat(writes=10, sectors_written=200))
    with DeviceCounters({"a": Path("/srv")}, machine.kernel) as counters:
        figures = counters.read()
    assert figures["volume.a.write_bytes"] == 2000 * 512
    assert figures["volume.a.file_system_write_bytes"] == 200 * 512
    assert figures["volume.a.flushes"] == 7
    assert "volume.a.file_system_flushes" not in figures


def test_a_volume_on_raid_has_the_sum_of_its_drives(machine):
    machine.mounts("22 21 4004:0 / / rw - xfs /dev/md0 rw")
    machine.disk("sda", "4003:0", stat_text=stat(writes=1, sectors_written=10))
    machine.disk("sdb", "4003:16", stat_text=stat(writes=2, sectors_written=20))
    machine.stacked("md0", "4004:0", "sda", "sdb", stat_text=stat(writes=3, sectors_written=15))
    with DeviceCounters({"a": Path("/srv")}, machine.kernel) as counters:
        figures = counters.read()
    assert figures["volume.a.writes"] == 3
    assert figures["volume.a.write_bytes"] == 30 * 512
    assert figures["volume.a.file_system_write_bytes"] == 15 * 512
    assert figures["volume.a.busy_s"] == pytest.approx(3.0)


def test_a_sum_that_would_miss_a_drive_is_not_given(machine):
    machine.mounts("22 21 4004:0 / / rw - xfs /dev/md0 rw")
    machine.disk("sda", "4003:0")
    machine.disk("sdb", "4003:16", stat_text="")
    machine.stacked("md0", "4004:0", "sda", "sdb")
    with DeviceCounters({"a": Path("/srv")}, machine.kernel) as counters:
        assert [name for name in counters.read() if "file_system" not in name] == []


def test_a_volume_without_a_disk_has_no_figures(machine):
    machine.mounts("22 21 0:4027 / / rw - tmpfs tmpfs rw")
    with DeviceCounters({"a": Path("/srv")}, machine.kernel) as counters:
        assert counters.read() == {}


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_a_counter_that_grew_changed_by_as_much(before, growth):
    key = "volume.a.reads"
    assert difference({key: float(before)}, {key: float(before + growth)}) == {key: growth}


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**30))
def test_a_counter_of_32_bits_that_wrapped_changed_by_what_was_counted(before, growth):
    key = "volume.a.reads"
    after = (before + growth) % 2**32
    assert difference({key: float(before)}, {key: float(after)}) == {key: growth}


@pytest.mark.parametrize(("key", "unit"), [("volume.a.write_bytes", 512), ("volume.a.busy_s", 1e-3)])
def test_each_unit_wraps_where_its_raw_counter_does(key, unit):
    before, after = (2**32 - 5) * unit, 7 * unit
    assert difference({key: before}, {key: after})[key] == pytest.approx(12 * unit, rel=1e-6)


def test_a_counter_that_was_reset_or_that_one_side_lacks_is_left_out():
    before = {"volume.a.reads": 5_000.0, "volume.a.writes": 1.0, "volume.b.reads": 1.0}
    after = {"volume.a.reads": 3.0, "volume.a.writes": 4.0, "volume.c.reads": 9.0}
    assert difference(before, after) == {"volume.a.writes": 3.0}
