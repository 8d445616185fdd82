"""The chart of a measured drive's history: the bytes written to a volume before each run, and the run's time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from storagelab.findings.basis import table_in
from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run
from storagelab.report.document import Heading, bare
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import MAX_LINES, choose, in_order, must_show, short_names
from storagelab.report.drawing.chart import Chart, Figure, Row, not_drawn, table_of_cells
from storagelab.report.drawing.layers import DOT, TIP, axis_of, told_apart
from storagelab.report.drawing.vega import Sheet, Spec, figure, finished
from storagelab.report.words import compared
from storagelab.words import numbers
from storagelab.words.names import repetition_text

_GROUP, _PREFIX, _COUNTER = "volumes", "volume.", ".written_since_prepared_bytes"


def written_before(run: Run) -> dict[str, float]:
    """Maps volumes to the bytes written to them between their preparation and the start of the run. Only volumes that
    are prepared once for several runs are included.
    """
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
    """Returns a row for each run and volume, in the order of the runs. Each volume has a panel."""
    measured = [run for run in sorted(runs, key=lambda run: run.sequence) if run.usable and not run.burn_in]
    used = {run.cell_id for run in measured if written_before(run)}
    cells = {cell.cell_id: cell for cell in findings.cells if cell.cell_id in used and cell.elapsed_s is not None}
    kept = choose(list(cells), [one.cell_id for one in must_show(findings) if one.cell_id in cells], MAX_LINES)
    shown = {cell_id: cells[cell_id] for cell_id in kept}
    names = dict(zip(kept, short_names(list(shown.values())), strict=True))
    rows = [
        row for run in measured if run.cell_id in shown for row in _of_run(findings, run, names, shown[run.cell_id])
    ]
    return Figure(
        rows=rows,
        lines=list(names.values()),
        panels=in_order(str(row["panel"]) for row in rows),
        hidden=not_drawn(len(cells) - len(shown)),
        legend=compared.rate_unit(findings) if compared.set_time(findings) else "time of the run, s",
        names="line",
    )


def _of_run(findings: Findings, run: Run, names: Mapping[str, str], cell: CellSummary) -> Iterator[Row]:
    if run.measurement is None:
        return
    elapsed_s = run.measurement.elapsed_s
    rate = run.measurement.work.amount / elapsed_s if elapsed_s else 0.0
    value, said = elapsed_s, numbers.seconds(elapsed_s)
    if compared.set_time(findings):
        value, said = rate, numbers.rows_per_s(rate, compared.rate_unit(findings))
    for volume, written in written_before(run).items():
        yield {
            "x": written / 1e9, "mean": value, "line": names[cell.cell_id], "panel": f"volume {volume}",
            "cell_id": cell.cell_id, "cell": cell.text, "repetition": run.repetition, "block": run.block + 1,
            "tip": f"{cell.name}, {repetition_text(run.repetition)}: {numbers.bytes_(written)} written to volume "
            f"{volume} since it was prepared{_in_its_life(run, volume)}; {said}",
        }  # fmt: skip


def _in_its_life(run: Run, volume: str) -> str:
    """Writes the drives' own counters: ", and 1.2 TB to its drives in their lives". "" if any drive has no counter."""
    environment = run.measurement.environment if run.measurement is not None else {}
    drives = table_in(table_in(table_in(environment, "volumes"), volume), "made").get("drives")
    told = [one.get("written_in_its_life_bytes") for one in drives] if isinstance(drives, Sequence) else []
    known = [one for one in told if isinstance(one, int)]
    if not known or len(known) < len(told):
        return ""
    return f", and {numbers.capacity(sum(known))} to its drives in their lives"


def _draw(data: Figure, sheet: Sheet) -> Spec:
    encoding: Spec = TIP | {
        "x": figure("x", f"GB written before the run ({sheet.where})", scale={"zero": True}),
        "y": figure("mean", f"{data.legend} ({sheet.where})", **axis_of(data).channel),
    }
    told: Spec = {}
    if len(data.lines) > 1:
        told = told_apart(data, sheet.form, {"title": sheet.where, "symbolOpacity": 1}, shape=palette.SHAPES)
    mark = DOT if told else DOT | {"color": palette.LINES[0]}
    apart = "y" if axis_of(data).apart else ""
    return finished(
        sheet, [{"mark": mark, "encoding": encoding | told}], data.rows, data.starred(data.panels), apart=apart
    )


def _finding(data: Figure, _findings: Findings) -> str:
    most = max(data.rows, key=lambda row: float(row["x"] or 0))
    return f"Up to {bare(most['x'])} GB were written to {most['panel']} before a run."


def _marks(data: Figure, _findings: Findings) -> str:
    return (
        "Each mark is a run: what was written to the drive from its preparation to the run's start (kernel's count). "
        f"If times change with it, it may be their cause. {axis_of(data).says}"
    ).strip()


CHART = Chart(
    "drive-past", "drives", "What was written to the drive before each run", _rows, _draw, _finding, _marks,
    place=1, table=lambda data, _findings: table_of_cells(data, {
        "panel": Heading("of", "text"), "repetition": Heading("repetition"), "block": Heading("block"),
        "x": Heading("GB written before"), "mean": Heading(data.legend),
    }),
)  # fmt: skip
