"""The page of a capture: its tables, and a chart of who reads and writes what over time, for each volume."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from markupsafe import Markup

from storagelab.capture.model import Capture
from storagelab.report.drawing import palette
from storagelab.report.drawing.layers import legend_layout
from storagelab.report.drawing.vega import NARROW, WIDE, Sheet, Spec, finished, framed, to_svg
from storagelab.report.page.html import page_of
from storagelab.report.words.captured import capture_paper, shown_as
from storagelab.words import numbers

MOST_POINTS = 120
"""Of each line: longer captures are drawn in means over several intervals."""
_OTHERS = "all others"
_VERBS = {"read": "reads", "write": "writes"}


def capture_page(capture: Capture, name: str) -> str:
    """The page as text. It has no script and needs no network."""
    paper = capture_paper(capture, name)
    rows = over_time(capture)
    if not rows:
        return page_of(paper)
    changes = sorted({change.second for change in capture.manifest.changes})
    svgs = {f"capture-{form}": to_svg(over_time_spec(rows, sheet, changes)) for form, sheet in _sheets().items()}
    drawings = [Markup(svg) for svg in framed(svgs).values()]  # noqa: S704 - drawn by us
    return page_of(paper, drawings, label=_label(rows), style=palette.dark_style(()))


def _sheets() -> dict[str, Sheet]:
    return {name: Sheet(form, "", "", "measured") for name, form in (("wide", WIDE), ("narrow", NARROW))}


def over_time(capture: Capture) -> list[dict[str, object]]:
    """Bytes per second of each object, for each volume and direction."""
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
    most = sorted(total, key=lambda name: total[name], reverse=True)[: len(palette.LINES) - 1]
    found: dict[tuple[str, str, int], float] = defaultdict(float)
    for (panel, name, step), size in at.items():
        found[panel, name if name in most else _OTHERS, step] += size
    panels = sorted({panel for panel, *_ in found})
    names = [name for name in (*most, _OTHERS) if any(one == name for _, one, _ in found)]
    steps = range(int(-(-manifest.seconds // step_s)))
    return [
        {"panel": panel, "object": name, "second": step * step_s, "mb_per_s": found[panel, name, step] / step_s / 2**20}
        for panel in panels for name in names for step in steps
    ]  # fmt: skip


def over_time_spec(rows: list[dict[str, object]], sheet: Sheet, changes: Sequence[float] = ()) -> Spec:
    """The chart as Vega-Lite: areas on one another, with a dashed line where something changed."""
    names = list(dict.fromkeys(str(row["object"]) for row in rows))
    panels = list(dict.fromkeys(str(row["panel"]) for row in rows))
    area: Spec = {
        "mark": {"type": "area", "interpolate": "step-after", "opacity": 0.85},
        "encoding": {
            "x": {"field": "second", "type": "quantitative", "title": "seconds from the start",
            "axis": {"grid": False}},
            "y": {"field": "mb_per_s", "type": "quantitative", "stack": "zero", "title": "MB/s"},
            "color": {
                "field": "object", "type": "nominal", "sort": names,
                "scale": {"domain": names, "range": list(palette.LINES[: len(names)])},
                "legend": {"title": None, **legend_layout(names, sheet.form)},
            },
            "order": {"field": "object", "type": "nominal", "sort": "descending"},
        },
    }  # fmt: skip
    dashed: Spec = {
        "data": {"values": [{"second": second} for second in changes]},
        "mark": {"type": "rule", "color": palette.INK, "strokeDash": [4, 3]},
        "encoding": {"x": {"field": "second", "type": "quantitative"}},
    }
    spec = finished(sheet, "", [area, dashed] if changes else [area], rows, panels)
    return {key: value for key, value in spec.items() if key != "title"} | {"background": None}


def _label(rows: list[dict[str, object]]) -> str:
    """The chart for readers who can't see it."""
    total: dict[str, float] = defaultdict(float)
    for row in rows:
        total[f"{row['object']}, {row['panel']}"] += float(str(row["mb_per_s"]))
    steps = len({row["second"] for row in rows})
    parts = sorted(total.items(), key=lambda one: one[1], reverse=True)[:6]
    words = "; ".join(f"{name}: {numbers.significant(size / steps, 3)} MB/s" for name, size in parts if size)
    return f"Chart: what each object reads and writes over time (measured). On average: {words}."
