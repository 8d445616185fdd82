"""The machine's view: schema 1, uncut, without NaN, without secrets, fast."""

from __future__ import annotations

import json
import math
import re
import time
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
from builders import extension_story, make_experiment, make_measurement, make_plan, make_run, make_runs

from storagelab.findings.analysis import analyse
from storagelab.model.measurement import RAW_IO_BESIDE, Check, ObserverCost, TimeSeries
from storagelab.model.plan import Factor, Level
from storagelab.model.waits import CountedWait, CountedWaits
from storagelab.report.export.as_json import plain, to_json
from storagelab.report.words.secrets import masked

FILES, LOG = "layout.data_files", "layout.log"
SCHEMA = json.loads((resources.files("storagelab.report.export") / "export.schema.json").read_text("utf-8"))
DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "reference" / "export.md"


def the_experiment(**fields):
    return make_experiment({FILES: [1, 4], LOG: ["a", "b"]}, **fields)


def exported(experiment, plan, runs):
    """The export as another program reads it, validated against the schema."""
    document = json.loads(to_json(experiment, plan, runs, analyse(experiment, plan, runs)))
    jsonschema.validate(document, SCHEMA, cls=jsonschema.Draft202012Validator)
    return document


def one_run(measurement, **fields):
    """An experiment of one cell whose single run holds `measurement`."""
    experiment = make_experiment({}, repetitions=1, **fields)
    plan = make_plan(experiment)
    run = make_run(plan.runs[0], plan.cells[0], measurement(plan.cells[0].config))
    return exported(experiment, plan, [run])["cells"][0]["runs"][0]


def test_an_export_keeps_schema_1_with_all_runs_of_all_cells():
    experiment = the_experiment()
    plan = make_plan(experiment)
    document = exported(experiment, plan, make_runs(experiment, plan))
    assert document["schema"] == 1
    assert document["experiment"] == "files-and-log-place"
    assert document["provenance"] == "measured"
    assert [cell["levels"] for cell in document["cells"]] == [
        {FILES: 1, LOG: "a"}, {FILES: 1, LOG: "b"}, {FILES: 4, LOG: "a"}, {FILES: 4, LOG: "b"},
    ]  # fmt: skip
    assert [[run["repetition"] for run in cell["runs"]] for cell in document["cells"]] == [[1, 2, 3, 4, 5]] * 4
    assert list(document)[:3] == ["schema", "experiment", "provenance"]


def test_a_schema_that_checked_nothing_would_be_noticed():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    experiment = the_experiment()
    plan = make_plan(experiment)
    document = exported(experiment, plan, make_runs(experiment, plan))
    document["cells"][0]["runs"][0]["waits"][0]["counted"] = True
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA, cls=jsonschema.Draft202012Validator)


def test_waits_are_uncut_and_sampled_ones_are_never_called_counted():
    run = one_run(lambda config: make_measurement(config, 10.0, extension_story({FILES: 1}, 1)))
    waits = {row["wait_type"]: row for row in run["waits"]}
    assert {"Lock:extend", "LWLock:BufferContent", "RUNNABLE_NO_EVENT", "ON_CPU"} <= set(waits)
    assert not any(row["counted"] for row in run["waits"])
    assert waits["ON_CPU"]["is_wait"] is False
    assert waits["ON_CPU"]["wait_s"] == run["cpu_s"]
    for row in waits.values():
        if row["resource_s"] is not None:
            assert row["wait_s"] == pytest.approx(row["resource_s"] + row["signal_s"])
    assert sum(row["wait_s"] for row in waits.values()) == pytest.approx(0.99 * run["available_s"])


def test_what_an_engine_counts_is_called_counted():
    raw = CountedWaits(
        connections=2, elapsed_s=10, busy_s=20, cpu_s=3.0,
        rows=(CountedWait(wait_type="WRITELOG", wait_ns=5_000_000_000, signal_ns=None, wait_count=7),),
    )  # fmt: skip
    run = one_run(lambda config: make_measurement(config, 10.0, None, waits=raw))
    counted = run["waits"][0]
    assert (counted["wait_type"], counted["counted"], counted["wait_s"], counted["wait_count"]) == (
        "WRITELOG",
        True,
        5.0,
        7,
    )
    assert counted["resource_s"] is None
    assert counted["signal_s"] is None


def test_a_run_without_waits_has_none_and_no_cpu_time():
    run = one_run(lambda config: make_measurement(config, 10.0, None))
    assert (run["waits"], run["cpu_s"], run["explained"]) == ([], None, None)
    assert run["elapsed_s"] == 10.0


def test_a_failed_run_is_there_with_its_reason_and_without_figures():
    experiment = the_experiment()
    plan = make_plan(experiment)
    lost = plan.runs[3]
    runs = make_runs(experiment, plan, failed=lambda planned: "the disk is full" if planned == lost else "")
    document = exported(experiment, plan, runs)
    (failed,) = [run for cell in document["cells"] for run in cell["runs"] if run["status"] == "failed"]
    assert failed["reason"] == "the disk is full"
    assert failed["elapsed_s"] is None
    assert failed["rows"] is None
    assert failed["waits"] == []


def test_cells_without_any_run_are_there_with_nulls():
    experiment = the_experiment()
    document = exported(experiment, make_plan(experiment), [])
    assert document["provenance"] is None
    assert [cell["runs"] for cell in document["cells"]] == [[]] * 4
    assert document["cells"][0]["summary"]["mean_s"] is None
    assert document["findings"]["best"] == []


def test_the_summary_has_mean_median_and_interval():
    experiment = the_experiment()
    plan = make_plan(experiment)
    runs = make_runs(experiment, plan, elapsed=lambda levels, repetition: 10.0 + repetition)
    summary = exported(experiment, plan, runs)["cells"][0]["summary"]
    mean = math.prod(range(11, 16)) ** (1 / 5)
    assert (summary["mean_s"], summary["median_s"]) == (pytest.approx(mean), 13.0)
    assert summary["fitted_s"] == pytest.approx(mean), "no round was missed"
    low, high = summary["ci95_s"]
    assert low < mean < high


def test_a_single_run_has_no_interval():
    experiment = the_experiment(repetitions=1)
    plan = make_plan(experiment)
    assert exported(experiment, plan, make_runs(experiment, plan))["cells"][0]["summary"]["ci95_s"] is None


def test_findings_name_cells_and_effects_name_factors():
    experiment = make_experiment({FILES: [1, 4]})
    plan = make_plan(experiment)
    runs = make_runs(experiment, plan, elapsed=lambda levels, rep: (12.0 if levels[FILES] == 1 else 10.0) + 0.01 * rep)
    findings = exported(experiment, plan, runs)["findings"]
    assert findings["best"] == ["cell-002"]
    assert findings["tied"] == []
    assert findings["worst"] == "cell-001"
    assert findings["headline"].startswith("Use 4 data files: ")
    (effect,) = findings["effects"]
    assert (effect["factor"], effect["level"], effect["baseline"]) == (FILES, 4, 1)
    assert effect["ci95"][0] < effect["ratio"] < effect["ci95"][1] < 1


def test_labelled_and_listed_levels_are_exported_as_reports_call_them():
    factors = (
        Factor(name="driver", levels=(Level(value="1.2.7, 512 B", sets={}), Level(value="2.2.3, 4 KB", sets={}))),
        Factor(name="layout.data", levels=(Level(value=["a", "b"], sets={"layout.data": ["a", "b"]}),)),
    )
    experiment = make_experiment({}).model_copy(update={"factors": factors})
    plan = make_plan(experiment)
    document = exported(experiment, plan, make_runs(experiment, plan))
    assert document["cells"][0]["levels"] == {"driver": "1.2.7, 512 B", "layout.data": ["a", "b"]}


def test_nan_and_infinity_never_appear():
    series = TimeSeries(at_s=(1.0, 2.0), columns={"rows_per_s": (float("nan"), None)})
    run = one_run(
        lambda config: make_measurement(
            config,
            10.0,
            None,
            {"host": {"load": float("inf")}},
            series=series,
            counters={"wal": {"bytes": float("nan")}},
        )
    )
    assert run["series"]["columns"]["rows_per_s"] == [None, None]
    assert run["environment"] == {"host": {"load": None}}
    assert run["counters"] == {"wal": {"bytes": None}}


def test_what_json_does_not_know_becomes_text():
    assert plain(
        {
            "path": Path("a/b"),
            1: {
                2,
            },
            "none": None,
            "yes": True,
        }
    ) == {"path": "a/b", "1": [2], "none": None, "yes": True}


SECRET = "s3cr3t!x"


@pytest.mark.parametrize(
    "text",
    [f"postgresql://me:{SECRET}@db/lab", f"host=db password={SECRET} user=me", f"password = '{SECRET}'",
     f'PASSWORD="{SECRET}"', f"postgres://me:{SECRET}@h/d?password={SECRET}&x=1", f'{{"password": "{SECRET}"}}',
     f"Server=db;UID=sa;PWD={SECRET};", f"MYSQL_PWD={SECRET} mariadb", f"ALTER ROLE me ENCRYPTED PASSWORD '{SECRET}'",
     f"CREATE USER me IDENTIFIED BY '{SECRET}'", f"SET PASSWORD = PASSWORD('{SECRET}')", f"password 'it''s {SECRET}'",
     f"CREATE USER me IDENTIFIED VIA ed25519 USING PASSWORD('{SECRET}')"],
)  # fmt: skip
def test_passwords_are_masked_wherever_they_stand(text):
    assert SECRET not in masked(text)
    assert "***" in masked(text)


@pytest.mark.parametrize(
    "text",
    [
        "see https://example.org/a@b",
        "password_encryption = scram-sha-256",
        "me@host",
        "a: b",
        'password authentication failed for user "me"',
    ],
)
def test_what_is_no_password_is_left_alone(text):
    assert masked(text) == text


def test_no_secret_gets_into_an_export_by_any_door():
    dsn = f"postgresql://me:{SECRET}@db/lab"
    experiment = make_experiment(
        {"target.dsn": [dsn]}, repetitions=2, question=dsn, source=dsn, text=f'dsn = "{dsn}"',
        base={"target": {"engine": "postgres", "dsn": dsn}},
    )  # fmt: skip
    plan = make_plan(experiment)
    measurement = make_measurement(
        plan.cells[0].config, 10.0, None, {"server": {"dsn": dsn, "settings": [dsn]}},
        checks=(Check(name="dsn", asked=dsn, got=dsn, ok=False, read_from="x"),),
    )  # fmt: skip
    runs = [
        make_run(plan.runs[0], plan.cells[0], measurement),
        make_run(plan.runs[1], plan.cells[0], None, f"connection to {dsn} failed"),
    ]
    text = to_json(experiment, plan, runs, analyse(experiment, plan, runs))
    assert SECRET not in text
    assert "postgresql://me:***@db/lab" in text


def test_the_same_store_gives_the_same_bytes_in_whatever_order_runs_come():
    experiment = the_experiment()
    plan = make_plan(experiment)
    runs = make_runs(experiment, plan)
    findings = analyse(experiment, plan, runs)
    assert to_json(experiment, plan, runs, findings) == to_json(experiment, plan, runs[::-1], findings)


def test_every_field_has_a_description_in_the_schema_and_a_line_on_its_page():
    forms = {**SCHEMA["$defs"], "the top": SCHEMA}
    assert {"CellForm", "RunForm", "Wait", "FindingsForm", "AnswerForm", "Choice"} <= forms.keys()
    fields = [(name, form, field) for name, form in forms.items() for field in form["properties"]]
    assert [
        (name, field) for name, form, field in fields if not {**form, **form["properties"][field]}.get("description")
    ] == []
    listed = set(re.findall(r"`(?:[a-z0-9_]+[.])*([a-z0-9_]+)`", DOCUMENT.read_text("utf-8")))
    assert {field for _, _, field in fields} - listed == set()


def test_what_raw_io_tells_of_a_cell_is_exported_and_nothing_where_there_was_none():
    def summary_with(counters):
        experiment = make_experiment({}, repetitions=1)
        plan = make_plan(experiment)
        measurement = make_measurement(plan.cells[0].config, 10.0, None).model_copy(update={"counters": counters})
        runs = [make_run(plan.runs[0], plan.cells[0], measurement)]
        return exported(experiment, plan, runs)["cells"][0]["summary"]

    beside = {
        f"volume.a.{pattern}_{operation}_{unit}_per_s": 100.0
        for pattern, unit in (("random", "ios"), ("sequential", "bytes"))
        for operation in ("read", "write")
    }
    did = {"volume.a.writes": 500.0, "volume.a.write_bytes": 0.0, "volume.a.reads": 0.0, "volume.a.read_bytes": 0.0}
    (reached,) = summary_with({RAW_IO_BESIDE: beside, "volumes": did})["reached"]
    assert (reached["volume"], reached["unit"], reached["did_per_s"], reached["share"]) == ("a", "ios", 50, 0.5)
    assert {"steady", "reached"} & summary_with({}).keys() == set()


def test_what_survives_a_crash_and_how_long_nothing_was_seen_are_exported():
    seen = ObserverCost(sampler_cpu_s=0.1, session_cpu_s=None, ticks=500, late_ticks=3, blind_s=1.5)
    environment = {"server": {"engine": "postgres", "settings": {"fsync": "off"}}}
    run = one_run(lambda config: make_measurement(config, 10.0, None, environment, observer=seen))
    assert run["observer"]["blind_s"] == 1.5
    assert run["durability"] == {
        "commits": "nothing is forced to the disk",
        "settings": [
            {"name": "fsync", "value": "off", "loses": "everything"},
            {"name": "synchronous_commit", "value": "on", "loses": None},
            {"name": "full_page_writes", "value": "on", "loses": None},
        ],
        "whole_pages": True,
    }


@pytest.mark.slow
def test_five_thousand_runs_are_exported_within_four_seconds_of_cpu_time():
    experiment = make_experiment({FILES: [1, 2, 4, 8, 16]}, repetitions=10)
    plan = make_plan(experiment)
    few = make_runs(experiment, plan)
    findings = analyse(experiment, plan, few)
    runs = [run.model_copy(update={"attempt": attempt}) for run in few for attempt in range(1, 101)]
    before_s = time.process_time()
    text = to_json(experiment, plan, runs, findings)
    took_s = time.process_time() - before_s
    assert text.count('"repetition":') == 5000
    assert took_s < 4
