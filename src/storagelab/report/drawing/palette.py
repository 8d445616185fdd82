"""Defines the colours of charts. A colour has the same meaning in every chart, and each wait category has its own hue.

The colours are based on the set of Okabe and Ito ("Color Universal Design", 2008), so readers with any colour vision
can distinguish them. Each colour is visible on white and on the dark background of a page. The drawings are the same
for both. On a dark page, the page's style makes marks brighter if they have no text on them. Text and axes have the
colour of the surrounding text, which is black in files.
"""

from __future__ import annotations

from storagelab.model.waits import Category

INK = "currentColor"
GROUND = "#ffffff"
NEUTRAL = "#7d8792"
FASTER, SLOWER = "#009068", "#c8501e"

CATEGORY: dict[Category, str] = {
    "allocation": "#d55e00",
    "file-growth": "#c78500",
    "commit": "#0072b2",
    "log-buffer": "#3a93cc",
    "data-read": "#009068",
    "data-write": "#3a9d80",
    "page-latch": "#8a5cc0",
    "latch": "#c0679b",
    "lock": "#b04068",
    "network": "#8f8420",
    "cpu": "#6b7480",
    "cpu-queue": "#8a94a0",
    "other": "#b9bfc7",
}
LINES = ("#0072b2", "#d55e00", "#009068", "#c0679b", "#c78500", "#3a93cc", "#8a5cc0", "#6b7480")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
"""Each line has its own mark shape as well as its own colour."""


def shades(categories: list[Category]) -> list[str]:
    """Returns a colour for each wait type. `categories` are the types' categories. The first type of a category has the
    category's colour, the second a lighter one, the third a darker one.
    """
    seen: dict[Category, int] = {}
    colours = []
    for category in categories:
        rank = seen[category] = seen.get(category, -1) + 1
        toward = "#ffffff" if rank % 2 else "#000000"
        colours.append(mix(CATEGORY[category], toward, min(0.5, 0.15 * rank + 0.15 * (rank % 2))))
    return colours


def mix(colour: str, other: str, share: float) -> str:
    """Mixes `colour` with `other`. `share` is the fraction (0..1) of `other`. Colours are "#rrggbb"."""
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def ink_on(colour: str) -> str:
    """Returns black or white, whichever has more contrast with `colour` (WCAG 2.1)."""
    light = luminance(colour)
    return "#ffffff" if 1.05 / (light + 0.05) > (light + 0.05) / 0.05 else "#000000"


def luminance(colour: str) -> float:
    """Returns the relative luminance of a colour, 0 to 1."""
    red, green, blue = (_linear(value / 255) for value in _channels(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
