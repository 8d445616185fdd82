"""The ladder as a file: layouts fastest first, each with its time over that of the fastest, as the answer shows it.

Pages show it as the answer itself, so it is drawn for files alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from storagelab.findings.answer import answer
from storagelab.findings.model import Findings
from storagelab.model.measurement import Run
from storagelab.report.document import Heading, Ladder, Rung, Table
from storagelab.report.drawing import palette
from storagelab.report.drawing.chart import ENDS, Chart, Figure, Row
from storagelab.report.drawing.layers import DOT, RULE, TIP, across, dashed, named_rows, only
from storagelab.report.drawing.vega import Sheet, Spec, figure, finished
from storagelab.report.words.answer import headline
from storagelab.report.words.ladder import ladders
from storagelab.words import numbers

MOST_PANELS = 6
_FAR = 0.55
"""Words stand to the left of a mark from here on, as a share of the axis, so that they end before it does."""
_COLOURS = {
    "fastest": palette.FASTER, "may-be-fastest": palette.FASTER, "slower": palette.SLOWER,
    "not-fastest": palette.NEUTRAL, "not-judged": palette.NEUTRAL,
}  # fmt: skip


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """A row for each layout, in the order of the answer; a panel for each load."""
    found = ladders(findings, answer(findings))
    rows = [_row(ladder, rung) for ladder in found[:MOST_PANELS] for rung in ladder.shown() if rung.ratio is not None]
    left = sum(rung.hidden for ladder in found[:MOST_PANELS] for rung in ladder.shown())
    left += sum(len(ladder.rungs) for ladder in found[MOST_PANELS:])
    return Figure(
        rows=rows, panels=[ladder.title for ladder in found[:MOST_PANELS]], names="layout",
        hidden=f"{numbers.plural(left, 'more layout is', 'more layouts are')} in the report." if left else "",
    )  # fmt: skip


def _row(ladder: Ladder, rung: Rung) -> Row:
    assert rung.ratio is not None
    name, verdict = ", ".join(filter(None, rung.name)), rung.verdict
    return {
        "layout": f"{name} ", "panel": ladder.title, "cell_id": rung.cell_id, "kind": verdict.kind,
        "mean": rung.ratio.value, "low": rung.ratio.low, "high": rung.ratio.high, "figure": rung.figure,
        "verdict": verdict.text, "tip": f"{name}: {ladder.ratio_text(rung)}, {rung.figure}, {verdict.text}",
        "label": f"{rung.figure}, {verdict.text}", "is_far": ladder.place(rung.ratio.value) > _FAR,
    }  # fmt: skip


def _draw(data: Figure, sheet: Sheet) -> Spec:
    panels = {panel: panel for panel in data.panels} if len(data.panels) > 1 else {}
    layouts = list(dict.fromkeys(str(row["layout"]) for row in data.rows))
    y, row_px, _ = named_rows("layout", data.starred(layouts), sheet.form.letters(0.4))
    colour = {"field": "kind", "type": "nominal", "legend": None,
              "scale": {"domain": list(_COLOURS), "range": list(_COLOURS.values())}}  # fmt: skip
    place, axis = {"y": y, "color": colour}, across(sheet.form, max(1, len(panels)))
    title, scale = f"time / fastest ({sheet.where})", {"type": "log", "nice": False, "padding": 12}
    words = {"type": "text", "dy": -row_px // 3, "fontSize": 12, "aria": False}
    sides = {"!datum.is_far": {"align": "left", "dx": 8}, "datum.is_far": {"align": "right", "dx": -8}}
    layers = [
        dashed("x", 1),
        {"mark": RULE, "encoding": place | TIP | {"x": figure("low", title, axis=axis, scale=scale),
                                                  "x2": {"field": "high"}}},
        {"mark": DOT, "encoding": place | TIP | {"x": figure("mean", title, axis=axis, scale=scale)}},
        *(only(rows, words | side, {"y": y, "x": figure("mean", title, axis=axis, scale=scale),
                                    "text": {"field": "label"}}) for rows, side in sides.items()),
    ]  # fmt: skip
    return finished(sheet, layers, data.rows, panels, height_px=(row_px + 14) * len(layouts))


def _table(data: Figure, _findings: Findings) -> Table:
    columns = {"mean": Heading("time / fastest"), **ENDS, "figure": Heading("mean", "text")}
    rows = [
        [str(row["layout"]), *("" if row[name] is None else str(row[name]) for name in columns), str(row["verdict"])]
        for row in data.rows
    ]
    return Table([Heading("layout", "prose"), *columns.values(), Heading("verdict", "text")], rows)


CHART = Chart(
    name="ladder",
    part="answer",
    title=lambda findings: findings.question or findings.experiment,
    rows=_rows,
    draw=_draw,
    finding=lambda _data, findings: headline(findings),
    marks=lambda _data, _findings: "Each layout's time over that of the fastest, with joint 95 % intervals.",
    table=_table,
)
