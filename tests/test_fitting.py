"""The fit of a drive: on a simulated drive whose truth is known, and the profile that keeps it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from raw_io_specs import needs_fio

from storagelab import _sim, profiles
from storagelab.drives.fitting import Law, Result, fit, planned
from storagelab.drives.measured import Identity, Measured, MeasuredDrive, OutsideMeasured, Point, as_toml
from storagelab.errors import PreflightError
from storagelab.loads.fio import Job
from storagelab.machine import host
from storagelab.run import measuring
from storagelab.run.measuring import KeptResults, file_on, sustained_of
from storagelab.verbs import drives

TRUTHS = {
    "a fast drive": Law(70e3, 25e3, 60e3, 20e3, 2e9, 1.5e9, 12.0, 6.0, 2.0, 2, {"ios_per_s": 9e4}),
    "a disk": Law(8e6, 7e6, 2e5, 2e5, 1.6e8, 1.5e8, 1.5, 1.2, 1.0, 4, {}),
    "a cloud disk": Law(5e5, 6e5, 5e5, 6e5, 1e9, 1e9, 64.0, 64.0, 8.0, 1, {"ios_per_s": 3000.0, "bytes_per_s": 1.25e8}),
}


def drive_of(law: Law, results: list[Result]) -> MeasuredDrive:
    points = tuple(
        Point(**one.asked._asdict(), requests_per_s=one.requests_per_s, mean_latency_s=one.mean_latency_s,
              fitted_per_s=float(law.requests_per_s(
                  block_bytes=one.asked.block_bytes, read_share=one.asked.read_share, depth=one.asked.depth,
                  sequential_share=float(one.asked.sequential))))
        for one in results
    )  # fmt: skip
    measured = Measured(
        identity=Identity(model="a drive", firmware="1", limits={}, filesystem="ext4"),
        measured_at="2026-11-24T00:00:00",
        seconds=1.0, by="the simulator", complete=True, file_bytes=2**29, sustained=(), points=points,
    )  # fmt: skip
    return MeasuredDrive(name="mine", title="A drive", law=law, measured=measured)


def simulated(truth: Law) -> list[Result]:
    """The simulator's rates and latencies at the quick points, on a drive that obeys this law."""
    profile = profiles._drive_of(as_toml(drive_of(truth, []), usable_bytes=2**30, sector_bytes=512))
    asked = planned(quick=True, seed=1)
    tests = [
        {"volume": "v", "access": "mixed", "reads_per_mille": round(one.read_share * 1000),
        "block_bytes": one.block_bytes,
         "pattern": "sequential" if one.sequential else "random", "outstanding": one.depth, "seed": 1,
         "duration_s": 1.0, "warm_up_s": 0.1}
        for one in asked
    ]  # fmt: skip
    volumes = {"v": {"drives": ["d"]}}
    world = {
        "scale": 1, "seed": 1, "drives": {"d": {"profile": profile.for_core()}}, "volumes": volumes, "tests": tests,
    }  # fmt: skip
    block = _sim.RawBlock(json.dumps(world), 0, None)
    outcomes = [json.loads(block.run_next(lambda _: None) or "") for _ in asked]
    return [
        Result(one, outcome["ios_per_s"], outcome["latency"]["mean_ns"] / 1e9)
        for one, outcome in zip(asked, outcomes, strict=True)
    ]


@pytest.mark.parametrize("name", TRUTHS)
def test_a_fit_predicts_what_it_has_not_seen_on_a_drive_whose_truth_is_known(name):
    results = simulated(TRUTHS[name])
    drive = drive_of(fit(results), results)
    assert drive.median_error < 0.05
    for one in results:
        expected = drive.expected(
            block_bytes=one.asked.block_bytes, read_share=one.asked.read_share, depth=one.asked.depth,
            sequential_share=float(one.asked.sequential),
        )  # fmt: skip
        assert expected.mean_latency_s == pytest.approx(one.mean_latency_s, rel=0.3), one.asked


def test_a_profile_is_read_as_it_was_written_and_listed_with_the_others(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    law = TRUTHS["a cloud disk"]
    drive = drive_of(law, [Result(one, 1000.0 + one.depth, 0.001) for one in planned(quick=True, seed=1)])
    file = profiles.own_folder() / "mine.toml"
    file.parent.mkdir(parents=True)
    file.write_text(as_toml(drive, usable_bytes=2**30, sector_bytes=512), encoding="utf-8")
    assert MeasuredDrive.read(file) == drive
    assert profiles.own() == ("mine",)
    loaded = profiles.load("mine", Path())
    assert (loaded.kind, loaded.sectors) == ("measured", (512,))
    assert {figure.label for _, figure in loaded.figures()} == {"measured"}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"block_bytes": 512, "read_share": 1.0, "depth": 1}, "blocks of 512 bytes"),
        ({"block_bytes": 8192, "read_share": 1.0, "depth": 65}, "65 requests in progress"),
        ({"block_bytes": 8192, "read_share": 1.0, "depth": 0}, "no request"),
    ],
)
def test_a_drive_refuses_to_guess_beyond_what_was_measured(asked, words):
    results = [Result(one, 1000.0, 0.001) for one in planned(quick=True, seed=1)]
    with pytest.raises(OutsideMeasured, match=words):
        drive_of(TRUTHS["a disk"], results).expected(**asked)


def fit_stopped_at_once(volume, monkeypatch, spec=None):
    """Begins a fit, keeps a first result, and is interrupted."""

    def keeps_one(_name, _volume, _effort, asked, kept, _tell):
        kept.add(Result(asked[0], 1000.0, 0.001))
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "measured", keeps_one)
    with pytest.raises(KeyboardInterrupt):
        drives.fit("mine", volume, spec=spec, quick=True, size="16MiB")


@pytest.mark.skipif(not shutil.which("fio"), reason="no fio on this machine")
def test_a_fit_goes_on_at_the_same_place_alone_whatever_it_is_called(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "profiles"))
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    fit_stopped_at_once(".", monkeypatch)
    fit_stopped_at_once(str(tmp_path / "other" / ".." / "one"), monkeypatch)
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(PreflightError, match=r"path was .*/one, is .*/other") as refused:
        fit_stopped_at_once(".", monkeypatch)
    assert "mine.partial" in str(refused.value)
    assert "choose another name, or remove the file" in str(refused.value)
    # Another drive was mounted there, or its control group got another limit.
    known = host.describe_volume
    monkeypatch.chdir(tmp_path / "one")
    for changed in ({"device_firmware": "2.0"}, {"throttle": {"read_iops": 500}}, {"disks": ["other0"]}):
        monkeypatch.setattr(host, "describe_volume", lambda path, new=changed: known(path) | new)
        with pytest.raises(PreflightError, match=r"(firmware|limits|serial) was"):
            fit_stopped_at_once(".", monkeypatch)


def test_a_burst_ends_with_its_last_fast_second():
    job = Job("read", "random", 4096, 25.0, outstanding=16)
    found = sustained_of(job, [1500.0] * 8 + [500.0] * 17)
    assert (found.burst_per_s, found.sustained_per_s, found.fell_after_s) == (1500, 500, 8)
    assert sustained_of(job, [500.0] * 25).fell_after_s is None


def test_what_was_kept_can_be_gone_on_with_after_a_line_that_was_cut_off(tmp_path):
    file, points = tmp_path / "x.partial", [Result(asked, 100.0, 0.01) for asked in planned(quick=True, seed=1)[:3]]
    KeptResults(file, {"a": 1}).add(points[0])
    with file.open("a") as cut_off:
        cut_off.write('{"asked": [4096, ')
    following = KeptResults(file, {"a": 1})
    assert following.results == points[:1]
    for one in points[1:]:
        following.add(one)
    assert KeptResults(file, {"a": 1}).results == points


@needs_fio
def test_a_fit_removes_what_a_killed_one_left_in_the_temporary_folder(scratch):
    left = "from storagelab.machine import temporary as t; t.prepare(p := t.path('fio')); p.mkdir()"
    subprocess.run([sys.executable, "-c", left], check=True)
    assert len(list((scratch / "tmp").iterdir())) == 1
    with file_on(scratch, 2**20):
        pass
    assert list((scratch / "tmp").iterdir()) == []


@needs_fio
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make volumes")
def test_a_fit_of_a_made_volume_goes_on_at_the_first_try_after_a_kill(scratch, monkeypatch):
    (scratch / "a").mkdir()
    (scratch / "s.toml").write_text(
        'name = "s"\n[target]\nengine = "raw-io"\n[volumes.a]\npath = "a"\nfile = "64MiB"\n[layout]\ndata_size = "8MiB"'
        '\n[workload]\noperation = "read"\npattern = "random"\nblock = "8KiB"\noutstanding = 2\nduration = "1s"\n'
    )
    monkeypatch.chdir(scratch)
    killed = (
        "import os; from pathlib import Path; from storagelab.verbs import drives\n"
        "with drives._volume('a', Path('s.toml')): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", killed], check=False)
    assert list((scratch / "a").iterdir())
    with drives._volume("a", Path("s.toml")) as made:
        assert made.folder.is_mount()
    assert list((scratch / "a").iterdir()) == []
