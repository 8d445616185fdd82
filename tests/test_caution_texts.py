"""The wording of cautions: each says what, how much, and what to do about it."""

from __future__ import annotations

import importlib
import io
import json
import re
import sys
from pathlib import Path

import jsonschema
import pytest
from builders import make_experiment, make_plan, make_runs
from fabricated_findings import FILES, make_findings
from rich.console import Console

from storagelab.findings import cautions
from storagelab.findings.analysis import analyse
from storagelab.findings.cautions import kinds
from storagelab.findings.cautions.burst_credits import BurstCredits
from storagelab.findings.cautions.carry_over import CarryOver
from storagelab.findings.cautions.changing import Drift, Step
from storagelab.findings.cautions.checkpoints import NoCheckpoint, PartsOfCycles
from storagelab.findings.cautions.cpu_time import BusyMachine, CpuSaturated, Throttled
from storagelab.findings.cautions.data_files import AllocationLatches, FilesOnDisks
from storagelab.findings.cautions.devices import SharedDevice, VirtualDisk
from storagelab.findings.cautions.different_loads import DifferentLoads
from storagelab.findings.cautions.durability_off import DurabilityOff
from storagelab.findings.cautions.few_repetitions import FewRepetitions, SingleRepetition
from storagelab.findings.cautions.judged_before import JudgedBefore
from storagelab.findings.cautions.log_room import LogFills, LogNeverFull
from storagelab.findings.cautions.missing_runs import FailedRuns, MissingRuns
from storagelab.findings.cautions.odd_runs import OddRun
from storagelab.findings.cautions.order import NotRandomised, RunInBlocks
from storagelab.findings.cautions.raw_io import NotSteady, OthersOnDrive, TooFast, TwoProvenances
from storagelab.findings.cautions.refused import Refused
from storagelab.findings.cautions.rewritten import Rewritten
from storagelab.findings.cautions.short_runs import ShortRuns
from storagelab.findings.cautions.standstill import StoodStill
from storagelab.findings.cautions.throttle_slices import ThrottleSlices
from storagelab.findings.cautions.unlike_copies import UnlikeCopies
from storagelab.findings.cautions.unlike_hosts import Unlike, UnlikeHosts
from storagelab.findings.cautions.unverified import BehindRate, Unsettled, Unverified
from storagelab.findings.cautions.watching import FewWaitSamples, NoSplit, ObserverDear, Unexplained, WatchedSlower
from storagelab.findings.model import Caution, Findings
from storagelab.model.measurement import WATCHED
from storagelab.model.values import Estimate
from storagelab.report import writing
from storagelab.report.export.document import json_schema
from storagelab.report.text.terminal import print_findings
from storagelab.report.words.answer import answer_lines
from storagelab.report.words.caution_texts import caution_sentence, caution_text

TOOLS = Path(__file__).resolve().parent.parent / "tools"

DRIFT = Drift(change=0.08, p_value=0.001, order="randomised", blocks=1)
LATE = Unverified(what="layout.data_files", asked="4", got="3", read_from="pg_inherits", runs=5, reason="")
TIME_LOST = Unexplained(lowest=0.62, highest=0.74, limit_low=0.8, limit_high=1.1)
CAUTIONS: list[tuple[Caution, list[str]]] = [
    (
        FailedRuns(failed=3, unrecovered=2, planned=20, reason="the disk is full.\nlog"),
        [
            "3 runs failed",
            "20",
            "reason: the disk is full. Fix",
            "storagelab run --again",
            "give it a new name",
        ],
    ),
    (
        Refused(shares={"cell-001": 0.0, "cell-002": 0.79}, how="refused by the server"),
        ["Up to 79 % of transactions", "refused by the server", "differs between 2 cells, from 0 %", "isolation level"],
    ),
    (
        Refused(shares={"cell-001": 0.02}, how="made again after an error"),
        ["Up to 2 % of transactions", "those of the others. Use"],
    ),
    (StoodStill(runs=1, of=5, longest_s=4.0), ["In 1 of 5 runs, nothing ended for up to 4", "run under a new name"]),
    (MissingRuns(missing=8, stored=12, planned=20), ["8 of 20", "storagelab run"]),
    (LATE, ["5 runs", "data files was to be 4 but was 3", "pg_inherits"]),
    (
        Unsettled(asked="settled within 2 %", got="bound to move by +5 ± 1 % over 10 s after 60 s of warm-up", runs=2),
        [
            "2 runs began to count before throughput had settled within 2 %",
            "in one of them",
            "+5 ± 1 %",
            "warm_up_at_most",
        ],
    ),
    (
        PartsOfCycles(runs=5, fewest=0.5, most=1.0, judged=False),
        ["5 runs don't hold whole checkpoint cycles", "0.50 to 1.0 checkpoints began in a minute", "warm_up_at_most"],
    ),
    (
        LogFills(runs=5, fewest=0.2, most=0.5, all_bytes=2.0**24, longest_s=30.0),
        ["5 runs counted before the redo log was full", "20 % to 50 % of the time", "by 30.0 s", "16 MiB"],
    ),
    (LogNeverFull(longest_s=60.0, all_bytes=2.0**30), ["room for 1 GiB", "60.0 s", "innodb_log_file_size"]),
    (NoCheckpoint(longest_s=60.0), ["No checkpoint of the server began", "60.0 s", "checkpoint_timeout"]),
    (
        BehindRate(asked="50,000 transactions/s", got="165 transactions/s, begun up to 1.1 s late", runs=2),
        [
            "2 runs fell behind the set rate",
            "one of them was to do 50,000 transactions/s and did 165 transactions/s, begun up to 1.1 s late",
            "lower workload.rate",
        ],
    ),
    (
        JudgedBefore(what="a race of an earlier version"),
        ["This was a race of an earlier version", "some runs are missing"],
    ),
    (SingleRepetition(repetitions=1, sound=5), ["1 run per cell", "repetitions to 5"]),
    (FewRepetitions(repetitions=3, sound=5), ["3 runs", "5 or more"]),
    (
        UnlikeCopies(ways="reflinked / copied"),
        [
            "Data was reflinked from its template, and elsewhere copied",
            'between_runs.data = "rebuild"',
        ],
    ),
    (
        Rewritten(runs=3, example="public.orders was rewritten"),
        ["In 3 runs", "(public.orders was rewritten)", "TRUNCATE"],
    ),
    (ShortRuns(shortest_s=0.41, limit_s=2.0), ["0.410 s", "workload.rows_per_connection", "2 s or more"]),
    (
        OddRun(repetition=3, elapsed_s=4.2, expected_s=2.4, ratio=1.75, deviation_sd=8.0, runs=2, left_out=1),
        ["epetition 3", "4.20 s", "2.40 s", "time series"],
    ),
    (
        RunInBlocks(factors=("layout.data_files", "layout.log"), blocks=4),
        ["Data files and ", "Blocks are not compared", "costly"],
    ),
    (DRIFT, ["grew by 8 %", "between_runs.pause_s"]),
    (
        Step(change=-0.12, p_value=0.005, run=21, runs=40, order="randomised", blocks=1),
        ["from run 21 of 40 on they are 12 % shorter", "between_runs.pause_s"],
    ),
    (
        NotRandomised(order="cell-by-cell", provenance="measured"),
        ['order = "cell-by-cell"', "nothing is tested", 'order = "randomised"'],
    ),
    (
        NotRandomised(order="as-listed", provenance="measured"),
        ["in the same order", "nothing is tested", 'order = "randomised"'],
    ),
    (
        NotRandomised(order="as-listed", provenance="simulated", severity="note"),
        ["in the same order", "this order only"],
    ),
    (
        CarryOver(levels={FILES: 128}, change=0.12, p_value=0.001, corrected=True, balanced=True),
        ["Runs after 128 data files take 12 % longer", "taken out of the times", "between_runs.pause_s"],
    ),
    (
        CarryOver(levels={FILES: 128}, change=-0.12, p_value=0.001, corrected=False, balanced=True),
        ["take 12 % less time", "hits all layouts about alike"],
    ),
    (
        CarryOver(levels={FILES: 128}, change=0.12, p_value=0.001, corrected=False, balanced=False),
        ["hits the other layouts more often", "under a new name"],
    ),
    (
        ObserverDear(core_share=0.061, sampler_core_share=0.03, limit=0.04),
        ["6.1 % of one core", "measure.sample_hz"],
    ),
    (
        WatchedSlower(
            runs=5,
            throughput=Estimate(value=0.96, low=0.94, high=0.98, confidence=0.95),
            p99=Estimate(value=1.12, low=1.02, high=1.22, confidence=0.95),
            least=0.01,
        ),
        ["throughput is 0.960 times (95 % CI 0.940 to 0.980)", "latency 1.120 times", "5 runs", "sample_hz"],
    ),
    (
        BurstCredits(volume="a", runs=5, of=6, after_s=12.0),
        ["credits of volume a ran out after 12.0 s in 5 of 6 runs", "mixes the rates", 'start = "empty"'],
    ),
    (
        ThrottleSlices(shortest_s=1.8, slice_s=0.1, share=0.1 / 1.8),
        ["slices of 0.1 s", "as short as 1.80 s", "5.6 %", "Longer runs"],
    ),
    (TIME_LOST, ["62 % to 74 %", "The rest is unseen", "longer runs"]),
    (
        NoSplit(runs=20, reason="the server runs on another host"),
        ["20 runs", "another host", "empty, not zero"],
    ),
    (FewWaitSamples(passes=40, limit=100), ["40 looks", "measure.sample_hz"]),
    (
        Throttled(who="server", throttled_s=27.8, share=0.85, limit=0.01, runs=2),
        ["held the server back in 2 runs", "85 % of its time", "27.8 s in all", "cpu.max", "cpu.cfs_quota_us"],
    ),
    (
        BusyMachine(others_share=0.32, limit=0.1, runs=9, checked=25),
        ["Other processes and the kernel", "32 % of the machine's CPU time", "9 of 25 runs", "repetitions"],
    ),
    (CpuSaturated(cpu_share=0.97, cpu_count=2, limit=0.9), ["97 %", "2 CPUs", "more cores"]),
    (
        VirtualDisk(volumes=("a", "b"), reason="virtio", device_model="vda"),
        ["Volumes a, b are", "vda, virtio", "a real one"],
    ),
    (
        DurabilityOff(setting="fsync", value="off", loses="everything"),
        ["With fsync = off", "nothing is forced to the disk", "turn it on"],
    ),
    (SharedDevice(volumes=("a", "b"), device="nvme0n1"), ["Volumes a, b", "nvme0n1", "a drive of its own"]),
    (
        AllocationLatches(major=15, engine="sqlserver"),
        ["SQL Server 2019", "What's new in SQL Server 2019", "2022-07-21", "may gain less here"],
    ),
    (
        FilesOnDisks(volumes=("scsi-a", "scsi-b"), data_files=16, order="elevator"),
        ["up to 16 on scsi-a and scsi-b", "45 to 90 %", "here the order is elevator", "Simulate both orders"],
    ),
    (
        DifferentLoads(factors=("storage",), loads=3),
        ["Storage sets layout and load", "3 different loads", "the least to do", "Let one factor"],
    ),
    (
        TwoProvenances(measured=8, simulated=16),
        ["16 of these cells are simulated and 8 are measured", "not tested against each other"],
    ),
    (
        NotSteady(rounds=5, judged=True),
        ["not in steady state", "5 rounds within 20 %", "slope within 10 %", "workload.warm_up"],
    ),
    (NotSteady(severity="note", rounds=5, judged=False), ["is not shown", "workload.duration to 5 s or more"]),
    (
        OthersOnDrive(share=0.31, limit=0.02, runs=3, checked=8),
        ["Others used the drive in 3 of 8 runs", "31 % more bytes"],
    ),
    (
        TooFast(latency_s=2.5e-6, bytes_per_s=2.1e10),
        ["faster than drives can", "2.50 µs", "21,000 MB/s", "no figures of a drive"],
    ),
    (
        UnlikeHosts(
            differs=(
                Unlike(fact="host: kernel", values=(("Linux 6.1", ("db1", "db2")), ("Linux 6.9", ("db3",)))),
                Unlike(fact="volume a: device_model", values=(("SSD A", ("db1",)), ("", ("db2", "db3")))),
            )
        ),
        ["kernel (Linux 6.1 on db1 and db2, Linux 6.9 on db3)", "device model of volume a (SSD A on db1, unknown on"],
    ),
]
OF_THE_WHOLE = (
    NoCheckpoint, LogNeverFull, VirtualDisk, SharedDevice, BusyMachine, Drift, Step,
    CarryOver, NotRandomised, RunInBlocks, AllocationLatches, DifferentLoads,
    FilesOnDisks, JudgedBefore, TwoProvenances, UnlikeHosts, WatchedSlower,
)  # fmt: skip
ALL = pytest.mark.parametrize("caution", [caution for caution, _ in CAUTIONS], ids=lambda caution: caution.kind)


def words(caution: Caution) -> str:
    return caution_sentence(caution, make_findings({FILES: [1, 4]}, {1: 2.94, 4: 2.41}, verdict="winner"))


def test_each_kind_of_caution_is_tried_here():
    assert {type(caution) for caution, _ in CAUTIONS} == set(kinds())


def test_a_run_that_was_not_watched_is_not_said_to_belong_to_another_layout():
    gap = Unverified(what=WATCHED, asked="the whole run", got="nothing for 3 s of 9 s", read_from="", runs=2, reason="")
    text = words(gap)
    assert text.startswith("In 2 runs storagelab was to watch the whole run, but: nothing for 3 s of 9 s.")
    assert "another layout" not in text


def test_what_lost_cpu_time_is_the_server_or_fio():
    busy = BusyMachine(others_share=0.3, limit=0.1, runs=4, checked=10)
    assert "the measured server lost that time" in words(busy)
    raw = make_findings({FILES: [1, 4]}, {1: 2.94, 4: 2.41}, verdict="winner").model_copy(update={"unit": "requests"})
    assert "the load lost that time" in caution_sentence(busy, raw)


def test_an_odd_run_of_a_set_time_is_told_by_what_it_did_in_that_time():
    odd = OddRun(
        cells=("c1",), repetition=2, elapsed_s=5.01, expected_s=3.97, ratio=1.26, deviation_sd=7.0, runs=1, left_out=0
    )
    assert "repetition 2 took 5.01 s where 3.97 s was expected" in words(odd)
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


@pytest.mark.parametrize(("caution", "named"), CAUTIONS, ids=[caution.kind for caution, _ in CAUTIONS])
def test_a_caution_names_what_how_much_and_what_to_do(caution, named):
    assert [part for part in named if part not in words(caution)] == []


@ALL
def test_a_caution_is_whole_sentences(caution):
    assert re.fullmatch(r"[A-Z0-9].*\.", words(caution))
    assert not re.search(r"  |\(\)|None|nan| ,| \.|\.\.", words(caution))


@ALL
def test_a_caution_about_some_cells_names_them(caution):
    of_one = words(caution.model_copy(update={"cells": ("c2",)}))
    assert ("4 data files" in of_one) != isinstance(caution, OF_THE_WHOLE)
    assert words(caution.model_copy(update={"cells": ("c1", "c2")})) == words(caution)


@pytest.mark.parametrize(
    ("loses", "risk"),
    [
        ("everything", "can corrupt the whole database"),
        ("last commits", "the database stays sound"),
        ("commits not in the log", "commits do not wait for the log"),
        ("commits not in the binary log", "commits do not wait for the binary log"),
        ("pages not in the log", "commits wait for the disk as usual"),
    ],
)
def test_what_a_setting_gives_up_is_said(loses, risk):
    text = words(DurabilityOff(setting="some_setting", value="2", loses=loses))
    assert "With some_setting = 2 " in text
    assert risk in text
    assert "choose a safe value" in text


@pytest.mark.parametrize(
    ("lowest", "highest", "sense"),
    [(0.6, 0.7, "is unseen"), (1.2, 1.3, "more often than the kernel's figures allow"), (0.6, 1.3, "too seldom")],
)
def test_time_that_does_not_add_up_is_explained_by_its_direction(lowest, highest, sense):
    text = words(TIME_LOST.model_copy(update={"lowest": lowest, "highest": highest}))
    assert sense in text
    assert "counted twice" not in text


def test_what_could_not_be_read_back_is_not_said_to_be_different():
    text = words(LATE.model_copy(update={"what": "wal_level", "asked": "minimal", "got": ""}))
    assert "wal_level was to be minimal, but its actual value could not be read back" in text


def test_drift_over_several_blocks_is_why_they_are_not_compared():
    text = words(DRIFT.model_copy(update={"blocks": 2}))
    assert "blocks are not compared" in text
    assert "hardly suffers" not in text


def test_a_drift_of_unknown_size_is_said_to_be_one_and_a_huge_one_is_told_as_a_multiple():
    text = words(DRIFT.model_copy(update={"change": None}))
    assert "times changed steadily" in text
    assert "don't tell by how much" in text
    assert "became 40 times as long" in words(DRIFT.model_copy(update={"change": 39.0}))


def test_drift_in_a_listed_order_is_said_to_hurt_the_verdict():
    text = words(DRIFT.model_copy(update={"change": -0.08, "order": "as-listed"}))
    assert "fell by 8 %" in text
    assert 'order = "randomised"' in text


FULL_MOON = '''
from collections.abc import Iterator

from storagelab.findings.evidence import Evidence
from storagelab.findings.model import Caution, Findings
from storagelab.model.measurement import WATCHED


class FullMoon(Caution):
    """The moon was full in `runs`."""

    kind, place, weight, unable = "full-moon", 5, 1, "full-moon"
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
    experiment = make_experiment({FILES: [1, 4]}, 5)
    plan = make_plan(experiment)
    runs = make_runs(experiment, plan)
    findings = analyse(experiment, plan, runs)
    full, short = "The moon was full in 10 runs. Wait two weeks.", "the moon was full"
    assert short in answer_lines(findings)[1].text
    assert full in " ".join(on_a_terminal(findings).split())
    for format_ in ("html", "md"):
        text = writing.render(format_, experiment, plan, runs, findings).replace("\u00a0", " ")
        assert full in text
        assert short in text
    document = json.loads(writing.render("json", experiment, plan, runs, findings))
    jsonschema.validate(document, json_schema(), cls=jsonschema.Draft202012Validator)
    assert document["findings"]["answer"]["unable"] == ["full-moon"]
    assert document["findings"]["cautions"][0] == {
        "kind": "full-moon", "severity": "caution", "cells": [], "figures": {"runs": 10}, "text": full,
    }  # fmt: skip
    assert "| `full-moon` | The moon was full in `runs`. |" in importlib.import_module("make_docs").cautions()
    assert Findings.model_validate_json(findings.model_dump_json()) == findings


def on_a_terminal(findings: Findings) -> str:
    said = io.StringIO()
    print_findings(Console(file=said, width=140), findings)
    return said.getvalue()
