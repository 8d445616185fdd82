"""The answer's ladder as a chart for files. It shows the layouts, the fastest first. Each layout's figure is its time
divided by that of the fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from storagelab.findings.answer import answer
from storagelab.findings.model import Findings
from storagelab.model.measurement import Run
from storagelab.report.document import Heading, Ladder, Rung
from storagelab.report.drawing.arrange import MAX_PANELS, in_order
from storagelab.report.drawing.chart import ENDS, Chart, Figure, Row, not_drawn, scaled, table_of
from storagelab.report.drawing.layers import FIELDS, axis_of, ratios
from storagelab.report.words.answer import headline
from storagelab.report.words.ladder import ladders


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """Returns a row for each layout, in the order of the answer. Each load has a panel."""
    found = ladders(findings, answer(findings))
    drawn, rest = found[:MAX_PANELS], found[MAX_PANELS:]
    shown = [(ladder, rung) for ladder in drawn for rung in ladder.shown()]
    # If there is only one ladder, layouts that share a row have this row in the chart, too.
    alone = len(found) == 1 and any(rung.ratio for _, rung in shown)
    rows = [_row(ladder, rung, alone=alone) for ladder, rung in shown if alone or rung.ratio is not None]
    left = sum(rung.hidden or rung.ratio is None for _, rung in shown) + sum(len(one.rungs) for one in rest)
    return Figure(
        rows=rows, x_levels=in_order(str(row["x"]) for row in rows),
        panels=in_order(str(row["panel"]) for row in rows), hidden=not_drawn(left, [one.title for one in rest]),
    )  # fmt: skip


def _row(ladder: Ladder, rung: Rung, *, alone: bool) -> Row:
    """Returns the row of a layout. If the ladder is `alone`, the name is followed by the figure and the verdict."""
    name = ", ".join(filter(None, rung.name))
    words = ", ".join(filter(None, (rung.figure, rung.verdict.text)))
    return (dict.fromkeys(FIELDS) if rung.ratio is None else scaled(rung.ratio)) | {
        "hollow": rung.is_hollow,
        "x": f"{name}: {words}" if alone else name, "layout": name, "line": "", "panel": ladder.title,
        "cell_id": rung.cell_id, "figure": rung.figure, "verdict": rung.verdict.text,
        "tip": f"{name}: {ladder.ratio_text(rung)}, {words}",
    }  # fmt: skip


CHART = Chart(
    name="ladder", part="answer",
    title=lambda findings: findings.question or findings.experiment,
    rows=_rows,
    draw=partial(ratios, title="time / fastest"),
    finding=lambda data, findings: headline(findings, default=not any(row["pick"] for row in data.rows)),
    marks=lambda data, _findings: (
        f"Each layout's time divided by the fastest's, with joint 95 % intervals. {axis_of(data, '', 1.0).says}"
    ).strip(),
    table=lambda data, _findings: table_of(data, {
        "layout": Heading("layout", "prose"), "mean": Heading("time / fastest"), **ENDS,
        "figure": Heading("mean", "text"), "verdict": Heading("verdict", "text"),
    }),
)  # fmt: skip
