"""Short reports with a chart, as pages without a script: a campaign beside a prediction, and a capture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from markupsafe import Markup

from storagelab.capture.folder import Capture
from storagelab.findings.beside import Beside
from storagelab.report.document import Document, Section
from storagelab.report.drawing import palette
from storagelab.report.drawing.layers import TIP, legend_layout, named_rows
from storagelab.report.drawing.vega import NARROW, WIDE, Sheet, Spec, finished, framed, to_svg
from storagelab.report.page.html import Drawings, page_of
from storagelab.report.words.captured import capture_paper, shown_as
from storagelab.report.words.predicted import beside_words, times_text
from storagelab.words import numbers

TITLE = "Predicted beside measured"


def _drawings(name: str, where: str, draw: Callable[[Sheet], Spec]) -> list[Markup]:
    """A chart without a title in both widths."""
    svgs = {
        f"{name}-{width}": to_svg(draw(Sheet(form, "", (), where)))
        for width, form in (("wide", WIDE), ("narrow", NARROW))
    }
    return [Markup(svg) for svg in framed(svgs).values()]  # noqa: S704 - drawn by us


def beside_page(of: Document, found: Beside, names: Mapping[str, str]) -> str:
    """The page as text. It has no script and needs no network."""
    drawings = _drawings("beside", "measured and predicted", lambda sheet: _spec(found, names, sheet))
    return _with_chart(of, TITLE, Drawings(drawings, beside_words(found, names)))


def _with_chart(of: Document, title: str, drawings: Drawings) -> str:
    chart = Section("chart", title, [drawings])  # type: ignore[list-item]
    return page_of(replace(of, sections=[chart, *of.sections]))


# --- the chart of predicted beside measured ---------------------------------------------------------------------------

_KINDS = ("measured", "predicted")


def _spec(found: Beside, names: Mapping[str, str], sheet: Sheet) -> Spec:
    rows = [
        {
            "name": names[row.name], "kind": kind, "times": one.value, "low": one.low or one.value,
            "high": one.high or one.value, "tip": f"{names[row.name]}, {kind}: {times_text(one)}",
        }
        for row in found.rows
        for kind, one in zip(_KINDS, (row.measured, row.predicted), strict=True)
    ]  # fmt: skip
    order = list(dict.fromkeys(str(row["name"]) for row in rows))
    y, row_px, _ = named_rows("name", {name: name for name in order}, 18 if sheet.form is NARROW else 32)
    x = {"type": "quantitative", "title": f"times the speed of {names[found.base]}", "scale": {"zero": True}}
    colour = {"field": "kind", "type": "nominal", "title": None,
              "scale": {"domain": list(_KINDS), "range": list(palette.LINES[:2])}}  # fmt: skip
    offset = {"field": "kind", "type": "nominal", "sort": list(_KINDS)}
    shared = {"y": y, "yOffset": offset, "color": colour}
    layers: list[Spec] = [
        {"mark": {"type": "rule", "strokeWidth": 2, "aria": False},
         "encoding": shared | {"x": x | {"field": "low"}, "x2": {"field": "high"}}},
        {"mark": {"type": "point", "filled": True, "size": 70},
         "encoding": TIP | shared | {"x": x | {"field": "times"},
                                     "shape": {"field": "kind", "type": "nominal", "title": None,
                                               "scale": {"domain": list(_KINDS), "range": list(palette.SHAPES[:2])}}}},
    ]  # fmt: skip
    return finished(sheet, layers, rows, height_px=max(46, row_px) * len(order))


MOST_POINTS = 120
"""Of each line: longer captures are drawn in means over several intervals."""
_OTHERS = "all others"
_VERBS = {"read": "reads", "write": "writes"}


def capture_page(capture: Capture, name: str) -> str:
    """The page as text. It has no script and needs no network."""
    of = capture_paper(capture, name)
    rows = over_time(capture)
    if not rows:
        return page_of(of)
    changes = sorted({change.second for change in capture.manifest.changes})
    drawings = _drawings("capture", "measured", lambda sheet: over_time_spec(rows, sheet, changes))
    return _with_chart(of, "Over time", Drawings(drawings, _label(rows)))


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
                "legend": {"title": None, **legend_layout(dict(zip(names, names, strict=True)), sheet.form)},
            },
            "order": {"field": "object", "type": "nominal", "sort": "descending"},
        },
    }  # fmt: skip
    dashed: Spec = {
        "data": {"values": [{"second": second} for second in changes]},
        "mark": {"type": "rule", "color": palette.INK, "strokeDash": [4, 3]},
        "encoding": {"x": {"field": "second", "type": "quantitative"}},
    }
    spec = finished(sheet, [area, dashed] if changes else [area], rows, dict(zip(panels, panels, strict=True)))
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
