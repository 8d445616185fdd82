"""Findings in words: every sentence agrees with the figures, and nothing is called equal."""

import re

import pytest
from fabricated_findings import FILES, LOG, extension_trend, golden, make_effect, make_findings, said_in

from storagelab.findings.model import Estimate, WaitChange
from storagelab.report.words.sentences import sentences
from storagelab.words.names import factor_text, level_text

FIVE = {FILES: [1, 2, 4, 8, 16]}
TWO_FACTORS = {FILES: [1, 4, 8], LOG: ["a", "b"]}
SHARES = [0.25, 0.20, 0.12, 0.03, 0.02]


def change(best_share: float) -> WaitChange:
    return WaitChange(
        wait_type="Lock:extend", analogue="", category="allocation", best_s=2.5, worst_s=11.7, best_share=best_share,
        worst_share=0.25,
    )  # fmt: skip


def tried(factors, means, verdict="indistinguishable", trend=None, **more):
    trends = [] if trend is None else [extension_trend(*trend)]
    return make_findings(factors, means, verdict=verdict, **({"trends": trends} | more))


ALIKE = {1: 2.5, 2: 2.48, 4: 2.41, 8: 2.42, 16: 2.43}
DRIVERS = {"driver": ["1.2.7, 512 B", "2.2.3"], "target.settings.wal_compression": [False, True]}
OF_DRIVERS = {("1.2.7, 512 B", False): 3.0, ("1.2.7, 512 B", True): 2.8, ("2.2.3", False): 2.0, ("2.2.3", True): 1.0}
CROSS = {(1, "a"): 3.0, (1, "b"): 2.9, (4, "a"): 2.8, (4, "b"): 2.01, (8, "a"): 2.7, (8, "b"): 2.0}
STORAGE = [f"s{number}" for number in range(12)]
OF_STORAGE = [
    *(make_effect("storage", f"s{number}", "s0", (0.2, 0.2 + number / 20, 0.9)) for number in range(1, 10)),
    make_effect("storage", "s10", "s0", (1.1, 1.2, 1.3)), make_effect("storage", "s11", "s0", (0.9, 1.0, 1.1)),
]  # fmt: skip
UNSURE = make_effect(FILES, 4, 1, (0.9, 0.95, 1.0)).model_copy(
    update={"ratio": Estimate(value=0.95), "distinguishable": False}
)
TWO, LEVELS = {FILES: [1, 4]}, FIVE[FILES]
SITUATIONS = {
    "a winner": tried(TWO, {1: 2.94, 4: 2.41}, "winner"),
    "a winner among many": tried(FIVE, {1: 2.94, 2: 2.8, 4: 2.41, 8: 2.6, 16: 2.7}, "winner"),
    "a single data file": tried(TWO, {1: 2.0, 4: 3.0}, "winner"),
    "several as good as the best": tried(
        {FILES: [1, 4, 8, 16]}, {1: 2.94, 4: 2.41, 8: 2.42, 16: 2.43}, "best-set", tied=[8, 16]
    ),
    "none stands out": tried(FIVE, ALIKE),
    "the best are a cross of levels": tried(TWO_FACTORS, CROSS, "best-set", tied=[(4, "b")]),
    "a simulated winner": tried(TWO, {1: 300.0, 4: 100.0}, "winner", provenance="simulated"),
    "simulated, none stands out": tried(TWO, {1: 3.0, 4: 3.1}, provenance="simulated"),
    "labels and settings": tried(DRIVERS, OF_DRIVERS, "winner"),
    "settings alone": tried({"target.settings.jit": ["off", "on"]}, {"off": 2.0, "on": 2.01}),
    "nothing measured": tried(TWO, {1: None, 4: None}, "too-few-runs", repetitions=5),
    "one run each": tried(TWO, {1: 2.9, 4: 2.41}, "too-few-runs", repetitions=1),
    "one run of one": tried(TWO, {1: 2.9, 4: None}, "too-few-runs", repetitions=1),
    "one cell": tried({}, {(): 2.9}, "single-cell"),
    "a wait moved and cost no time": tried(
        FIVE, ALIKE, trend=(LEVELS, SHARES), effects=[make_effect(FILES, 16, 1, (0.96, 0.98, 1.02))]
    ),
    "a wait moved, intervals are wide": tried(
        TWO, {1: 2.5, 4: 2.4}, trend=([1, 4], [0.25, 0.02]), effects=[make_effect(FILES, 4, 1, (0.44, 0.79, 1.43))]
    ),
    "a wait fell with the time": tried(
        FIVE, {1: 2.94, 2: 2.8, 4: 2.6, 8: 2.5, 16: 2.41}, "winner", (LEVELS, SHARES),
        effects=[make_effect(FILES, 16, 1, (0.79, 0.82, 0.85))],
    ),
    "a trend from the top": tried(
        {FILES: [16, 1]},
        {16: 2.41, 1: 2.94},
        "winner",
        ([1, 16], [0.25, 0.02]),
        effects=[make_effect(FILES, 1, 16, (1.18, 1.22, 1.27))],
    ),
    "a trend with a peak": tried(
        {FILES: [1, 4, 16]}, {1: 2.5, 4: 2.41, 16: 2.43}, trend=([1, 4, 16], [0.10, 0.40, 0.05])
    ),
    "a trend of too few runs": tried(
        TWO, {1: 2.5, 4: 2.4}, "too-few-runs", ([1, 4], [0.25, 0.02]), repetitions=1, effects=[UNSURE]
    ),
    "a small trend, and one with gaps": tried(
        TWO, {1: 2.5, 4: 2.41}, trends=[extension_trend([1, 4], [0.021, 0.020]), extension_trend([1, 4], [None, 0.5])]
    ),
    "a wait grew between best and worst": tried(TWO, {1: 2.94, 4: 2.41}, "winner", changes=[change(0.065)]),
    "a wait grew, none stands out": tried(TWO, {1: 2.5, 4: 2.41}, changes=[change(0.06)]),
    "two factors": tried(
        {FILES: [1, 4], LOG: ["a", "b"]},
        {(1, "a"): 3.0, (1, "b"): 2.99, (4, "a"): 2.0, (4, "b"): 2.01},
        "best-set",
        tied=[(4, "b")],
        effects=[make_effect(FILES, 4, 1, (0.6, 0.67, 0.7)), make_effect(LOG, "b", "a", (0.97, 1.0, 1.03))],
    ),
    "very many levels": tried(
        {"storage": STORAGE, FILES: [1, 4]},
        {(level, files): 3.0 for level in STORAGE for files in (1, 4)},
        effects=OF_STORAGE,
    ),
    **{
        f"by rows a second, {verdict}": tried({"workload.connections": [1, 200]}, {1: 3.1, 200: 2.4}, verdict)
        .model_copy(update={"compared": "time-per-row"}) for verdict in ("winner", "indistinguishable", "too-few-runs")
    },
}  # fmt: skip


def test_headlines_and_sentences_are_what_they_were():
    assert said_in({name: lambda found=found: found for name, found in SITUATIONS.items()}) == golden(
        "sentences"
    ).read_text("utf-8")


def test_no_sentence_ever_calls_two_layouts_equal():
    text = re.sub("not proven equal", "", golden("sentences").read_text("utf-8"))
    assert not re.search(r"\b(identical|no difference|as fast as|equal)\b", text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("layout.data_files", "data files"), ("layout.log", "log volume"),
        ("target.settings.wal_compression", "wal_compression"),
        ("target.settings.auto_explain.log_nested", "auto_explain.log_nested"),
        ("workload.connections", "connections"), ("drives.ssd.format", "format of drive ssd"),
        ("volumes.a.raid", "RAID level of volume a"), ("volumes.a.lost", "lost drives of volume a"),
        ("driver", "driver"), ("workload.read_fraction", "read fraction"),
        ("PostgreSQL 17.5 vs 18.4", "PostgreSQL 17.5 vs 18.4"),
    ],
)  # fmt: skip
def test_factors_have_plain_names(name, text):
    assert factor_text(name) == text


def test_levels_are_listed_one_by_one():
    levels = {FILES: 4, LOG: "b", "layout.data": ["a", "b"], "target.settings.fsync": False, "driver": "1.2.7, 512 B"}
    assert level_text(levels) == (
        'data files = 4, log volume = b, data volumes = a + b, fsync = off, driver = "1.2.7, 512 B"'
    )
    assert level_text({}) == ""
    assert level_text({"volumes.a.lost": []}) == "lost drives of volume a = none"


def test_percentiles_come_with_the_number_of_their_runs_and_disagree_only_where_the_verdict_tells_layouts_apart():
    findings = make_findings({FILES: [1, 4]}, {1: 2.94, 4: 2.41}, verdict="winner")
    p99_s = {1: 0.010, 4: 0.014}
    cells = tuple(
        cell.model_copy(update={"latency": {"p99": Estimate(value=at, low=0.95 * at, high=1.05 * at, confidence=0.95)}})
        for cell in findings.cells
        if (at := p99_s[cell.levels[FILES]])
    )
    told = findings.model_copy(update={"cells": cells, "unit": "transactions"})
    (sentence,) = [one for one in sentences(told) if one.startswith("Throughput and latency disagree")]
    assert f"from {cells[0].runs_ok} runs" in sentence
    rows = tuple(row.model_copy(update={"distinguishable": False}) for row in told.comparisons)
    tied = told.model_copy(update={"comparisons": rows})
    assert not any(one.startswith("Throughput and latency disagree") for one in sentences(tied))
