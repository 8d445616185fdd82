"""A measured drive's past: what was written to a volume that serves several runs before each of them, and the run's
time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from storagelab.findings.basis import table_in
from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run
from storagelab.report.document import Heading, Table, bare
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import MAX_LINES, arrange, choose, must_show, short_names
from storagelab.report.drawing.chart import Chart, Figure, Row, table_of_cells
from storagelab.report.drawing.layers import TIP, readable_domain, told_apart
from storagelab.report.drawing.vega import Sheet, Spec, figure, finished
from storagelab.report.words import compared
from storagelab.words import numbers
from storagelab.words.names import repetition_text

_GROUP, _PREFIX, _COUNTER = "volumes", "volume.", ".written_since_prepared_bytes"
_PART = "panel"


def written_before(run: Run) -> dict[str, float]:
    """What was written to each volume since it was prepared, as the run began; only volumes that serve several runs."""
    if run.measurement is None:
        return {}
    counters = run.measurement.counters.get(_GROUP, {})
    found = {
        name.removeprefix(_PREFIX).removesuffix(_COUNTER): value
        for name, value in counters.items() if name.startswith(_PREFIX) and name.endswith(_COUNTER)
    }  # fmt: skip
    volumes = run.config.volumes
    return {name: value for name, value in found.items() if name in volumes and volumes[name].kept_for_block}


def _rows(findings: Findings, runs: Sequence[Run]) -> Figure:
    """A row for each run and volume, in the order of the runs; a panel for each volume."""
    measured = [run for run in sorted(runs, key=lambda run: run.sequence) if run.usable and not run.burn_in]
    used = {run.cell_id for run in measured if written_before(run)}
    cells = [cell for cell in findings.cells if cell.cell_id in used and cell.elapsed_s is not None]
    must = [cell.cell_id for cell in must_show(findings)]
    kept = choose([cell.cell_id for cell in cells], [one for one in must if one in used], MAX_LINES)
    shown = [cell for cell in cells if cell.cell_id in kept]
    names = dict(zip(kept, short_names(shown), strict=True))
    rows = [row for run in measured for row in _of_run(findings, run, names, shown)]
    lines = list(names.values())
    return Figure(
        rows=rows, arrangement=arrange(findings), lines=lines,
        panels=list(dict.fromkeys(str(row[_PART]) for row in rows)),
        colours=dict(zip(lines, palette.LINES, strict=False)), hidden_lines=len(cells) - len(shown),
        legend=_axis(findings),
    )  # fmt: skip


def _axis(findings: Findings) -> str:
    return compared.rate_unit(findings) if compared.set_time(findings) else "time of the run, s"


def _of_run(findings: Findings, run: Run, names: dict[str, str], cells: Sequence[CellSummary]) -> Iterator[Row]:
    cell = next((cell for cell in cells if cell.cell_id == run.cell_id), None)
    if cell is None or run.measurement is None:
        return
    rate = run.measurement.work.amount / run.measurement.elapsed_s if run.measurement.elapsed_s else 0.0
    value = rate if compared.set_time(findings) else run.measurement.elapsed_s
    for volume, written in written_before(run).items():
        yield {
            "x": written / 1e9, "mean": value, "line": names[cell.cell_id], _PART: f"volume {volume}",
            "cell_id": cell.cell_id, "cell": cell.text, "repetition": run.repetition, "block": run.block + 1,
            "tip": f"{cell.name}, {repetition_text(run.repetition)}: {numbers.bytes_(written)} written to volume "
            f"{volume} since it was prepared{_in_its_life(run, volume)}; {bare(value)} ({_axis(findings)})",
        }  # fmt: skip


def _in_its_life(run: Run, volume: str) -> str:
    """What the drives' own counters say, such as ", and 1.2 TB to its drives in their lives"; "" if they don't tell."""
    environment = run.measurement.environment if run.measurement is not None else {}
    drives = table_in(table_in(table_in(environment, "volumes"), volume), "made").get("drives")
    told = [one.get("written_in_its_life_bytes") for one in drives] if isinstance(drives, Sequence) else []
    known = [one for one in told if isinstance(one, int)]
    if not known or len(known) < len(told):
        return ""
    return f", and {numbers.capacity(sum(known))} to its drives in their lives"


def _draw(data: Figure, sheet: Sheet) -> Spec:
    y_domain, from_zero = readable_domain([float(row["mean"] or 0) for row in data.rows])
    where = sheet.where
    encoding: Spec = {
        "x": figure("x", f"GB written before the run ({where})", scale={"zero": True}),
        "y": figure("mean", f"{data.legend} ({where})", scale={"domain": y_domain, "zero": from_zero, "nice": False}),
    }
    mark: Spec = {"type": "point", "size": 60, "filled": True, "opacity": 0.9}
    if len(data.lines) > 1:
        encoding |= told_apart(data, sheet.form, {"title": where, "symbolOpacity": 1}, shape=palette.SHAPES)
    else:
        mark["color"] = palette.LINES[0]
    note = "; a mark for each run" + ("" if from_zero else f"; the vertical axis starts at {bare(y_domain[0])}")
    panels = data.panels if len(data.panels) > 1 else []
    return finished(sheet, note, [{"mark": mark, "encoding": encoding | TIP}], data.rows, panels)


def _caption(data: Figure, _findings: Findings) -> str:
    hidden = f" {data.hidden_lines} more cells are not drawn." if data.hidden_lines else ""
    return (
        "What the kernel counted as written to the drive since it was prepared, as each run began. If times move with "
        f"it, the drive's past may explain them.{hidden}"
    )


def _table(data: Figure, _findings: Findings) -> Table:
    columns = {
        _PART: Heading("of", "text"), "repetition": Heading("repetition"), "block": Heading("block"),
        "x": Heading("GB written before"), "mean": Heading(data.legend),
    }  # fmt: skip
    return table_of_cells(data, columns)


CHART = Chart(
    "drive-past", "drives", "What was written to the drive before each run", _rows, _draw, _caption, _table, place=1
)
