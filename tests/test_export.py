"""The machine's view: schema 2, uncut, without NaN, without secrets, fast."""

import json
import re
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
from builders import (
    extension_story,
    make_campaign,
    make_experiment,
    make_measurement,
    make_plan,
    make_planned,
    make_run,
    make_runs,
)  # fmt: skip
from fabricated_findings import golden

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


def one_run(**fields):
    """The export of an experiment whose single run was measured like this."""
    experiment, plan = make_planned({}, repetitions=1)
    given = {"shares": None, "environment": None} | fields
    measured = make_measurement(plan.cells[0].config, 10.0, given.pop("shares"), given.pop("environment"), **given)
    return exported(experiment, plan, [make_run(plan.runs[0], plan.cells[0], measured)])


def with_a_failed_run():
    experiment, plan = make_planned({FILES: [1, 4], LOG: ["a", "b"]}, repetitions=2)
    failed = lambda planned: "the disk is full" if planned == plan.runs[3] else ""  # noqa: E731
    return exported(experiment, plan, make_runs(experiment, plan, failed=failed))


def with_labels_and_lists():
    factors = (
        Factor(name="driver", levels=(Level(value="1.2.7, 512 B", sets={}), Level(value="2.2.3, 4 KB", sets={}))),
        Factor(name="layout.data", levels=(Level(value=["a", "b"], sets={"layout.data": ["a", "b"]}),)),
    )
    experiment = make_experiment({}, 2).model_copy(update={"factors": factors})
    plan = make_plan(experiment)
    return exported(experiment, plan, make_runs(experiment, plan, waits=None))


WRITELOG = CountedWait(wait_type="WRITELOG", wait_ns=5_000_000_000, signal_ns=None, wait_count=7)
COUNTED = CountedWaits(connections=2, elapsed_s=10, busy_s=20, cpu_s=3.0, rows=(WRITELOG,))
NOT_A_NUMBER = TimeSeries(at_s=(1.0, 2.0), columns={"rows_per_s": (float("nan"), None)})
BESIDE = {
    f"volume.a.{pattern}_{operation}_{unit}_per_s": 100.0
    for pattern, unit in (("random", "ios"), ("sequential", "bytes"))
    for operation in ("read", "write")
}
DID = {"volume.a.writes": 500.0, "volume.a.write_bytes": 0.0, "volume.a.reads": 0.0, "volume.a.read_bytes": 0.0}
UNSAFE = {"server": {"engine": "postgres", "settings": {"fsync": "off"}}}
SEEN = ObserverCost(sampler_cpu_s=0.1, session_cpu_s=None, ticks=500, late_ticks=3, blind_s=1.5)
SITUATIONS = {
    "an experiment with a failed run": with_a_failed_run,
    "no runs": lambda: exported(*make_planned({FILES: [1, 4], LOG: ["a", "b"]}), []),
    "one run each": lambda: exported(*make_campaign({FILES: [1, 4]}, repetitions=1, waits=None)),
    "a winner": lambda: exported(
        *make_campaign({FILES: [1, 4]}, elapsed=lambda of, n: (12.0 if of[FILES] == 1 else 10.0) + 0.01 * n, waits=None)
    ),
    "labels and lists": with_labels_and_lists,
    "sampled waits, uncut": lambda: one_run(shares=extension_story({FILES: 1}, 1)),
    "counted waits": lambda: one_run(waits=COUNTED),
    "no number": lambda: one_run(
        environment={"host": {"load": float("inf")}}, series=NOT_A_NUMBER, counters={"wal": {"bytes": float("nan")}}
    ),
    "raw I/O beside the run": lambda: one_run(counters={RAW_IO_BESIDE: BESIDE, "volumes": DID}),
    "what survives a crash, and what was not seen": lambda: one_run(environment=UNSAFE, observer=SEEN),
}


def rounded(value):
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items() if name != "p_value"}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def documents():
    """What is exported in each situation, with figures to five digits, as processors differ in the last ones."""
    return [{"in": name, "exported": rounded(made())} for name, made in SITUATIONS.items()]


def test_exports_are_what_they_were():
    """After a change: `python tools/make_golden_answers.py`."""
    assert documents() == json.loads(golden("exports", "json").read_text("utf-8"))


def test_a_schema_that_checked_nothing_would_be_noticed():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    experiment = the_experiment()
    plan = make_plan(experiment)
    document = exported(experiment, plan, make_runs(experiment, plan))
    document["cells"][0]["runs"][0]["measurement"]["wait_stats"][0]["method"] = "guessed"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA, cls=jsonschema.Draft202012Validator)


def test_what_json_does_not_know_becomes_text():
    assert plain({"path": Path("a/b"), 1: {2}, "none": None}) == {"path": "a/b", "1": [2], "none": None}


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
    odd = {'a "\\': ["\\", f'\\" p, i, P: {text}', ""], text: "\n"}
    assert plain(odd) == {'a "\\': ["\\", masked(f'\\" p, i, P: {text}'), ""], masked(text): "\n"}


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
    experiment, plan = make_planned(
        {"target.dsn": [dsn]}, repetitions=2, question=dsn, source=dsn, text=f'dsn = "{dsn}"',
        base={"target": {"engine": "postgres", "dsn": dsn}},
    )  # fmt: skip
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
    assert {"ExportedCell", "ExportedRun", "WaitStat", "Choice"} <= forms.keys()
    fields = [(name, form, field) for name, form in forms.items() for field in form.get("properties", ())]
    assert [
        (name, field) for name, form, field in fields if not {**form, **form["properties"][field]}.get("description")
    ] == []
    listed = set(re.findall(r"`(?:[a-z0-9_]+[.])*([a-z0-9_]+)`", DOCUMENT.read_text("utf-8")))
    assert {field for _, _, field in fields} - listed == set()
