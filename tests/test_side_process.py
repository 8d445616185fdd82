"""Charts are drawn by a process of their own, and all the same without it."""

import os
import signal
import sys
import threading

import pytest

from storagelab.report.drawing import side_process as drawing
from storagelab.report.drawing.side_process import Drawing
from storagelab.report.drawing.vega import to_svg

pytestmark = pytest.mark.usefixtures("drawn_charts")

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


def begin_and_interrupt(drawing: Drawing) -> None:
    start = drawing._talk.start

    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        start()

    drawing._talk.start = interrupted
    drawing.begin(SPECS)


def test_ctrl_c_as_drawing_begins_waits_until_it_is_known_who_talks_to_the_process():
    given_up = Drawing()
    with pytest.raises(KeyboardInterrupt), given_up:
        begin_and_interrupt(given_up)
    assert given_up._begun
    assert given_up._process.returncode is not None


def test_ctrl_c_while_charts_are_waited_for_ends_the_process_and_breaks_nothing(monkeypatch):
    monkeypatch.setattr(drawing, "_COMMAND", [sys.executable, "-c", "import time; time.sleep(60)"])
    given_up = Drawing()
    with pytest.raises(KeyboardInterrupt), given_up:  # noqa: PT012 - it comes amid the last one
        given_up.begin(SPECS)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        given_up.svgs()
    assert given_up._ended.is_set()
    assert given_up._process.returncode == -signal.SIGKILL
