"""Two charts. The chart of waits shows how each cell's connections spent all of their time. Each cell has a bar, the
fastest first. The waterfall shows the steps by which the time of a connection changes from the fastest cell to the
slowest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from storagelab.findings.cell import in_classes
from storagelab.findings.model import CellSummary, Findings
from storagelab.findings.why import Step, Waterfall, adds_up, between, by_type, wait_each_s
from storagelab.model.measurement import Run
from storagelab.model.waits import FOR_CLIENT, Category
from storagelab.report.document import Heading, Table, bare
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import choose, in_order, must_show
from storagelab.report.drawing.chart import Chart, Figure, Row
from storagelab.report.drawing.layers import TIP, across, legend_layout, named_rows, readable_domain
from storagelab.report.drawing.vega import NARROW, Sheet, Spec, figure, finished, wrapped
from storagelab.report.words import compared
from storagelab.report.words.ladder import in_order as fastest_first
from storagelab.report.words.why import SMALLER, folded, thing_text, waterfall_table
from storagelab.words import numbers
from storagelab.words.names import cell_entry

MAX_BARS = 24
"""The largest number of cells that are readable on a sheet of paper. The table has every cell."""
MAX_WAIT_TYPES = 8
OTHER_WAITS = "smaller waits"
REMAINDER = "finished early or unexplained"
_LABEL_PX = 36


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """Returns a row for each cell and part of its time. `low` and `high` are the ends of the part in the bar, as
    fractions of connections x elapsed.

    If engines are compared, the parts are classes of waits, because different engines have different names for waits.
    """
    cells = fastest_first(findings, (cell for cell in findings.cells if cell.waits and cell.available_s))
    if findings.wait_names:
        cells = [cell.model_copy(update={"waits": in_classes(cell.waits)}) for cell in cells]
    drawn = choose([cell.cell_id for cell in cells], [cell.cell_id for cell in must_show(findings)], MAX_BARS)
    left, colours = len(cells) - len(drawn), _wait_colours(cells)
    return Figure(
        rows=[row | {"drawn": cell.cell_id in drawn} for cell in cells for row in _stack(cell, colours)],
        lines=list(colours),
        colours=colours,
        hidden=f"{numbers.plural(left, 'more cell has', 'more cells have')} no bar; the table has all." if left else "",
        names="name",
    )


def _shares(cell: CellSummary) -> dict[str, float]:
    return {row.wait_type: row.wait_s / cell.available_s for row in cell.waits} if cell.available_s else {}


def _compared(cell: CellSummary, name: str) -> float:
    """Returns the figure by which cells are compared: the seconds of a wait in the mean transaction or, if these are
    not known, its share of session time.
    """
    each_s = wait_each_s(cell, name)
    return _shares(cell).get(name, 0.0) if each_s is None else each_s.value


def _wait_colours(cells: Sequence[CellSummary]) -> dict[str, str]:
    """Maps the named parts of a bar, from left to right, to their colours.

    The largest waits are named; all other waits together are one part. The waits that differ most between cells are
    leftmost, because lengths are easiest to compare there. Waits for the client come after them.
    """
    shares = [_shares(cell) for cell in cells]
    kinds: dict[str, tuple[Category, bool]] = {
        row.wait_type: (row.category, row.is_wait) for cell in cells for row in cell.waits
    }
    named = [name for name, (_, is_wait) in kinds.items() if is_wait and any(share.get(name) for share in shares)]

    def moves(name: str) -> float:
        values = [_compared(cell, name) for cell in cells]
        return min(values) - max(values)

    largest = sorted(named, key=lambda name: -max(share.get(name, 0.0) for share in shares))[:MAX_WAIT_TYPES]
    largest.sort(key=lambda name: (kinds[name][0] == FOR_CLIENT, moves(name)))
    cpu = [name for name, (_, is_wait) in kinds.items() if not is_wait]
    colours = dict(zip(largest, palette.shades([kinds[name][0] for name in largest]), strict=True))
    if len(named) > len(largest):
        colours[OTHER_WAITS] = palette.CATEGORY["other"]
    return colours | dict.fromkeys(cpu, palette.CATEGORY["cpu"])


def _stack(cell: CellSummary, colours: Mapping[str, str]) -> list[Row]:
    shares = _shares(cell)
    parts = {name: shares.get(name, 0.0) for name in colours if name != OTHER_WAITS}
    if OTHER_WAITS in colours:
        parts[OTHER_WAITS] = sum(share for name, share in shares.items() if name not in parts)
    analogues = {row.wait_type: row.analogue for row in cell.waits}
    rows: list[Row] = []
    low = 0.0
    for name, colour in colours.items():
        known = analogues.get(name, "")
        rows.append(
            {
                "name": cell_entry(cell.cell_id, cell.text), "cell_id": cell.cell_id, "cell": cell.text,
                "part": name, "low": low, "high": low + parts[name], "mean": parts[name],
                "middle": low + parts[name] / 2, "label": numbers.percent(parts[name]), "ink": palette.ink_on(colour),
                "tip": f"{name}{f' (SQL Server: {known})' if known and known[0] != '(' else ''}: "
                       f"{numbers.percent(parts[name])}; {cell.name}",
            }
        )  # fmt: skip
        low += parts[name]
    return rows


def _draw(data: Figure, sheet: Sheet) -> Spec:
    rows = [row for row in data.rows if row["drawn"]]
    names = in_order(str(row["name"]) for row in rows)
    y, row_px, names_px = named_rows("name", data.starred(names), sheet.form.letters(0.36))
    top = max(1.0, *(float(row["high"] or 0) for row in data.rows))
    title = f"share of connections × elapsed ({sheet.where})"
    axis = {"labelExpr": "format(100 * datum.value, '.0f') + ' %'", "tickCount": 4 if sheet.form is NARROW else 10}
    axes = {"scale": {"domain": [0, top], "nice": False}, "axis": axis}
    legend = {"title": f"from the left ({sheet.where})", "symbolType": "square", "symbolSize": 90,
              **legend_layout(dict(zip(data.lines, data.lines, strict=True)), sheet.form, names_px)}  # fmt: skip
    scale = {"domain": data.lines, "range": list(data.colours.values())}
    colour = {"field": "part", "type": "nominal", "sort": data.lines, "legend": legend, "scale": scale}
    bars = {"x": figure("low", title, **axes), "x2": {"field": "high"}, "color": colour}
    readable = _LABEL_PX / (sheet.form.width_px - names_px)
    layers: list[Spec] = [
        {"transform": [{"filter": "datum.mean > 0"}], "encoding": TIP | {"y": y} | bars,
         "mark": {"type": "bar", "height": min(20, row_px - 6), "x2Offset": -1}},
        {"transform": [{"filter": f"datum.mean >= {readable:.3f}"}], "mark": {"type": "text", "aria": False},
         "encoding": {"y": y, "x": figure("middle", title, **axes), "text": {"field": "label"},
                      "color": {"field": "ink", "type": "nominal", "scale": None}}},
    ]  # fmt: skip
    return finished(sheet, layers, rows, height_px=row_px * len(names))


def _finding(data: Figure, findings: Findings) -> str:
    part = str(data.rows[0]["part"])
    moving = [row for row in data.rows if row["part"] == part]

    def time(row: Row) -> float:
        each_s = wait_each_s(findings.cell(str(row["cell_id"])), part)
        return float(row["mean"] or 0) if each_s is None else each_s.value

    low, high = (pick(moving, key=time) for pick in (min, max))
    by_share = compared.spender(findings) == "session"
    least, most = (one["label"] if by_share else numbers.seconds(time(one)) for one in (low, high))
    of = "connections × elapsed" if by_share else "each transaction's time"
    if low is high:
        return f"{part} takes {least} of {of}."
    return f"{part} changes most: from {least} of {of} with {low['cell']} to {most} with {high['cell']}."


def _marks(_data: Figure, findings: Findings) -> str:
    words = [
        "Each bar is a cell's mean run, in the ladder's order. It shows what all connections spent their time on. Time",
        "that is missing to 100 % is unexplained, or connections had finished. The wait that changes most, except",
        "for the client, comes first; a colour is a wait category, on the whole page.",
        "Waits of different engines are grouped by what they wait for; each cell's table has their names."
        if findings.wait_names else "",
    ]  # fmt: skip
    return " ".join(filter(None, words))


def _table(data: Figure, _findings: Findings) -> Table:
    cells: dict[str, list[float]] = {}
    for row in data.rows:
        cells.setdefault(str(row["name"]), []).append(float(row["mean"] or 0))
    left = ((name, [*shares, max(0.0, 1 - sum(shares))]) for name, shares in cells.items())
    rows = [[name, *(numbers.percent(share, 1) for share in shares)] for name, shares in left]
    return Table([Heading("cell", "prose"), *map(Heading, data.lines), Heading(REMAINDER)], rows)


_WAITS = Chart(
    "waits", "waits", "Where the sessions' time goes", _rows, _draw, _finding, _marks, _table, is_headed=False
)


# --- the waterfall ----------------------------------------------------------------------------------------------------
MOST_STEPS = 9
_Show = Callable[[float], str]
_CLOSE = 0.8
"""If the shortest time is at most this fraction of the longest, the axis starts at zero."""


def _found(findings: Findings) -> tuple[CellSummary, CellSummary, Waterfall] | None:
    """Returns the fastest and the slowest cell, and the steps between them; None if there are no such steps."""
    fastest, slowest = compared.ends(findings)
    if fastest is None or slowest is None or not adds_up(findings):
        return None
    if not compared.timed(findings) and any(cell.each_s is None for cell in findings.cells):
        return None  # because each connection has the same set time in all cells
    waterfall = between(findings, fastest, slowest)
    return None if waterfall is None else (findings.cell(fastest), findings.cell(slowest), waterfall)


def _steps(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """Returns a bar for the time of the fastest cell, a bar for each step, and a bar for the time of the slowest cell.
    A bar is drawn from `from_s` to `to_s`. Each step starts where the step before it ended.
    """
    found = _found(findings)
    if found is None:
        return Figure(rows=[])
    before, after, waterfall = found
    show = partial(numbers.seconds, like_s=max(waterfall.before_s, waterfall.after_s))
    rows, at_s = [_whole(before, waterfall.before_s, show)], waterfall.before_s
    for step in folded(waterfall, MOST_STEPS):
        name, end_s = thing_text(step.thing), at_s + step.change.value
        colour, tip = palette.CATEGORY[step.thing.category], _tip(step, waterfall.of, show)
        rows.append(_bar(name, at_s, end_s, colour, _signed(end_s - at_s, show), tip))
        at_s = end_s
    rows.append(_whole(after, waterfall.after_s, show))
    return Figure(rows=rows, names="name", legend=f"of each {waterfall.of}")


def _signed(value_s: float, show: _Show) -> str:
    return f"{'+' if value_s > 0 else ''}{show(value_s)}"


def _whole(cell: CellSummary, time_s: float, show: _Show) -> Row:
    name, time = cell_entry(cell.cell_id, cell.text), show(time_s)
    bar = _bar(name, 0.0, time_s, palette.NEUTRAL, time, f"{name}: {time}")
    return bar | {"cell_id": cell.cell_id, "cell": cell.text}


def _bar(name: str, from_s: float, to_s: float, colour: str, label: str, tip: str) -> Row:
    return {"name": name, "from_s": from_s, "to_s": to_s, "colour": colour, "label": label, "tip": tip,
            "right_s": max(from_s, to_s)}  # fmt: skip


def _tip(step: Step, of: str, show: _Show) -> str:
    interval = numbers.ends_in_brackets(step.change, lambda value_s: _signed(value_s, show), "joint 95 % CI ")
    from_to = f"{show(step.before_s)} to {show(step.after_s)}"
    return f"{thing_text(step.thing)}: {_signed(step.change.value, show)}{interval} of each {of}'s time, {from_to}"


def _draw_steps(data: Figure, sheet: Sheet) -> Spec:
    y, row_px, _ = named_rows("name", data.starred(str(row["name"]) for row in data.rows), sheet.form.letters(0.38))
    (low, high), from_zero = _domain(data)
    room = (0.5 if sheet.form is NARROW else 0.12) * (high - low)  # space for the label of the longest bar
    times, unit = _unit(data)
    start = "" if from_zero else f", from {bare(times * low)} {unit}, not from zero"
    title = wrapped(f"{unit} {data.legend} ({sheet.where}){start}", sheet.form.letters(0.8))
    more = {"scale": {"domain": [low, high + room], "zero": False, "nice": False},
            "axis": across(sheet.form) | {"labelExpr": f"format({times} * datum.value, ',~r')"}}  # fmt: skip
    rows = [row | {"from_s": max(low, float(row["from_s"] or 0))} for row in data.rows]
    bar = {"x": figure("from_s", title, **more), "x2": {"field": "to_s"}, "color": {"field": "colour", "scale": None}}
    text = {"x": figure("right_s", title, **more), "text": {"field": "label"}}
    layers: list[Spec] = [
        {"mark": {"type": "bar", "minBandSize": 2, "height": {"band": 0.62}}, "encoding": TIP | {"y": y} | bar},
        {"mark": {"type": "text", "align": "left", "dx": 5, "aria": False}, "encoding": {"y": y} | text},
    ]
    return finished(sheet, layers, rows, height_px=row_px * len(rows))


def _unit(data: Figure) -> tuple[float, str]:
    """Returns the factor that converts seconds to the unit of the axis, and this unit."""
    return numbers.second_unit(max(float(row["right_s"] or 0) for row in data.rows))


def _domain(data: Figure) -> tuple[list[float], bool]:
    """Returns the domain of the axis, and whether it starts at zero. It starts at zero unless the steps would then be
    too short to see.
    """
    ends = [float(row["to_s"] or 0) for row in data.rows]
    return readable_domain(ends if min(ends) > _CLOSE * max(ends) else [0.0, *ends])


def _finding_of_steps(data: Figure, findings: Findings) -> str:
    """Names the wait, with its signal part, or other time that changes most."""
    ends = f"From {data.rows[0]['tip']}, to {data.rows[-1]['tip']}"
    whole = between(findings, str(data.rows[0]["cell_id"]), str(data.rows[-1]["cell_id"]), by=by_type)
    if whole is None or not whole.steps or folded(whole)[0].thing.name == SMALLER:
        return f"{ends}."
    most, show = whole.steps[0], partial(numbers.seconds, like_s=max(whole.before_s, whole.after_s))
    return f"{ends}: {most.thing.name} changes most, {_signed(most.change.value, show)}."


def _marks_of_steps(data: Figure, findings: Findings) -> str:
    found = _found(findings)
    ((low, _), from_zero), (times, unit) = _domain(data), _unit(data)
    words = [
        f"The time {data.legend}, on average. Each bar begins where the bar above it ends. All steps add up to the "
        "whole difference. A wait may have two steps: signal is its time in the queue for a CPU.",
        "The two times can't be told apart, nor can most of the steps."
        if found is not None and not found[2].differs else "",
        "" if from_zero else f"The axis starts at {bare(times * low)} {unit}, not at zero.",
    ]  # fmt: skip
    return " ".join(filter(None, words))


def _table_of_steps(data: Figure, findings: Findings) -> Table:
    found = _found(findings)
    assert found is not None
    return waterfall_table(found[2], str(data.rows[0]["name"]), str(data.rows[-1]["name"]))


_WATERFALL = Chart(
    "waterfall", "waits", "From the fastest to a slow one", _steps, _draw_steps, _finding_of_steps, _marks_of_steps,
    _table_of_steps, place=1,
)  # fmt: skip

CHARTS = (_WAITS, _WATERFALL)
