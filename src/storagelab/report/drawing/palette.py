"""Colours that are the same in every chart: one hue per wait category, distinguishable with any colour vision.

Based on the set of Okabe and Ito ("Color Universal Design", 2008). In dark mode page.css replaces the neutral colours,
and `on_dark` converts the hues.
"""

from __future__ import annotations

from collections.abc import Iterable

from storagelab.model.waits import Category

INK, MUTED, GRID, GROUND = "#1f2328", "#59636e", "#dfe3e8", "#ffffff"
UNEXPLAINED = "#eceff3"
"""Time that no row explains, drawn as almost nothing."""
NEUTRAL = "#8a94a0"
FASTER, SLOWER = "#0b7f5f", "#c8501e"

CATEGORY: dict[Category, str] = {
    "allocation": "#d55e00",
    "file-growth": "#e69f00",
    "commit": "#0068a8",
    "log-buffer": "#56b4e9",
    "data-read": "#00795a",
    "data-write": "#5cc2a0",
    "page-latch": "#7a4fa3",
    "latch": "#cc79a7",
    "lock": "#8c2a4d",
    "network": "#c9b63c",
    "cpu": "#515a66",
    "cpu-queue": "#929ba7",
    "other": "#c3c9d0",
}
LINES = ("#0068a8", "#d55e00", "#00795a", "#cc79a7", "#e69f00", "#56b4e9", "#7a4fa3", "#6b7480")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
"""Each line has its own mark as well as its own colour."""


def shades(categories: list[Category]) -> list[str]:
    """One colour per wait type, by its category: the second type of a category is lighter, the third darker."""
    seen: dict[Category, int] = {}
    colours = []
    for category in categories:
        rank = seen.get(category, 0)
        seen[category] = rank + 1
        toward = "#ffffff" if rank % 2 else "#000000"
        colours.append(mix(CATEGORY[category], toward, 0.0 if rank == 0 else min(0.6, 0.25 + 0.15 * rank)))
    return colours


DARK_GROUND = "#12161b"
"""The page's background in dark mode."""


def on_dark(colour: str, least: float) -> str:
    """`colour` on a dark background: with as much white as gives it a contrast of `least` there (WCAG 2.1)."""
    ground = luminance(DARK_GROUND) + 0.05
    steps = (mix(colour, "#ffffff", share / 50) for share in range(51))
    return next(lighter for lighter in steps if (luminance(lighter) + 0.05) / ground >= least)


def mix(colour: str, other: str, share: float) -> str:
    """`colour` with a `share` (0..1) of `other`, both "#rrggbb"."""
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def ink_on(colour: str) -> str:
    """Black or white, whichever reads better on `colour` (WCAG 2.1)."""
    light = luminance(colour)
    return "#ffffff" if 1.05 / (light + 0.05) > (light + 0.05) / 0.05 else "#000000"


def luminance(colour: str) -> float:
    """Relative luminance, 0 to 1."""
    red, green, blue = (_linear(value / 255) for value in _channels(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


LINES_LEAST, WAITS_LEAST = 5.5, 3.4
"""Contrast with the background: of lines and points; and of bars, which carry white numbers that must be readable."""
_LINES = (*LINES, FASTER, SLOWER)


def dark_style(waits: Iterable[str]) -> str:
    """Rules for the colours of lines and, in the chart of waits, of `waits`."""
    rules = [*_rules(".chart svg", _LINES, LINES_LEAST), *_rules("#figure-waits svg", {*waits}, WAITS_LEAST)]
    return "\n".join(["@media screen and (prefers-color-scheme: dark) {", *rules, "}"])


def _rules(within: str, colours: Iterable[str], least: float) -> list[str]:
    return [
        f'  {within} [{what}="{colour}"] {{ {what}: {on_dark(colour, least)}; }}'
        for colour in sorted(set(colours)) for what in ("fill", "stroke")
        if colour != UNEXPLAINED
    ]  # fmt: skip
