"""One chart as a piece of the page: drawn twice (wide and for phones), named for those who don't see it, and its
numbers in a table beneath. The page swaps the two drawings by its width, and replaces some inks in dark mode."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from storagelab.findings.model import Effect, Findings
from storagelab.report.charts import best_case as best_case_data
from storagelab.report.charts import figure_data
from storagelab.report.charts import over_time as series_data
from storagelab.report.charts import raw_io as raw_io_data
from storagelab.report.charts import speed_ups as comparison_data
from storagelab.report.charts.all_charts import Drawn
from storagelab.report.charts.figure_data import Row
from storagelab.report.drawing import palette
from storagelab.report.drawing.slim import said_once, slimmed
from storagelab.report.drawing.vega import Spec
from storagelab.report.page.markup import Column, Markup, fold, table, tag, trusted
from storagelab.report.words import numbers
from storagelab.report.words import sentences as wording

MAX_TABLE_ROWS = 400
MAX_SAID = 8
_FORMS = ("wide", "narrow")
_PLACE = re.compile(r"<!--drawing (?P<name>[\w-]+)-->")
_SVG_OPENING = re.compile(r"<svg\b[^>]*>", re.DOTALL)
_VIEW_BOX = re.compile(r'viewBox="0 0 (?P<width>[\d.]+) (?P<height>[\d.]+)"')
_ID = re.compile(r'(?<=\sid=")(?=[^"]+")|(?<=url\(#)(?=[^)]+\))')


def block(drawn: Drawn, findings: Findings, caption: str) -> Markup:
    """The figure, its caption and its table."""
    places = [_place(f"{drawn.name}-{form}") for form in _FORMS]
    return tag(
        "div",
        tag("figure", places, role="img", aria_label=label(drawn, findings), id=f"figure-{drawn.name}", **_ends(drawn)),
        tag("p", caption, class_="caption"),
        fold("The same numbers as a table", _data_table(drawn, findings)),
        class_="chart",
    )


def _ends(drawn: Drawn) -> dict[str, str]:
    """Of lines over time where both axes end and the unit, so that the page's script can read a line off anywhere."""
    if drawn.name not in series_data.BY_NAME:
        return {}
    encoding = drawn.wide.get("spec", drawn.wide)["layer"][0]["encoding"]
    end_s, most = (encoding[axis]["scale"]["domain"][1] for axis in ("x", "y"))
    return {"data_end_s": f"{end_s:g}", "data_most": f"{most:g}", "data_unit": series_data.BY_NAME[drawn.name].unit}


def bare_specs(charts: Iterable[Drawn]) -> dict[str, Spec]:
    """What is to be drawn of each chart, by name: it in both widths, without title and ground, as the page has both."""
    drawings = {f"{chart.name}-{form}": getattr(chart, form) for chart in charts for form in _FORMS}
    return {
        name: {key: value for key, value in spec.items() if key != "title"} | {"background": None}
        for name, spec in drawings.items()
    }


def _place(name: str) -> Markup:
    """Where the drawing goes once it is there."""
    return trusted(f"<!--drawing {name}-->")


def with_drawings(page: str, svgs: Mapping[str, str]) -> str:
    """The page with the drawings in their places."""
    slim = {name: slimmed(svg) for name, svg in svgs.items()}
    wide, narrow = _FORMS
    for name in [name for name in slim if name.endswith(f"-{narrow}")]:
        slim[name] = said_once(slim[f"{name.removesuffix(narrow)}{wide}"], slim[name])
    return _PLACE.sub(lambda place: _framed(place["name"], slim[place["name"]]), page)


def _framed(name: str, svg: str) -> Markup:
    """A drawing as wide as there is room and no wider than it was drawn."""
    form = name.rpartition("-")[2]
    box = _VIEW_BOX.search(svg)
    width, height = (box["width"], box["height"]) if box else ("800", "400")
    most = float(width) * (1.4 if form == "narrow" else 1.0)
    size = f'viewBox="0 0 {width} {height}" style="max-width:{most:.0f}px"'
    opening = f'<svg class="{form}" {size} aria-hidden="true" focusable="false">'
    return trusted(_ID.sub(f"{name}-", _SVG_OPENING.sub(opening, svg, count=1)))


# ---------------------------------------------------------------------------------------------------------------------
# In words
# ---------------------------------------------------------------------------------------------------------------------


def label(drawn: Drawn, findings: Findings) -> str:
    """What the chart shows, as one would say it to somebody who can't see it."""
    words = _LABELS[drawn.name](drawn.data.rows, findings)
    where = findings.provenance or "nothing measured yet"
    along = f" by {drawn.data.arrangement.x_title}" if drawn.data.x_levels and drawn.data.arrangement.x else ""
    return f"Chart: {drawn.title.lower()}{along} ({where}). {words}"


def _say_times(rows: Sequence[Row], findings: Findings) -> str:
    fastest, slowest = (pick(rows, key=lambda row: float(row["mean_s"] or 0)) for pick in (min, max))
    return f"{wording.headline(findings)} Shortest mean: {fastest['tip']}. Longest mean: {slowest['tip']}."


def _say_waits(rows: Sequence[Row], findings: Findings) -> str:
    moving = str(rows[0]["part"])
    shares = [(float(row["share"] or 0), str(row["cell_id"])) for row in rows if row["part"] == moving]
    (low, low_id), (high, high_id) = min(shares), max(shares)
    names = {cell.cell_id: wording.cell_text(cell.levels) for cell in findings.cells}
    if low_id == high_id:
        return f"{moving} takes {numbers.percent(high)} of connections × elapsed."
    return (
        f"{moving} moves most: from {numbers.percent(low)} of connections × elapsed with {names[low_id]} "
        f"to {numbers.percent(high)} with {names[high_id]}."
    )


def _say_effects(rows: Sequence[Row], _findings: Findings) -> str:
    return "; ".join(str(row["tip"]) for row in rows) + "."


def _say_over_time(rows: Sequence[Row], _findings: Findings) -> str:
    known = [row for row in rows if row["value"] is not None and row["median"]]
    if not known:
        return "No values."
    low, high = (pick(known, key=lambda row: float(row["value"] or 0)) for pick in (min, max))
    return f"Lowest: {low['tip']}. Highest: {high['tip']}."


def _say_rows(rows: Sequence[Row], _findings: Findings) -> str:
    """Of few marks all, of many the ends."""
    if len(rows) <= MAX_SAID:
        return "; ".join(str(row["tip"]) for row in rows) + "."
    low, high = (pick(rows, key=_said_value) for pick in (min, max))
    return f"Lowest: {low['tip']}. Highest: {high['tip']}."


def _said_value(row: Row) -> float:
    return float(row.get("speed_up") or row.get("mean") or row.get("mean_s") or 0)


_RATES = [rate.name for rate in raw_io_data.RATES]
_SPEED_UPS = [f"speed-up-{number}" for number in range(1, comparison_data.MAX_SPEED_UPS + 1)]
_LABELS: dict[str, Callable[[Sequence[Row], Findings], str]] = {
    "completion-time": _say_times,
    best_case_data.NAME: _say_rows,
    "waits": _say_waits,
    "effects": _say_effects,
    "write-amplification": _say_rows,
    **dict.fromkeys(_RATES, _say_rows),
    **dict.fromkeys(_SPEED_UPS, _say_rows),
    **dict.fromkeys(series_data.BY_NAME, _say_over_time),
}


# ---------------------------------------------------------------------------------------------------------------------
# As tables
# ---------------------------------------------------------------------------------------------------------------------


def _data_table(drawn: Drawn, findings: Findings) -> Markup:
    columns, rows = _TABLES[drawn.name](drawn, findings)
    caption = f"{drawn.title} ({findings.provenance or 'nothing measured yet'}): what the chart shows"
    if len(rows) > MAX_TABLE_ROWS:
        caption += f"; the first {MAX_TABLE_ROWS} of {numbers.count(len(rows))} rows, the rest is in the raw data"
    return table(caption, columns, rows[:MAX_TABLE_ROWS])


_Table = tuple[list[Column], list[list[str]]]


def _cell_names(findings: Findings) -> dict[str, str]:
    return {cell.cell_id: wording.cell_text(cell.levels) for cell in findings.cells}


def _time_table(drawn: Drawn, findings: Findings) -> _Table:
    names = _cell_names(findings)
    points = {cell.cell_id: cell.elapsed_s.points for cell in findings.cells if cell.elapsed_s is not None}
    columns = [Column("cell", "prose"), Column("mean, s"), Column("95 % from, s"), Column("to, s"),
               Column("every run, s", "prose")]  # fmt: skip
    rows = []
    for row in drawn.data.rows:
        runs = points[str(row["cell_id"])]
        values = [f"{point.value:.4g}" for point in runs[:50]] + (["…"] if len(runs) > 50 else [])
        means = [_plain(row[key]) for key in ("mean_s", "low_s", "high_s")]
        rows.append([names[str(row["cell_id"])], *means, "  ".join(values)])
    return columns, rows


def _best_case_table(drawn: Drawn, _findings: Findings) -> _Table:
    """The first configuration and the fastest, level by level of the axis."""
    columns = [Column(drawn.data.arrangement.x_title), Column("which", "text"), Column("configuration", "prose"),
               Column("mean, s"), Column("95 % from, s"), Column("to, s"), Column("against the first", "text")]  # fmt: skip
    rows = []
    for row in drawn.data.rows:
        which = "fastest" if row["line"] == drawn.data.lines[1] else "first"
        figures = [_plain(row[key]) for key in ("mean_s", "low_s", "high_s")]
        rows.append([str(row["x"]), which, str(row["name"]), *figures, str(row["against"])])
    return columns, rows


def _rate_table(drawn: Drawn, findings: Findings) -> _Table:
    names = _cell_names(findings)
    columns = [Column("cell", "prose"), Column("mean"), Column("95 % from"), Column("to")]
    rows = [
        [names[str(row["cell_id"])], *(_plain(row[key]) for key in ("mean", "low", "high"))] for row in drawn.data.rows
    ]
    return columns, rows


def _wait_share_table(drawn: Drawn, findings: Findings) -> _Table:
    names = _cell_names(findings)
    cells: dict[str, list[str]] = {}
    for row in drawn.data.rows:
        share = float(row["share"] or 0)
        cells.setdefault(str(row["cell_id"]), []).append(numbers.percent(share, 1))
    return [Column("cell", "prose"), *map(Column, drawn.data.lines)], [[names[key], *row] for key, row in cells.items()]


def _effect_table(_drawn: Drawn, findings: Findings) -> _Table:
    return effect_columns(), [effect_row(effect) for effect in findings.effects if not effect.at]


def effect_columns() -> list[Column]:
    return [Column("comparison", "prose"), Column("change of time"), Column("95 % interval", "text"),
            Column("pairs"), Column("verdict", "text")]  # fmt: skip


def effect_row(effect: Effect) -> list[str]:
    """One effect with its interval."""
    low, high = effect.ratio.low, effect.ratio.high
    interval = "" if low is None or high is None else f"{numbers.signed_percent(low)} to {numbers.signed_percent(high)}"
    return [figure_data.effect_text(effect), numbers.signed_percent(effect.ratio.value), interval,
            numbers.count(effect.pairs), "not tested" if effect.across_blocks else figure_data.judged(effect)]  # fmt: skip


def _speed_up_table(drawn: Drawn, _findings: Findings) -> _Table:
    columns = [Column("comparison", "prose"), Column("times as fast"), Column("95 % from"), Column("to"),
               Column("verdict", "text")]  # fmt: skip
    return columns, [
        [str(row["what"]), *(_plain(row[name]) for name in ("speed_up", "low", "high")), str(row["judged"])]
        for row in drawn.data.rows
    ]


def _drive_table(drawn: Drawn, findings: Findings) -> _Table:
    names = _cell_names(findings)
    columns = [Column("cell", "prose"), Column("drive", "text"), Column("write amplification"), Column("95 % from"),
               Column("to")]  # fmt: skip
    return columns, [
        [names[str(row["cell_id"])], str(row["drive"]), *(_plain(row[name]) for name in ("mean", "low", "high"))]
        for row in drawn.data.rows
    ]


def _over_time_table(drawn: Drawn, _findings: Findings) -> _Table:
    """Every line in a few figures: thousands of points would tell nobody anything."""
    unit = series_data.BY_NAME[drawn.name].unit
    columns = [Column("cell", "prose"), Column("of", "text"), Column("repetition"), Column("until, s"),
               Column(f"mean, {unit}"), Column("least"), Column("most"), Column("at the end")]  # fmt: skip
    lines: dict[tuple[str, str, str], list[Row]] = {}
    for row in drawn.data.rows:
        lines.setdefault((str(row["cell"]), str(row["line"]), str(row["repetition"])), []).append(row)
    rows = []
    for key, of_line in lines.items():
        values = [float(row["value"]) for row in of_line if row["value"] is not None]
        figures = (sum(values) / len(values), min(values), max(values), values[-1]) if values else (None,) * 4
        rows.append([*key, _plain(of_line[-1]["at_s"]), *map(_plain, figures)])
    return columns, rows


def _plain(value: str | float | int | None) -> str:
    return "" if value is None else f"{float(value):,.4g}"


_TABLES: dict[str, Callable[[Drawn, Findings], _Table]] = {
    "completion-time": _time_table,
    best_case_data.NAME: _best_case_table,
    "waits": _wait_share_table,
    "effects": _effect_table,
    "write-amplification": _drive_table,
    **dict.fromkeys(_RATES, _rate_table),
    **dict.fromkeys(_SPEED_UPS, _speed_up_table),
    **dict.fromkeys(series_data.BY_NAME, _over_time_table),
}


def swatch(colour: str) -> Markup:
    """A small square of a chart's colour, to be found again in a table."""
    return tag("span", class_="swatch", style=f"--c:{colour or palette.CATEGORY['other']}", aria_hidden="true")


def plural(number: int, one: str, many: str = "") -> str:
    """ "1 panel", "3 panels"."""
    return f"{numbers.count(number)} {one if number == 1 else many or one + 's'}"
