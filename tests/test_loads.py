"""The wording for loads: the headline names layouts, once if one is best under every load, otherwise load by load."""

from fabricated_findings import golden, said_in
from test_verdicts import BATCH, CONNECTIONS, FILES, LOG, analysed, small_batches_take_longer

from storagelab.findings.model import Findings
from storagelab.report.charts.effects import CHARTS
from storagelab.report.words.answer import headline
from storagelab.report.words.ladder import verdict_of
from storagelab.report.words.sentences import sentences

THREE = {BATCH: [10, 100, 1000], FILES: [1, 4, 8]}


def best_of(best) -> Findings:
    """All but `best[batch]` data files take a fifth longer; in a batch without a best, all are alike."""
    return analysed(
        THREE,
        lambda levels: (
            small_batches_take_longer(levels) * (1.2 if levels[FILES] not in best.get(levels[BATCH], [1, 4, 8]) else 1)
        ),
    )


PAUSE, TWO_BATCHES = "between_runs.pause_s", {BATCH: [10, 1000], FILES: [1, 4]}


def four_files_are_best(levels) -> float:
    return 1 if levels[FILES] == 4 else 1.2


SITUATIONS = {
    "fastest under every load": lambda: best_of({10: [4], 100: [4], 1000: [4]}),
    "two loads": lambda: analysed(TWO_BATCHES, four_files_are_best),
    "two conditions": lambda: analysed({PAUSE: [0, 60], FILES: [1, 4]}, four_files_are_best),
    "two conditions, none stands out": lambda: analysed({PAUSE: [0, 60], FILES: [1, 4]}),
    "conditions alone": lambda: analysed({PAUSE: [0, 60]}, lambda levels: 1 + levels[PAUSE] / 60),
    "conditions and loads": lambda: analysed({PAUSE: [0, 60]} | TWO_BATCHES, small_batches_take_longer),
    "among the best everywhere": lambda: best_of({10: [4, 8], 100: [4]}),
    "the best depends on the load": lambda: best_of({10: [4], 100: [4], 1000: [1]}),
    "none stands out under any load": lambda: analysed(THREE, small_batches_take_longer),
    "loads alone": lambda: analysed({BATCH: [10, 100, 1000]}, small_batches_take_longer),
    "loads of different numbers of rows": lambda: analysed({CONNECTIONS: [1, 16]}),
    "one run each": lambda: analysed(TWO_BATCHES, small_batches_take_longer, repetitions=1),
}


def test_headlines_and_sentences_of_loads_are_what_they_were():
    assert said_in(SITUATIONS) == golden("loads").read_text("utf-8")


def test_of_a_level_that_gains_under_one_load_and_costs_under_another_the_range_is_told_and_no_mean():
    findings = analysed(TWO_BATCHES, lambda at: 1.5 if (at[BATCH] == 10) == (at[FILES] == 4) else 1.2)
    (said,) = [text for text in sentences(findings) if text.startswith("Compared with 1 data file")]
    assert "4 data files took 20 % less time" in said
    assert "with rows per transaction = 1,000, but 26 % more time" in said


def test_of_several_layouts_without_a_name_in_common_one_is_named():
    findings = analysed(
        {BATCH: [10, 1000], FILES: [1, 4], LOG: ["a", "b"]},
        lambda levels: 1.3 if (levels[FILES] == 1) == (levels[LOG] == "a") else 1,
    )
    used = ("Under both loads use log on b with 1 data file: ", "Under both loads use log on a with 4 data files: ")
    assert headline(findings).startswith(used)
    assert "; 1 more layout (4 files, log on a) may be the fastest." in headline(findings)


def test_of_many_different_verdicts_the_answer_gives_three_and_the_evidence_the_rest():
    batches = list(range(1, 8))
    findings = analysed(
        {BATCH: batches, FILES: batches}, lambda levels: 1 if levels[FILES] == levels[BATCH] else 1.3, repetitions=4
    )
    said = sentences(findings)
    assert headline(findings).endswith("The report has 4 more groups of loads, with other layouts.")
    assert sum(line.startswith("With ") for line in said) == 4


def test_what_more_connections_do_is_throughput_and_no_gain_of_time():
    findings = analysed({CONNECTIONS: [1, 16]})
    (effect,) = [line for line in sentences(findings) if line.startswith("Compared with ")]
    assert " times the rows/s (joint 95 % CI " in effect
    assert [chart.rows(findings, ()).rows for chart in CHARTS] == [[], []]


def test_loads_alone_have_no_fastest():
    findings = analysed({BATCH: [10, 100, 1000]}, small_batches_take_longer)
    assert {verdict_of(findings, cell.cell_id).text for cell in findings.cells} == {""}


def test_no_number_of_rows_or_fraction_of_reads_is_ever_said_to_be_best():
    findings = analysed(
        {BATCH: [10, 100, 1000], CONNECTIONS: [8, 16], FILES: [1, 4]},
        lambda levels: small_batches_take_longer(levels) * (1 if levels[FILES] == 4 or levels[BATCH] == 10 else 1.3),
    )
    said = " ".join([headline(findings), *sentences(findings)])
    assert "best number of rows" not in said
    assert "best number of connections" not in said
    assert {found.factor for found in findings.dependences if found.best} == {FILES}


def test_what_the_verdicts_of_the_loads_say_is_not_said_again_as_a_dependence():
    said = sentences(best_of({10: [4], 100: [4], 1000: [1]}))
    assert not any("best number of data files" in line for line in said)
    batches = analysed(
        {BATCH: [10, 100, 1000], FILES: [1, 4], LOG: ["a", "b"]},
        lambda levels: 1.3 if (levels[FILES] == 4) == (levels[BATCH] == 10) else 1,
    )
    depends, never = [line for line in sentences(batches) if "best number of data files" in line]
    assert depends.startswith("The best number of data files depends on")
    assert "averaged over log volume" in depends
    assert never.startswith("4 data files may be the fastest whatever the log volume, over all loads together")


def test_the_table_marks_the_best_of_each_load():
    findings = best_of({10: [4], 100: [4, 8], 1000: [1]})
    marks = {tuple(cell.levels.values()): verdict_of(findings, cell.cell_id).text for cell in findings.cells}
    assert [marks[key] for key in ((10, 4), (100, 4), (100, 8), (1000, 1))] == [
        "fastest", "may be fastest", "may be fastest", "fastest",
    ]  # fmt: skip
    assert marks[10, 1].startswith("slower, at least 1")
