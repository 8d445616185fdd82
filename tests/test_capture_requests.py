"""What a capture makes of the kernel's events, and what it takes for a change of the load."""

import numpy as np

from storagelab.capture.attribution import load_change, paired
from storagelab.capture.folder import IoRow
from storagelab.capture.taking import merged
from storagelab.capture.tracing import _FORM, READ, SYNC, WRITE, put_together


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
