"""Traces: their content, and the faults of traces that can't be sent."""

import struct

import pytest

from storagelab.errors import PreflightError
from storagelab.loads import traces
from storagelab.model.config import Config

V3 = "fio version 3 iolog\n5 /a add\n5 /a open\n"


def read(folder, text: str | bytes, config: Config | None = None) -> traces.Trace:
    file = folder / "trace"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return traces.read(file, config)


def of(layout) -> Config:
    return Config.model_validate({
        "target": {"engine": "raw-io"}, "workload": {"kind": "replay", "trace": "trace"},
        "volumes": {name: {"path": name} for name in "abc"}, "layout": layout,
    })  # fmt: skip


def test_an_iolog_of_version_3_has_times_and_one_of_version_2_has_waits(tmp_path):
    third = read(
        tmp_path, V3 + "100 /a read 4096 512\n350 /a write 0 1024\n400 /a sync\n500 /a trim 0 512\n600 /a close\n"
    )
    second = read(
        tmp_path,
        "fio version 2 iolog\n/a add\n/a open\n/a read 4096 512\n/a wait 250 0\n/a write 0 1024\n/a wait 50 0\n/a "
        "sync\n",
    )
    assert third.requests == second.requests == (
        (0, "r", 4096, 512, 0), (250, "w", 0, 1024, 0), (300, "s", 0, 4608, 0),
    )  # fmt: skip
    assert (third.left_out, second.left_out) == ({"trim": 1}, {})


def test_each_file_of_a_trace_gets_a_part_of_its_own(tmp_path):
    trace = read(tmp_path, V3 + "0 /a read 4096 512\n1 /b write 8192 512\n2 /a read 0 512\n")
    assert [one.offset for one in trace.requests] == [4096, 2**20 + 8192, 0]
    part = read(tmp_path, V3 + "0 /a write 5000 215\n")
    assert (part.requests[0][2:4], "sent as whole pages of 4,096 bytes: 1" in part.text) == ((4096, 4096), True)


def test_files_are_placed_by_the_names_of_captured_objects_and_the_first_of_a_volume_keeps_its_offsets(tmp_path):
    names = ["public.t", "public.t_fsm", "log.3", "public.t_toast#2", "temporary.1", "other.7"]
    text = V3 + "".join(f"{n} {name} write {(n + 1) * 4096} 512\n9 {name} sync\n" for n, name in enumerate(names))
    placed = {"data": ["a"], "log": "b", "temp": "b", "objects": {"public.t": "c"}}
    config = of(layout=placed)
    found = [(one.what, one.volume, one.offset) for one in read(tmp_path, text, config).requests if one.what == "w"]
    assert found[:3] == [("w", 2, 4096), ("w", 2, 2**20 + 8192), ("w", 1, 12288)]
    assert [volume for _, volume, _ in found[3:]] == [2, 1, 0]
    with pytest.raises(PreflightError, match="matches no table and no index of the trace"):
        read(tmp_path, text, of(layout={**placed, "objects": {"public.u": "c"}}))


def event(time_ns: int, sector: int, action: int, more: bytes = b"", length: int = 4096) -> bytes:
    return struct.pack("<IIQQIIIIIHH", 0x65617407, 1, time_ns, sector, length, action, 1, 7, 0, 0, len(more)) + more


def test_a_flush_of_blktrace_is_a_sync_and_what_is_left_out_is_counted_by_kind(tmp_path):
    writes, flushes, metadata, trims, durable = (1 << 16 + bit for bit in (1, 2, 12, 13, 15))
    found = read(tmp_path, b"".join([
        event(1000, 8, writes | metadata | 1), event(2000, 0, flushes | writes | 1, length=0),
        event(3000, 8, writes | durable | 1), event(4000, 8, trims | writes | 1), event(5000, 0, 1, length=0),
    ]))  # fmt: skip
    assert [one.what for one in found.requests] == ["w", "s", "w", "s"]
    assert found.left_out == {"trim": 1, "empty request": 1}
    assert found.text.endswith("left out: 1 trim, 1 empty request")


def test_a_sector_that_no_drive_has_is_refused(tmp_path):
    with pytest.raises(PreflightError, match="damaged at event 1"):
        read(tmp_path, event(1000, 2**42, 1 << 16 | 1))


def test_the_queue_events_of_blktrace_are_its_requests(tmp_path):
    reads, writes, queued, completed = 1 << 16, 1 << 17, 1, 8
    events = [
        event(1000, 8, reads | queued), event(2000, 8, reads | completed), event(9000, 16, writes | queued, b"abc"),
    ]  # fmt: skip
    assert read(tmp_path, b"".join(events)).requests == ((0, "r", 4096, 4096, 0), (8, "w", 8192, 4096, 0))
    with pytest.raises(PreflightError, match="cut off in event 3"):
        read(tmp_path, b"".join(events)[:-1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fio version 1 iolog\n", "is of another version"), ("0, 1, 2\n", "is no trace"),
        (V3 + "7 /a read 0 51", "cut off or damaged at line 4"), (V3 + "7 /a jump 0 512\n", "damaged at line 4"),
        (V3 + "-7 /a read 0 512\n", "damaged at line 4"), (V3 + "9" * 30 + " /a read 0 512\n", "damaged at line 4"),
        (V3 + "7 /a sync\n", "holds no request"),
    ],
)  # fmt: skip
def test_a_trace_that_can_not_be_sent_is_refused_with_its_line(tmp_path, text, words):
    with pytest.raises(PreflightError, match=words):
        read(tmp_path, text)


def test_a_trace_larger_than_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(traces, "memory_available", lambda: 1)
    with pytest.raises(PreflightError, match="of memory"):
        read(tmp_path, V3 + "0 /a read 4096 512\n")


@pytest.mark.parametrize(
    ("size", "sector", "words"), [(4096, 512, "outside of layout.data_size"), (8192, 4096, "sectors")]
)
def test_a_request_outside_of_its_volume_is_refused(tmp_path, size, sector, words):
    trace = read(tmp_path, V3 + "0 /a read 4096 512\n")
    with pytest.raises(PreflightError, match=words):
        trace.check_fits(tmp_path / "trace", size, sector)
