"""Charts are drawn by a process of their own, and all the same without it."""

import signal
import sys

import pytest

from storagelab.report import drawing
from storagelab.report.drawing import Drawing
from storagelab.report.vega import to_svg

SPECS = {
    name: {"mark": mark, "data": {"values": [{"x": 1}, {"x": 2}]}, "encoding": {"x": {"field": "x", "type": "ordinal"}}}
    for name, mark in {"points-wide": "point", "bars-narrow": "bar"}.items()
}


def test_another_process_draws_what_this_one_would():
    with Drawing() as drawn_beside:
        drawn_beside.begin(SPECS)
        assert drawn_beside.svgs() == {name: to_svg(spec) for name, spec in SPECS.items()}


@pytest.mark.parametrize("command", ["raise SystemExit(3)", "import sys; sys.stdin.buffer.read(); raise SystemExit(3)"])
def test_charts_are_drawn_here_if_the_other_process_fails(monkeypatch, command):
    monkeypatch.setattr(drawing, "_COMMAND", [sys.executable, "-c", command])
    with Drawing() as drawn_here:
        drawn_here.begin(SPECS)
        assert drawn_here.svgs() == {name: to_svg(spec) for name, spec in SPECS.items()}


def test_charts_are_drawn_here_if_no_other_process_can_be_started(monkeypatch, tmp_path):
    monkeypatch.setattr(drawing, "_COMMAND", [str(tmp_path / "no such program")])
    with Drawing() as drawn_here:
        drawn_here.begin(SPECS)
        assert drawn_here.svgs() == {name: to_svg(spec) for name, spec in SPECS.items()}


@pytest.mark.parametrize("specs", [None, SPECS])
def test_a_process_that_is_not_wanted_any_more_is_ended(specs):
    with Drawing() as given_up:
        if specs is not None:
            given_up.begin(specs)
    assert given_up._process.returncode is not None


def test_ctrl_c_as_drawing_begins_waits_until_it_is_known_who_talks_to_the_process(monkeypatch):
    with pytest.raises(KeyboardInterrupt), Drawing() as given_up:
        start = given_up._talk.start
        monkeypatch.setattr(given_up._talk, "start", lambda: (signal.raise_signal(signal.SIGINT), start()))
        given_up.begin(SPECS)
    assert given_up._talk.ident is not None
    assert given_up._process.returncode is not None
