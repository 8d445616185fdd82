"""Charts in dark mode: every colour can be seen, and white numbers in bars can be read."""

import pytest

from storagelab.report.drawing import palette
from storagelab.report.drawing.palette import LINES_LEAST, WAITS_LEAST, dark_style

CATEGORIES = list(palette.CATEGORY)
EVERY_WAIT = sorted({*palette.CATEGORY.values(), *palette.shades([*CATEGORIES, *CATEGORIES, *CATEGORIES])})


def contrast(one: str, other: str) -> float:
    """WCAG 2.1."""
    low, high = sorted((palette.luminance(one), palette.luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", EVERY_WAIT)
def test_every_wait_stands_out_from_the_dark_ground_and_its_numbers_from_it(colour):
    shown = palette.on_dark(colour, WAITS_LEAST)
    assert contrast(shown, palette.DARK_GROUND) >= 3
    assert contrast(shown, palette.ink_on(colour)) >= 4.5


@pytest.mark.parametrize("colour", palette.LINES)
def test_every_line_stands_out_from_the_dark_ground(colour):
    assert contrast(palette.on_dark(colour, LINES_LEAST), palette.DARK_GROUND) >= LINES_LEAST


def test_the_style_has_a_rule_for_every_colour_and_keeps_the_ground_of_the_page():
    style = dark_style(["#515a66"])
    assert all(f'.chart svg [stroke="{colour}"]' in style for colour in palette.LINES)
    assert f'#figure-waits svg [fill="#515a66"] {{ fill: {palette.on_dark("#515a66", WAITS_LEAST)}; }}' in style
    assert palette.on_dark("#515a66", WAITS_LEAST) != "#515a66"
