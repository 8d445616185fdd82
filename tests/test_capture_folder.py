"""The folder of a capture is read back as it was written, and a damaged one is refused with the reason."""

from dataclasses import replace

import numpy as np
import pytest

from storagelab.capture import folder
from storagelab.capture.attribution import load_change, paired
from storagelab.capture.folder import Capture, CapturedObject, DeviceRow, IoRow, Manifest, Volume
from storagelab.capture.taking import merged
from storagelab.capture.tracing import _FORM, READ, SYNC, WRITE, put_together
from storagelab.errors import StoreError
from storagelab.report.text.markdown import markdown
from storagelab.report.words.captured import capture_paper


def some_capture(**changes):
    manifest = Manifest(
        storagelab="0.2.0", engine="postgres", server_version="18.4", started_at="2026-11-24T22:00:00Z", seconds=2,
        interval_seconds=1, connections=1.5, volumes=(Volume(name="data", path="/data"),),
        objects=(CapturedObject(id="public.t", schema="public", name="t", kind="table", volume="data"),),
    )  # fmt: skip
    rows = (IoRow(0.0, "public.t", "read", "session", 10, 81920, 3, 0.004), IoRow(1.0, "public.t", "sync", "log", 1, 0))
    return Capture(manifest.model_copy(update=changes), rows, (DeviceRow(0.0, "data", "read", 9, 73728, 0.003),))


def test_a_capture_is_read_as_it_was_written(tmp_path):
    folder.write(tmp_path, some_capture())
    found = folder.read(tmp_path)
    assert {*found.manifest.table_bytes} == {folder.IO, folder.DEVICES}
    assert replace(found, manifest=found.manifest.model_copy(update={"table_bytes": {}})) == some_capture()


@pytest.mark.parametrize("first", "=+-@")
def test_no_spreadsheet_takes_a_name_for_a_formula(first):
    assert folder.label_of(f"{first}cmd", "t") == f'"{first}cmd".t'


def test_one_that_was_cut_off_says_so_and_keeps_what_it_has(tmp_path):
    capture = some_capture(seconds=0)
    folder.begin(tmp_path, capture.manifest)
    folder.append(tmp_path, capture.io, capture.devices)
    with (tmp_path / folder.IO).open("a") as file:
        file.write("2,public.t,re")
    left = folder.read(tmp_path)
    assert (left.manifest.complete, left.manifest.seconds, left.io) == (False, 2, capture.io)


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("manifest.json", "capture/1", "capture/9", "schema: is 'storagelab.capture/9', which is another version's"),
        ("manifest.json", '"seconds": 2', '"seconds": null, "x": 2', "seconds: must be a valid number"),
        ("io.csv", ",read,", ",erase,", "line 2: operation: must be 'read', 'write' or 'sync', not 'erase'"),
        ("io.csv", ",10,", ",-7,", "requests: must be greater than or equal to 0, not '-7'\n  Capture"),
        ("io.csv", "\n0,", "\n00,", "bytes, but manifest.json says "),
        ("io.csv", "public.t", "public.u", "'public.u' is not among the objects of manifest.json"),
        ("devices.csv", "second,volume", "volume,second", "its first line is not second,volume,"),
    ],
)
def test_a_folder_that_was_changed_is_refused_by_file_and_place(tmp_path, file, old, new, told):
    folder.write(tmp_path, some_capture())
    text = (tmp_path / file).read_text()
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new, 1))
    with pytest.raises(StoreError) as refused:
        folder.read(tmp_path)
    assert str(tmp_path / file) in str(refused.value)
    assert told in str(refused.value)


def test_a_folder_without_a_manifest_is_written_to_again_if_it_holds_only_the_beginning_of_a_capture(tmp_path):
    folder.begin(tmp_path / "new", some_capture().manifest)
    (tmp_path / "new" / folder.MANIFEST).rename(tmp_path / "new" / ".manifest.json.123")
    assert folder.is_free(tmp_path / "new")
    (tmp_path / "new" / folder.IO).write_text("of somebody else")
    assert not folder.is_free(tmp_path / "new")


def test_another_folder_is_not_taken_for_one(tmp_path):
    with pytest.raises(StoreError, match="is not the folder of a capture"):
        folder.read(tmp_path)


def test_a_report_shows_the_servers_own_tables_as_one_object_with_kinds_and_volume():
    own = (
        ("pg_catalog.pg_class", "table"),
        ("pg_catalog.pg_class_oid_index", "index"),
        ("pg_catalog.pg_proc toast", "toast"),
    )
    objects = [CapturedObject(id=name, name=name, kind=kind, volume="data") for name, kind in own]
    rows = tuple(IoRow(0.0, one.id, "read", "session", 10, 81920, 0) for one in objects)
    of_user = CapturedObject(
        id="sys.orders", name="orders", kind="table", volume="data"
    )  # a name that MySQL's own have
    rows += (IoRow(0.0, of_user.id, "read", "session", 5, 40960, 0),)
    text = markdown(capture_paper(replace(some_capture(objects=(*objects, of_user)), io=rows), "here"))
    assert "sys.orders" in text
    assert "| system tables | index, table, toast | data | 15.0 |" in " ".join(text.split())
    assert "pg_class" not in text


def test_a_name_can_not_move_a_cursor_or_turn_a_line_around_in_any_form_of_the_report(typed, tmp_path):
    odd = "t\x1b[2J\u202egpj"
    table = CapturedObject(id="public.t", schema="public", name=odd, kind="table", volume="data")
    folder.write(tmp_path / "cap", some_capture(objects=(table,), notes=(odd,)))
    for form in ("md", "html"):
        assert typed("report", tmp_path / "cap", "--format", form, "-o", tmp_path / form)[0] == 0
    written = [(tmp_path / form).read_text("utf-8") for form in ("md", "html")]
    for text in (typed("report", tmp_path / "cap", "--format", "md")[1], *written):
        assert "gpj" in text
        assert not {"\x1b", "\u202e"} & set(text)


def events(*some):
    """(time, thread, inode, offset, bytes, operation, trace point)"""
    return np.array([(time, pid, 1, *rest) for time, pid, *rest in some], _FORM)


def test_parts_of_a_large_request_are_one_and_the_same_page_twice_is_two():
    some = events(
        (1, 7, 5, 0, 131072, READ, 0), (2, 8, 5, 0, 8192, READ, 0), (3, 7, 5, 65536, 65536, READ, 0),
        (4, 8, 5, 0, 8192, READ, 0), (5, 8, 6, 0, 8192, WRITE, 1), (6, 8, 6, 0, 8192, WRITE, 2),
    )  # fmt: skip
    assert put_together(some)["time_ns"].tolist() == [1, 2, 4, 5]


def test_an_end_belongs_to_the_last_request_that_its_thread_waits_for():
    begun = events(
        (1, 7, 5, 0, 512, WRITE, 0), (4, 7, 5, 0, 0, SYNC, 1), (5, 8, 5, 0, 512, WRITE, 0), (9, 9, 6, 0, 0, SYNC, 1)
    )
    ends = events((3, 7, 5, 0, 0, WRITE, 2), (9, 8, 5, 0, 0, WRITE, 2), (2, 6, 5, 0, 0, SYNC, 3))
    found, still = paired(begun, ends)
    assert sorted(zip(found["operation"], found["bytes"], strict=True)) == [(WRITE, 2), (WRITE, 4)]
    assert sorted(still["time_ns"]) == [4, 9]
    found, still = paired(still, events((10, 7, 5, 0, 0, SYNC, 3), (11, 9, 7, 0, 0, SYNC, 3)))
    assert found["bytes"].tolist() == [6]  # and that of the other thread was of another file


def test_an_object_with_several_files_has_one_row_a_second():
    rows = [IoRow(1.0, "t", "read", "session", 2, 20, 1), IoRow(1.0, "t", "read", "session", 3, 30, 2)]
    assert merged(rows) == [IoRow(1.0, "t", "read", "session", 5, 50, 3)]


def test_noise_is_no_change_of_the_load_and_a_change_is_found_where_it_was():
    random = np.random.default_rng(1)

    def rates(seconds, noise, after):
        slow = np.convolve(random.normal(size=seconds + 4), np.ones(5) / 5**0.5, "valid")
        return 1000 * np.where(np.arange(seconds) < seconds // 2, 1, after) * np.maximum(0, 1 + noise * slow)

    assert sum(load_change(rates(120, 0.2, 1)) is not None for _ in range(200)) <= 4
    found = [load_change(rates(120, 0.1, 2)) for _ in range(50)]
    assert sum(change is not None and abs(change.interval - 60) <= 3 for change in found) >= 45
    assert load_change([0.0] * 100) is None
