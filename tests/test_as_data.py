"""`--json`: what verbs print for programs. The fields named here stay."""

import json
from pathlib import Path

import jsonschema
import pytest
from simulated_specs import SMALL

(EXPORT,) = (
    json.loads(file.read_text("utf-8")) for file in Path(__file__).parent.parent.rglob("src/**/export.schema.json")
)


@pytest.fixture
def spec(home) -> str:
    (home / "small.toml").write_text(SMALL, "utf-8")
    return "small.toml"


def printed(said: tuple[int, str, str]) -> dict:
    """The document of a verb that went well; stdout holds nothing else."""
    code, out, err = said
    assert code == 0, err
    return json.loads(out)


def test_a_plan_for_programs(typed, spec):
    found = printed(typed("plan", spec, "--json"))
    assert list(found) == [
        "schema", "experiment", "question", "server", "cells", "runs", "runs_stored", "estimate_s", "volumes",
        "durability", "steps", "objects", "tells", "warnings", "lacks",
    ]  # fmt: skip
    assert found["schema"] == 1
    assert {run["cell_id"] for run in found["runs"]} == {cell["cell_id"] for cell in found["cells"]}


def test_what_run_prints_is_the_export(typed, spec):
    found = printed(typed("run", spec, "--json", "--jobs", 1))
    jsonschema.validate(found, EXPORT)
    assert found["findings"]["answer"]["lines"]
    waits = printed(typed("waits", spec, "--json"))
    assert list(waits) == ["schema", "experiment", "uncut", "cells"]
    assert {"wait_type", "wait_s", "percentage"} <= waits["cells"][0]["waits"][0].keys()
    first, second = (cell["cell_id"] for cell in found["cells"][:2])
    assert printed(typed("compare", spec, first, second, "--json"))


def test_the_doctor_for_programs(typed, home):
    found = printed(typed("doctor", "--json"))
    assert found["schema"] == 1
    assert all({"name", "state", "detail", "mend"} <= one.keys() for one in found["abilities"])
