"""Drawings made small: they look the same and say the same."""

import re
from xml.etree import ElementTree

from builders import make_campaign

from storagelab.findings.analysis import analyse
from storagelab.report.charts import drawn_charts
from storagelab.report.drawing.slim import slimmed
from storagelab.report.drawing.vega import to_svg

NASTY = ' role="img" aria-label="no" d="M1.23456,0" <&>'


def drawings() -> tuple[str, str]:
    """FABRICATED: the same chart wide and narrow; one level looks like attributes."""
    experiment, plan, runs = make_campaign({"layout.data_files": [1, 2, 4], "layout.log": ["a", NASTY]}, 2)
    specs = drawn_charts(analyse(experiment, plan, runs), runs)["completion-time"].specs()
    return to_svg(specs["wide"]), to_svg(specs["narrow"])


def said(svg: str) -> list[str]:
    return re.findall(r'<(?:path|line) [^>]*aria-label="([^"]*)"', svg)


def texts(svg: str) -> list[str]:
    return ["".join(part.itertext()) for part in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_a_slim_drawing_says_and_shows_the_same_in_two_thirds_of_the_letters():
    wide, _ = drawings()
    slim = slimmed(wide)
    assert len(slim) < 0.67 * len(wide)
    assert texts(slim) == texts(wide)
    assert said(slim) == said(wide)
    assert len(said(slim)) > 12
    assert ElementTree.fromstring(slim).get("viewBox") == ElementTree.fromstring(wide).get("viewBox")


def test_places_are_kept_to_a_hundredth_of_a_pixel():
    assert slimmed('<path d="M1.23456,-0.0001L12e-7,3.5"/>') == '<path d="M1.23,0L0,3.5"/>'
    assert slimmed('<text opacity="0.12345">1.23456</text>') == '<text opacity="0.12345">1.23456</text>'
