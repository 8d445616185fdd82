"""Findings in words: every sentence agrees with the figures, and nothing is called equal."""

from __future__ import annotations

import re

import pytest
from fabricated_findings import (
    FILES,
    LOG,
    extension_trend,
    make_effect,
    make_findings,
)

from storagelab.findings.model import Estimate, WaitChange
from storagelab.report.page.opening import _tile
from storagelab.report.words.answer import headline
from storagelab.report.words.marks import verdict_mark
from storagelab.report.words.sentences import sentences
from storagelab.words.names import factor_text, level_text

FIVE = {FILES: [1, 2, 4, 8, 16]}
TWO_FACTORS = {FILES: [1, 4, 8], LOG: ["a", "b"]}
SHARES = [0.25, 0.20, 0.12, 0.03, 0.02]


def test_a_winner_is_named_with_its_time_and_its_lead_each_with_an_interval():
    findings = make_findings({FILES: [1, 4]}, {1: 2.94, 4: 2.41}, verdict="winner")
    assert headline(findings) == (
        "Use 4 data files: faster than the other layout. It takes 2.41 s (95 % CI 2.36 to 2.46 s); 18 % (16 to 20 %) less "
        "time than the other, 1 file."
    )


def test_a_winner_among_many_is_compared_with_the_others_nearest_first():
    findings = make_findings(FIVE, {1: 2.94, 2: 2.8, 4: 2.41, 8: 2.6, 16: 2.7}, verdict="winner")
    (slower,) = [line for line in sentences(findings) if line.startswith("4 data files against the slower: ")]
    assert "7 % less time (joint 95 % CI 5 to 10 %) than 8 data files; 11 % less time" in slower
    assert "; 18 % less time (joint 95 % CI 16 to 20 %) than 1 data file" in slower


def test_a_single_data_file_is_no_plural():
    findings = make_findings({FILES: [1, 4]}, {1: 2.0, 4: 3.0}, verdict="winner")
    assert headline(findings).startswith("Use 1 data file: ")


def test_cells_as_good_as_the_best_are_named_in_one_breath():
    findings = make_findings(
        {FILES: [1, 4, 8, 16]}, {1: 2.94, 4: 2.41, 8: 2.42, 16: 2.43}, verdict="best-set", tied=[8, 16]
    )
    assert headline(findings).startswith(
        "Use 4 to 16 data files. Those 3 layouts take 2.41 to 2.43 s, not proven equal: "
    )
    assert "4 data files against the slower: 18 % less time (joint 95 % CI 16 to 20 %) than 1 data file." in sentences(
        findings
    )


def test_when_nothing_stands_out_the_headline_says_so_without_calling_anything_equal():
    findings = make_findings(FIVE, {1: 2.5, 2: 2.48, 4: 2.41, 8: 2.42, 16: 2.43}, verdict="indistinguishable")
    use, sure = (
        "Use any of the 5 layouts: none can be told apart from the fastest.",
        "Those 5 layouts take 2.41 to 2.50 s",
    )
    assert headline(findings).startswith(f"{use} {sure}, not proven equal: ")
    hidden = next(line for line in sentences(findings) if line.startswith("Layouts that are not told apart need not"))
    assert "1 data file is at most 10 % slower than the truly fastest (95 %)" in hidden


def test_a_bound_too_small_to_show_is_rounded_up():
    findings = make_findings({FILES: [1, 4]}, {1: 2.5, 4: 2.4}, verdict="indistinguishable")
    nearly = findings.comparisons[0].model_copy(update={"at_most_slower": 1.0})
    findings = findings.model_copy(update={"comparisons": (nearly,), "at_most_slower": 1.0})
    (hidden,) = [line for line in sentences(findings) if "equal" in line]
    assert " is at most 0.1 % slower than the truly fastest" in hidden


def test_a_best_set_that_is_a_cross_of_levels_names_each_factor_once():
    means = {(1, "a"): 3.0, (1, "b"): 2.9, (4, "a"): 2.8, (4, "b"): 2.01, (8, "a"): 2.7, (8, "b"): 2.0}
    findings = make_findings(TWO_FACTORS, means, verdict="best-set", tied=[(4, "b")])
    assert headline(findings).startswith(
        "Use log on b with 4 or 8 data files. Both take 2.00 to 2.01 s, not proven equal: "
    )


def test_simulated_figures_are_never_taken_for_measured_ones():
    findings = make_findings({FILES: [1, 4]}, {1: 300.0, 4: 100.0}, verdict="winner", provenance="simulated")
    assert headline(findings).startswith("In simulation, use 4 data files: ")
    none = make_findings({FILES: [1, 4]}, {1: 3.0, 4: 3.1}, verdict="indistinguishable", provenance="simulated")
    assert headline(none).startswith("In simulation, use either of the 2 layouts: they can't be told apart")


def test_labels_and_settings_read_as_what_they_are():
    factors = {"driver": ["1.2.7, 512 B", "2.2.3"], "target.settings.wal_compression": [False, True]}
    means = {("1.2.7, 512 B", False): 3.0, ("1.2.7, 512 B", True): 2.8, ("2.2.3", False): 2.0, ("2.2.3", True): 1.0}
    findings = make_findings(factors, means, verdict="winner")
    assert headline(findings).startswith("Use driver 2.2.3 and wal_compression on: faster than every other ")
    (fastest,) = [line for line in sentences(findings) if line.startswith("Fastest: ")]
    assert fastest.startswith("Fastest: c4 (2.2.3, wal_compression on), 1.00 s")
    (slower,) = [line for line in sentences(findings) if " against the slower: " in line]
    assert "c1 (1.2.7, 512 B, wal_compression off) takes 3.0 times as long" in slower


def test_settings_that_are_no_layout_are_called_combinations():
    findings = make_findings(
        {"target.settings.jit": ["off", "on"]}, {"off": 2.0, "on": 2.01}, verdict="indistinguishable"
    )
    assert headline(findings).startswith(
        "Use either of the 2 combinations: they can't be told apart. Both take 2.00 to 2.01 s, not proven equal: "
    )


@pytest.mark.parametrize(
    ("means", "verdict", "repetitions", "text"),
    [
        ({1: None, 4: None}, "too-few-runs", 5, "NOTHING MEASURED: no run has given a time yet (10 runs planned)."),
        (
            {1: 2.9, 4: 2.41},
            "too-few-runs",
            1,
            "No layout can be chosen yet: differences can't be told from chance. Shortest mean: 2.41 s, 4 files.",
        ),
        (
            {1: 2.9, 4: None},
            "too-few-runs",
            1,
            "No layout can be chosen yet: differences can't be told from chance. It took 2.90 s, 1 file.",
        ),
    ],
)
def test_without_a_test_there_is_no_verdict(means, verdict, repetitions, text):
    assert headline(make_findings({FILES: [1, 4]}, means, verdict=verdict, repetitions=repetitions)) == text


def test_one_cell_alone_has_nothing_to_be_compared_with():
    findings = make_findings({}, {(): 2.9}, verdict="single-cell")
    assert headline(findings) == (
        "There was one layout, so there is none to choose. It took 2.90 s (95 % CI 2.84 to 2.96 s)."
    )


def test_a_wait_that_moved_without_costing_time_is_told_as_such():
    findings = make_findings(
        FIVE,
        {1: 2.5, 2: 2.48, 4: 2.41, 8: 2.42, 16: 2.43},
        verdict="indistinguishable",
        trends=[extension_trend(FIVE[FILES], SHARES)],
        effects=[make_effect(FILES, 16, 1, (0.96, 0.98, 1.02))],
    )
    assert sentences(findings)[-1] == (
        "Lock:extend (PAGELATCH_* on PFS/GAM/SGAM in SQL Server's words) falls from 25 % of session time at "
        "1 data file to 2 % at 16, while the completion time can't be told apart (joint 95 % CI 4 % less to 2 % "
        "more): the "
        "wait changed, at no cost in time that shows."
    )


def test_with_wide_intervals_a_wait_is_not_said_to_cost_nothing():
    findings = make_findings(
        {FILES: [1, 4]},
        {1: 2.5, 4: 2.4},
        verdict="indistinguishable",
        trends=[extension_trend([1, 4], [0.25, 0.02])],
        effects=[make_effect(FILES, 4, 1, (0.44, 0.79, 1.43))],
    )
    assert sentences(findings)[-1].endswith(
        "can't be told apart (joint 95 % CI 56 % less to 43 % more): more runs are needed to say whether it costs time."
    )


def test_a_wait_that_fell_together_with_the_time_is_told_with_both():
    findings = make_findings(
        FIVE,
        {1: 2.94, 2: 2.8, 4: 2.6, 8: 2.5, 16: 2.41},
        verdict="winner",
        trends=[extension_trend(FIVE[FILES], SHARES)],
        effects=[make_effect(FILES, 16, 1, (0.79, 0.82, 0.85))],
    )
    assert sentences(findings)[-1].endswith("to 2 % at 16, and the run took 18 % less time (joint 95 % CI 15 to 21 %).")


def test_a_trend_listed_from_the_top_is_compared_the_right_way_round():
    findings = make_findings(
        {FILES: [16, 1]},
        {16: 2.41, 1: 2.94},
        verdict="winner",
        trends=[extension_trend([1, 16], [0.25, 0.02])],
        effects=[make_effect(FILES, 1, 16, (1.18, 1.22, 1.27))],
    )
    assert sentences(findings)[-1].endswith("and the run took 18 % less time (joint 95 % CI 15 to 21 %).")


def test_a_trend_with_a_peak_names_the_peak():
    findings = make_findings(
        {FILES: [1, 4, 16]},
        {1: 2.5, 4: 2.41, 16: 2.43},
        verdict="indistinguishable",
        trends=[extension_trend([1, 4, 16], [0.10, 0.40, 0.05])],
    )
    assert "is 10 % of session time at 1 data file, 40 % at 4 and 5 % at 16." in sentences(findings)[-1]


def test_a_trend_of_too_few_runs_says_nothing_about_time():
    effect = make_effect(FILES, 4, 1, (0.9, 0.95, 1.0))
    unsure = effect.model_copy(update={"ratio": Estimate(value=0.95), "distinguishable": False})
    findings = make_findings(
        {FILES: [1, 4]},
        {1: 2.5, 4: 2.4},
        verdict="too-few-runs",
        repetitions=1,
        trends=[extension_trend([1, 4], [0.25, 0.02])],
        effects=[unsure],
    )
    assert sentences(findings)[-1].endswith("falls from 25 % of session time at 1 data file to 2 % at 4.")


def test_trends_too_small_or_with_gaps_make_no_sentence():
    flat = extension_trend([1, 4], [0.021, 0.020])
    gaps = extension_trend([1, 4], [None, 0.5])
    findings = make_findings({FILES: [1, 4]}, {1: 2.5, 4: 2.41}, verdict="indistinguishable", trends=[flat, gaps])
    assert not any("Lock:extend" in line for line in sentences(findings))


def test_what_grew_between_best_and_worst_is_named_with_seconds_and_shares():
    change = WaitChange(
        wait_type="Lock:extend",
        analogue="",
        category="allocation",
        best_s=2.5,
        worst_s=11.7,
        best_share=0.065,
        worst_share=0.25,
    )
    findings = make_findings({FILES: [1, 4]}, {1: 2.94, 4: 2.41}, verdict="winner", changes=[change])
    (line,) = [line for line in sentences(findings) if line.startswith("Where the time goes")]
    assert "together spent 8.48 s more per run" in line
    assert "Lock:extend by 9.20 s, to 25 % of session time from 6.5 %." in line


def test_cells_that_can_not_be_told_apart_have_no_wait_to_blame():
    change = WaitChange(
        wait_type="Lock:extend",
        analogue="",
        category="allocation",
        best_s=2.5,
        worst_s=11.7,
        best_share=0.06,
        worst_share=0.25,
    )
    findings = make_findings({FILES: [1, 4]}, {1: 2.5, 4: 2.41}, verdict="indistinguishable", changes=[change])
    assert not any("Where the time goes" in line for line in sentences(findings))


def test_each_factor_has_its_say_with_all_else_the_same():
    findings = make_findings(
        {FILES: [1, 4], LOG: ["a", "b"]},
        {(1, "a"): 3.0, (1, "b"): 2.99, (4, "a"): 2.0, (4, "b"): 2.01},
        verdict="best-set",
        tied=[(4, "b")],
        effects=[make_effect(FILES, 4, 1, (0.6, 0.67, 0.7)), make_effect(LOG, "b", "a", (0.97, 1.0, 1.03))],
    )
    lines = sentences(findings)
    assert (
        "Compared with 1 data file, all else the same: 4 data files took 33 % less time (joint 95 % CI 30 to 40 %)."
        in lines
    )
    (log,) = [line for line in lines if "log on b can't be told apart" in line]
    assert "95 % CI 3 % less to 3 % more" in log


def test_of_very_many_levels_the_ends_are_told_and_the_rest_counted():
    levels = [f"s{number}" for number in range(12)]
    effects = [
        *(make_effect("storage", f"s{number}", "s0", (0.2, 0.2 + number / 20, 0.9)) for number in range(1, 10)),
        make_effect("storage", "s10", "s0", (1.1, 1.2, 1.3)),
        make_effect("storage", "s11", "s0", (0.9, 1.0, 1.1)),
    ]
    findings = make_findings(
        {"storage": levels, FILES: [1, 4]},
        {(level, files): 3.0 for level in levels for files in (1, 4)},
        verdict="indistinguishable",
        effects=effects,
    )
    (said,) = [line for line in sentences(findings) if line.startswith("Compared with storage = s0")]
    assert "9 of the 11 others took less time, from 35 % less time" in said
    assert "with s9 to 75 % less time" in said
    assert "1 of the 11 others took 20 % more time" in said
    assert said.endswith("1 can't be told apart from it.")


def test_no_sentence_ever_calls_two_layouts_equal():
    for verdict in ("indistinguishable", "best-set", "winner"):
        findings = make_findings(
            {FILES: [1, 4, 8]}, {1: 2.9, 4: 2.41, 8: 2.42}, verdict=verdict, tied=[8] * (verdict == "best-set")
        )
        text = " ".join([headline(findings), *sentences(findings)])
        assert not re.search(r"\b(identical|no difference|as fast as)\b", text)
        assert "equal" not in text.replace("need not be equal", "").replace("not proven equal", "")


def test_every_cell_is_compared_with_the_best_in_a_mark():
    findings = make_findings({FILES: [1, 4, 8]}, {1: 2.94, 4: 2.41, 8: 2.42}, verdict="best-set", tied=[8])
    one, four, eight = (cell.cell_id for cell in findings.cells)
    assert [verdict_mark(findings, cell_id) for cell_id in (one, four, eight)] == ["slower (18 %)", "tied", "tied"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("layout.data_files", "data files"),
        ("layout.log", "log volume"),
        ("target.settings.wal_compression", "wal_compression"),
        ("target.settings.auto_explain.log_nested", "auto_explain.log_nested"),
        ("workload.connections", "connections"),
        ("drives.ssd.format", "format of drive ssd"),
        ("volumes.a.raid", "RAID level of volume a"),
        ("volumes.a.lost", "lost drives of volume a"),
        ("driver", "driver"),
        ("workload.read_fraction", "read fraction"),
        ("PostgreSQL 17.5 vs 18.4", "PostgreSQL 17.5 vs 18.4"),
    ],
)
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
    runs = f"from {cells[0].runs_ok} runs"
    (sentence,) = [one for one in sentences(told) if one.startswith("Throughput and latency disagree")]
    assert runs in sentence
    assert any("p99" in fact and fact.endswith(runs) for fact in map(_plain, _tile("", told, cells[1], "")["facts"]))
    rows = tuple(row.model_copy(update={"distinguishable": False}) for row in told.comparisons)
    tied = told.model_copy(update={"comparisons": rows})
    assert not any(one.startswith("Throughput and latency disagree") for one in sentences(tied))


def _plain(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u202f", " ")
