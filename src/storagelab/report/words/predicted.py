"""Shows predictions as text and tables, alone or beside measured results. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from storagelab.findings.beside import Beside
from storagelab.model.values import Estimate
from storagelab.predicting.prediction import PRESENT, LayoutPrediction, Prediction
from storagelab.report.document import MOST, Document, Heading, Ladder, Mark, Rung, Section, Table, paper
from storagelab.report.words.ladder import on_one_scale
from storagelab.words import numbers
from storagelab.words.names import listed


def predicted_paper(found: Prediction) -> Document:
    """Returns the report on a prediction: the verdict, the layouts, and each layout's load on its volumes."""
    tables = [_layouts(found).called("Layouts", ranks={"limited by": 1, "at most": 3})]
    tables += [_volumes(one).called(f"Volumes, {_name(one)}") for one in found.layouts if one.volumes]
    refused = [f"Can't say for {_name(one)}: {one.cant_say}." for one in found.layouts if one.cant_say]
    of = paper(f"Prediction from {found.capture}", "predicted", _verdict(found), [*refused, *found.notes], tables)
    told = [one for one in found.layouts if one.times_present is not None]
    known = [Speed((_name(one),), _times(one), f"limited by {one.limited_by}") for one in told]
    known.sort(key=lambda one: -one.times.value)
    return replace(of, ladders=ladder_of_speeds(known, "predicted rate, as times today's") if len(known) > 1 else ())


class Speed(NamedTuple):
    """A row of a ladder of speeds. `times`: the layout's speed divided by that of a reference layout. The reference
    layout itself has 1 without an interval.
    """

    name: tuple[str, ...]
    times: Estimate
    remark: str
    take: bool = False
    predicted: bool = True


def ladder_of_speeds(rows: Sequence[Speed], what: str) -> tuple[Ladder, ...]:
    """Returns a ladder of `rows`, which are sorted with the fastest first. Each ratio is a layout's time divided by
    that of the fastest layout, with the interval of the layout's own speed.
    """
    best = rows[0].times
    rungs = []
    for place, one in enumerate(rows):
        slower = best if one.times == Estimate(value=1.0) else _scaled(one.times.inverse, best.value)
        ratio = Estimate(value=1.0) if place == 0 else slower
        figure, verdict = f"{numbers.significant(one.times.value)} times", Mark("not-judged", one.remark)
        rungs.append(Rung(one.name, ratio, figure, verdict, recommended=one.take, predicted=one.predicted))
    return tuple(on_one_scale([Ladder("", what, 2, tuple(rungs), MOST)]))


def _scaled(one: Estimate, by: float) -> Estimate:
    low, high = (None if end is None else by * end for end in (one.low, one.high))
    return one.model_copy(update={"value": by * one.value, "low": low, "high": high})


def _verdict(found: Prediction) -> str:
    known = [one for one in found.layouts if one.times_present is not None]
    others = [one for one in known if one.name != PRESENT]
    if not known:
        return "Can't say: see below."
    if not others:
        return "There is only the captured layout. To predict others, add [layouts.NAME]."
    best = max(others, key=lambda one: _times(one).value)
    ratio = _times(best)
    figure = f"expect {times_text(ratio)} times today's rate"
    if ratio.low is None or ratio.high is None:
        return f"{best.name}: {figure}, without an interval: too few known cases."
    if ratio.low > 1:
        return f"{best.name} is faster than today's layout: {figure}."
    surely = "Today's layout is faster than all others" if ratio.high < 1 else "No layout is surely faster than today's"
    return f"{surely}. The best of the others is {best.name}: {figure}."


def _name(one: LayoutPrediction) -> str:
    """Returns the layout's name as `recommend` writes it."""
    return "today" if one.name == PRESENT else one.name


def _times(one: LayoutPrediction) -> Estimate:
    assert one.times_present is not None
    return one.times_present


def _layouts(found: Prediction) -> Table:
    unit = f"{found.unit}s/s, by the server" if found.captured_per_s is not None else "times today's rate"
    headings = [Heading("layout", "text"), Heading(unit, "text"), Heading("mean ms", "text"),
                Heading("times today's rate", "text"), Heading("at most", "number", "what no queue can exceed"),
                Heading("limited by", "prose")]  # fmt: skip
    return Table(headings, [_layout(one, counted=found.captured_per_s is not None) for one in found.layouts])


def _layout(one: LayoutPrediction, *, counted: bool) -> list[str]:
    if one.per_s is None or one.latency_s is None or one.times_present is None:
        return [_name(one), "can't say", "", "", "", ""]
    captured = " captured" if one.name == PRESENT else ""
    return [
        _name(one), times_text(one.per_s) + captured, times_text(_scaled(one.latency_s, 1e3)) if counted else "",
        times_text(one.times_present),
        "" if one.at_most_per_s is None else numbers.significant(one.at_most_per_s), one.limited_by,
    ]  # fmt: skip


def _volumes(one: LayoutPrediction) -> Table:
    headings = [Heading("volume", "text"), Heading("IO/s"), Heading("MB/s"), Heading("reads"),
                Heading("share of its limit")]  # fmt: skip
    rows = [
        [
            load.volume, numbers.significant(load.requests_per_s), numbers.significant(load.bytes_per_s / numbers.MB),
            "" if load.read_share is None else numbers.percent(load.read_share, 0),
            "can't say" if load.used_share is None else numbers.percent(min(1.0, load.used_share), 0),
        ]
        for load in one.volumes
    ]  # fmt: skip
    return Table(headings, rows)


CAPTION = "Predicted beside measured"


def beside_sentence(found: Beside, predicted: str, measured: str) -> str:
    """Says how well the order and the ratios were predicted, and which intervals missed the measured ratio."""
    if len(found.rows) < 2:
        return (
            f"{predicted} and {measured} share {numbers.plural(len(found.rows), 'layout')}: there is nothing to order."
        )
    pairs = numbers.plural(len(found.apart), "pair of layouts", "pairs of layouts")
    order = f"{measured} shows no difference between layouts, so no order can be checked"
    if found.apart:
        order = f"{predicted} has the right order in {found.right} of {pairs} that {measured} tells apart"
    ratios = ""
    if (error := found.median_error) is not None and (worst := found.worst) is not None:
        most = f"; at most {numbers.percent(abs(worst.error))}, {worst.name}" if len(found.rows) > 2 else ""
        ratios = f"; ratios are off by {numbers.percent(error)} (median{most})"
    if all(row.missed is None for row in found.rows):
        return f"{order}{ratios}."
    missed = listed([row.name for row in found.missed])
    return f"{order}{ratios}. " + (f"Missed: {missed}." if missed else "No interval is missed.")


def beside_table(found: Beside, names: Mapping[str, str]) -> Table:
    """Returns the table of layouts with their predicted and measured figures. `names` maps the ids of layouts to their
    texts.
    """
    headings = [Heading("layout", "prose"), Heading("measured", "text", f"its speed over that of {names[found.base]}"),
                Heading("predicted", "text"), Heading("off by", "number", "predicted over measured"),
                Heading("verdict", "text")]  # fmt: skip
    rows = [
        [
            names[row.name], times_text(row.measured), times_text(row.predicted),
            "" if row.name == found.base else numbers.signed_percent(1 + row.error), _VERDICTS[row.missed],
        ]
        for row in found.rows
    ]  # fmt: skip
    if not any(verdict for *_, verdict in rows):
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    return Table(headings, rows, f"{CAPTION}, times {names[found.base]}", {"verdict": 1})


_VERDICTS = {None: "", True: "missed", False: "agrees"}


def times_text(one: Estimate) -> str:
    """Writes a figure with its interval: "1.42 (95 %: 1.30 to 1.55)"."""
    interval = numbers.ends_in_brackets(one, numbers.significant, f"{one.confidence * 100:.0f} %: ")
    return f"{numbers.significant(one.value)}{interval}"


def with_beside(of: Document, found: Beside, names: Mapping[str, str], predicted: str, measured: str) -> Document:
    """Returns the report `of` a measured campaign with the prediction before it. Its ladder shows both."""
    opened = of.opened_by(beside_sentence(found, predicted, measured))
    first = Section("beside", "Predicted beside measured", [beside_table(found, names)])
    return replace(opened, sections=[first, *of.sections], ladders=_both(found, names))


def prediction_paper(
    found: Beside, names: Mapping[str, str], prediction: Prediction, campaign: str, alone: Sequence[str]
) -> Document:
    notes = [f"Only in the prediction: {', '.join(alone)}."] if alone else []
    notes += [f"Not predicted: {one.name}: {one.cant_say}." for one in prediction.layouts if one.cant_say]
    name = f"the prediction from {prediction.capture}"
    of = paper(f"{campaign} and {name}", "measured and predicted", "", notes, ())
    return with_beside(of, found, names, name, campaign)


def _both(found: Beside, names: Mapping[str, str]) -> tuple[Ladder, ...]:
    """Returns a ladder of the measured layouts, the fastest first. Each layout's prediction is in the row below it."""
    rows = []
    for one in sorted(found.rows, key=lambda row: -row.measured.value):
        told, base = _VERDICTS[one.missed], one.name == found.base
        rows.append(Speed((names[one.name], "" if base else "measured"), one.measured, "", predicted=False))
        rows += [] if base else [Speed((names[one.name], "predicted"), one.predicted, told)]
    return ladder_of_speeds(rows, f"speed, as times that of {names[found.base]}") if len(found.rows) > 1 else ()
