"""The chart of what drives wrote."""

from builders import analysed

from storagelab.findings.model import DriveState, Estimate, Findings
from storagelab.report.charts import drawn_charts, write_amplification
from storagelab.report.drawing import arrange

FILES, LOG = "layout.data_files", "layout.log"


def story() -> Findings:
    """FABRICATED: two volumes alike."""
    return analysed({FILES: [1, 2, 4], LOG: ["a", "b"]}, 2)


def with_drives(findings: Findings, written: dict[int, float]) -> Findings:
    def state(files: object) -> DriveState:
        return DriveState(drive="ssd", quantity="write_amplification", mean=Estimate(value=written[int(str(files))]))

    cells = tuple(cell.model_copy(update={"drive_states": (state(cell.levels[FILES]),)}) for cell in findings.cells)
    return findings.model_copy(update={"cells": cells})


def test_what_the_drive_wrote_stands_in_the_places_of_the_completion_times():
    findings = with_drives(story(), {1: 1.0, 2: 1.1, 4: 1.5})
    data = write_amplification.CHART.rows(findings, ())
    assert [(row["x"], row["line"], row["mean"]) for row in data.rows] == [
        ("1", "a", 1.0), ("1", "b", 1.0), ("2", "a", 1.1), ("2", "b", 1.1), ("4", "a", 1.5), ("4", "b", 1.5),
    ]  # fmt: skip
    assert data.arrangement == arrange.arrange(findings)
    assert "write-amplification" in drawn_charts(findings, ())


def test_drives_that_do_the_same_everywhere_or_tell_nothing_have_no_chart():
    assert write_amplification.CHART.of(story(), ()) is None
    assert write_amplification.CHART.of(with_drives(story(), {1: 1.2, 2: 1.2, 4: 1.21}), ()) is None


def test_of_many_drives_those_that_differ_most_are_told():
    findings = with_drives(story(), {1: 1.0, 2: 1.0, 4: 1.0})
    (state,) = findings.cells[0].drive_states
    many = tuple(state.model_copy(update={"drive": f"ssd{number}"}) for number in range(12))
    moved = (*many[:7], many[7].model_copy(update={"mean": Estimate(value=2.0)}), *many[8:])
    cells = tuple(
        cell.model_copy(update={"drive_states": moved if index else many}) for index, cell in enumerate(findings.cells)
    )
    told = write_amplification.drives(findings.model_copy(update={"cells": cells}))
    assert len(told) == write_amplification.MAX_DRIVES
    assert "ssd7" in told
