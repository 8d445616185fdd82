"""Experiments on random drives: nothing outside of them is touched, whenever they are killed."""

from __future__ import annotations

import pytest

from bench.guest import absent
from bench.topologies import drawn, is_wrong


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_byte_outside_of_the_claimed_drives_changes_in_25_topologies(tmp_path):
    if reason := absent():
        pytest.skip(f"no guest: {reason}")
    found = drawn(tmp_path, 1, 25)
    assert [one for one in found if is_wrong(one)] == []
    assert len(found) == 25
    assert sum(one["changed_outside"] for one in found) == 0
    # The drawing shows something: drives were taken, experiments ended and were killed, and others were refused.
    assert sum(one["claimed"] for one in found) >= 8
    assert {one["told"].split(":")[0] for one in found} >= {"done", "killed", "refused"}
