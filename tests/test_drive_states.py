"""Drive states: means per cell, and trends along the order of runs."""

from collections.abc import Callable

from builders import make_experiment, make_measurement, make_plan, make_planned, make_run

from storagelab.findings.analysis import analyse
from storagelab.findings.kinds.drive_trends import states, trends
from storagelab.findings.model import DriveState, Estimate, Findings
from storagelab.model.measurement import Run
from storagelab.report.sections.cells import MAX_DRIVES, cells_table

FILES = "layout.data_files"


def runs_of(
    written: Callable[[int], float], *, order: str = "as-listed", blocks: int = 1, format_drives: bool = False,
    elapsed: Callable[[int], float] = lambda place: 10.0,
) -> list[Run]:  # fmt: skip
    """FABRICATED: 12 runs a block whose drive wrote `written(place in the block)` flash pages a page."""
    _, plan = make_planned({FILES: [1, 2, 4, 8]}, 3, order=order)
    runs = []
    for block in range(blocks):
        for planned in plan.runs:
            cell = plan.cell(planned.cell_id)
            between = cell.config.between_runs.model_copy(update={"format_drives": format_drives})
            counters = {
                "drive ssd": {"write_amplification": written(planned.sequence), "utilisation": 0.5},
                "wal": {"bytes": 1.0},
            }
            measured = make_measurement(cell.config, elapsed(planned.sequence), None, counters=counters)
            run = make_run(planned.model_copy(update={"block": block}), cell, measured)
            runs.append(run.model_copy(update={"config": cell.config.model_copy(update={"between_runs": between})}))
    return runs


def analysed(runs: list[Run]) -> Findings:
    experiment = make_experiment({FILES: [1, 2, 4, 8]}, 3, order="as-listed")
    return analyse(experiment, make_plan(experiment), runs)


def test_a_cell_tells_the_mean_of_its_runs_of_each_drive():
    findings = analysed(runs_of(lambda place: 1.0 + 0.1 * (place % 4 == 3)))
    told = {
        (cell.levels[FILES], one.drive, one.quantity): one.mean.value
        for cell in findings.cells
        for one in cell.drive_states
    }
    assert round(told[8, "ssd", "write_amplification"], 6) == 1.1
    assert told[1, "ssd", "write_amplification"] == 1.0
    assert told[1, "ssd", "utilisation"] == 0.5


def interval_of(written: list[float], used: list[float]) -> tuple[Estimate, Estimate]:
    """Intervals of write amplification and utilisation, over the runs that report them."""
    runs = [
        make_measurement(
            make_plan(make_experiment({}, 1)).cells[0].config, 10.0, None,
            counters={"drive ssd": {"write_amplification": one, "utilisation": other}},
        )
        for one, other in zip(written, used, strict=True)
    ]  # fmt: skip
    amplification, utilisation = states(runs)
    return amplification.mean, utilisation.mean


def test_intervals_stay_within_what_a_drive_can_do_however_far_its_runs_scatter():
    written, used = interval_of([1.0, 1.02, 1.01, 4.4, 1.0], [0.99, 0.995, 0.4, 1.0, 0.98])
    assert 1.0 < written.low < written.value < written.high
    assert 0.0 < used.low < used.value < used.high < 1.0
    assert written.high - written.value > written.value - written.low, "it is skewed as its runs are"


def test_a_drive_that_changes_along_the_order_is_told_from_its_first_runs_to_its_last():
    (trend,) = trends(
        runs_of(lambda place: 1.0 + 0.1 * place, blocks=3, elapsed=lambda place: 10.0 + place), randomised=False
    )
    assert (trend.drive, trend.quantity, trend.blocks, trend.randomised) == ("ssd", "write_amplification", 3, False)
    assert round(trend.first.value, 6) == 1.0
    assert round(trend.last.value, 6) == 2.1
    assert trend.rank_correlation > 0.99
    assert trend.with_time > 0.99


def test_a_drive_that_stays_as_it_was_or_moves_to_and_fro_has_no_trend():
    assert list(trends(runs_of(lambda place: 1.3), randomised=False)) == []
    assert list(trends(runs_of(lambda place: 1.0 + 0.5 * (place % 2)), randomised=False)) == []
    assert list(trends(runs_of(lambda place: 1.0 + 0.001 * place), randomised=False)) == []


def test_a_drive_that_is_formatted_before_every_run_has_no_past():
    assert list(trends(runs_of(lambda place: 1.0 + 0.1 * place, format_drives=True), randomised=False)) == []


def test_runs_without_drives_tell_nothing():
    experiment, plan = make_planned({FILES: [1, 2]}, 5)
    runs = [
        make_run(one, plan.cell(one.cell_id), make_measurement(plan.cell(one.cell_id).config, 9.0, None))
        for one in plan.runs
    ]
    assert list(trends(runs, randomised=True)) == []
    assert all(cell.drive_states == () for cell in analyse(experiment, plan, runs).cells)


def test_of_many_drives_the_table_of_cells_has_those_that_differ_most():
    findings = analysed(runs_of(lambda place: 1.0))

    def of_drives(moved: str) -> tuple[DriveState, ...]:
        means = {f"ssd{number}": 2.0 if f"ssd{number}" == moved else 1.0 for number in range(12)}
        return tuple(
            DriveState(drive=name, quantity="write_amplification", mean=Estimate(value=mean))
            for name, mean in means.items()
        )

    first, *others = findings.cells
    cells = (first.model_copy(update={"drive_states": of_drives("ssd7")}),
             *(cell.model_copy(update={"drive_states": of_drives("")}) for cell in others))  # fmt: skip
    headings = [one.text for one in cells_table(findings.model_copy(update={"cells": cells})).table.headings]
    assert sum(one.startswith("write amplification of ") for one in headings) == MAX_DRIVES
    assert "write amplification of ssd7" in headings
