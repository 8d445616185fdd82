"""The kernel's disk counters, on this machine's real disk and on recorded ones; and volumes that share a device."""

import os
from pathlib import Path

import pytest
from builders import analysed, make_environment, make_experiment, make_plan, make_runs
from hypothesis import given
from hypothesis import strategies as st
from recorded_machine import stat

from storagelab.findings.analysis import analyse
from storagelab.findings.cautions.devices import SharedDevice
from storagelab.findings.model import Findings
from storagelab.machine.counts import DeviceCounters, difference, parse_stat
from storagelab.model.plan import Factor, Level
from storagelab.report.words.answer import opening

MB = 2**20
ROOT = "21 1 4000:1 / / rw,relatime - ext4 /dev/sda1 rw"


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


def test_a_sector_is_512_bytes_and_times_are_seconds():
    assert parse_stat(stat(reads=5, sectors_read=100, writes=6, sectors_written=200)) == {
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


# --- Volumes that share a device -------------------------------------------------------------------------------------


def findings_on(volumes: dict[str, dict[str, object]], factor: str = "layout.log") -> Findings:
    return analysed(
        {factor: [["a"], ["b"]] if factor == "layout.data" else ["a", "b"]},
        environment={**make_environment(), "volumes": volumes},
    )


def shared(volumes: dict[str, dict[str, object]]) -> list[tuple[str, ...]]:
    return [caution.volumes for caution in findings_on(volumes).cautions if isinstance(caution, SharedDevice)]


def test_partitions_of_a_throttled_disk_are_on_one_device_and_loops_of_their_own_are_not():
    a = {"device": "sda", "device_numbers": "259:0", "virtual": False, "throttle": {"write_iops": 600}}
    a["device_stack"] = ["loop7p1", "loop7", "sda1", "sda"]
    b = {**a, "device_numbers": "259:1", "device_stack": ["loop7p2", "loop7", "sda1", "sda"]}
    assert shared({"a": a, "b": b}) == [("a", "b")]
    assert shared({"a": a, "b": {**b, "device_stack": ["loop71p2", "loop71", "sda1", "sda"]}}) == []
    assert shared({"a": a, "b": {**b, "device_stack": ["sda2", "sda"]}}) == []


@pytest.mark.parametrize("factor", ["layout.data", "layout.log", "layout.indexes", "layout.tables", "layout.temp"])
def test_whatever_is_moved_between_volumes_of_one_device_makes_the_answer_doubtful(factor):
    for one in ({"device": "sda", "device_stack": ["sda"], "virtual": False}, {"device": "", "source": "overlay"}):
        assert "volumes a, b are on one device" in opening(findings_on({"a": one, "b": one}, factor)).doubt


def test_a_volume_whose_path_is_varied_on_one_device_makes_the_answer_doubtful():
    factor = Factor(
        name="place", levels=tuple(Level(value=one, sets={"volumes.a.path": f"/data/{one}"}) for one in ("x", "y"))
    )
    experiment = make_experiment({}).model_copy(update={"factors": (factor,)})
    plan = make_plan(experiment)
    device = {"device": "sda", "device_numbers": "8:0", "device_stack": ["sda"], "virtual": False}
    runs = [
        run.model_copy(update={"measurement": run.measurement.model_copy(update={"environment": {
            **make_environment(), "volumes": {"a": {**device, "path": f"/data/{run.levels['place']}"}}}})})
        for run in make_runs(experiment, plan)
    ]  # fmt: skip
    doubt = opening(analyse(experiment, plan, runs)).doubt
    assert "volumes a at /data/x, a at /data/y are on one device" in doubt
