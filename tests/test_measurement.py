"""What a run leaves behind, and what earlier versions left behind."""

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from raw_io_specs import SPEC, needs_fio, parsed, runs_of
from real_mariadb import needs_mariadb

from storagelab.findings import cautions
from storagelab.findings.analysis import analyse
from storagelab.model import measurement
from storagelab.model.measurement import REFUSED, Page, Resource, Run, WaitingTask
from storagelab.report.text.tables import cell_columns
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


# --- counters --------------------------------------------------------------------------------------------------------


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
    assert "refused" in dict(cell_columns(findings, findings.cells))
