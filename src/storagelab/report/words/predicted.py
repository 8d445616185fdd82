"""A prediction in words and as tables. Pure."""

from __future__ import annotations

from storagelab.model.values import Estimate
from storagelab.predicting.prediction import PRESENT, LayoutPrediction, Prediction
from storagelab.report.words.table import Heading, Paper, Part, Table
from storagelab.words import numbers

_MB = 1e6


def predicted_paper(found: Prediction) -> Paper:
    """Verdict, layouts, and what each does to its volumes."""
    parts = [Part("Layouts", _layouts(found), {"limited by": 1, "at most": 3})]
    parts += [Part(f"Volumes, {one.name}", _volumes(one)) for one in found.layouts if one.volumes]
    refused = [f"Can't say for {one.name}: {one.cant_say}." for one in found.layouts if one.cant_say]
    return Paper(f"Prediction from {found.capture}", "predicted", _verdict(found), [*refused, *found.notes], parts)


def _verdict(found: Prediction) -> str:
    known = [one for one in found.layouts if one.times_present is not None]
    others = [one for one in known if one.name != PRESENT]
    if not known:
        return "Can't say: see below."
    if not others:
        return "The captured layout alone: name others in [layouts.NAME] to have them predicted."
    best = max(others, key=lambda one: _times(one).value)
    ratio = _times(best)
    words = f"Expect {_in_words(ratio)} of the captured rate from {best.name}"
    if ratio.low is None or ratio.high is None:
        return f"{words}, without an interval: too few known answers."
    if ratio.low <= 1 <= ratio.high or ratio.value < 1:
        better = "no layout is surely faster than the captured one"
        return f"{words}; {better}: the interval holds no change." if ratio.high >= 1 else f"{words}: {better}."
    return f"{words}: faster than the captured layout."


def _times(one: LayoutPrediction) -> Estimate:
    assert one.times_present is not None
    return one.times_present


def _in_words(ratio: Estimate) -> str:
    return f"{numbers.significant(ratio.value)} times{_interval(ratio)}"


def _interval(one: Estimate, times: float = 1.0) -> str:
    if one.low is None or one.high is None:
        return ""
    ends = " to ".join(numbers.significant(end * times) for end in (one.low, one.high))
    return f" ({one.confidence:.0%} {ends})".replace("%", " %")


def _layouts(found: Prediction) -> Table:
    unit = f"{found.unit}s/s, by the server" if found.captured_per_s is not None else "times the captured rate"
    headings = [Heading("layout", "text"), Heading(unit, "text"), Heading("mean ms", "text"),
                Heading("times present", "text"), Heading("at most", "number", "what no queue can exceed"),
                Heading("limited by", "prose")]  # fmt: skip
    return Table(headings, [_layout(one, counted=found.captured_per_s is not None) for one in found.layouts])


def _layout(one: LayoutPrediction, *, counted: bool) -> list[str]:
    if one.per_s is None or one.latency_s is None or one.times_present is None:
        return [one.name, "can't say", "", "", "", ""]
    captured = " captured" if one.name == PRESENT else ""
    return [
        one.name, numbers.significant(one.per_s.value) + _interval(one.per_s) + captured,
        numbers.significant(one.latency_s.value * 1e3) + _interval(one.latency_s, 1e3) if counted else "",
        numbers.significant(one.times_present.value) + _interval(one.times_present),
        "" if one.at_most_per_s is None else numbers.significant(one.at_most_per_s), one.limited_by,
    ]  # fmt: skip


def _volumes(one: LayoutPrediction) -> Table:
    headings = [Heading("volume", "text"), Heading("IO/s"), Heading("MB/s"), Heading("reads"),
                Heading("of what it can take")]  # fmt: skip
    rows = [
        [
            load.volume, numbers.significant(load.requests_per_s), numbers.significant(load.bytes_per_s / _MB),
            "" if load.read_share is None else numbers.percent(load.read_share, 0),
            "can't say" if load.used_share is None else numbers.percent(load.used_share, 0),
        ]
        for load in one.volumes
    ]  # fmt: skip
    return Table(headings, rows)
