"""The tables of results: tidy, and the queries of the docs run on them as they stand."""

import re
import sqlite3
from pathlib import Path

import pytest
from builders import extension_story, make_experiment, make_measurement, make_run

from storagelab.findings.analysis import analyse
from storagelab.model.measurement import TimeSeries
from storagelab.report.export.tables import all_of, sqlite_file
from storagelab.spec.matrix import expand

FILES = "layout.data_files"
TABLES = ("runs", "waits", "series", "cells")
GUIDE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "notebooks-and-sql.md"
TEXT = GUIDE.read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)


def the_tables():
    """A small experiment: one file is slow, two and four are not; the last run failed."""
    experiment = make_experiment({FILES: [1, 2, 4]}, repetitions=3)
    plan = expand(experiment)
    cells = {cell.cell_id: cell for cell in plan.cells}
    series = TimeSeries(
        at_s=(1.0, 2.0), columns={"rows_per_s": (100.0, None), "volume.a.write_bytes_per_s": (1e6, 2e6)}
    )
    runs = []
    for planned in plan.runs:
        cell = cells[planned.cell_id]
        elapsed_s = (14.0 if cell.levels[FILES] == 1 else 10.0) * (1 + planned.repetition / 1000)
        measured = make_measurement(cell.config, elapsed_s, extension_story(cell.levels, planned.repetition))
        runs.append(make_run(planned, cell, measured.model_copy(update={"series": series})))
    runs[-1] = runs[-1].model_copy(update={"status": "failed", "reason": "the disk was full", "measurement": None})
    made = all_of(experiment, plan, runs, analyse(experiment, plan, runs))
    return {name: make() for name, make in made.items()}


@pytest.fixture(scope="module")
def tables():
    return the_tables()


@pytest.fixture(scope="module")
def database(tables):
    connection = sqlite3.connect(":memory:")
    connection.deserialize(sqlite_file(tables))
    return connection


def test_every_table_begins_with_the_cell_and_its_levels(tables):
    assert {name: table.columns[:2] for name, table in tables.items()} == dict.fromkeys(
        ("runs", "waits", "series", "cells"), ("cell_id", FILES)
    )
    assert {(row[0], row[1]) for row in tables["cells"].rows} == {("c01", 1), ("c02", 2), ("c03", 4)}


def test_a_failed_run_has_a_row_with_its_reason_and_no_figures(database):
    assert database.execute(
        "SELECT status, reason, elapsed_s, work, provenance FROM runs WHERE status = 'failed'"
    ).fetchall() == [("failed", "the disk was full", None, None, None)]
    assert database.execute("SELECT count(*) FROM runs").fetchone() == (9,)


def test_a_missing_moment_of_a_series_is_null_and_not_nought(database):
    values = database.execute("SELECT DISTINCT at_s, value FROM series WHERE quantity = 'rows_per_s' ORDER BY at_s")
    assert values.fetchall() == [(1.0, 100.0), (2.0, None)]


def test_the_verdict_of_a_cell_is_the_reports(database):
    verdicts = dict(database.execute("SELECT cell_id, verdict FROM cells"))
    assert verdicts["c01"] == "slower"
    assert sorted((verdicts["c02"], verdicts["c03"])) == ["may-be-fastest", "may-be-fastest"]


def test_the_waits_of_a_run_and_its_cpu_time_add_up(database):
    for waited_s, busy_s in database.execute(
        "SELECT sum(wait_s), connections * elapsed_s FROM waits GROUP BY cell_id, repetition"
    ):
        assert waited_s == pytest.approx(busy_s, rel=0.02)


def test_a_factor_with_a_quote_in_its_name_is_a_column_all_the_same():
    experiment = make_experiment({FILES: [1]}, repetitions=1)
    odd = experiment.factors[0].model_copy(update={"name": 'the "fast" disk'})
    experiment = experiment.model_copy(update={"factors": (odd,)})
    plan = expand(make_experiment({FILES: [1]}, repetitions=1))
    made = all_of(experiment, plan, [], analyse(experiment, plan, []))
    connection = sqlite3.connect(":memory:")
    connection.deserialize(sqlite_file({"runs": made["runs"]()}))
    assert connection.execute('SELECT "the ""fast"" disk" FROM runs').fetchall() == []


def test_the_guide_has_ten_queries():
    assert len(QUERIES) == 10


@pytest.mark.parametrize("query", QUERIES, ids=[query.split("\n")[0][:50] for query in QUERIES])
def test_a_query_of_the_guide_has_an_answer(database, query):
    assert database.execute(query).fetchall()


def test_the_guide_names_every_column(tables):
    for name, table in tables.items():
        row = next(line for line in TEXT.splitlines() if line.startswith(f"| `{name}` |"))
        assert [column for column in table.columns[2:] if f"`{column}`" not in row] == [], name
