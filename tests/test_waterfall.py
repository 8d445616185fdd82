"""The chart of the waterfall: each bar begins where the one before it ends, and the last one at the second time."""

import itertools

import pytest
from builders import analysed

from storagelab.report.charts import waits

FILES = "layout.data_files"


def findings_of(most_s=16):
    return analysed({FILES: [1, 2, 4, 8]}, elapsed=lambda levels, n: most_s - levels[FILES] + n / 50)


def test_the_bars_lead_from_the_shortest_time_to_the_longest():
    drawn = waits.CHARTS[1].of(findings_of(), ())
    first, *steps, last = drawn.data.rows
    assert str(first["name"]).startswith("cell-004: 8 data files")
    assert steps[0]["from_s"] == first["to_s"]
    for one, other in itertools.pairwise(steps):
        assert other["from_s"] == one["to_s"]
    assert steps[-1]["to_s"] == pytest.approx(last["to_s"])
    assert len({row["name"] for row in drawn.data.rows}) == len(drawn.data.rows)


def test_the_axis_starts_at_zero_or_says_where_it_does_start():
    for most_s in (16, 100):
        x = waits.CHARTS[1].of(findings_of(most_s), ()).specs()["wide"]["layer"][0]["encoding"]["x"]
        starts = x["scale"]["domain"][0] > 0
        assert [starts, "not from zero" in " ".join(x["title"])] == [most_s == 100] * 2


def test_the_table_adds_up_as_the_bars_do():
    drawn = waits.CHARTS[1].of(findings_of(), ())
    *steps, total = [float(row[3].replace(",", "")) for row in drawn.table.rows]
    assert sum(steps) == pytest.approx(total, abs=0.01 * len(steps))
