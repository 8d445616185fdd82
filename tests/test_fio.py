"""fio as storagelab runs it: its figures, its histograms, and its failures."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from storagelab.errors import PreflightError
from storagelab.loads import fio
from storagelab.loads.fio import Job, Place

needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio: apt-get install fio")
READ = Job("read", "random", 8192, 1.0, outstanding=2)


@pytest.fixture(scope="module")
def laid_out():
    """A file on a drive, not in memory, and the I/O engine that works there."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="raw-fio-") as folder:
        place = Place(Path(folder), "file", 32 * 2**20)
        yield place, fio.lay_out(fio.find(), place, 8192)


@needs_fio
@pytest.mark.slow
def test_the_file_is_written_full_before_it_is_read(laid_out):
    place, _ = laid_out
    facts = (place.folder / place.name).stat()
    assert facts.st_size == place.size_bytes
    assert facts.st_blocks * 512 >= place.size_bytes, "no holes, which would answer without the medium"
    head = (place.folder / place.name).read_bytes()[: 2**20]
    packed = subprocess.run(["gzip", "-c"], input=head, capture_output=True, check=True).stdout
    assert len(packed) > 0.95 * len(head), "no drive can compress it"


@needs_fio
@pytest.mark.slow
@pytest.mark.parametrize(
    "job",
    [
        READ,
        Job("write", "sequential", 65536, 1.0, threads=2),
        Job("mixed", "random", 4096, 1.0, threads=2, outstanding=4, read_fraction=0.75),
    ],
)
def test_a_job_is_done_as_asked(laid_out, job):
    place, io_engine = laid_out
    told = []
    found = fio.make(fio.find(), place, job, io_engine, lambda: told.append(1))
    assert found.elapsed_s == pytest.approx(1, abs=0.25)
    assert found.bytes == found.requests * job.block_bytes
    assert found.latency.operations == found.requests
    in_progress = found.requests / found.elapsed_s * found.latency.mean_s
    assert in_progress == pytest.approx(job.threads * job.outstanding, rel=0.3), "Little's law"
    assert set(found.done) == {"read", "write"} if job.operation == "mixed" else {job.operation}
    if job.operation == "mixed":
        assert found.done["read"].requests / found.requests == pytest.approx(0.75, abs=0.1)
    assert 0 < found.cpu_s < 2 * found.elapsed_s
    assert found.io_engine == io_engine
    assert told


@pytest.mark.parametrize("said", ["fio-2.16", "nonsense", ""])
def test_a_program_that_is_too_old_is_refused_with_the_package(tmp_path, monkeypatch, said):
    program = tmp_path / "fio"
    program.write_text(f"#!/bin/sh\necho {said}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(PreflightError, match=r"3\.19 or newer is needed\n  install a newer package fio"):
        fio.find()


def test_a_missing_program_is_named_with_its_package(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        PreflightError, match="needs the program fio, and there is none on the PATH\n  install the package fio"
    ):
        fio.find()


def test_a_last_second_that_fio_did_not_log_is_no_standstill(tmp_path):
    (tmp_path / "rates_iops.1.log").write_text("1000, 500, 0, 0, 0\n2001, 510, 0, 0, 0\n3000, 505, 0, 0, 0\n")
    (tmp_path / "rates_iops.2.log").write_text("1001, 100, 0, 0, 0\n2000, 90, 0, 0, 0\n")
    (tmp_path / "times_lat.1.log").write_text(
        "1000, 2000000, 0, 0, 0\n2001, 4000000, 0, 0, 0\n2003, 90000000, 0, 0, 0\n"
    )
    (tmp_path / "times_lat.2.log").write_text("1001, 8000000, 0, 0, 0\n2000, 4000000, 0, 0, 0\n")
    per_s, mean_s = fio._by_second(tmp_path, 3.0)
    assert per_s == {"read": (600, 600)}
    # Each thread counts by its requests; of a second with two lines, the last is fio's end alone.
    assert mean_s["read"] == pytest.approx((0.003, 0.004))


@needs_fio
@pytest.mark.slow
@pytest.mark.parametrize(
    ("sync", "direct", "block_bytes"),
    [
        ("fdatasync", True, 8192), ("fsync", False, 8192), ("fdatasync", False, 200), ("dsync", False, 200),
        ("dsync", True, 4096),
    ],
)  # fmt: skip
def test_each_write_is_synced_and_the_sync_s_latency_is_told_apart(laid_out, sync, direct, block_bytes):
    place, io_engine = laid_out
    job = Job("write", "sequential", block_bytes, 1.0, sync=sync)
    found = fio.make(fio.find(), place._replace(direct=direct), job, io_engine)
    assert found.bytes == found.requests * block_bytes
    if sync == "dsync":
        assert found.figures == {}
        return
    assert found.figures["syncs_per_s"] * found.elapsed_s == pytest.approx(found.requests, abs=2)
    assert found.figures["sync_latency_p50_s"] <= found.figures["sync_latency_p99_s"]
    each_s = found.figures["sync_latency_mean_s"] + found.latency.mean_s
    assert found.requests * each_s == pytest.approx(found.elapsed_s, rel=0.3), "one after the other"
