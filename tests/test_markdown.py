"""Markdown for people, CSV for spreadsheets: the same figures as everywhere."""

import csv
import io
import re

import pytest
from builders import make_experiment, make_measurement, make_plan, make_planned, make_run, make_runs
from fabricated_findings import golden

from storagelab.findings.analysis import analyse
from storagelab.model.measurement import Check
from storagelab.model.plan import Factor, Level
from storagelab.model.waits import normalise
from storagelab.report.export.tables import RUN_COLUMNS, WAIT_COLUMNS, all_of, csv_of
from storagelab.report.sections.contents import document
from storagelab.report.text.markdown import markdown

FILES, LOG = "layout.data_files", "layout.log"


def the_runs(factors=None, **fields):
    experiment, plan = make_planned(factors or {FILES: [1, 4], LOG: ["a", "b"]}, **fields)
    lost = plan.runs[3]
    runs = make_runs(experiment, plan, failed=lambda planned: "no space, at all" if planned == lost else "")
    return experiment, plan, runs


def as_markdown(experiment, plan, runs):
    return markdown(document(experiment, plan, runs, analyse(experiment, plan, runs)))


def as_csv(table, experiment, plan, runs):
    return csv_of(all_of(experiment, plan, runs, None)[table]())


def read_csv(*of):
    return list(csv.DictReader(io.StringIO(as_csv(*of))))


def not_as_asked():
    experiment, plan, _ = the_runs()
    cell = plan.cells[0]
    check = Check(name=FILES, asked="4", got="3", ok=False, read_from="pg_inherits")
    return experiment, plan, [make_run(plan.runs[0], cell, make_measurement(cell.config, 10.0, None, checks=(check,)))]


NOT_MARKUP = {"driver": ["*bold*", "<b>x</b>", "[a](b)", "`c`"]}
REPORTS = {
    "a whole report": the_runs,
    "names are no markup": lambda: the_runs(NOT_MARKUP, question="Is it *this*?"),
    "a fence in the spec does not end the fence around it": lambda: the_runs(text="question = '''\n```\n'''\n"),
    "a run that is not as asked": not_as_asked,
    "no runs": lambda: (*the_runs()[:2], []),
}


def reports() -> str:
    return "\n".join(f"== {name}\n{as_markdown(*made())}" for name, made in REPORTS.items())


def test_markdown_reports_are_what_they_were():
    assert reports() == golden("reports").read_text("utf-8")


def test_all_rows_of_a_table_have_as_many_columns_as_its_head():
    experiment, plan, runs = the_runs({"driver | x": ["a|b", "*c*"]})
    for table in re.findall(r"(?:^\|.*\n)+", as_markdown(experiment, plan, runs), re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_runs_have_one_row_each_in_the_order_of_cells_and_repetitions():
    experiment, plan, runs = the_runs()
    rows = read_csv("runs", experiment, plan, runs)
    assert list(rows[0]) == ["cell_id", FILES, LOG, *RUN_COLUMNS]
    assert [(row["cell_id"], row["repetition"]) for row in rows] == [
        (cell.cell_id, str(repetition)) for cell in plan.cells for repetition in range(1, 6)
    ]


def test_figures_in_csv_are_exact_and_bare():
    experiment, plan, runs = the_runs()
    by_key = {(run.cell_id, str(run.repetition)): run for run in runs if run.measurement}
    for row in read_csv("runs", experiment, plan, runs):
        if row["status"] == "ok":
            measured = by_key[row["cell_id"], row["repetition"]].measurement
            assert float(row["elapsed_s"]) == measured.elapsed_s
            assert int(row["work"]) == measured.rows == 800_000
            assert float(row["work_per_s"]) == measured.rows / measured.elapsed_s
            assert float(row["cpu_s"]) == measured.waits.cpu_s


def test_waits_have_one_row_per_run_and_type_uncut():
    experiment, plan, runs = the_runs()
    rows = read_csv("waits", experiment, plan, runs)
    assert list(rows[0]) == ["cell_id", FILES, LOG, *WAIT_COLUMNS]
    measured = [run for run in runs if run.measurement]
    assert len(rows) == sum(len(normalise(run.measurement.waits)) for run in measured)
    first = [row for row in rows if (row["cell_id"], row["repetition"]) == ("cell-001", "1")]
    assert {"Lock:extend", "RUNNABLE_NO_EVENT", "ON_CPU"} <= {row["wait_type"] for row in first}
    on_cpu = next(row for row in first if row["wait_type"] == "ON_CPU")
    assert (on_cpu["is_wait"], on_cpu["resource_s"], on_cpu["signal_s"]) == ("false", "", "")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1.2.7, 512 B", "1.2.7, 512 B"), (True, "true"), (["a", "b"], '["a", "b"]'), (0.5, "0.5"),
        ('say "x"', 'say "x"'), ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
    ],
)  # fmt: skip
def test_levels_survive_csv(value, text):
    experiment = make_experiment({}, repetitions=1).model_copy(
        update={"factors": (Factor(name="thing", levels=(Level(value=value, sets={}),)),)}
    )
    plan = make_plan(experiment)
    (row,) = read_csv("runs", experiment, plan, make_runs(experiment, plan))
    assert row["thing"] == text


def test_no_password_gets_into_markdown_or_csv():
    experiment, plan, _ = the_runs()
    run = make_run(plan.runs[0], plan.cells[0], None, "connection to postgresql://me:s3cr3t@db/lab failed")
    of = experiment, plan, [run]
    assert "s3cr3t" not in as_markdown(*of) + as_csv("runs", *of) + as_csv("waits", *of)
