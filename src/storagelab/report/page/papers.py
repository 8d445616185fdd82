"""Makes the page of a capture. It has a chart but no script."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from storagelab.capture.folder import Capture
from storagelab.report.document import Section
from storagelab.report.drawing.arrange import in_order
from storagelab.report.drawing.chart import Figure, Row
from storagelab.report.drawing.layers import dashed, told_apart
from storagelab.report.drawing.vega import FORMS, Sheet, Spec, figure, finished
from storagelab.report.page.html import Drawings, framed, page_of
from storagelab.report.words.captured import capture_paper, shown_as
from storagelab.words import numbers

MOST_POINTS = 120
"""The most points of a line. In longer captures, each point is the mean of several intervals."""
MOST_OBJECTS = 7
_OTHERS = "all others"
_VERBS = {"read": "reads", "write": "writes"}


def capture_page(capture: Capture, name: str) -> str:
    """Returns the page as text. The page has no script and needs no network."""
    of, rows = capture_paper(capture, name), over_time(capture)
    if not rows:
        return page_of(of)
    changes = sorted({change.second for change in capture.manifest.changes})
    svgs = [framed(name, _areas(rows, Sheet(form, "", (), "measured"), changes)) for name, form in FORMS.items()]
    chart = Section("chart", "Over time", [Drawings(svgs, _label(rows))])  # type: ignore[list-item]
    return page_of(replace(of, sections=[chart, *of.sections]))


def over_time(capture: Capture) -> list[Row]:
    """Returns the rows of the chart: `mb_per_s` (MB/s) of each object (`line`) over time, for each volume and
    direction (`panel`).
    """
    manifest = capture.manifest
    intervals = max(1, round(manifest.seconds / manifest.interval_seconds))
    step_s = manifest.interval_seconds * -(-intervals // MOST_POINTS)
    volume_of = {one.id: one.volume for one in manifest.objects}
    total: dict[str, int] = defaultdict(int)
    at: dict[tuple[str, str, int], int] = defaultdict(int)
    for row in capture.io:
        if row.operation in _VERBS:
            name = shown_as(row.object, manifest.engine)
            panel = f"{volume_of.get(row.object, '')}: {_VERBS[row.operation]}"
            total[name] += row.bytes
            at[panel, name, int(row.second / step_s)] += row.bytes
    most = sorted(total, key=lambda name: total[name], reverse=True)[:MOST_OBJECTS]
    found: dict[tuple[str, str, int], float] = defaultdict(float)
    for (panel, name, step), size in at.items():
        found[panel, name if name in most else _OTHERS, step] += size
    panels = sorted({panel for panel, *_ in found})
    names = [name for name in (*most, _OTHERS) if any(one == name for _, one, _ in found)]
    steps = range(int(-(-manifest.seconds // step_s)))
    return [
        {"panel": panel, "line": name, "second": step * step_s, "mb_per_s": found[panel, name, step] / step_s / 1e6}
        for panel in panels for name in names for step in steps
    ]  # fmt: skip


def _areas(rows: Sequence[Row], sheet: Sheet, changes: Sequence[float]) -> Spec:
    """Returns a chart of stacked areas, with a dashed line at each of the `changes` (in seconds from the start)."""
    data = Figure(rows, lines=in_order(str(row["line"]) for row in rows))
    encoding: Spec = told_apart(data, sheet.form, {"title": None}) | {
        "x": figure("second", "seconds from the start", axis={"grid": False}),
        "y": figure("mb_per_s", "MB/s", stack="zero"),
        "order": {"field": "line", "type": "nominal", "sort": "descending"},
    }
    area = {"mark": {"type": "area", "interpolate": "step-after", "opacity": 0.85}, "encoding": encoding}
    panels = {panel: panel for panel in in_order(str(row["panel"]) for row in rows)}
    return finished(sheet, [area, *([dashed("x", *changes)] if changes else [])], rows, panels)


def _label(rows: Sequence[Row]) -> str:
    """Returns the chart's label for screen readers."""
    total: dict[str, float] = defaultdict(float)
    for row in rows:
        total[f"{row['line']}, {row['panel']}"] += float(row["mb_per_s"] or 0)
    steps = len({row["second"] for row in rows})
    parts = sorted(total.items(), key=lambda one: one[1], reverse=True)[:6]
    words = "; ".join(f"{name}: {numbers.significant(size / steps, 3)} MB/s" for name, size in parts if size)
    return f"Chart: what each object reads and writes over time (measured). On average: {words}."
