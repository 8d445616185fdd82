"""Colours of charts: each can be seen on white and on the dark ground of a page, and numbers in bars can be read."""

import pytest

from storagelab.report.drawing import palette

DARK_GROUND = "#12161b"
"""--ground in page.css."""
COLOURS = sorted({*palette.CATEGORY.values(), *palette.LINES, palette.FASTER, palette.SLOWER, palette.NEUTRAL})
SHADES = palette.shades([*palette.CATEGORY] * 3)


def contrast(one: str, other: str) -> float:
    """WCAG 2.1."""
    low, high = sorted((palette.luminance(one), palette.luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("ground", [palette.GROUND, DARK_GROUND])
@pytest.mark.parametrize("colour", COLOURS)
def test_every_colour_stands_out_from_both_grounds(colour, ground):
    assert contrast(colour, ground) >= (1.8 if colour == palette.CATEGORY["other"] else 3)


@pytest.mark.parametrize("colour", SHADES)
def test_shades_can_be_seen_on_both_grounds_and_numbers_in_them_be_read(colour):
    assert min(contrast(colour, ground) for ground in (palette.GROUND, DARK_GROUND)) >= 1.3
    assert contrast(colour, palette.ink_on(colour)) >= 4.5
