"""Numbers as text: units, honest digits, and nothing where nothing is known."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storagelab.findings.model import Estimate
from storagelab.words import numbers as n


def estimate(low, value, high):
    return Estimate(value=value, low=low, high=high)


@pytest.mark.parametrize(
    "formatter",
    [
        n.seconds,
        n.duration,
        n.percent,
        n.signed_percent,
        n.change,
        n.rows_per_s,
        n.count,
        n.bytes_,
        n.seconds_estimate,
        n.seconds_interval,
        n.rows_per_s_estimate,
        n.ratio_interval,
        n.change_estimate,
        n.signed_estimate,
    ],
)
def test_what_is_not_known_is_left_empty_and_never_zero(formatter):
    assert formatter(None) == ""


@pytest.mark.parametrize("formatter", [n.seconds, n.duration, n.percent, n.change, n.rows_per_s, n.count, n.bytes_])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_figure_that_is_no_number_is_left_empty(formatter, value):
    assert formatter(value) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.4137, "2.41 s"),
        (83.25, "83.2 s"),
        (0.083, "83.0 ms"),
        (5.23e-6, "5.23 µs"),
        (4e-9, "4.00 ns"),
        (12345.6, "12,346 s"),
        (0.0, "0 s"),
        (0.5, "0.500 s"),
    ],
)
def test_seconds_take_the_unit_that_reads_best(value, text):
    assert n.seconds(value) == text


def test_the_interval_decides_how_many_digits_a_time_has():
    assert n.seconds_estimate(estimate(2.358, 2.4137, 2.469)) == "2.41 s (95 % CI 2.36 to 2.47 s)"
    assert n.seconds_estimate(estimate(2.4121, 2.4137, 2.4153)) == "2.4137 s (95 % CI 2.4121 to 2.4153 s)"
    assert n.seconds_estimate(estimate(-1, 2.4137, 6)) == "2.4 s (95 % CI -1.0 to 6.0 s)"


def test_a_time_without_an_interval_says_why():
    assert n.seconds_estimate(Estimate(value=2.41)) == "2.41 s (no interval: too few runs)"


def test_both_ends_of_a_range_have_one_unit():
    assert n.seconds_range(0.095, 0.31) == "0.095 to 0.310 s"
    assert n.seconds_range(2.41, 2.5) == "2.41 to 2.50 s"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.4, "0.400 s"),
        (7, "7 s"),
        (7.25, "7.2 s"),
        (45.2, "45 s"),
        (59.7, "1 min"),
        (200, "3 min 20 s"),
        (7800, "2 h 10 min"),
        (3599.8, "1 h"),
        (7199, "2 h"),
        (273600, "3 d 4 h"),
    ],
)
def test_a_duration_is_rounded_as_people_plan(value, text):
    assert n.duration(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.25, "25 %"),
        (0.0213, "2.1 %"),
        (0.02, "2 %"),
        (0.0004, "less than 0.1 %"),
        (0.0, "0 %"),
        (0.0996, "10 %"),
        (1.5, "150 %"),
    ],
)
def test_a_share_is_shown_in_percent(share, text):
    assert n.percent(share) == text


@pytest.mark.parametrize(
    ("ratio", "words", "signed"),
    [
        (0.82, "18 % less time", "-18 %"),
        (1.22, "22 % more time", "+22 %"),
        (2.4, "2.4 times as long", "x 2.4"),
        (1.0, "less than 0.1 % apart in time", "0 %"),
        (0.985, "1.5 % less time", "-1.5 %"),
    ],
)
def test_a_ratio_of_times_reads_as_a_change(ratio, words, signed):
    assert n.change(ratio) == words
    assert n.signed_percent(ratio) == signed


def test_a_change_carries_its_interval():
    assert n.change_estimate(estimate(1.17, 1.22, 1.27)) == "22 % more time (joint 95 % CI 17 to 27 %)"
    assert n.change_estimate(estimate(0.77, 0.82, 0.87)) == "18 % less time (joint 95 % CI 13 to 23 %)"
    assert n.change_estimate(estimate(0.98, 1.03, 1.08)) == "3 % more time (joint 95 % CI 2 % less to 8 % more)"
    assert n.change_estimate(estimate(2.1, 2.4, 2.7)) == "2.4 times as long (joint 95 % CI 2.1 to 2.7)"
    assert n.signed_estimate(estimate(1.17, 1.22, 1.27)) == "+22 % (17 to 27 %)"
    assert n.signed_estimate(estimate(2.1, 2.4, 2.7)) == "x 2.4 (2.1 to 2.7)"


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((0.0032, 24.0, 180_000), "joint 95 % CI too wide to say"),
        ((0.5, 1.2, 2.9), "joint 95 % CI 50 % less to 2.9 times"),
        ((0.5, 1.9, 30), "joint 95 % CI 50 % less to more than 10 times"),
        ((1.3, 20, 400), "joint 95 % CI at least 30 % more"),
        ((4.0, 40, 900), "joint 95 % CI at least 4.0 times"),
        ((0.001, 0.02, 0.4), "joint 95 % CI at least 60 % less"),
        ((0.998, 1.31, 1.73), "joint 95 % CI 0 to 73 % more"),
        ((0.5, 0.8, 1.0), "joint 95 % CI 0 to 50 % less"),
        ((0.9999, 1.3, 2.5), "joint 95 % CI 0 to 2.5 times"),
        ((1.0002, 1.3, 2.5), "joint 95 % CI less than 0.1 % more to 2.5 times"),
        ((0.9998, 1.0, 1.0003), "joint 95 % CI less than 0.1 % either way"),
    ],
)
def test_an_interval_of_a_ratio_shows_no_absurd_figure(ends, text):
    assert n.ratio_interval(estimate(*ends)) == text


def test_a_change_of_time_per_row_says_so():
    assert (
        n.change_estimate(estimate(1.17, 1.22, 1.27), " per row") == "22 % more time per row (joint 95 % CI 17 to 27 %)"
    )
    assert n.change(2.4, per=" per row") == "2.4 times as long per row"


def test_a_narrow_interval_earns_a_change_one_more_digit():
    assert n.change_estimate(estimate(1.018, 1.021, 1.024)) == "2.1 % more time (joint 95 % CI 1.8 to 2.4 %)"


def test_a_comparison_turned_round_keeps_its_meaning():
    assert n.change_estimate(estimate(1.25, 2.0, 4.0).inverse) == "50 % less time (joint 95 % CI 20 to 75 %)"


@pytest.mark.parametrize(
    ("value", "text"),
    [(189734.2, "190,000 rows/s"), (1234567, "1,230,000 rows/s"), (87.654, "87.7 rows/s"), (0, "0 rows/s")],
)
def test_throughput_has_three_digits(value, text):
    assert n.rows_per_s(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(512, "512 bytes"), (64 * 2**20, "64 MiB"), (1.5 * 2**30, "1.5 GiB"), (0, "0 bytes"), (2**60, "1,024 PiB")],
)
def test_bytes_are_counted_in_steps_of_1024_and_their_units_say_so(value, text):
    assert n.bytes_(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1234567, "1,234,567"), (2.34, "2.3"), (0.01, "<0.1"), (12.3, "12"), (0, "0")]
)
def test_counts_are_grouped_by_thousands(value, text):
    assert n.count(value) == text


def test_a_cell_of_a_table_never_shows_a_small_time_as_zero():
    assert n.seconds_number(0.0004, 2) == "<0.01"
    assert n.seconds_number(0.0, 2) == "0.00"
    assert n.seconds_number(None, 2) == ""


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


@pytest.mark.parametrize(
    ("low", "value", "high", "text"),
    [
        (0.0001, 0.0002, 0.0003, "less than 0.1 % (95 % CI, too)"),
        (0.0001, 0.0006, 0.0011, "less than 0.1 % (95 % CI 0.0 to 0.1 %)"),
        (0.26, 0.29, 0.32, "29 % (95 % CI 26 to 32 %)"),
    ],
)
def test_a_share_has_no_interval_from_nothing_to_nothing(low, value, high, text):
    assert n.share_estimate(estimate(low, value, high)) == text


def test_room_on_a_drive_is_counted_as_its_maker_does():
    assert n.capacity(300_000_000_000) == "300 GB"
    assert n.capacity(1_000_204_886_016) == "1 TB"
    assert n.capacity(299_966_445_568) == "300 GB"
    assert n.capacity(151_234_567_890) == "151 GB"
    assert n.capacity(None) == ""
