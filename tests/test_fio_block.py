"""Raw I/O on real volumes: a file that is written once, runs on it, and no remains."""

import subprocess
import sys

import pytest
from raw_io_specs import SPEC, needs_fio, parsed, runs_of, site_at
from real_servers import until

from bench.known_answers import why_not
from storagelab.engines.fio import engine
from storagelab.findings.comparable import is_steady
from storagelab.loads import fio
from storagelab.model.measurement import RAW_IO, RAW_IO_AT_DRIVE
from storagelab.run.engine import sweep
from storagelab.spec.matrix import expand

pytestmark = [needs_fio, pytest.mark.slow]
on_limited_volumes = pytest.mark.skipif(bool(why_not()), reason=why_not() or "they work here")


def on_a_drive(size: str, keys: str = "") -> str:
    """The spec on a drive that is made for each run."""
    return SPEC.replace('path = "."', f'path = "."\nfile = "{size}"\n{keys}')


def test_the_runs_of_a_block_share_one_file_which_is_removed_at_last(scratch, monkeypatch):
    laid_out = []
    whole = fio.lay_out
    monkeypatch.setattr(engine.fio, "lay_out", lambda *given: laid_out.append(given[1].name) or whole(*given))
    runs = runs_of(scratch, SPEC + '[factors]\n"workload.operation" = ["read", "write", "mixed"]\n')
    assert [run.status for run in runs] == ["ok"] * 3, [run.reason for run in runs]
    assert laid_out == ["raw-io-8388608"]
    assert not any(path.name.startswith("storagelab-") for path in scratch.iterdir())
    for run in runs:
        measured = run.measurement
        assert (measured.provenance, measured.work.unit) == ("measured", "requests")
        assert measured.latency.operations == measured.requests
        assert measured.counters[RAW_IO]["cpu_per_io_s"] > 0
        assert measured.environment["server"]["io_engine"] in ("io_uring", "libaio")
        assert measured.environment["volumes"]["a"]["power_loss_protection"] == "not known"
    assert {"reads_per_s", "writes_per_s"} <= runs[2].measurement.counters[RAW_IO].keys()


@on_limited_volumes
def test_a_volume_limited_to_500_requests_a_second_does_500_and_the_kernel_counts_them(scratch):
    text = on_a_drive("96MiB", "limit = { read_iops = 500 }").replace('"1s"', '"7.5s"\nwarm_up = "1s"')
    (run,) = runs_of(scratch, text.replace("outstanding = 2", "outstanding = 16"))
    assert not any(path.name.startswith("storagelab-") for path in scratch.iterdir()), "nothing is left behind"
    assert (run.status, run.reason) == ("ok", "")
    # The warm-up of 1 s is in the duration of 7.5 s, and in no figure.
    assert run.measurement.elapsed_s == pytest.approx(
        6.5, abs=0.2
    )  # the kernel lets requests through in slices of 0.1 s
    figures, at_drive = (run.measurement.counters[group] for group in (RAW_IO, RAW_IO_AT_DRIVE))
    assert run.measurement.requests == pytest.approx(figures["ios_per_s"] * run.measurement.elapsed_s, rel=0.02)
    assert figures["latency_mean_s"] == pytest.approx(16 / figures["ios_per_s"], rel=0.02)
    assert at_drive["reads_by_kernel"] == pytest.approx(at_drive["reads_by_fio"], rel=0.02)
    assert at_drive["read_bytes_by_kernel"] == pytest.approx(at_drive["read_bytes_by_fio"], rel=0.02)
    assert figures["ios_per_s"] < 505
    if not figures["ios_per_s"] > 495:
        pytest.skip(f"other work on this machine kept fio from its 500 requests/s: {figures['ios_per_s']:.0f}")
    rates = run.measurement.series.columns["requests_per_s"]
    assert is_steady([run.measurement]) is True, "which six rounds show"
    assert list(rates) == pytest.approx([500] * len(rates), rel=0.15), "as the kernel deals out slices"
    means_s = run.measurement.series.columns["read_latency_mean_s"]
    assert list(means_s) == pytest.approx([16 / 500] * len(rates), rel=0.15), "Little's law in each second"


@on_limited_volumes
def test_a_drive_that_fills_while_the_file_is_written_fails_the_run_and_leaves_nothing(scratch):
    (run,) = runs_of(scratch, on_a_drive("24MiB").replace("8MiB", "64MiB"))
    assert not any(path.name.startswith("storagelab-") for path in scratch.iterdir())
    assert (run.status, run.measurement) == ("failed", None)
    assert "No space left on device" in run.reason


def test_a_kill_of_storagelab_ends_fio_and_the_next_sweep_removes_the_file_and_the_logs(scratch):
    script = f"""
import sys
sys.path[:0] = {sys.path!r}
from raw_io_specs import *
from storagelab.engines.fio import engine
whole = engine.fio.make
def make(*given, **more):
    print("running", flush=True)
    return whole(*given, **more)
engine.fio.make = make
runs_of(Path({str(scratch)!r}), SPEC.replace('"1s"', '"30s"'))
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "running\n"
    until(lambda: [*(scratch / "tmp").glob("storagelab-*/fio-*")])
    process.kill()
    process.wait()
    process.stdout.close()
    (logs,) = (scratch / "tmp").iterdir()
    (folder,) = (path for path in scratch.iterdir() if path.name.startswith("storagelab-raw"))
    still = subprocess.run(["fuser", str(folder / "raw-io-8388608")], capture_output=True, text=True, check=False)
    assert not still.stdout.strip(), "fio ended with storagelab"
    assert sweep(expand(parsed(scratch)), site_at(scratch)) == [
        f"removed {left}, left behind by a killed run" for left in (logs, folder)
    ]
    assert not folder.exists()
    assert list((scratch / "tmp").iterdir()) == []


REPLAY = """
order = "as-listed"
target = { engine = "raw-io" }
repetitions = 1
[volumes.a]
PLACE
[layout]
data_size = "8MiB"
[workload]
kind = "replay"
trace = "trace"
outstanding = 4
[factors]
"workload.pace" = ["recorded", "as-fast-as-possible"]
"""


def written_trace(folder) -> None:
    lines = [f"{number * 5000} /x {'read' if number % 3 else 'write'} {number * 8192} 8192" for number in range(201)]
    (folder / "trace").write_text("\n".join(["fio version 3 iolog", "0 /x add", "0 /x open", *lines]) + "\n")


def test_a_trace_takes_its_own_time_or_as_little_as_its_volume_takes(scratch):
    written_trace(scratch)
    paced, fast = runs_of(scratch, REPLAY.replace("PLACE", 'path = "."'))
    assert (paced.status, paced.reason) == (fast.status, fast.reason) == ("ok", "")
    assert paced.measurement.requests == fast.measurement.requests == 201
    assert paced.measurement.counters[RAW_IO]["recorded_s"] == pytest.approx(1.0)
    assert paced.measurement.counters[RAW_IO]["time_over_recorded"] == pytest.approx(1.0, abs=0.1)
    late_s = [paced.measurement.counters[RAW_IO][f"late_{name}_s"] for name in ("p50", "p99", "longest")]
    assert 0 < late_s[0] <= late_s[1] <= late_s[2] < 0.5
    assert fast.measurement.elapsed_s < paced.measurement.elapsed_s
    assert not any(name.startswith("late_") for name in fast.measurement.counters[RAW_IO])
    assert paced.measurement.latency.operations == 201
    apart = (scratch / "trace").read_text().replace("/x read", "public.t_pkey read").replace("/x ", "public.t#2 ")
    (scratch / "trace").write_text(apart)
    (scratch / "b").mkdir()
    objects = '[layout]\ndata = ["a"]\nobjects = { "t_pkey" = "b" }'
    volumes = REPLAY.replace("PLACE", 'path = "."\n[volumes.b]\npath = "b"\n')
    fast = runs_of(scratch, volumes.replace("[layout]", objects))[1]
    assert (fast.status, fast.reason, fast.measurement.requests) == ("ok", "", 201)
    assert set(fast.measurement.environment["volumes"]) == {"a", "b"}
    assert not any(path.name.startswith("storagelab-") for path in scratch.iterdir())


def test_a_trace_on_a_simulated_drive_takes_what_arithmetic_says(tmp_path, monkeypatch):
    from test_fitting import TRUTHS, drive_of

    from storagelab import profiles
    from storagelab.drives.measured import as_toml

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    law = TRUTHS["a cloud disk"]
    limited = type(law)(**{**vars(law), "limits": {"ios_per_s": 100.0}})
    profiles.own_folder().mkdir(parents=True)
    text = as_toml(drive_of(limited, []), usable_bytes=2**30, sector_bytes=512)
    (profiles.own_folder() / "mine.toml").write_text(text)
    written_trace(tmp_path)
    drive = '[drives.d]\nprofile = "mine"\n[volumes.a]\ndrives = ["d"]'
    text = REPLAY.replace("[volumes.a]\nPLACE", drive).replace('"raw-io" }', '"raw-io", scale = 1 }')
    paced, fast = runs_of(tmp_path, text)
    assert (paced.status, paced.reason) == (fast.status, fast.reason) == ("ok", "")
    # 201 requests at 100 a second; asked at 200 a second, so the last one is sent about a second late.
    assert paced.measurement.elapsed_s == pytest.approx(2.01, rel=0.01)
    assert fast.measurement.elapsed_s == pytest.approx(2.01, rel=0.01)
    assert paced.measurement.counters[RAW_IO]["late_longest_s"] == pytest.approx(0.97, rel=0.05)
    assert paced.measurement.counters[RAW_IO]["late_p50_s"] == pytest.approx(0.485, rel=0.05)
    assert paced.measurement.counters[RAW_IO]["time_over_recorded"] == pytest.approx(2.01, rel=0.01)
