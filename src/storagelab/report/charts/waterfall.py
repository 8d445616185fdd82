"""The waterfall: how the time of a connection changes, step by step, from the best cell to the worst.

waterfall_rows(waterfall, before, after)   the rows, for any two cells
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from storagelab.findings.model import Findings
from storagelab.findings.why import Step, Waterfall, adds_up, between
from storagelab.model.measurement import Run
from storagelab.report.document import Table
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import Arrangement
from storagelab.report.drawing.chart import Chart, Figure, Row
from storagelab.report.drawing.layers import TIP
from storagelab.report.drawing.vega import NARROW, WIDE, Sheet, Spec, finished, in_lines
from storagelab.report.words import compared
from storagelab.report.words.why import folded, signed_seconds, thing_text, waterfall_table
from storagelab.words import numbers
from storagelab.words.names import cell_entry

MOST_STEPS = 9
_CHARACTERS_OF_A_LABEL = 30
_CHARACTERS_OF_A_NARROW_LABEL = 20


def waterfall_rows(waterfall: Waterfall, before: str, after: str) -> list[Row]:
    """A bar for each of the two times, and between them one for each step, from where the step before it ended:
    `from_s` to `to_s`. The last step ends at the second time.
    """
    rows = [_row(before, 0.0, waterfall.before_s, palette.INK, f"{before}: {numbers.seconds(waterfall.before_s)}")]
    at_s = waterfall.before_s
    for step in folded(waterfall, MOST_STEPS):
        end_s = at_s + step.change.value
        rows.append(_row(thing_text(step.thing), at_s, end_s, palette.CATEGORY[step.thing.category], _tip(step)))
        at_s = end_s
    rows.append(_row(after, 0.0, waterfall.after_s, palette.INK, f"{after}: {numbers.seconds(waterfall.after_s)}"))
    return rows


def _row(name: str, from_s: float, to_s: float, colour: str, tip: str) -> Row:
    return {
        "name": name, "from_s": from_s, "to_s": to_s, "colour": colour, "tip": tip,
        "label": signed_seconds(to_s - from_s) if from_s else numbers.seconds(to_s),
        "right_s": max(from_s, to_s),
    }  # fmt: skip


def _tip(step: Step) -> str:
    interval = numbers.ends_in_brackets(step.change, signed_seconds, "joint 95 % CI ")
    from_to = f"{numbers.seconds(step.before_s) or '0 s'} to {numbers.seconds(step.after_s) or '0 s'}"
    return f"{thing_text(step.thing)}: {signed_seconds(step.change.value)}{interval} of each session's time, {from_to}"


def _ends_of(findings: Findings) -> tuple[str, str, Waterfall] | None:
    fastest, slowest = compared.ends(findings)
    if fastest is None or slowest is None or not adds_up(findings):
        return None
    if not compared.timed(findings) and any(cell.each_s is None for cell in findings.cells):
        return None  # each connection has the same set time in all cells
    waterfall = between(findings, fastest, slowest)
    names = [cell_entry(cell_id, findings.cell(cell_id).text) for cell_id in (fastest, slowest)]
    return None if waterfall is None else (names[0], names[1], waterfall)


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    found = _ends_of(findings)
    rows = [] if found is None else waterfall_rows(found[2], found[0], found[1])
    return Figure(rows=rows, arrangement=Arrangement(x=None, lines=(), panels=()))


def _draw(data: Figure, sheet: Sheet) -> Spec:
    form, where = sheet.form, sheet.where
    names = [str(row["name"]) for row in data.rows]
    width = _CHARACTERS_OF_A_LABEL if form is WIDE else _CHARACTERS_OF_A_NARROW_LABEL
    lines = {name: textwrap.wrap(name, width, break_long_words=False)[:4] or [name] for name in names}
    label_px = min(form.width_px * 45 // 100, 8 * max(len(line) for of_name in lines.values() for line in of_name))
    look = {"labelColor": palette.INK, "labelExpr": in_lines(lines)}
    axis: Spec = {"labelLimit": label_px, "minExtent": label_px, **look}
    y = {"field": "name", "type": "nominal", "sort": names, "title": None, "axis": axis}
    x = {"type": "quantitative", "title": f"seconds of each connection ({where})",
         "axis": {"tickCount": 8 if form is WIDE else 4}}  # fmt: skip
    layers: list[Spec] = [
        {"mark": {"type": "bar", "minBandSize": 2, "height": {"band": 0.62}},
         "encoding": TIP | {"y": y, "x": x | {"field": "from_s"}, "x2": {"field": "to_s"},
                             "color": {"field": "colour", "type": "nominal", "scale": None}}},
        {"mark": {"type": "text", "align": "left", "dx": 5, "fontSize": form.font_px - 2, "aria": False,
                  "color": palette.INK},
         "encoding": {"y": y, "x": x | {"field": "right_s"}, "text": {"field": "label"}}},
    ]  # fmt: skip
    height_px = (12 + 13 * max(map(len, lines.values()))) * len(names)
    spec = finished(sheet, "", layers, data.rows, [], height_px)
    return spec | {"width": form.width_px - label_px - (90 if form is not NARROW else 70)}


def _caption(_data: Figure, findings: Findings) -> str:
    found = _ends_of(findings)
    tested = " The two times can't be told apart, so neither can most of the steps."
    tested = "" if found is not None and found[2].differs else tested
    return (
        "From the shortest mean time to the longest, in seconds of the mean connection. Each bar begins where the one "
        "above it ends; together they are the whole difference. A wait's resource and signal time are apart: signal "
        f"is time in the queue for a CPU.{tested}"
    )


def _table(_data: Figure, findings: Findings) -> Table:
    found = _ends_of(findings)
    assert found is not None
    before, after, waterfall = found
    return waterfall_table(waterfall, before, after)


CHART = Chart(
    name="waterfall",
    part="waits",
    place=1,
    title="From the fastest to the slowest",
    rows=_rows,
    draw=_draw,
    caption=_caption,
    table=_table,
    words=lambda data, _findings: "; ".join(str(row["tip"]) for row in data.rows) + ".",
)
