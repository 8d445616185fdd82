"""Answers to what-if questions as sentences: each figure comes from the findings, and there is no sentence without a
finding.
"""

from fabricated_findings import FILES, LOG, golden, make_findings, said_in

from storagelab.findings.kinds.drive_trends import DriveTrend
from storagelab.findings.model import BestLevels, Dependence, EffectChange, Estimate, Findings, LevelCost
from storagelab.report.words.sentences import sentences, what_if_sentences

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


def of_cores(*rows: tuple[object, tuple[object, ...]]) -> Findings:
    return findings_with(Dependence(factor=FILES, within=CORES, best=best(*rows)))


FOLLOWS = Dependence(
    factor=FILES, within=CORES, best=best((4, (4,)), (16, (16, 8))), averaged=(LOG,),
    cost=LevelCost(at=16, taken_from=4, level=4, best=16, ratio=ratio(1.2, 1.25, 1.3)),
)  # fmt: skip
TURNS = EffectChange(
    level=16, baseline=4, low_at="b", low=ratio(0.98, 1.02, 1.06), high_at="a", high=ratio(1.17, 1.2, 1.23),
    difference=ratio(1.12, 1.18, 1.23),
)  # fmt: skip
REMEMBERS = DriveTrend(
    drive="ssd", quantity="write_amplification", first=ratio(1, 1, 1), last=ratio(1.22, 1.25, 1.28),
    rank_correlation=0.99,
    with_time=0.8, blocks=3, randomised=False,
)  # fmt: skip


ALL = best(("a", (4, 8, 16)), ("b", (4, 8, 16)))
FALLS = FOLLOWS.model_copy(update={"best": best((4, (16,)), (16, (4,))), "cost": None})
DEPENDS = FOLLOWS.model_copy(update={"within": LOG, "best": best(("a", (16,)), ("b", (4,))), "cost": None})
CHANGES = Dependence(factor=FILES, within=LOG, best=ALL, change=TURNS)
AT_RANDOM = REMEMBERS.model_copy(update={"randomised": True})
SITUATIONS = {
    "nothing was found": findings_with, "a best number follows another": lambda: findings_with(FOLLOWS),
    "a best number falls": lambda: findings_with(FALLS), "a best number depends": lambda: findings_with(DEPENDS),
    "a best number does not follow": lambda: of_cores((4, (8, 16)), (16, (8,))),
    "no level is told apart": lambda: of_cores((4, (8, 16, 4)), (16, (4, 8, 16))),
    "an effect changes": lambda: findings_with(CHANGES),
    "a drive remembers": lambda: findings_with(trends=(REMEMBERS,)),
    "a drive remembers, in a random order": lambda: findings_with(trends=(AT_RANDOM,)),
}  # fmt: skip


def test_what_if_sentences_are_what_they_were():
    assert said_in(SITUATIONS, what_if_sentences) == golden("what-if").read_text("utf-8")


def test_of_a_drive_whose_formatting_is_varied_already_no_way_is_told():
    varied = findings_with(trends=(REMEMBERS,))
    level = varied.factors[0].levels[0].model_copy(update={"sets": {FORMAT_DRIVES: True}})
    factor = varied.factors[0].model_copy(update={"levels": (level,)})
    (said,) = what_if_sentences(varied.model_copy(update={"factors": (factor,)}))
    assert FORMAT_DRIVES not in said


def test_the_largest_come_first_and_three_are_enough():
    small = Dependence(factor=FILES, within=LOG, best=best(("a", (4,)), ("b", (4,))), change=TURNS)
    said = what_if_sentences(findings_with(small, FOLLOWS, FOLLOWS, trends=(REMEMBERS,)))
    assert len(said) == 3
    assert said[0].startswith("The best number of data files depends on the number of cores")
    assert said[2].startswith("Drive ssd changed from the first runs after a formatting to the last")


def test_what_if_sentences_are_a_part_of_the_evidence():
    findings = findings_with(FOLLOWS)
    assert what_if_sentences(findings)[0] in sentences(findings)


def test_too_few_runs_answer_no_question():
    assert what_if_sentences(findings_with(FOLLOWS, verdict="too-few-runs")) == []
