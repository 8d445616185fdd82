"""A finding is one file: of the experiment, or of each cell. Files of the test's own are found everywhere."""

import importlib
import json
import sys
from pathlib import Path

import jsonschema
import pytest
from builders import make_campaign, make_experiment, make_plan, on_a_terminal
from fabricated_findings import FILES

from storagelab.findings import kinds
from storagelab.findings.analysis import analyse
from storagelab.findings.model import Finding, Findings
from storagelab.report import writing
from storagelab.report.export.as_json import json_schema
from storagelab.report.sections.contents import document
from storagelab.report.words.answer import answer_lines

TOOLS = Path(__file__).resolve().parent.parent / "tools"

TIDE = '''
from collections.abc import Iterator

from pydantic import Field

from storagelab.findings.basis import Evidence
from storagelab.findings.model import Finding, Findings


class Tide(Finding):
    """The water at the machine."""

    kind, about, weight = "tide", "use", -1
    meaning = "How high the water stood; none away from the sea."
    height_m: float = Field(description="Its height in metres.")
    runs: int = Field(description="The runs that it was measured in.")

    @classmethod
    def line(cls, findings: Findings) -> str:
        return "".join(f"The water stood {one.height_m} m high." for one in cls.of(findings))

    @classmethod
    def sentences(cls, findings: Findings) -> list[str]:
        said = "In {} runs the water stood {} m high. Wait for the ebb."
        return [said.format(one.runs, one.height_m) for one in cls.of(findings)]


def find(evidence: Evidence) -> Iterator[Tide]:
    yield Tide(height_m=2.5, runs=len(evidence.runs))
'''
SEAGULLS = '''
from collections.abc import Iterator, Sequence

from storagelab.findings.model import Finding, Findings
from storagelab.model.config import Config
from storagelab.model.measurement import Measurement


class Seagulls(Finding):
    """Seagulls that were seen while a cell ran; `number` in all of its runs."""

    kind, about, of_cells = "seagulls", "why", True
    meaning = "The seagulls of this cell."
    number: int

    @classmethod
    def line(cls, findings: Findings) -> str:
        return f"{sum(one.number for cell in findings.cells for one in cls.of(cell))} seagulls were seen."

    @classmethod
    def sentences(cls, findings: Findings) -> list[str]:
        return [f"{cell.cell_id} had {one.number} seagulls." for cell in findings.cells for one in cls.of(cell)]


def find_in_cell(runs: Sequence[Measurement], config: Config) -> Iterator[Seagulls]:
    if config.layout.data_files == 4:
        yield Seagulls(number=len(runs))
'''


@pytest.fixture
def _at_the_sea(tmp_path, monkeypatch):
    """Two more modules of findings, in a folder of the test's own."""
    (tmp_path / "tide.py").write_text(TIDE)
    (tmp_path / "seagulls.py").write_text(SEAGULLS)
    monkeypatch.syspath_prepend(TOOLS)
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(tmp_path)])
    yield
    for name in ("tide", "seagulls"):
        del sys.modules[f"{kinds.__name__}.{name}"]


@pytest.mark.slow
@pytest.mark.usefixtures("_at_the_sea")
def test_a_new_finding_is_one_file():
    experiment, plan, runs = make_campaign({FILES: [1, 4]}, 5)
    findings = analyse(experiment, plan, runs)
    lines = answer_lines(findings)
    assert lines[3] == "The water stood 2.5 m high.", "its weight puts it before the other lines on how sure that is"
    assert "5 seagulls were seen." in lines
    tide, seagulls = "In 10 runs the water stood 2.5 m high. Wait for the ebb.", "cell-002 had 5 seagulls."
    texts = [on_a_terminal(document(experiment, plan, runs, findings))]
    texts += [
        writing.render(format_, experiment, plan, runs, findings).replace("\u00a0", " ") for format_ in ("html", "md")
    ]
    for text in texts:
        for words in (tide, seagulls, "The water stood 2.5 m high.", "5 seagulls were seen."):
            assert words in " ".join(text.split())
    exported = json.loads(writing.render("json", experiment, plan, runs, findings))
    jsonschema.validate(exported, json_schema(), cls=jsonschema.Draft202012Validator)
    assert exported["findings"]["found"]["tide"] == [{"height_m": 2.5, "runs": 10}]
    assert {tide, seagulls} <= {*exported["findings"]["sentences"]}
    assert [cell["summary"]["found"].get("seagulls") for cell in exported["cells"]] == [None, [{"number": 5}]]
    make_docs = importlib.import_module("make_docs")
    assert "| `found.tide.height_m` | Its height in metres. |" in make_docs.fields_of("ExportedFindings")
    assert "| `found.seagulls` | The seagulls of this cell. |" in make_docs.fields_of("ExportedSummary")
    assert Findings.model_validate_json(findings.model_dump_json()) == findings


def test_a_finding_of_an_unknown_kind_is_refused():
    known = analyse(experiment := make_experiment({FILES: [1, 4]}, 2), make_plan(experiment), ()).model_dump()
    with pytest.raises(ValueError, match="no finding is of the kind earthquake"):
        Findings.model_validate(known | {"found": {"earthquake": [{"strength": 2.5}]}})


def test_kinds_have_names_and_weights_of_their_own():
    found = kinds.kinds()
    assert len({kind.kind for kind in found}) == len(found) >= 3
    assert all(issubclass(kind, Finding) and kind.meaning.endswith(".") for kind in found)
