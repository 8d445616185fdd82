"""The charts' colours in dark mode, as a style: the drawings hold those of paper, which are too dark for a dark ground."""

from __future__ import annotations

from collections.abc import Iterable

from storagelab.report.drawing import palette

LINES_LEAST, WAITS_LEAST = 5.5, 3.4
"""Contrast with the ground: of lines and points, and of bars, on which white numbers have to be read as well."""
_LINES = (*palette.LINES, palette.FASTER, palette.SLOWER)


def dark_style(waits: Iterable[str]) -> str:
    """Rules for the colours of lines and, in the chart of waits, for `waits`."""
    rules = [*_rules(".chart svg", _LINES, LINES_LEAST), *_rules("#figure-waits svg", {*waits}, WAITS_LEAST)]
    return "\n".join(["@media screen and (prefers-color-scheme: dark) {", *rules, "}"])


def _rules(within: str, colours: Iterable[str], least: float) -> list[str]:
    return [
        f'  {within} [{what}="{colour}"] {{ {what}: {palette.on_dark(colour, least)}; }}'
        for colour in sorted(set(colours)) for what in ("fill", "stroke")
        if colour != palette.UNEXPLAINED
    ]  # fmt: skip
