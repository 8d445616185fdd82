"""The share of its volumes' rates that a database reached: calculation, words, and real servers with raw I/O."""

import pytest
from builders import make_experiment
from fabricated_findings import FILES, make_findings
from raw_io_specs import needs_fio
from real_mariadb import needs_mariadb
from real_servers import measure, site_at, small

from storagelab.errors import SpecError
from storagelab.findings.kinds.reached import Reached, find_in_cell
from storagelab.loads import fio
from storagelab.model.config import Config, MeasureConfig
from storagelab.model.measurement import RAW_IO_BESIDE, Measurement
from storagelab.report.words.answer import answer_lines
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse

POSTGRES = Config.model_validate(make_experiment({}, 1).base)
TAKES = {
    f"volume.a.{pattern}_{operation}_{unit}_per_s": value
    for pattern, unit, value in (("random", "ios", 1000.0), ("sequential", "bytes", 180e6))
    for operation in ("read", "write")
}


def reached(runs: list[Measurement]) -> list[Reached]:
    return find_in_cell(runs, POSTGRES)


def run(**did: float) -> Measurement:
    """FABRICATED: ten seconds."""
    counted = {"reads": 0.0, "writes": 0.0, "read_bytes": 0.0, "write_bytes": 0.0} | did
    counters = {RAW_IO_BESIDE: TAKES, "volumes": {f"volume.a.{name}": value for name, value in counted.items()}}
    return Measurement(provenance="measured", elapsed_s=10, rows=1, counters=counters)


def test_bytes_are_checked_against_requests_in_order():
    (one,) = reached([run(write_bytes=410e6, writes=100)])
    assert (one.operation, one.unit, one.did_per_s, one.takes_per_s) == ("write", "bytes", 41e6, 180e6)
    assert one.share == pytest.approx(41 / 180)


def test_requests_are_checked_against_those_at_random_and_reads_and_writes_share_the_drive():
    (one,) = reached([run(reads=3000, writes=6000, read_bytes=25e6, write_bytes=49e6)])
    assert (one.operation, one.unit, one.did_per_s, one.takes_per_s) == ("write", "ios", 600, 1000)
    assert one.share == pytest.approx(0.9)


def test_a_file_system_of_its_own_counts_before_the_whole_disk():
    (one,) = reached([run(writes=9000, file_system_writes=1000, file_system_reads=0)])
    assert one.share == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("did", "said"),
    [
        (41e6, "PostgreSQL wrote 41.0 MB/s where volume a takes 180: the drive's rate was not the limit."),
        (108e6, "PostgreSQL wrote 108 MB/s where volume a takes 180: 60 % of the drive was in use."),
        (171e6, "PostgreSQL wrote 171 MB/s where volume a takes 180: the drive was the limit."),
    ],
)
def test_the_answer_says_whether_the_drive_was_the_limit(did, said):
    one = Reached(
        volume="a", engine="postgres", operation="write", unit="bytes", did_per_s=did, takes_per_s=180e6,
        share=did / 180e6,
    )  # fmt: skip
    found = make_findings({FILES: [1, 4]}, {1: 2.0, 4: 1.0}, verdict="winner")
    cells = tuple(cell.model_copy(update={"found": {"reached": (one,)}}) for cell in found.cells)
    told = found.model_copy(update={"cells": cells, "fastest": found.cells[-1].cell_id})
    assert said in answer_lines(told)
    assert "because a drive may answer them late without being busy" in Reached.sentences(told)[0]


@needs_fio
@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "moment"), [("postgres", "before"), pytest.param("mariadb", "after", marks=needs_mariadb)]
)
def test_a_run_carries_what_its_volumes_take(scratch, monkeypatch, engine, moment):
    monkeypatch.setattr(fio, "_MOST_BYTES", 16 * 2**20)
    config = small(scratch, engine=engine, volumes=["a", "b"], data=["a"], log="b")
    config = config.model_copy(update={"measure": MeasureConfig(raw=moment)})
    measured = measure(config, site_at(scratch))
    takes = measured.counters[RAW_IO_BESIDE]
    assert {key.split(".")[1] for key in takes} == {"a", "b"}
    page = 8192 if engine == "postgres" else 16384
    assert takes["volume.a.random_read_bytes_per_s"] == pytest.approx(page * takes["volume.a.random_read_ios_per_s"])
    assert not measured.unverified
    assert [one.volume for one in find_in_cell([measured], config)] in (["a", "b"], ["b", "a"])
    assert [path.name for name in ("a", "b") for path in (scratch / name).iterdir()] == [], "nothing is left behind"


@pytest.mark.slow
def test_raw_io_that_fails_leaves_the_run_and_says_so(scratch, monkeypatch):
    monkeypatch.setattr(fio, "_LEAST_BYTES", 2**60)
    config = small(scratch).model_copy(update={"measure": MeasureConfig(raw="after")})
    measured = measure(config, site_at(scratch))
    (check,) = measured.unverified
    assert "has no room for raw I/O" in check.got
    assert RAW_IO_BESIDE not in measured.counters


SPEC = 'repetitions = 1\ntarget = {{ engine = "postgres"{target} }}\n{volumes}\n[measure]\n{measure}\n'


@pytest.mark.parametrize(
    ("target", "volumes", "measured", "key"),
    [
        (', dsn = "postgresql://u@h/d"', "", 'raw = "after"', "measure.raw"),
        ("", 'volumes = { a = { path = "." } }', "raw_s = 2", "measure.raw_s"),
        ("", 'volumes = { a = { path = "." } }', 'raw = "sometimes"', "measure.raw"),
    ],
)
def test_where_it_cannot_be_measured_the_key_is_named(tmp_path, target, volumes, measured, key):
    text = SPEC.format(target=target, volumes=volumes, measure=measured)
    with pytest.raises(SpecError) as caught:
        expand(parse(text, str(tmp_path / "x.toml")))
    assert caught.value.key == key
