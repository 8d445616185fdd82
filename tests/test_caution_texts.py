"""The wording of cautions: each says what, how much, and what to do about it."""

import importlib
import json
import re
import sys
from pathlib import Path

import jsonschema
import pytest
from builders import make_campaign, on_a_terminal
from fabricated_findings import FILES, make_findings

from storagelab.findings import cautions
from storagelab.findings.analysis import analyse
from storagelab.findings.cautions import kinds
from storagelab.findings.cautions.changing import CarryOver, Drift, Step
from storagelab.findings.cautions.checkpoints import LogNeverFull, NoCheckpoint
from storagelab.findings.cautions.cpu_time import BusyMachine
from storagelab.findings.cautions.data_files import AllocationLatches, FilesOnDisks
from storagelab.findings.cautions.devices import SharedDevice, VirtualDisk
from storagelab.findings.cautions.different_loads import DifferentLoads
from storagelab.findings.cautions.missing_runs import JudgedBefore
from storagelab.findings.cautions.odd_runs import OddRun
from storagelab.findings.cautions.order import NotRandomised, RunInBlocks
from storagelab.findings.cautions.raw_io import TwoProvenances
from storagelab.findings.cautions.unlike_hosts import UnlikeHosts
from storagelab.findings.cautions.watching import WatchedSlower
from storagelab.findings.model import Caution, Findings
from storagelab.report import writing
from storagelab.report.export.as_json import json_schema
from storagelab.report.sections.contents import document
from storagelab.report.words.answer import opening
from storagelab.report.words.caution_texts import caution_sentence, caution_text

TOOLS = Path(__file__).resolve().parent.parent / "tools"

GOLDEN = Path(__file__).parent / "golden" / "words" / "cautions.json"
"""Cautions with their figures, and the sentence of each. After a change of words: `python
tools/make_golden_answers.py`.
"""
CASES = json.loads(GOLDEN.read_text("utf-8"))
BY_KIND = {kind.kind: kind for kind in kinds()}
CAUTIONS: list[Caution] = [BY_KIND[case["kind"]].model_validate_json(json.dumps(case["figures"])) for case in CASES]
OF_THE_WHOLE = (
    NoCheckpoint, LogNeverFull, VirtualDisk, SharedDevice, BusyMachine, Drift, Step,
    CarryOver, NotRandomised, RunInBlocks, AllocationLatches, DifferentLoads,
    FilesOnDisks, JudgedBefore, TwoProvenances, UnlikeHosts, WatchedSlower,
)  # fmt: skip
ALL = pytest.mark.parametrize("caution", CAUTIONS, ids=lambda caution: caution.kind)


def words(caution: Caution) -> str:
    return caution_sentence(caution, make_findings({FILES: [1, 4]}, {1: 2.94, 4: 2.41}, verdict="winner"))


def test_each_kind_of_caution_is_tried_here():
    assert {type(caution) for caution in CAUTIONS} == set(kinds())


def test_what_lost_cpu_time_is_the_server_or_fio():
    busy = BusyMachine(others_share=0.3, limit=0.1, runs=4, checked=10)
    raw = make_findings({FILES: [1, 4]}, {1: 2.94, 4: 2.41}, verdict="winner").model_copy(update={"unit": "requests"})
    assert "the load lost that time" in caution_sentence(busy, raw)


def test_an_odd_run_of_a_set_time_is_told_by_what_it_did_in_that_time():
    odd = OddRun(
        cells=("c1",), repetition=2, elapsed_s=5.01, expected_s=3.97, ratio=1.26, deviation_sd=7.0, runs=1, left_out=0
    )
    assert "repetition 2 took 5.01 s; 3.97 s was expected" in words(odd)
    findings = make_findings({FILES: [1, 4]}, {1: 2.94, 4: 2.41}, verdict="winner")
    said = [
        caution_sentence(odd, findings.model_copy(update={"compared": compared}))
        for compared in ("time-per-transaction", "latency-p99")
    ]
    assert "repetition 2 took 1.26 times as long as expected per transaction" in said[0]
    assert "the p99 of repetition 2 was 1.26 times as long as expected" in said[1]


@ALL
def test_each_caution_also_has_a_few_words_for_the_answer(caution):
    findings = make_findings({FILES: [1, 4]}, {1: 2.94, 4: 2.41}, verdict="winner", cautions=(caution,))
    assert 0 < len(caution_text(caution.kind, findings)) <= 60


def test_a_caution_says_what_it_said():
    assert [words(caution) for caution in CAUTIONS] == [case["says"] for case in CASES]


@ALL
def test_a_caution_is_whole_sentences(caution):
    assert re.fullmatch(r"[A-Z0-9].*\.", words(caution))
    assert not re.search(r"  |\(\)|None|nan| ,| \.|\.\.", words(caution))


@ALL
def test_a_caution_about_some_cells_names_them(caution):
    of_one = words(caution.model_copy(update={"cells": ("c2",)}))
    assert ("4 data files" in of_one) != isinstance(caution, OF_THE_WHOLE)
    assert words(caution.model_copy(update={"cells": ("c1", "c2")})) == words(caution)


FULL_MOON = '''
from collections.abc import Iterator

from storagelab.findings.basis import Evidence
from storagelab.findings.model import Caution, Findings
from storagelab.model.measurement import WATCHED


class FullMoon(Caution):
    """The moon was full in `runs`."""

    kind, group, unable = "full-moon", "runs", "full-moon"
    short = "the moon was full"
    runs: int

    def sentence(self, findings: Findings) -> str:
        return f"The moon was full in {self.runs} runs. Wait two weeks."


def check_moon(evidence: Evidence) -> Iterator[FullMoon]:
    yield FullMoon(runs=len(evidence.runs))
'''


@pytest.fixture
def _full_moon(tmp_path, monkeypatch):
    """One more module of cautions, in a folder of the test's own."""
    (tmp_path / "full_moon.py").write_text(FULL_MOON)
    monkeypatch.syspath_prepend(TOOLS)
    monkeypatch.setattr(cautions, "__path__", [*cautions.__path__, str(tmp_path)])
    yield
    del sys.modules[f"{cautions.__name__}.full_moon"]


@pytest.mark.slow
@pytest.mark.usefixtures("_full_moon")
def test_a_new_caution_is_one_file():
    experiment, plan, runs = make_campaign({FILES: [1, 4]}, 5)
    findings = analyse(experiment, plan, runs)
    full, short = "The moon was full in 10 runs. Wait two weeks.", "the moon was full"
    assert short in opening(findings).doubt
    assert full in " ".join(on_a_terminal(document(experiment, plan, runs, findings)).split())
    for format_ in ("html", "md"):
        text = writing.render(format_, experiment, plan, runs, findings).replace("\u00a0", " ")
        assert full in text
        assert short in text
    exported = json.loads(writing.render("json", experiment, plan, runs, findings))
    jsonschema.validate(exported, json_schema(), cls=jsonschema.Draft202012Validator)
    assert exported["findings"]["answer"]["unable"] == ["full-moon"]
    assert exported["findings"]["cautions"][0] == {
        "kind": "full-moon", "severity": "caution", "cells": [], "text": full, "runs": 10,
    }  # fmt: skip
    assert "| `full-moon` | The moon was full in `runs`. |" in importlib.import_module("make_docs").cautions()
    assert Findings.model_validate_json(findings.model_dump_json()) == findings
