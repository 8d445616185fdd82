"""Numbers as text: units, honest digits, and nothing where nothing is known."""

import json
import re

import pytest
from fabricated_findings import golden
from hypothesis import given
from hypothesis import strategies as st

from storagelab.findings.model import Estimate
from storagelab.words import numbers as n


def estimate(low, value, high):
    return Estimate(value=value, low=low, high=high)


SAID = json.loads(golden("numbers", "json").read_text("utf-8"))


def said_of(case) -> str:
    """Three figures are the low end, the value and the high end of an estimate."""
    given = [estimate(*one) if isinstance(one, list) else one for one in case["of"]]
    return getattr(n, case["number"])(*given)


@pytest.mark.parametrize("case", SAID, ids=lambda case: f"{case['number']} of {case['of']}")
def test_a_number_is_said_as_it_was(case):
    assert said_of(case) == case["says"]


@pytest.mark.parametrize("formatter", [n.seconds, n.duration, n.percent, n.change, n.rows_per_s, n.count, n.bytes_])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_figure_that_is_no_number_is_left_empty(formatter, value):
    assert formatter(value) == ""


def test_a_comparison_turned_round_keeps_its_meaning():
    assert n.change_estimate(estimate(1.25, 2.0, 4.0).inverse) == "50 % less time (joint 95 % CI 20 to 75 %)"


def test_numbers_stay_with_their_units_when_lines_are_wrapped():
    glued = n.keep_together("took 2.41 s (95 % CI 2.36 to 2.47 s) with 4 data files at 3 rows/s")
    assert re.findall(r"\S+ \S+", glued.replace("\u00a0", "~"))
    assert "2.41\u00a0s" in glued
    assert "95\u00a0%\u00a0CI" in glued
    assert "4\u00a0data files" in glued
    assert glued.replace("\u00a0", " ") == "took 2.41 s (95 % CI 2.36 to 2.47 s) with 4 data files at 3 rows/s"


@given(value=st.floats(1e-9, 1e9), width=st.floats(1e-6, 10))
def test_what_is_shown_lies_within_the_interval_it_is_shown_with(value, width):
    half = value * width
    text = n.seconds_estimate(estimate(value - half, value, value + half))
    shown, low, high = (
        float(part.replace(",", ""))
        for part in re.findall(r"(?<![\d])-?[\d,]*\.?\d+(?= |\))", text.replace("95 % CI", ""))
    )
    assert low <= shown <= high
    unit = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[text.split(" ")[1]]
    assert shown * unit == pytest.approx(value, rel=0.06)
