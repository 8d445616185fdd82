"""Sizes and durations as people write them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storagelab.spec.units import BYTES_PER_UNIT, SECONDS_PER_UNIT, parse_bytes, parse_seconds


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0), ("512", 512), ("512b", 512), ("8kB", 8192), ("64MB", 67_108_864), ("64 MiB", 67_108_864),
        (" 1.5 GB ", 1_610_612_736), ("1TiB", 1_099_511_627_776),
    ],
)  # fmt: skip
def test_a_size_is_read_in_the_units_of_databases(text: str, size_bytes: int) -> None:
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "duration_s"),
    [("250us", 0.00025), ("500ms", 0.5), ("2 s", 2), ("5min", 300), ("1.5h", 5400), ("1d", 86400)],
)
def test_a_duration_is_read_in_seconds(text: str, duration_s: float) -> None:
    assert parse_seconds(text) == pytest.approx(duration_s)


@given(st.integers(0, 10**6), st.sampled_from(sorted(BYTES_PER_UNIT)))
def test_a_whole_number_of_any_unit_of_size_is_exact_in_any_case(number: int, unit: str) -> None:
    assert parse_bytes(f"{number}{unit}") == parse_bytes(f"{number} {unit.upper()}") == number * BYTES_PER_UNIT[unit]


@given(st.integers(0, 10**6), st.sampled_from(sorted(SECONDS_PER_UNIT)))
def test_a_longer_duration_is_never_read_as_a_shorter_one(number: int, unit: str) -> None:
    assert parse_seconds(f"{number + 1}{unit}") > parse_seconds(f"{number}{unit}") >= 0


@pytest.mark.parametrize(
    "text", ["", "MB", "-5MB", "5 parsecs", "5 M", "1e3MB", "1,5GB", "64MB 3", "0x10", "nan", "inf", "\uff16\uff14MB"]
)
def test_a_size_that_can_t_be_read_is_refused_naming_the_known_units(text: str) -> None:
    with pytest.raises(ValueError, match=r"write a number and one of b, kb, mb, gb, tb, kib, mib, gib, tib"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["", "5", "-5s", "5 parsecs", "5MB", "1m", "s"])
def test_a_duration_that_can_t_be_read_is_refused_naming_the_known_units(text: str) -> None:
    with pytest.raises(ValueError, match=r"write a number and one of us, ms, s, min, h, d"):
        parse_seconds(text)


def test_a_quantity_beyond_all_bounds_is_refused() -> None:
    for read in (parse_bytes, parse_seconds):
        with pytest.raises(ValueError, match="out of range"):
            read("9" * 400 + ("TB" if read is parse_bytes else "d"))


@given(st.text(max_size=20))
def test_any_text_is_either_read_or_refused(text: str) -> None:
    for read in (parse_bytes, parse_seconds):
        with contextlib.suppress(ValueError):
            assert read(text) >= 0
