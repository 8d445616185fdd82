"""Predictions for a captured server on other volumes: calculations that can be checked by hand, and refusals."""

import math
from pathlib import Path

import pytest
from test_fitting import drive_of

from storagelab.capture import folder
from storagelab.capture.folder import Capture, CapturedObject, DeviceRow, IoRow, Machine, Manifest, Volume
from storagelab.drives.fitting import Law, Result, planned
from storagelab.drives.measured import as_toml
from storagelab.errors import PreflightError, SpecError, StoreError
from storagelab.model.values import Estimate
from storagelab.predicting.demands import demands_of, grown
from storagelab.predicting.prediction import PRESENT, Errors
from storagelab.predicting.reckoning import predict, skeleton
from storagelab.report.words.predicted import Speed, ladder_of_speeds

LIMITS = """
volumes.a.limit = { read_iops = 300, write_iops = 300 }
volumes.b.limit = { read_iops = 300, write_iops = 300 }
"""


def thing(name, kind, size=80_000_000, volume="a"):
    return CapturedObject(
        id=name, schema="public" if kind in ("table", "index") else None, name=name.rpartition(".")[2], kind=kind,
        volume=volume, bytes_at_start=size, bytes_at_end=size,
    )  # fmt: skip


def shop(**changes):
    """10 s of 8 sessions: 200 transactions a second, each with a read of the table, half a read of its index, and half
    a write of the log; half of the table's reads are answered by the page cache.
    """
    facts = {
        "storagelab": "0.2.0", "engine": "postgres", "server_version": "17.1", "started_at": "2026-11-24T20:00:00Z",
        "seconds": 10.0, "interval_seconds": 10.0, "connections": 8.0, "transactions": 2000, "cpu_seconds": 1.0,
        "volumes": (Volume(name="a", path="/a"),),
        "objects": (thing("public.orders", "table"), thing("public.orders_pkey", "index"), thing("log", "log", 2**24)),
    } | changes  # fmt: skip
    io = (
        IoRow(0, "public.orders", "read", "session", 4000, 4000 * 8192, 0, 52.0),
        IoRow(0, "public.orders_pkey", "read", "session", 2000, 2000 * 8192, 0, 26.0),
        IoRow(0, "log", "write", "log", 1000, 1000 * 8192, 1000, 1.0),
    )
    devices = (DeviceRow(0, "a", "read", 3000, 3000 * 8192), DeviceRow(0, "a", "write", 1000, 1000 * 8192))
    return Capture(Manifest(**facts), io, devices)


@pytest.fixture
def predicted(tmp_path):
    def of(asked, capture=None):
        folder.write(tmp_path / "shop", capture or shop())
        (tmp_path / "volumes.toml").write_text(asked, encoding="utf-8")
        return {one.name: one for one in predict(tmp_path / "shop", tmp_path / "volumes.toml").layouts}

    return of


def told(folder_):
    return predict(folder_ / "shop", folder_ / "volumes.toml").notes


def test_a_volume_does_as_many_reads_as_its_limit_allows_and_no_more(predicted):
    # A transaction has 1 read of the table and 0.5 of the index that reach the device: 300 / 1.5 = 200 a second.
    found = predicted(LIMITS + '[layouts.apart]\nobjects = { "orders_pkey" = "b" }\n[layouts.log-apart]\nlog = "b"\n')
    assert found[PRESENT].per_s.value == 200
    assert found["apart"].times_present.value == pytest.approx(1.5)
    assert found["apart"].limited_by == "reads of a"
    assert found["log-apart"].times_present.value == pytest.approx(1.0)
    loads = {one.volume: one for one in found["apart"].volumes}
    assert (loads["a"].requests_per_s, loads["b"].requests_per_s) == pytest.approx((300 + 150, 150))
    assert (loads["a"].used_share, loads["b"].used_share) == pytest.approx((1.0, 0.5))


def test_volumes_that_can_not_take_what_was_captured_are_said(predicted, tmp_path):
    predicted(LIMITS.replace("300", "250"))  # 250 / 1.5 = 167 a second, and 200 were captured
    notes = " ".join(predict(tmp_path / "shop", tmp_path / "volumes.toml").notes)
    assert "The captured rate is 1.2 times the rate that these volumes explain" in notes


def test_without_limits_that_hold_back_the_time_elsewhere_decides(predicted):
    # Of 40 ms, 39 were waited for reads, 0.5 were CPU time, and (1 ms of flush) x 1.5 a commit that may share it.
    found = predicted(LIMITS.replace("300", "100_000") + "[server]\ncpus = 4\n")
    assert found[PRESENT].at_most_per_s == pytest.approx(4 / 0.0005)
    demands = demands_of(shop(), "shop")
    assert demands.elsewhere_s == pytest.approx(0.0)
    assert demands.cpu_s == pytest.approx(0.0005)


def test_sessions_that_a_limit_holds_back_gather_and_share_a_log_write(predicted):
    asked = LIMITS + '[volumes.c]\nlimit = { write_iops = 40 }\n[layouts.slow]\nlog = "c"\n'
    # 0.5 writes of the log a transaction, whatever the volume: 40 / 0.5 = 80 a second, and 200 were captured.
    assert predicted(asked)["slow"].times_present.value == pytest.approx(0.4, rel=0.05)
    # With commits counted: 200 a second on 100 writes; in one slice, which was used up, 8 sessions gathered. So a write
    # serves (200 - 8) / (100 - 2) = 1.96 commits, and each slice of the slow volume 8 - 2 x 1.96 more: 40 x 1.96 +
    # 40.8.
    found = predicted(asked, shop(write_transactions=2000))["slow"]
    assert found.times_present.value == pytest.approx((40 * 1.96 + 40.8) / 200, rel=0.05)
    assert found.limited_by == "writes of c"
    assert {one.volume: one.used_share for one in found.volumes}["c"] == pytest.approx(1.0, rel=0.01)


def test_a_machine_with_other_work_is_told_or_nothing_is_said(predicted, tmp_path):
    asked = LIMITS + '[layouts.apart]\nobjects = { "orders_pkey" = "b" }\n'
    busy = Machine(cpus=2, busy_cpus=0.8, others_cpus=0.4, steal_cpus=0.0, run_queue=3.0)
    calm, crowded = (predicted(asked, shop(machine=one))["apart"].times_present for one in (None, busy))
    assert crowded.high / crowded.low == pytest.approx(calm.high / calm.low), "known cases had such work, too"
    assert "other programs used 0.4 of its 2 CPUs" in " ".join(told(tmp_path))
    # So it was at a load of 19: the server had a tenth of the CPUs, and each layout seemed to change nothing.
    with pytest.raises(StoreError, match=r"the machine was busy with other work: .* 19\.0 tasks ran or waited"):
        predicted(asked, shop(machine=busy.model_copy(update={"others_cpus": 1.8, "run_queue": 19.0})))


def test_what_other_programs_do_at_the_devices_is_not_the_servers(predicted, tmp_path):
    alone = shop(storage_read_bytes=3000 * 8192)
    others = DeviceRow(0, "a", "read", 500, 2**29), DeviceRow(0, "a", "write", 200, 2**28)
    beside = Capture(alone.manifest, alone.io, (*alone.devices, *others))
    asked = LIMITS + '[layouts.apart]\nobjects = { "orders_pkey" = "b" }\nlog = "b"\n'
    found = [predicted(asked, one)["apart"] for one in (alone, beside)]
    assert found[0].volumes[0].bytes_per_s == pytest.approx(found[1].volumes[0].bytes_per_s)
    assert found[0].per_s.value == pytest.approx(found[1].per_s.value)
    assert "The devices read 54 MiB/s, but the server at most 2.3 MiB/s." in " ".join(told(tmp_path))
    predicted(asked)
    assert "It is not known what other programs read at the devices" in " ".join(told(tmp_path))


def test_a_load_that_ended_in_the_window_is_not_taken_for_a_slow_one(predicted):
    with pytest.raises(StoreError, match="no session worked for 14 of 20 s"):
        predicted(LIMITS, shop(seconds=20.0, interval_seconds=1.0, idle_seconds=14.0))


def test_what_is_known_of_all_tables_together_moves_with_all_of_them_alone(predicted, tmp_path):
    some = shop()
    objects = *some.manifest.objects, thing("all tables", "other")
    io = *some.io, IoRow(0, "all tables", "write", "session", 500, 500 * 8192)
    whole = Capture(shop(objects=objects).manifest, io, some.devices)
    layouts = LIMITS + '[layouts.all]\nobjects = { "*" = "b" }\n[layouts.one]\nobjects = { "orders" = "b" }\n'
    found = {name: one.volumes[0] for name, one in predicted(layouts, whole).items()}
    # Its reads left the first volume in both; its writes stayed beside the log's where the index did.
    assert found["all"].requests_per_s < found["one"].requests_per_s
    assert "Some I/O is known only for all tables together" in " ".join(told(tmp_path))
    assert not any("track_io_timing" in one for one in told(tmp_path))


def test_a_layout_that_moves_what_had_no_io_is_not_predicted(predicted):
    idle = *shop().manifest.objects, thing("public.idle", "table")
    found = predicted(LIMITS + '[layouts.idle]\nobjects = { "idle" = "b", "temp" = "b" }\n', shop(objects=idle))
    assert found["idle"].cant_say == "the capture has no I/O of the objects that it names (idle, temp)"


def test_the_file_that_a_capture_writes_needs_figures_alone(predicted):
    asked = skeleton(shop().manifest)
    with pytest.raises(SpecError, match="needs either a limit or a profile"):
        predicted(asked)
    assert predicted(asked.replace("# limit", "limit", 1))[PRESENT].per_s.value == 200


def test_on_a_measured_drive_tables_take_the_share_that_was_measured(predicted, tmp_path):
    law = Law(5e5, 6e5, 5e5, 6e5, 1e9, 1e9, 64.0, 64.0, 8.0, 1, {"ios_per_s": 3000.0, "bytes_per_s": 1.25e8})
    drive = drive_of(law, [Result(one, 1000.0, 0.001) for one in planned(quick=True, seed=1)])
    (tmp_path / "mine.toml").write_text(as_toml(drive, usable_bytes=2**30, sector_bytes=512), encoding="utf-8")
    asked = LIMITS + 'volumes.m.profile = "mine.toml"\n[layouts.there]\nobjects = { "*" = "m" }\n'
    found = predicted(asked)["there"]
    # The log stays: 300 writes / 0.5 = 600 transactions a second, whose 900 reads are 30 % of the drive's 3000.
    assert found.times_present.value == pytest.approx(3.0)
    loads = {one.volume: one for one in found.volumes}
    assert loads["m"].requests_per_s == pytest.approx(900)
    assert loads["m"].used_share == pytest.approx(0.3, rel=0.05)


def test_a_faster_layout_writes_fewer_pages_in_the_background_for_each_transaction():
    assert grown(None, 3.0) == 3.0
    assert grown(0.001, 3.0) == pytest.approx(3.0, rel=0.01)
    assert grown(1.0, 3.0) == 1.0
    # Half of the pages changed: twice as many changes leave a quarter unchanged.
    assert grown(0.5, 2.0) == pytest.approx(0.75 / 0.5)


def test_an_end_of_an_interval_is_exceeded_by_one_case_in_twenty_and_each_case_counts_once():
    assert Errors(tuple((0.01 * n,) for n in range(3)), "").around(100.0).low is None
    errors = Errors(tuple((0.01 * n,) for n in range(1, 20)), "")
    found = errors.around(100.0)
    assert (found.confidence, found.low) == (0.9, 100.0), "no known case was slower than predicted"
    assert found.high == pytest.approx(100 * math.exp(0.19))
    assert errors.around(100.0, 2.0).high == pytest.approx(100 * math.exp(0.38))
    halves = Errors((*errors.cases, *[(0.0,)] * 19, (0.3, 0.0)), "")  # of 40 cases, one and a half may be above
    assert halves.around(100.0).high == pytest.approx(100 * math.exp(0.19))
    assert Errors(errors.cases[:9], "").confidence == 0.8


def test_a_real_capture_gives_what_its_counts_say(tmp_path):
    """632 transactions, and 342 reads of the devices of one of its volumes."""
    file = tmp_path / "volumes.toml"
    file.write_text(
        "volumes.data.limit = { read_iops = 100000 }\nvolumes.log.limit = { read_iops = 50 }\n", encoding="utf-8"
    )
    (found,) = predict(Path(__file__).parent / "golden" / "capture-postgres", file).layouts
    assert found.at_most_per_s == pytest.approx(50 * 632 / 342)
    assert found.per_s.value == pytest.approx(632 / 5.007151622)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("volumes.b.limit = { read_iops = 1 }", "volumes.a: a volume of the capture has no figures"),
        ("volumes.a = {}", "volumes.a: needs either a limit or a profile"),
        ("volumes.a.limit = { like = 'gp4' }", "no cloud disk is named"),
        ("volumes.a.limit = { read_iop = 1 }", "read_iop"),
        ("volumes.a.profile = 'none.toml'", "none.toml"),
        (LIMITS + '[layouts.x]\nobjects = { "nothing" = "b" }', "matches no table and no index"),
        (LIMITS + '[layouts.x]\nlog = "z"', "layouts.x.log: no volume is named 'z'"),
        ("volumes =", "is not TOML: Invalid value"), ("", "volumes: is missing or empty"),
    ],
)  # fmt: skip
def test_a_wrong_file_of_volumes_gets_one_message_with_its_key(predicted, asked, words):
    with pytest.raises((SpecError, PreflightError)) as refused:
        predicted(asked)
    assert words in str(refused.value)
    assert ".toml" in str(refused.value)


def test_an_idle_server_another_version_and_half_a_line_are_refused_or_said(tmp_path, predicted):
    with pytest.raises(StoreError, match="can't say: the server was idle"):
        predicted(LIMITS, shop(transactions=3))
    manifest = Path(tmp_path / "shop" / folder.MANIFEST)
    manifest.write_text(manifest.read_text().replace("capture/1", "capture/9"))
    with pytest.raises(StoreError, match="another version"):
        predict(tmp_path / "shop", tmp_path / "volumes.toml")
    folder.write(tmp_path / "shop", shop(complete=False))
    notes = predict(tmp_path / "shop", tmp_path / "volumes.toml").notes
    assert any("was interrupted" in note for note in notes)


def test_a_prediction_without_intervals_has_a_ladder_of_hollow_marks_each_at_its_own_ratio():
    (ladder,) = ladder_of_speeds([Speed((f"{n}",), Estimate(value=n), "") for n in (4.0, 2.0, 1.0)], "rate")
    assert [(ladder.ratio_text(one), one.is_hollow) for one in ladder.rungs] == [(f"{n}.00", True) for n in (1, 2, 4)]


def test_a_ladder_names_its_intervals_if_all_are_of_one_kind():
    first = Speed(("a",), Estimate(value=1.0), "")
    kinds = [first._replace(times=Estimate(value=0.5, low=0.4, high=0.6, confidence=0.9))]
    kinds += [first._replace(times=Estimate(value=0.5, low=0.4, high=0.6), predicted=False)]
    said = [ladder_of_speeds([first, *rows], "")[0].interval for rows in (kinds[:1], kinds[1:], kinds)]
    assert said == ["90 % interval", "joint 95 % CI", "interval"]


def test_each_prediction_has_a_page_of_its_own(predicted, tmp_path, home, typed):
    predicted(LIMITS)
    for name in ("volumes", "others"):
        (tmp_path / f"{name}.toml").write_text(LIMITS, encoding="utf-8")
        file = f"{tmp_path}/{name}.toml"
        code, out, err = typed("predict", f"{tmp_path}/shop", "--volumes", file, "--format", "html")
        assert (code, out.strip()) == (0, f"prediction-shop-{name}.html"), err
        assert (home / out.strip()).is_file()
