"""The answer: the right layouts, described by their pattern, on one screen of a terminal for any experiment."""

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from builders import make_campaign, make_experiment, make_plan, make_runs, on_a_terminal
from fabricated_findings import FILES, LOG, golden, make_factor, make_findings, said_in
from hypothesis import given, settings
from hypothesis import strategies as st

from storagelab.findings.analysis import analyse
from storagelab.findings.answer import answer
from storagelab.findings.cautions.cpu_time import BusyMachine, CpuSaturated
from storagelab.findings.cautions.devices import SharedDevice, VirtualDisk
from storagelab.findings.cautions.durability_off import DurabilityOff
from storagelab.findings.cautions.short_runs import ShortRuns
from storagelab.findings.model import Findings
from storagelab.model.plan import Factor, Level
from storagelab.report.drawing.arrange import arrange
from storagelab.report.sections.contents import opened
from storagelab.report.words.answer import answer_lines
from storagelab.words.names import group_text

CONNECTIONS = "workload.connections"
FORMAT = "target.settings.full_page_writes"


def analysed(factors, elapsed, repetitions=5, order="randomised", **spec) -> Findings:
    """`factors` = levels by path, or ready-made factors."""
    made = () if isinstance(factors, dict) else tuple(factors)
    experiment = make_experiment({} if made else factors, repetitions, order=order, **spec)
    experiment = experiment.model_copy(update={"factors": made or experiment.factors})
    plan = make_plan(experiment)
    return analyse(experiment, plan, make_runs(experiment, plan, elapsed=elapsed))


def noisy(times, share=0.01):
    """Times by the levels of a cell, with some noise that is the same at each call."""

    def elapsed(levels, repetition):
        return times(levels) * (1 + random.Random(f"{sorted(levels.items())}{repetition}").gauss(0, share))

    return elapsed


def texts(findings):
    return answer_lines(findings)


def four_and_eight_are_best(levels):
    return 10.0 if levels[FILES] in (4, 8) else 13.0


TWO = {FILES: [1, 2, 4, 8], FORMAT: ["on", "off"]}


# --- What is said ----------------------------------------------------------------------------------------------------


def by_files(**seconds: float):
    """Times by the number of data files: `_4=10.0`."""
    return noisy(lambda at: seconds[f"_{at[FILES]}"])


def varied(name: str, *levels: Level, more: dict) -> tuple[Factor, ...]:
    return (Factor(name=name, levels=levels), *make_experiment(more).factors)


DRIVERS = varied("driver", *(
    Level(value=f"{driver}, {size} MB", sets={"target.settings.x": driver, "target.settings.segment": size})
    for driver, size in [("1.2", 8), ("2.2", 8), ("2.2", 16)]
), more={FILES: [1, 4]})  # fmt: skip
GOOD = ("all on the first of the new arrays", "log on the second of the new arrays")
STORAGE = varied(
    "storage", *(Level(value=value, sets={"target.settings.x": value}) for value in (*GOOD, "all on disks")),
    more={FILES: [1, 4, 8], FORMAT: ["on", "off"]},
)  # fmt: skip
PARTITIONS = Factor(
    name=FILES, levels=tuple(Level(value=number, sets={FILES: number}) for number in (1, 2, 4, 8)),
    labels={FILES: "partitions"},
)  # fmt: skip
ROWS = "workload.rows_per_transaction"
UNDER_LOADS = {CONNECTIONS: [16, 64], FILES: [1, 4]}
TIED = {(1, "a"): 3.0, (1, "b"): 2.01, (4, "a"): 2.0, (4, "b"): 2.02, (8, "a"): 2.02, (8, "b"): 2.03}
ON_A_AND_B = {(1, "a"): 2.0, (1, "b"): 2.1}


def in_doubt(*cautions, factors=None, means=ON_A_AND_B) -> Findings:
    return make_findings(
        factors or {FILES: [1], LOG: ["a", "b"]}, means, verdict="indistinguishable", cautions=cautions
    )


def limited_by(caution, times=lambda at: 10.0) -> Findings:
    return analysed({FILES: [1, 4]}, noisy(times)).model_copy(update={"cautions": (caution,)})


def gives_up(worse: str) -> Findings:
    """`worse` is the setting under which runs take longer. Each setting gives up safety. The disk is virtual."""
    findings = analysed({FORMAT: ["on", "off"]}, noisy(lambda at: 14.0 if at[FORMAT] == worse else 10.0))
    cells = {cell.levels[FORMAT]: cell.cell_id for cell in findings.cells}
    given_up = [
        DurabilityOff(cells=(cells[level],), setting=f"given_up_{level}", value="off", loses="everything")
        for level in ("on", "off")
    ]
    disk = VirtualDisk(volumes=("a",), reason="", device_model="", severity="caution")
    return findings.model_copy(update={"cautions": (disk, *given_up)})


def with_runs_missing() -> Findings:
    experiment, plan, runs = make_campaign({FILES: [1, 4]}, 5)
    return analyse(experiment, plan, runs[:7])


BUSY = BusyMachine(others_share=0.3, limit=0.1, runs=4, checked=10)
CPUS = CpuSaturated(cpu_share=0.92, cpu_count=4, limit=0.9)
SITUATIONS = {
    "one factor matters, the other does not": lambda: analysed(TWO, noisy(four_and_eight_are_best)),
    "all layouts of a pattern but one": lambda: analysed(
        {FILES: [1, 2, 3, 4, 5, 6], FORMAT: ["on", "off"]},
        noisy(lambda at: 13.0 if at[FILES] == 1 or (at[FILES], at[FORMAT]) == (6, "off") else 10.0),
    ),
    "only the effect of a factor is certain": lambda: analysed(
        {FILES: [1, 2, 4, 8], FORMAT: ["on", "off"]}, noisy(lambda at: 10 + 9 * (at[FILES] == 1), 0.1), repetitions=2
    ),
    "the spec prefers the fastest": lambda: analysed(TWO, noisy(four_and_eight_are_best), prefer=("fastest",)),
    "a label of the spec": lambda: analysed([PARTITIONS], noisy(four_and_eight_are_best)),
    "levels that share the first part of their label": lambda: analysed(
        DRIVERS, noisy(lambda at: 10.0 if at["driver"][0] == "2" else 15.0)
    ),
    "what to use is long": lambda: analysed(
        STORAGE, noisy(lambda at: (10 if at["storage"] in GOOD else 15) * (1 if at[FILES] > 1 else 1.2))
    ),
    "a winner": lambda: analysed({FILES: [1, 4, 8]}, by_files(_1=20, _4=10, _8=14)),
    "a winner under several loads": lambda: analysed(
        UNDER_LOADS, noisy(lambda at: {1: {16: 10.0, 64: 17.0}[at[CONNECTIONS]], 4: 1.0}[at[FILES]])
    ),
    "a bound that says hardly anything": lambda: analysed(
        {FILES: [1, 4]}, noisy(lambda at: 10.0, share=0.8), repetitions=3
    ),
    "the pick gives safety up": lambda: gives_up("on"),
    "the pick gives other safety up": lambda: gives_up("off"),
    "one row of a transaction": lambda: analysed(
        {ROWS: [1, 10], FILES: [1, 4]}, noisy(lambda at: 20.0 if (at[ROWS] == 1) == (at[FILES] == 1) else 30.0)
    ),
    "nothing is told apart": lambda: analysed({FILES: [1, 4, 8]}, noisy(lambda at: 10.0)),
    "ties outside of the pattern": lambda: make_findings(
        {FILES: [1, 4, 8], LOG: ["a", "b"]}, TIED, verdict="best-set", tied=[(1, "b"), (4, "b"), (8, "a"), (8, "b")]
    ),
    "one layout will do under every load": lambda: analysed(
        {CONNECTIONS: [16, 64], FILES: [1, 4, 8]},
        noisy(lambda at: at[CONNECTIONS] * {1: 2.0, 4: 1.0, 8: 1.0}[at[FILES]]),
    ),
    "loads with different best layouts": lambda: analysed(
        UNDER_LOADS, noisy(lambda at: 20.0 if (at[CONNECTIONS] == 16) == (at[FILES] == 1) else 30.0)
    ),
    "one layout under many loads": lambda: analysed({CONNECTIONS: [16, 64]}, noisy(lambda at: float(at[CONNECTIONS]))),
    "a busy machine": lambda: in_doubt(BUSY),
    "volumes on one device": lambda: in_doubt(SharedDevice(volumes=("a", "b"), device="sda")),
    "volumes on one device where no place is varied": lambda: in_doubt(
        SharedDevice(volumes=("a", "b"), device="sda", severity="note"), factors={FILES: [1, 4]}, means={1: 2.0, 4: 2.1}
    ),
    "layouts in stretches": lambda: analysed({FILES: [1, 4]}, noisy(four_and_eight_are_best), order="cell-by-cell"),
    "one run of each": lambda: analysed({FILES: [1, 4]}, noisy(four_and_eight_are_best), repetitions=1),
    "the CPUs set the pace": lambda: limited_by(CPUS),
    "the CPUs set the pace, and one wins": lambda: limited_by(CPUS, four_and_eight_are_best),
    "short runs": lambda: limited_by(ShortRuns(shortest_s=0.8, limit_s=2)),
    "more repetitions would tell": lambda: analysed({FILES: [1, 4, 8]}, noisy(lambda at: 10.0, share=0.05)),
    "runs are missing": with_runs_missing,
    "one layout alone": lambda: analysed({}, noisy(lambda at: 10.0)),
}


def test_answers_are_what_they_were():
    assert said_in(SITUATIONS, texts) == golden("answers").read_text("utf-8")


def test_the_tied_layouts_are_a_pattern_with_a_pick_that_has_the_fewest_files_and_then_the_levels_listed_first():
    (choice,) = answer(analysed(TWO, noisy(four_and_eight_are_best))).choices
    assert [(good.factor, good.levels) for good in choice.pattern.needed] == [(FILES, (4, 8))]
    assert choice.pattern.free == (FORMAT,)
    assert choice.pick.levels == {FILES: 4, FORMAT: "on"}
    assert (choice.pick.decided_by, choice.pick.within) == (("fewest-files", "baseline"), 0.01)


def test_a_label_of_the_spec_names_cells_axes_and_groups_of_cells():
    labels = {FILES: "partitions", FORMAT: "images"}
    factors = tuple(
        factor.model_copy(update={"labels": {factor.name: labels[factor.name]}})
        for factor in make_experiment({FILES: [1, 4], FORMAT: ["on", "off"]}).factors
    )
    findings = analysed(factors, noisy(four_and_eight_are_best))
    assert findings.cells[0].name == "cell-001 (1 partition, images on)"
    places = arrange(findings)
    assert (places.x_title, places.line_title) == ("partitions", "images")
    shown = group_text([findings.cells[0].levels, findings.cells[2].levels], findings.factors)
    assert shown == "images on, any partitions"


# --- Any experiment --------------------------------------------------------------------------------------------------

LONG = "a label of one hundred characters that somebody wrote to be precise about everything, as is prudent"
WORD = "x" * 100


@dataclass(frozen=True)
class Drawn:
    findings: Findings
    names: tuple[str, ...]


@st.composite
def drawn_findings(draw) -> Drawn:
    """Findings of real analyses: any verdict, up to five factors, labels of any length, failures, doubts."""
    seed = draw(st.integers(0, 2**32))
    rng = random.Random(seed)
    labels = draw(
        st.sampled_from(
            [
                ("a", "b", "c"),
                ("of almost thirty letters: 1", "of almost thirty letters: 2", "x" * 27),
                (f"{LONG} 1", f"{LONG} 2", f"{LONG} 3"),
                (f"{WORD}1", f"{WORD}2", f"{WORD}3"),
            ]
        )
    )
    many = draw(st.booleans())
    plain = {FILES: [1, 2, 4, 8, 16], CONNECTIONS: [4, 8, 16], LOG: ["a", "b"], FORMAT: ["on", "off"]}
    varied = draw(st.lists(st.sampled_from(list(plain)), unique=True, max_size=2 if many else 4))
    factors = [make_factor(name, plain[name][: draw(st.integers(1, 3))]) for name in varied]
    if many:
        number = draw(st.sampled_from([2, 3, 12, 100 if len(factors) == 0 else 4]))
        name = draw(st.sampled_from(["storage", LONG, WORD]))
        factors.append(make_factor(name, [f"{labels[place % 3]}, {place}" for place in range(number)]))
    effects = {
        (factor.name, repr(level.value)): rng.choice([1, 1, 1.03, 1.3, 4])
        for factor in factors
        for level in factor.levels
    }
    noise = draw(st.sampled_from([0.001, 0.02, 0.3]))

    def elapsed(levels, repetition):
        time = 10.0 * draw_scale
        for name, value in levels.items():
            time *= effects[name, repr(value)]
        return time * rng.lognormvariate(0, noise)

    draw_scale = draw(st.sampled_from([0.05, 1, 1000]))
    failing = draw(st.sampled_from([0, 0, 0.2, 1]))
    experiment = make_experiment(
        {}, draw(st.integers(1, 4)),
        order=draw(st.sampled_from(["randomised", "randomised", "as-listed", "cell-by-cell"])),
        indifferent=draw(st.sampled_from([None, "3%", "50%"])),
    )  # fmt: skip
    experiment = experiment.model_copy(update={"factors": tuple(factors)})
    plan = make_plan(experiment)
    runs = make_runs(
        experiment, plan, elapsed=elapsed, failed=lambda planned: "disk full" if rng.random() < failing else ""
    )
    runs = runs[: draw(st.sampled_from([len(runs), len(runs) // 2]))]
    names = tuple(str(level.value) for factor in factors for level in factor.levels) + tuple(f.name for f in factors)
    return Drawn(analyse(experiment, plan, runs), names)


LINES, COLUMNS = 23, 80
"""A small terminal, without the line that names the report."""


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(drawn_findings())
def test_any_experiment_is_answered_on_one_screen_of_a_terminal(drawn):
    check_the_screen_of(drawn)


@pytest.mark.slow
@pytest.mark.campaign
@settings(max_examples=150, deadline=None)
@given(drawn_findings())
def test_and_so_are_many_more(drawn):
    check_the_screen_of(drawn)


def check_the_screen_of(drawn: Drawn) -> None:
    """Only names longer than a third of a line make it longer or wider than a screen, because names are never cut."""
    lines = texts(drawn.findings)
    rows = on_a_terminal(opened(drawn.findings), COLUMNS, full=False).splitlines()
    if max(map(len, drawn.names), default=0) <= 30:
        assert len(rows) <= LINES
        assert max(map(len, rows)) <= COLUMNS
        assert all("x" * 27 in row for row in rows if "xx" in row)
    basis = {"MEASURED", "SIMULATED", "NO RESULT YET"}
    assert len([line for line in lines[:2] if line.split(",")[0].split(":")[0] in basis]) == 1
    assert [line for line in lines if not line.endswith(".")] == []
    assert all("x" * 28 not in line or WORD in line for line in lines)


REAL = Path(__file__).parent / "golden" / "answers"


@pytest.mark.parametrize("file", sorted(REAL.glob("*.json")), ids=lambda path: path.stem)
def test_the_answer_of_a_real_experiment_is_what_it_was(file):
    """If one changes for the better: `python tools/make_golden_answers.py RESULTS NAME`."""
    findings = Findings.model_validate_json(file.read_text("utf-8"))
    assert texts(findings) == file.with_suffix(".txt").read_text("utf-8").splitlines()


def test_the_example_of_the_docs_is_a_real_answer():
    page = (Path(__file__).parent.parent / "docs" / "how-to" / "read-a-report.md").read_text("utf-8")
    findings = Findings.model_validate_json((REAL / "multiple-data-files.json").read_text("utf-8"))
    assert on_a_terminal(opened(findings), full=False) in page


def test_while_layouts_wait_for_their_runs_the_answer_is_for_those_that_ran_and_recommends_none():
    experiment = make_experiment({FILES: [1, 4, 8]}, 5, order="randomised")
    plan = make_plan(experiment)
    runs = make_runs(experiment, plan, elapsed=noisy(lambda levels: {1: 2.5, 4: 2.0, 8: 2.2}[levels[FILES]]))
    far = make_runs(experiment, plan, elapsed=lambda levels, repetition: 2 + levels[FILES] * repetition % 5)
    few = [run for run in far if run.cell_id != "cell-003" and run.repetition < 3]
    assert opened(analyse(experiment, plan, few)).head[0] == "Not decided: only 2 of 3 layouts have run."
    some = opened(analyse(experiment, plan, [run for run in runs if run.cell_id != "cell-003"]))
    assert some.head[0].startswith("So far, after 2 of 3 layouts, use 4 data files: at most ")
    assert some.next.startswith("Next: make the 5 runs that are missing")
    for told, recommended in ((some, []), (opened(analyse(experiment, plan, runs)), ["cell-002"])):
        assert [rung.cell_id for ladder in told.ladders for rung in ladder.rungs if rung.recommended] == recommended
