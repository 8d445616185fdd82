"""Steady state by the storage industry's rule, in made-up rates, and on a simulated drive that ages."""

import pytest
from raw_io_specs import parsed, runs_of

from storagelab.findings.analysis import analyse
from storagelab.findings.comparable import is_steady, rounds_of, steadiness
from storagelab.model.measurement import Measurement, TimeSeries
from storagelab.report.words.caution_texts import cautions_told
from storagelab.spec.matrix import expand


def run_with(*rates: float, requests: int = 100) -> Measurement:
    """FABRICATED."""
    series = (
        TimeSeries(at_s=tuple(range(1, len(rates) + 1)), columns={"requests_per_s": rates}) if rates else TimeSeries()
    )
    return Measurement(provenance="measured", elapsed_s=1, requests=requests, series=series)


def test_five_equal_rounds_are_steady_and_four_show_nothing():
    assert steadiness([500] * 5) == pytest.approx((0, 0))
    assert steadiness([500] * 4) is None


@pytest.mark.parametrize(
    ("rates", "steady"),
    [
        ([100, 109, 91, 100, 100], True),
        ([100, 111, 90, 100, 100], False),  # 21 % apart
        ([96, 98, 100, 102, 104], True),  # the line moves by 8 %
        ([94, 97, 100, 103, 106], False),  # by 12 %, within 20 %
        ([1000, 500, 100, 100, 100, 100, 100], True),  # only the last five count
    ],
)
def test_both_limits_of_the_rule_hold(rates, steady):
    assert steadiness(rates).steady is steady


def test_steady_state_is_not_claimed_before_it_is_reached():
    ageing = [1000, 800, 640, 500, 400, 320, 300, 300, 300, 300, 300]
    assert [number for number in range(5, 12) if steadiness(ageing[:number]).steady] == [10, 11]


def test_a_long_run_is_judged_by_tenths_and_a_short_one_by_seconds():
    assert rounds_of(run_with(*range(1, 41))) == [2.5 + 4 * number for number in range(10)]
    assert rounds_of(run_with(5, 6, 7)) == [5, 6, 7]


def test_every_run_of_a_cell_must_end_steady_and_without_series_the_repetitions_must():
    assert is_steady([run_with(*[500] * 5), run_with(*[500] * 5)]) is True
    assert is_steady([run_with(*[500] * 5), run_with(500, 400, 300, 200, 100)]) is False
    assert is_steady([run_with(requests=amount) for amount in (100, 101, 99, 100, 100)]) is True
    assert is_steady([run_with(requests=100)] * 4) is None


AGEING = """
name = "raw"
repetitions = 30
order = "as-listed"
target = { engine = "raw-io", scale = 256, prepared = "formatted" }
drives.card = { profile = "iodrive-320", format = "basic", driver = "2.2.3", sector_bytes = 512 }
volumes.a = { drives = ["card"] }
workload = { operation = "write", pattern = "random", block = "8KiB", outstanding = 8, duration = "150s" }
"""


def test_a_simulated_drive_that_ages_is_steady_only_after_its_fall(tmp_path):
    runs = runs_of(tmp_path, AGEING)
    rates = [run.measurement.work_per_s for run in runs]
    assert rates[0] > 1.5 * rates[-1], "it was formatted, so at first no page had to be moved"
    steady = [number for number in range(5, len(rates) + 1) if steadiness(rates[:number]).steady]
    reached = next((one for one in steady if steady[steady.index(one) :] == list(range(one, len(rates) + 1))), None)
    fallen = next(number for number, rate in enumerate(rates, 1) if rate < 1.1 * rates[-1])
    assert reached >= fallen, "not claimed while the rate still falls"

    experiment = parsed(tmp_path, AGEING)
    plan = expand(experiment)
    early = analyse(experiment, plan, runs[: max(5, fallen)])
    assert early.cells[0].steady is False
    assert any("not in steady state at the end" in text for _, text in cautions_told(early))
    assert analyse(experiment, plan, runs).cells[0].steady is True
