"""The waterfall: how the time of a connection changes, step by step, from the best cell to the worst."""

from __future__ import annotations

from collections.abc import Sequence

from storagelab.findings.model import CellSummary, Findings
from storagelab.findings.why import Step, Waterfall, adds_up, between
from storagelab.model.measurement import Run
from storagelab.report.document import Table, bare
from storagelab.report.drawing import palette
from storagelab.report.drawing.chart import Chart, Figure, Row
from storagelab.report.drawing.layers import TIP, across, named_rows, readable_domain
from storagelab.report.drawing.vega import NARROW, Sheet, Spec, figure, finished
from storagelab.report.words import compared
from storagelab.report.words.why import SMALLER, folded, signed_seconds, thing_text, waterfall_table
from storagelab.words import numbers
from storagelab.words.names import cell_entry

MOST_STEPS = 9


def _found(findings: Findings) -> tuple[CellSummary, CellSummary, Waterfall] | None:
    """The fastest and the slowest cell, and what is between them; None where nothing is, or it adds up to nothing."""
    fastest, slowest = compared.ends(findings)
    if fastest is None or slowest is None or not adds_up(findings):
        return None
    if not compared.timed(findings) and any(cell.each_s is None for cell in findings.cells):
        return None  # each connection has the same set time in all cells
    waterfall = between(findings, fastest, slowest)
    return None if waterfall is None else (findings.cell(fastest), findings.cell(slowest), waterfall)


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """A bar for each of the two times, and between them one for each step, from where the step before it ended:
    `from_s` to `to_s`. The last step ends at the second time.
    """
    found = _found(findings)
    if found is None:
        return Figure(rows=[])
    before, after, waterfall = found
    rows, at_s = [_end(before, waterfall.before_s)], waterfall.before_s
    for step in folded(waterfall, MOST_STEPS):
        name, end_s = thing_text(step.thing), at_s + step.change.value
        rows.append(
            _bar(name, at_s, end_s, palette.CATEGORY[step.thing.category], signed_seconds(end_s - at_s), _tip(step))
        )
        at_s = end_s
    rows.append(_end(after, waterfall.after_s))
    return Figure(rows=rows, names="name")


def _end(cell: CellSummary, time_s: float) -> Row:
    name, time = cell_entry(cell.cell_id, cell.text), numbers.seconds(time_s)
    bar = _bar(name, 0.0, time_s, palette.NEUTRAL, time, f"{name}: {time}")
    return bar | {"cell_id": cell.cell_id, "cell": cell.text}


def _bar(name: str, from_s: float, to_s: float, colour: str, label: str, tip: str) -> Row:
    return {"name": name, "from_s": from_s, "to_s": to_s, "colour": colour, "label": label, "tip": tip,
            "right_s": max(from_s, to_s)}  # fmt: skip


def _tip(step: Step) -> str:
    interval = numbers.ends_in_brackets(step.change, signed_seconds, "joint 95 % CI ")
    from_to = f"{numbers.seconds(step.before_s) or '0 s'} to {numbers.seconds(step.after_s) or '0 s'}"
    return f"{thing_text(step.thing)}: {signed_seconds(step.change.value)}{interval} of each session's time, {from_to}"


def _draw(data: Figure, sheet: Sheet) -> Spec:
    y, row_px, _ = named_rows("name", data.starred(str(row["name"]) for row in data.rows), sheet.form.letters(0.38))
    (low, high), _ = _domain(data)
    room = (0.5 if sheet.form is NARROW else 0.12) * (high - low)  # for the label of the longest bar
    title = f"seconds of each connection ({sheet.where})"
    more = {"scale": {"domain": [low, high + room], "zero": False, "nice": False},
            "axis": across(sheet.form)}  # fmt: skip
    rows = [row | {"from_s": max(low, float(row["from_s"] or 0))} for row in data.rows]
    bar = {"x": figure("from_s", title, **more), "x2": {"field": "to_s"}, "color": {"field": "colour", "scale": None}}
    text = {"x": figure("right_s", title, **more), "text": {"field": "label"}}
    layers: list[Spec] = [
        {"mark": {"type": "bar", "minBandSize": 2, "height": {"band": 0.62}}, "encoding": TIP | {"y": y} | bar},
        {"mark": {"type": "text", "align": "left", "dx": 5, "aria": False}, "encoding": {"y": y} | text},
    ]
    return finished(sheet, layers, rows, height_px=row_px * len(rows))


def _domain(data: Figure) -> tuple[list[float], bool]:
    """The axis of the steps, and whether it starts at zero."""
    return readable_domain([float(row["to_s"] or 0) for row in data.rows])


def _finding(data: Figure, _findings: Findings) -> str:
    steps = [row for row in data.rows[1:-1] if row["name"] != SMALLER]
    most = max(steps, key=lambda row: abs(float(row["to_s"] or 0) - float(row["from_s"] or 0)), default=None)
    ends = f"From {data.rows[0]['tip']}, to {data.rows[-1]['tip']}"
    return f"{ends}: the largest step is {most['name']}, {most['label']}." if most else f"{ends}."


def _marks(data: Figure, findings: Findings) -> str:
    found = _found(findings)
    (low, _), from_zero = _domain(data)
    words = [
        "Seconds of the mean connection. Each bar begins where the one above it ends; together they are the whole "
        "difference. A wait's resource and signal time are apart: signal is time in the queue for a CPU.",
        "The two times can't be told apart, so neither can most of the steps."
        if found is not None and not found[2].differs else "",
        "" if from_zero else f"The axis starts at {bare(low)} s, not at zero.",
    ]  # fmt: skip
    return " ".join(filter(None, words))


def _table(data: Figure, findings: Findings) -> Table:
    found = _found(findings)
    assert found is not None
    return waterfall_table(found[2], str(data.rows[0]["name"]), str(data.rows[-1]["name"]))


CHART = Chart("waterfall", "waits", "From the fastest to the slowest", _rows, _draw, _finding, _marks, _table, place=1)
