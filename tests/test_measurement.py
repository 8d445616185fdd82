"""Stored data of a run, of this and earlier versions; stored series are short and sufficient."""

import itertools
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from builders import story
from raw_io_specs import SPEC, needs_fio, parsed, runs_of
from real_mariadb import needs_mariadb
from simulated_specs import ONE_BLOCK, run_once

from storagelab.engines.simulated.measurement import LINES_MOST, LOOKS_MOST, POINTS_MOST, kept_looks, thinned
from storagelab.findings import cautions
from storagelab.findings.analysis import analyse
from storagelab.model import measurement
from storagelab.model.measurement import REFUSED, Page, Resource, Run, TimeSeries, WaitingTask
from storagelab.report.sections.cells import cells_table
from storagelab.spec.matrix import expand

EXPORT = Path(__file__).resolve().parent.parent / "docs" / "reference" / "export.md"
ON_SERVER = 'repetitions = 1\n[target]\nengine = "{}"\n{}[volumes.a]\npath = "."\n[workload]\n{}\n'
SIMULATED = (
    'repetitions = 1\n[target]\nengine = "simulated"\n[server]\ncores = 2\nmemory = "1GB"\n[drives.d]\n'
    'profile = "cloud-gp2-500"\n[volumes.a]\ndrives = ["d"]\n[workload]\nrows_per_connection = 5000\n'
)
SERIALIZABLE = 'settings = { default_transaction_isolation = "serializable" }\n'
PGBENCH = 'kind = "pgbench"\nduration = "2s"\nconnections = 8'
SYSBENCH = 'kind = "sysbench"\nduration = "2s"\nconnections = 8\ntable_size = 100'

TASK = {"at_s": 1.5, "wait_type": "PAGELATCH_UP", "sessions": 3}


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("5:1:1520544, a PFS page", Resource(kind="a PFS page", page=Page(5, 1, 1520544))),
        ("end of transaction 7291", Resource(kind="end of transaction", name="7291")),
        ("index level 1 no. 87", Resource(kind="index level 1", name="no. 87")),
        ("data file 3", Resource(kind="data file", name="3")),
        ("row 3/4 of my_big_table_p1 (data file 1)", Resource(kind="row 3/4 of my_big_table_p1 (data file 1)")),
        ("page 8088 of data file 1 (PFS)", Resource(kind="page 8088 of data file 1 (PFS)")),
        ("", Resource(kind="")),
    ],
)
def test_a_thing_that_was_stored_as_text_is_read_and_has_that_text(text, resource):
    task = WaitingTask(**TASK, resource=text)
    assert task.resource == resource
    assert task.resource.text == text
    assert WaitingTask.model_validate_json(task.model_dump_json()) == task


@pytest.mark.parametrize("resource", [7, None, {"page": [1, 2, 3]}, {"kind": "x", "page": [1, 2]}])
def test_what_names_no_thing_is_refused(resource):
    with pytest.raises(ValueError, match="resource"):
        WaitingTask(**TASK, resource=resource)


def uses() -> list[tuple[str, str, str]]:
    """(pattern of a group, pattern of a counter, what it is for): the table in the documentation."""
    text = EXPORT.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`|]+)` \| (`[^|]+`) \| ([^|]+) \|$", text[text.index("## Counters") :], re.MULTILINE)
    return [(group, name, use) for group, names, use in rows for name in re.findall("`([^`]+)`", names)]


def check_listed(run: Run) -> None:
    table = uses()
    for group, counters in run.measurement.counters.items():
        for name in counters:
            listed = [use for one, other, use in table if fnmatchcase(group, one) and fnmatchcase(name, other)]
            assert listed, f"{group}.{name} is neither judged nor for information"


def test_what_judges_a_counter_is_there():
    known = {one.kind for one in cautions.kinds()} | {
        value for value in vars(measurement).values() if isinstance(value, str)
    }
    for group, name, use in uses():
        named = re.findall("`([^`]+)`", use)
        assert named or use == "for information" or use.startswith(("the result", "the check")), f"{group}.{name}"
        assert {*named} <= known, f"{group}.{name}"


@needs_fio
@pytest.mark.slow
@pytest.mark.parametrize("text", [
    SPEC, SPEC.replace('"read"', '"mixed"'), SIMULATED,
    SPEC.replace('path = "."', 'drives = ["d"]').replace("[layout]", '[drives.d]\nprofile = "cloud-gp2-500"\n[layout]'),
    ON_SERVER.format("postgres", "", 'kind = "mixed"\nread_fraction = 0.5\nrows_per_connection = 2000')
    + '[measure]\nraw = "after"\nraw_s = 1\n',
])  # fmt: skip
def test_every_counter_is_judged_or_for_information(scratch, text):
    (run,) = runs_of(scratch, text)
    assert run.status != "failed", run.reason
    check_listed(run)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "settings", "load", "how"),
    [
        ("postgres", SERIALIZABLE, PGBENCH, "refused by the server"),
        ("postgres", SERIALIZABLE, SYSBENCH, "made again after an error"),
        pytest.param("mariadb", "", SYSBENCH, "made again after an error", marks=needs_mariadb),
    ],
)
def test_a_run_whose_transactions_are_refused_is_unverified_and_says_so_first(scratch, engine, settings, load, how):
    text = ON_SERVER.format(engine, settings, load)
    (run,) = runs_of(scratch, text)
    check_listed(run)
    assert run.status == "unverified", run.reason
    (check,) = [one for one in run.measurement.unverified if one.name == REFUSED]
    assert how in check.got
    experiment = parsed(scratch, text)
    findings = analyse(experiment, expand(experiment), [run])
    (told,) = [one for one in findings.cautions if one.kind == "refused-transactions"]
    assert (told.how, told.most > 0.01) == (how, True)
    assert findings.cautions[0] == told
    assert "refused" in [heading.text for heading in cells_table(findings).table.headings]


def series_of(count: int, last_s: float = 2.0) -> TimeSeries:
    """Two seconds apart, the last interval shorter; the values count up."""
    at_s = [2.0 * number for number in range(1, count)]
    return TimeSeries(
        at_s=(*at_s, (at_s[-1] if at_s else 0.0) + last_s),
        columns={"rows_per_s": tuple(float(number) for number in range(count)), "gaps": (None,) * count},
    )


def total(series: TimeSeries) -> float:
    widths = [b - a for a, b in zip((0.0, *series.at_s), series.at_s, strict=False)]
    return sum((value or 0) * width for value, width in zip(series.columns["rows_per_s"], widths, strict=True))


@pytest.mark.parametrize("count", [1, 99, 100, 101, 445, 6822])
def test_a_series_keeps_its_end_and_its_sum_in_a_hundred_points_at_most(count):
    whole = series_of(count, last_s=0.5)
    stored = thinned(whole)
    assert min(count, POINTS_MOST // 2) <= len(stored.at_s) <= POINTS_MOST
    assert stored.at_s[-1] == whole.at_s[-1]
    assert total(stored) == pytest.approx(total(whole), rel=1e-5)
    assert {len(values) for values in stored.columns.values()} == {len(stored.at_s)}
    assert set(stored.columns["gaps"]) == {None}


def look(number: int, tasks: int = 8) -> dict[str, object]:
    return {"at_ns": number, "tasks": [{"workers": 9 - place} for place in range(tasks)]}


@pytest.mark.parametrize("count", [0, 1, 30, 31, 341])
def test_looks_are_kept_evenly_over_the_run_with_their_longest_queues(count):
    kept = kept_looks([look(number) for number in range(1, count + 1)])
    assert min(count, LOOKS_MOST // 2) <= len(kept) <= LOOKS_MOST
    assert len({b["at_ns"] - a["at_ns"] for a, b in itertools.pairwise(kept)}) <= 1
    assert all([task["workers"] for task in one["tasks"]] == [9, 8, 7, 6][:LINES_MOST] for one in kept)


def test_a_long_simulated_run_takes_less_than_thirty_kilobytes_and_says_what_was_left_out(tmp_path):
    longer = [("500_000", "2_000_000"), ('"4GB"', '"2GB"'), ("[1, 4]", "[1]")]
    (run,) = run_once(tmp_path, ONE_BLOCK, *longer)
    measured = run.measurement
    said = measured.counters["stored in part"]
    assert said["series_points_taken"] > said["series_points_stored"] == len(measured.series.at_s)
    assert said["waiting_looks_stored"] >= len({task.at_s for task in measured.waiting_tasks})
    assert len(run.model_dump_json()) < 30_000


def test_the_table_of_cells_marks_what_to_take_and_a_single_cell_has_no_column_without_an_entry():
    findings, _ = story({"layout.data_files": [1, 4]}, repetitions=3)
    assert [kind.endswith(" recommended") for kind in cells_table(findings).table.row_kinds] == [True, False]
    found = cells_table(story({"layout.data_files": [1]}, repetitions=2)[0])
    assert "verdict" not in [heading.text for heading in found.table.headings]
    assert None not in found.keys[0]
