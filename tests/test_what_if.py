"""What-if answers as sentences: each figure in them comes out of the findings, and nothing is said without a finding."""

from __future__ import annotations

from fabricated_findings import FILES, LOG, make_findings

from storagelab.findings.kinds.drive_trends import DriveTrend
from storagelab.findings.model import BestLevels, Dependence, EffectChange, Estimate, Findings, LevelCost
from storagelab.report.words.sentences import sentences
from storagelab.report.words.what_if import what_if_sentences

CORES, FORMAT_DRIVES = "server.cores", "between_runs.format_drives"


def ratio(low: float, value: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high)


def findings_with(*dependences: Dependence, trends: tuple[DriveTrend, ...] = (), **changes: object) -> Findings:
    """FABRICATED."""
    factors = {FILES: [4, 8, 16], CORES: [4, 16], LOG: ["a", "b"]}
    means = {(files, cores, log): 10.0 + files for files in (4, 8, 16) for cores in (4, 16) for log in ("a", "b")}
    findings = make_findings(factors, means, verdict="best-set")
    return findings.model_copy(
        update={"dependences": dependences, "found": {"drive_trends": trends} if trends else {}} | changes
    )


def best(*rows: tuple[object, tuple[object, ...]]) -> tuple[BestLevels, ...]:
    return tuple(BestLevels.model_validate({"at": at, "levels": levels}) for at, levels in rows)


FOLLOWS = Dependence(
    factor=FILES, within=CORES, best=best((4, (4,)), (16, (16, 8))), averaged=(LOG,),
    cost=LevelCost(at=16, taken_from=4, level=4, best=16, ratio=ratio(1.2, 1.25, 1.3)),
)  # fmt: skip
TURNS = EffectChange(
    level=16, baseline=4, low_at="b", low=ratio(0.98, 1.02, 1.06), high_at="a", high=ratio(1.17, 1.2, 1.23),
    difference=ratio(1.12, 1.18, 1.23),
)  # fmt: skip
REMEMBERS = DriveTrend(
    drive="ssd", quantity="write_amplification", first=ratio(1, 1, 1), last=ratio(1.22, 1.25, 1.28), rank_correlation=0.99,
    with_time=0.8, blocks=3, randomised=False,
)  # fmt: skip


def test_nothing_is_said_where_nothing_was_found():
    assert what_if_sentences(findings_with()) == []


def test_a_best_number_that_follows_another_is_told_level_by_level_with_the_cost_of_not_following():
    assert what_if_sentences(findings_with(FOLLOWS)) == [
        "With 4 cores 4 data files are fastest and with 16 cores 16 data files are fastest (or 8, not told apart): the best "
        "number of data files follows the number of cores, averaged over log volume. With 16 cores, 4 data files, the "
        "fastest with 4 cores, take 25 % more time (joint 95 % CI 20 to 30 %) than 16 data files."
    ]


def test_a_best_number_may_fall_or_just_depend():
    falls = FOLLOWS.model_copy(update={"best": best((4, (16,)), (16, (4,))), "cost": None})
    assert "falls as the number of cores grows" in what_if_sentences(findings_with(falls))[0]
    depends = FOLLOWS.model_copy(update={"within": LOG, "best": best(("a", (16,)), ("b", (4,))), "cost": None})
    assert "the best number of data files depends on the log volume" in what_if_sentences(findings_with(depends))[0]


def test_a_best_number_that_does_not_follow_is_said_with_what_does_everywhere():
    common = best((4, (8, 16)), (16, (8,)))
    assert what_if_sentences(findings_with(Dependence(factor=FILES, within=CORES, best=common))) == [
        "Whatever the number of cores, 8 data files can't be told apart from the fastest: as far as these runs tell, the "
        "best number of data files does not follow it."
    ]


def test_levels_none_of_which_is_told_apart_are_no_news():
    everything = best((4, (8, 16, 4)), (16, (4, 8, 16)))
    assert what_if_sentences(findings_with(Dependence(factor=FILES, within=CORES, best=everything))) == []


def test_an_effect_that_changes_is_told_at_both_levels_with_intervals():
    same = Dependence(factor=FILES, within=LOG, best=best(("a", (4, 8, 16)), ("b", (4, 8, 16))), change=TURNS)
    assert what_if_sentences(findings_with(same)) == [
        "From 4 to 16 data files a run takes 20 % more time (joint 95 % CI 17 to 23 %) with log on a, and 2 % more time "
        "(joint 95 % CI 2 % less to 6 % more) with log on b: the effect depends on the log volume, by 18 % (joint 95 % CI "
        "12 to 23 %)."
    ]


def test_the_drives_past_is_told_with_a_way_to_tell_it_apart_unless_it_is_varied_already():
    (said,) = what_if_sentences(findings_with(trends=(REMEMBERS,)))
    assert "write amplification rose from 1.00 to 1.25 (95 % CI 1.22 to 1.28)" in said
    assert "Times moved with it (rank correlation 0.80)" in said
    assert said.endswith(f"{FORMAT_DRIVES} as a factor separates the two.")
    varied = findings_with(trends=(REMEMBERS,))
    level = varied.factors[0].levels[0].model_copy(update={"sets": {FORMAT_DRIVES: True}})
    factor = varied.factors[0].model_copy(update={"levels": (level,)})
    (said,) = what_if_sentences(varied.model_copy(update={"factors": (factor,)}))
    assert FORMAT_DRIVES not in said


def test_a_random_order_is_said_to_hit_all_alike_on_average():
    (said,) = what_if_sentences(findings_with(trends=(REMEMBERS.model_copy(update={"randomised": True}),)))
    assert said.endswith("The order was random, so on average this affects all cells alike.")


def test_the_largest_come_first_and_three_are_enough():
    small = Dependence(factor=FILES, within=LOG, best=best(("a", (4,)), ("b", (4,))), change=TURNS)
    said = what_if_sentences(findings_with(small, FOLLOWS, FOLLOWS, trends=(REMEMBERS,)))
    assert len(said) == 3
    assert said[0].startswith("With 4 cores")
    assert said[2].startswith("Drive ssd changed from the first runs after a formatting to the last")


def test_what_if_sentences_are_a_part_of_the_evidence():
    findings = findings_with(FOLLOWS)
    assert what_if_sentences(findings)[0] in sentences(findings)


def test_too_few_runs_answer_no_question():
    assert what_if_sentences(findings_with(FOLLOWS, verdict="too-few-runs")) == []
