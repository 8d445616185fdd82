"""Volumes that are made before each run: drives from files, file systems, limits, commands; and nothing left behind."""

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_io_specs import needs_fio, parsed, runs_of, site_at

from storagelab.errors import PreflightError, RunFailed
from storagelab.findings.analysis import analyse
from storagelab.machine.disks import HERE
from storagelab.machine.processes import lives, until
from storagelab.model.measurement import RAW_IO
from storagelab.model.volume import BurstConfig, LimitConfig, VolumeConfig, effective
from storagelab.run.engine import preflight, sweep
from storagelab.spec.matrix import expand
from storagelab.volumes import file_systems, limits, programs
from storagelab.volumes import volume as volumes
from storagelab.volumes.limits import Bucket

MIB = 2**20
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make drives")
limited = pytest.mark.skipif(limits.groups() is None, reason="no control groups that limit I/O are mounted here")


def lacks(filesystem: str) -> pytest.MarkDecorator:
    missing = programs.path_of(file_systems.maker(filesystem)) is None
    return pytest.mark.skipif(missing, reason=f"no {file_systems.maker(filesystem)}")


def volume(scratch: Path, **keys: object) -> VolumeConfig:
    return VolumeConfig.model_validate({"path": str(scratch), "file_bytes": 320 * MIB, **keys})


def left_of(folder: Path) -> list[object]:
    return [*file_systems.left_in(folder), *file_systems.loop_devices_in(folder), *folder.rglob("drive")]


# --- made and read back ----------------------------------------------------------------------------------------------


@as_root
@pytest.mark.slow
@pytest.mark.parametrize("filesystem", [pytest.param(name, marks=lacks(name)) for name in ("ext4", "xfs", "btrfs")])
def test_each_file_system_is_made_mounted_and_read_back_and_nothing_is_left(tmp_path, filesystem):
    asked = volume(
        tmp_path, filesystem=filesystem, mount_options="noatime", sector_bytes=4096, read_ahead_bytes=MIB,
        scheduler="none",
    )  # fmt: skip
    with volumes.made("a", asked, tmp_path, tmp_path, {}) as made:
        (made.path / "file").write_bytes(b"kept on the drive")
        assert [one for one in made.checks if not one.ok] == []
        assert {one.name.split(" of ")[0] for one in made.checks} == {
            "size", "direct I/O", "sector", "scheduler", "read-ahead", "file system", "mount option",
        }  # fmt: skip
        assert left_of(tmp_path) != []
    assert left_of(tmp_path) == []


@as_root
@pytest.mark.slow
def test_what_a_killed_run_left_is_removed_before_the_next_campaign(scratch):
    spec = raw_spec(scratch, 'file = "64MiB"\nlimit = { read_iops = 100 }')
    code = (
        "import os, sys; sys.path[:0] = sys.argv[2:]\n"
        "from raw_io_specs import parsed, site_at; from pathlib import Path\n"
        "from storagelab.spec.matrix import expand; from storagelab.volumes import for_runs as made_volumes\n"
        "scratch = Path(sys.argv[1]); cell = expand(parsed(scratch, (scratch / 'raw.toml').read_text())).cells[0]\n"
        "with made_volumes.made(made_volumes.wanted(cell.config), cell.config, site_at(scratch), {}) as made:\n"
        "    made[0].loaded().__enter__(); os.kill(os.getpid(), 9)\n"
    )
    (scratch / "raw.toml").write_text(spec)
    subprocess.run([sys.executable, "-c", code, str(scratch), *sys.path], check=False)
    assert len(left_of(scratch)) == 3  # a mount, a loop device, and its file
    assert any("left behind by a killed run" in line for line in sweep(expand(parsed(scratch, spec)), site_at(scratch)))
    assert left_of(scratch) == []
    assert not any(path.name.startswith("storagelab-") for path in scratch.iterdir())


@as_root
@needs_fio
@pytest.mark.parametrize("keys", ["", 'made_for = "block"'])
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.campaign)])
def test_after_each_kill_with_a_volume_mounted_the_next_run_goes_on_at_the_first_try(scratch, keys, kills):
    (scratch / "raw.toml").write_text(raw_spec(scratch, f'file = "64MiB"\n{keys}'))
    words = [sys.executable, "-m", "storagelab", "run", "raw.toml"]
    for _ in range(kills):
        killed = subprocess.Popen(words, cwd=scratch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert until(lambda: file_systems.left_in(scratch) != [], 60)
        killed.kill()
        killed.wait()
        assert left_of(scratch) != []
    done = subprocess.run(words, cwd=scratch, capture_output=True, text=True, check=False)
    assert (done.returncode, "left behind by a killed run" in done.stderr) == (0, True), done.stderr
    assert left_of(scratch) == []


def raw_spec(scratch: Path, keys: str, seconds: str = "1s", warm_up: str = "0s") -> str:
    return (
        f'repetitions = 1\n[target]\nengine = "raw-io"\n[volumes.a]\npath = "{scratch}"\n{keys}\n'
        '[layout]\ndata_size = "8MiB"\n[workload]\n'
        f'operation = "read"\npattern = "random"\nblock = "8KiB"\noutstanding = 8\nduration = "{seconds}"\n'
        f'warm_up = "{warm_up}"\n'
    )


# --- limits ----------------------------------------------------------------------------------------------------------


@as_root
@limited
@needs_fio
@pytest.mark.slow
@pytest.mark.parametrize("warm_up_s", [0, 6])
def test_a_limit_holds_and_credits_let_a_volume_exceed_it_until_they_are_used_up(scratch, warm_up_s):
    # 400 requests/s and 1,200 credits: bursts of 800/s end after 1,200 / (800 - 400) = 3 s, or later where fio lacks a
    # CPU and makes fewer. The pause comes after the limit is set and before the load begins.
    keys = 'file = "64MiB"\nlimit = { read_iops = 400, burst = { iops = 800, credits = 1200 } }'
    spec = f"{raw_spec(scratch, keys, f'{warm_up_s + 6}s', f'{warm_up_s}s')}[between_runs]\npause = '2s'\n"
    (run,) = runs_of(scratch, spec)
    assert (run.status, run.reason) == ("ok", "")
    empty_s = run.measurement.environment["volumes"]["a"]["made"]["burst"]["empty_after_s"][0]
    assert 2.4 < empty_s < 5
    # Between warm-up and counting the load pauses for up to 2 s on a busy machine, and the bucket fills again.
    fills_s = (0, 2) if warm_up_s else (empty_s, empty_s)
    least, most = (400 + 400 * seconds / 6 for seconds in fills_s)
    assert 0.88 * least < run.measurement.counters[RAW_IO]["ios_per_s"] < 1.12 * most
    experiment = parsed(scratch, spec)
    findings = analyse(experiment, expand(experiment), [run])
    told = [one.after_s for one in findings.cautions if one.kind == "burst-credits"]
    assert told == [pytest.approx(mean(fills_s), abs=1.2 if warm_up_s else 0.6)] * (len(told) if warm_up_s else 1)
    assert run.measurement.environment["volumes"]["a"]["throttle"]["read_iops"] in (400, 800)
    assert left_of(scratch) == []


@as_root
@limited
@pytest.mark.slow
def test_writes_that_the_kernel_makes_later_are_limited_too(tmp_path):
    asked = volume(tmp_path, file_bytes=64 * MIB, limit=LimitConfig(write_bytes_per_s=8 * MIB))
    with volumes.made("a", asked, tmp_path, tmp_path, {}) as made, made.loaded():
        began = time.monotonic()
        with (made.path / "file").open("wb") as file:
            file.write(os.urandom(16 * MIB))
            file.flush()
            os.fsync(file.fileno())
        assert 1.6 < time.monotonic() - began < 6


class Drive:
    """A drive whose requests the test counts, in place of the kernel's."""

    def set(self, rates: limits.Rates) -> None: ...


@given(st.integers(1, 10**6), st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 10)), max_size=20))
def test_a_bucket_holds_at_most_its_credits_and_at_least_none(most, spent):
    bucket = Bucket(Drive(), {"read_iops": 100}, BurstConfig(iops=1000, credits=most))
    for requests, seconds in spent:
        bucket.spend(requests, seconds)
        assert 0 <= bucket.credits <= most
    bucket.spend(0, most / 100)
    assert bucket.credits == pytest.approx(most)


@pytest.mark.parametrize(("limit", "reached"), [(9, 9), (19, 10), (95, 90), (109, 100), (300, 300)])
def test_a_limit_that_the_kernel_keeps_coarsely_is_told_with_what_it_lets_through(limit, reached):
    assert effective("write_iops", limit) == reached
    assert effective("write_bytes_per_s", limit) == limit
    told = list(limits.warnings("a", {"write_iops": limit, "write_bytes_per_s": 4096}))
    assert [f"write_iops = {limit}:" in one for one in told] == ([] if limit == 300 else [True])


def test_keys_of_a_limit_replace_the_figures_of_the_disk_that_it_is_like():
    assert limits.rates(limits.resolved(LimitConfig(like="gp3", read_iops=9), 2**30, "key")) == {
        "read_iops": 9, "write_iops": 3000, "read_bytes_per_s": 125 * MIB, "write_bytes_per_s": 125 * MIB,
    }  # fmt: skip


# --- commands --------------------------------------------------------------------------------------------------------


def test_commands_find_keys_variables_and_levels_in_their_environment(tmp_path):
    asked = VolumeConfig(
        path=str(tmp_path), prepare="echo $STORAGELAB_VOLUME $STORAGELAB_RECORDSIZE "
        "$STORAGELAB_LEVEL_LAYOUT_DATA_FILES",
        check="echo at $STORAGELAB_PATH", variables={"recordsize": "16K"},
    )  # fmt: skip
    with volumes.made("zfs", asked, tmp_path, tmp_path, {"layout.data_files": 4}) as made:
        assert made.facts == {"prepare": "zfs 16K 4", "check": f"at {tmp_path}"}
        assert [one.ok for one in made.checks] == [True]


def test_a_prepare_that_fails_fails_the_run_and_a_check_that_fails_leaves_it_unverified(tmp_path):
    refuses = VolumeConfig(path=str(tmp_path), prepare="echo no pool >&2; exit 3")
    with pytest.raises(RunFailed, match=r"volumes\.a\.prepare: .*exit code 3: no pool"):
        volumes.made("a", refuses, tmp_path, tmp_path, {}).__enter__()
    with volumes.made("a", VolumeConfig(path=str(tmp_path), check="false"), tmp_path, tmp_path, {}) as made:
        assert [one.ok for one in made.checks] == [False]


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr(volumes, "_PATIENCE_S", 0.2)
    with pytest.raises(RunFailed, match="has not ended"):
        volumes.run_command("sleep 600 & echo $! > child; wait", tmp_path, {}, "volumes.a.prepare")
    child = int((tmp_path / "child").read_text())
    assert until(lambda: not lives(child), 10)


def test_commands_need_the_users_word(scratch):
    experiment = parsed(scratch, raw_spec(scratch, 'check = "true"'))
    with pytest.raises(PreflightError, match="--allow-commands"):
        preflight(expand(experiment), site_at(scratch))


# --- what is refused -------------------------------------------------------------------------------------------------


@as_root
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"filesystem": "xfs", "file_bytes": 64 * MIB}, 'volumes.a.file: is too small for xfs\n  at least "300MiB"'),
        ({"limit": LimitConfig(like="gp4")}, r'no cloud disk is named "gp4"\n  .*gp3'),
    ],
)
def test_what_a_file_system_or_a_limit_can_not_be_is_said_before_anything_is_made(tmp_path, keys, words):
    with pytest.raises(PreflightError, match=words):
        volumes.check("a", volume(tmp_path, **keys))


def test_a_missing_program_is_named_with_its_package(monkeypatch):
    monkeypatch.setattr(programs, "path_of", lambda _: None)
    with pytest.raises(PreflightError, match=r"needs mkfs\.xfs and losetup.*\n.*apt-get install xfsprogs mount"):
        programs.check({"mkfs.xfs": "xfsprogs", "losetup": "mount"}, "volumes.a")


def test_only_root_may_make_a_drive_and_a_plan_says_which_steps_need_it(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PreflightError, match=r"volumes\.a\.file: only root"):
        volumes.check_rights("a", volume(tmp_path))
    assert all("only root may do this" in step for step in volumes.steps("a", volume(tmp_path)))


@as_root
@pytest.mark.slow
def test_a_mount_option_that_the_file_system_refuses_leaves_nothing(tmp_path):
    with pytest.raises(RunFailed, match="nonsense"):
        volumes.made("a", volume(tmp_path, mount_options="nonsense"), tmp_path, tmp_path, {}).__enter__()
    assert left_of(tmp_path) == []


@as_root
@pytest.mark.slow
def test_a_drive_too_large_for_its_folder_is_refused_in_plain_words(tmp_path):
    with pytest.raises(RunFailed, match="lacks space"):
        volumes.made("a", volume(tmp_path, file_bytes=2**43), tmp_path, tmp_path, {}).__enter__()
    assert left_of(tmp_path) == []


def test_a_scheduler_that_the_kernel_lacks_is_refused_with_those_that_it_has(tmp_path):
    from storagelab.machine.disks import Kernel

    queue = tmp_path / "class" / "block" / "loop9" / "queue"
    queue.mkdir(parents=True)
    (queue / "scheduler").write_text("[none] mq-deadline\n")
    with file_systems.queue_set_to("loop9", {"scheduler": "mq-deadline"}, Kernel(HERE.proc, tmp_path)):
        assert (queue / "scheduler").read_text() == "mq-deadline"
    assert (queue / "scheduler").read_text() == "none"


def test_mount_options_that_give_up_safety_are_warned_of():
    assert list(file_systems.warnings("a", "noatime,nobarrier")) == [
        "volumes.a.mount_options: with nobarrier, no write is flushed to the drive"
    ]
