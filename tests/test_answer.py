"""The answer: the right layouts, described by their pattern, in at most eight rows of 80 columns for any experiment."""

import io
import random
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from builders import make_experiment, make_plan, make_planned, make_runs
from fabricated_findings import FILES, LOG, make_findings
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from storagelab.findings.analysis import analyse
from storagelab.findings.answer import answer
from storagelab.findings.cautions.cpu_time import BusyMachine, CpuSaturated
from storagelab.findings.cautions.devices import SharedDevice, VirtualDisk
from storagelab.findings.cautions.durability_off import DurabilityOff
from storagelab.findings.cautions.short_runs import ShortRuns
from storagelab.findings.model import Findings
from storagelab.model.plan import Factor, Level
from storagelab.report.drawing.arrange import arrange
from storagelab.report.text.terminal import print_answer
from storagelab.report.words.answer import LINES, answer_lines
from storagelab.report.words.sentences import sentences
from storagelab.report.words.short import LINE
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
    return [line.text for line in answer_lines(findings)]


def four_and_eight_are_best(levels):
    return 10.0 if levels[FILES] in (4, 8) else 13.0


TWO = {FILES: [1, 2, 4, 8], FORMAT: ["on", "off"]}


# --- What to use -----------------------------------------------------------------------------------------------------


def test_the_tied_layouts_are_told_by_the_factor_that_matters_and_the_one_that_does_not():
    findings = analysed(TWO, noisy(four_and_eight_are_best))
    (choice,) = answer(findings).choices
    assert [(good.factor, good.levels) for good in choice.pattern.needed] == [(FILES, (4, 8))]
    assert choice.pattern.free == (FORMAT,)
    assert texts(findings)[0] == "Use 4 or 8 data files; full_page_writes makes no visible difference there."


def test_the_second_line_says_whether_it_was_measured_and_how_much_was_run():
    assert texts(analysed(TWO, noisy(four_and_eight_are_best)))[1].startswith("MEASURED, 40 runs, 8 combinations")


def test_the_default_pick_has_the_fewest_files_and_then_the_levels_listed_first():
    findings = analysed(TWO, noisy(four_and_eight_are_best))
    (choice,) = answer(findings).choices
    assert choice.pick.levels == {FILES: 4, FORMAT: "on"}
    assert choice.pick.decided_by == ("fewest-files", "baseline")
    assert "Default pick (fewest files, listed first): 4 files, full_page_writes on (" in texts(findings)[3]


def test_the_spec_can_prefer_the_fastest():
    findings = analysed(TWO, noisy(four_and_eight_are_best), prefer=("fastest",))
    assert answer(findings).choices[0].pick.cell_id == findings.fastest


def test_a_label_of_the_spec_names_the_factor():
    levels = tuple(Level(value=number, sets={FILES: number}) for number in (1, 2, 4, 8))
    factors = (Factor(name=FILES, levels=levels, labels={FILES: "partitions"}),)
    findings = analysed(factors, noisy(four_and_eight_are_best))
    assert texts(findings)[0] == "Use 4 or 8 partitions."


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


def test_levels_that_share_the_first_part_of_their_label_are_told_by_that_part():
    drivers = [("1.2", 8), ("2.2", 8), ("2.2", 16)]
    levels = tuple(
        Level(value=f"{driver}, {size} MB", sets={"target.settings.x": driver, "target.settings.segment": size})
        for driver, size in drivers
    )
    factors = (Factor(name="driver", levels=levels), *make_experiment({FILES: [1, 4]}).factors)
    findings = analysed(factors, noisy(lambda at: 10.0 if at["driver"][0] == "2" else 15.0))
    assert texts(findings)[0] == "Use driver 2.2; files and segment make no visible difference there."


def test_what_to_use_is_written_out_before_anything_else_is_said_of_it():
    good = ("all on the first of the new arrays", "log on the second of the new arrays")
    values = (*good, "all on disks")
    levels = tuple(Level(value=value, sets={"target.settings.x": value}) for value in values)
    factors = (
        Factor(name="storage", levels=levels),
        *make_experiment({FILES: [1, 4, 8], FORMAT: ["on", "off"]}).factors,
    )
    findings = analysed(
        factors, noisy(lambda at: (10 if at["storage"] in good else 15) * (1 if at[FILES] > 1 else 1.2))
    )
    use = f"Use {good[0]} or {good[1]} with 4 or 8 data files; full_page_writes makes no visible difference there."
    assert texts(findings)[0] == use


def test_a_winner_is_compared_with_the_next_one():
    lines = texts(analysed({FILES: [1, 4, 8]}, noisy(lambda at: {1: 20, 4: 10, 8: 14}[at[FILES]])))
    assert lines[0] == "Use 4 data files: faster than every other layout."
    assert re.match(r"It takes (9\.9|10\.0)\d? s \(95 % CI ", lines[2])
    assert lines[2].endswith("less time than the next, 8 files.")


def test_a_next_one_or_a_slowest_one_that_takes_many_times_as_long_is_told_in_times():
    lines = texts(analysed({FILES: [1, 4]}, noisy(lambda at: {1: 170.0, 4: 10.0}[at[FILES]])))
    assert re.search(r"; the other, 1 file, takes 17 \(1[67] to 1[78]\) times as long\.$", lines[2])
    lines = texts(analysed({FILES: [1, 4, 8]}, noisy(lambda at: {1: 2800.0, 4: 10.0, 8: 14.0}[at[FILES]])))
    assert lines[2].endswith("less time than the next, 8 files.")
    assert lines[3] == "The slowest takes 280 times as long as the best: 1 file."


def test_a_winner_under_several_loads_is_told_by_how_much():
    factors = {CONNECTIONS: [16, 64], FILES: [1, 4]}
    slow = {16: 10.0, 64: 17.0}
    lines = texts(analysed(factors, noisy(lambda at: {1: slow[at[CONNECTIONS]], 4: 1.0}[at[FILES]])))
    assert lines[0] == "Under both loads use 4 data files: faster than the other layout."
    assert re.fullmatch(r"The other takes (9\.9|10) to 17 times as long\.", lines[2])
    lines = texts(analysed(factors, noisy(lambda at: {1: 12.5, 4: 10.0}[at[FILES]])))
    assert re.fullmatch(r"It takes (19|20|19 to 20) % less time than the other\.", lines[2])


def test_a_bound_that_says_hardly_anything_is_not_known():
    findings = analysed({FILES: [1, 4]}, noisy(lambda at: 10.0, share=0.8), repetitions=3)
    assert texts(findings)[2].endswith("how much slower than the best is not known.")


@pytest.mark.parametrize("worse", ["off", "on"])
def test_the_safety_that_the_default_pick_gives_up_is_told_before_all_other_doubts(worse):
    """`worse` = the setting under which runs take longer."""
    findings = analysed({FORMAT: ["on", "off"]}, noisy(lambda at: 14.0 if at[FORMAT] == worse else 10.0))
    cells = {cell.levels[FORMAT]: cell.cell_id for cell in findings.cells}
    gives_up = [
        DurabilityOff(cells=(cells[level],), setting=f"given_up_{level}", value="off", loses="everything")
        for level in ("on", "off")
    ]
    disk = VirtualDisk(volumes=("a",), reason="", device_model="", severity="caution")
    doubt = texts(findings.model_copy(update={"cautions": (disk, *gives_up)}))[-1]
    picked = "off" if worse == "on" else "on"
    assert doubt.startswith(f"Doubt: given_up_{picked} = off gives up safety; ")


def test_one_row_of_a_transaction_is_one():
    rows = "workload.rows_per_transaction"
    findings = analysed(
        {rows: [1, 10], FILES: [1, 4]}, noisy(lambda at: 20.0 if (at[rows] == 1) == (at[FILES] == 1) else 30.0)
    )
    assert any(line.startswith("With 1 row per transaction: ") for line in texts(findings))


def test_where_nothing_is_told_apart_any_layout_will_do_and_the_cheapest_is_named():
    lines = texts(analysed({FILES: [1, 4, 8]}, noisy(lambda at: 10.0)))
    assert lines[0] == "Use any of the 3 layouts: none can be told apart from the fastest."
    assert "each at most" in lines[2]
    assert lines[3].startswith("Default pick (fewest files): 1 file (")


def test_tied_layouts_outside_of_the_pattern_are_counted():
    means = {(1, "a"): 3.0, (1, "b"): 2.01, (4, "a"): 2.0, (4, "b"): 2.02, (8, "a"): 2.02, (8, "b"): 2.03}
    factors = {FILES: [1, 4, 8], LOG: ["a", "b"]}
    findings = make_findings(factors, means, verdict="best-set", tied=[(1, "b"), (4, "b"), (8, "a"), (8, "b")])
    lines = texts(findings)
    assert lines[0] == "Use 4 or 8 data files; log makes no visible difference there; 1 more ties."
    sure = "Those 4 layouts (of 5 tied) take 2.00 to 2.03 s, not proven equal: each at most 6 % slower than the best (95 %)."
    assert lines[2] == sure


# --- Loads -----------------------------------------------------------------------------------------------------------


def test_one_layout_that_will_do_under_every_load_is_one_choice():
    factors = {CONNECTIONS: [16, 64], FILES: [1, 4, 8]}
    findings = analysed(factors, noisy(lambda at: at[CONNECTIONS] * {1: 2.0, 4: 1.0, 8: 1.0}[at[FILES]]))
    lines = texts(findings)
    assert lines[1].startswith("MEASURED, 30 runs, 3 layouts under 2 loads")
    assert lines[0] == "Under both loads use 4 or 8 data files."


def test_loads_with_different_best_layouts_have_a_line_each():
    factors = {CONNECTIONS: [16, 64], FILES: [1, 4]}
    findings = analysed(factors, noisy(lambda at: 20.0 if (at[CONNECTIONS] == 16) == (at[FILES] == 1) else 30.0))
    lines = texts(findings)
    assert lines[0].startswith("With 16 connections: 1 file")
    assert lines[2].startswith("With 64 connections: 4 files")


def test_one_layout_under_many_loads_leaves_nothing_to_choose():
    lines = texts(analysed({CONNECTIONS: [16, 64]}, noisy(lambda at: float(at[CONNECTIONS]))))
    assert "so there is none to choose" in lines[0]


# --- What keeps it from answering ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caution", "said"),
    [
        (
            BusyMachine(others_share=0.3, limit=0.1, runs=4, checked=10),
            "the machine was busy (others took up to 30 % of it)",
        ),
        (SharedDevice(volumes=("a", "b"), device="sda"), "volumes a, b are on one device"),
    ],
)
def test_what_makes_the_answer_unsure_is_told_beside_whether_it_was_measured(caution, said):
    means = {(1, "a"): 2.0, (1, "b"): 2.1}
    findings = make_findings({FILES: [1], LOG: ["a", "b"]}, means, verdict="indistinguishable", cautions=[caution])
    assert texts(findings)[1] == f"MEASURED, 10 runs, 2 layouts; not conclusive: {said}."


def test_volumes_on_one_device_do_not_matter_where_no_place_is_varied():
    shared = SharedDevice(volumes=("a", "b"), device="sda", severity="note")
    findings = make_findings({FILES: [1, 4]}, {1: 2.0, 4: 2.1}, verdict="indistinguishable", cautions=[shared])
    _, basis, *_, last = texts(findings)
    assert basis == "MEASURED, 10 runs, 2 layouts."
    assert last == "Doubt: volumes a, b are on one device."


def test_runs_of_single_layouts_in_stretches_choose_nothing_and_say_what_to_do():
    lines = texts(analysed({FILES: [1, 4]}, noisy(four_and_eight_are_best), order="cell-by-cell"))
    assert "not conclusive: nothing tested, as the order was not random" in lines[1]
    assert lines[0].startswith("No layout can be chosen")
    assert lines[-1] == 'Next: rerun it in the randomised order (order = "randomised") under a new name.'


def test_one_run_of_each_chooses_nothing():
    lines = texts(analysed({FILES: [1, 4]}, noisy(four_and_eight_are_best), repetitions=1))
    assert lines[1] == "MEASURED, 2 runs, 2 layouts; not conclusive: too few runs to test (1 of each layout)."
    assert "No layout can be chosen yet" in lines[0]


@pytest.mark.parametrize(
    ("caution", "said", "advice"),
    [
        (CpuSaturated(cpu_share=0.92, cpu_count=4, limit=0.9), "the CPUs were the limit (92 % busy)", "more cores"),
        (ShortRuns(shortest_s=0.8, limit_s=2), "runs as short as 0.800 s", "longer runs"),
    ],
)
def test_where_something_else_set_the_pace_there_is_no_verdict_on_storage(caution, said, advice):
    findings = analysed({FILES: [1, 4]}, noisy(lambda at: 10.0)).model_copy(update={"cautions": (caution,)})
    lines = texts(findings)
    assert lines[0] == f"No storage verdict: {said}."
    assert lines[-1].startswith("Next: ")
    assert advice in lines[-1]
    told = analysed({FILES: [1, 4]}, noisy(four_and_eight_are_best)).model_copy(update={"cautions": (caution,)})
    assert texts(told)[0] == "Use 4 data files: faster than the other layout."


def test_ties_say_how_many_repetitions_would_tell_them_apart_and_a_sure_answer_says_nothing():
    lines = texts(analysed({FILES: [1, 4, 8]}, noisy(lambda at: 10.0, share=0.05)))
    repetitions, effect = re.fullmatch(r"Next: (\d+) repetitions tell (\d+) % apart\.", lines[-1]).groups()
    assert int(repetitions) > 5
    assert effect in ("3", "5", "10")
    assert not any("Next" in line for line in texts(analysed({FILES: [1, 8]}, noisy(four_and_eight_are_best))))


def test_runs_that_are_missing_are_made_before_anything_else():
    experiment, plan = make_planned({FILES: [1, 4]}, 5)
    findings = analyse(experiment, plan, make_runs(experiment, plan)[:7])
    assert texts(findings)[-1] == "Next: make the 3 runs that are missing: storagelab run SPEC."


# --- What is gained, and why -----------------------------------------------------------------------------------------


def test_what_a_factor_gains_is_told_against_the_first_level_with_its_error():
    findings = analysed(TWO, noisy(four_and_eight_are_best))
    (line,) = [line for line in texts(findings) if line.startswith("Gains")]
    assert line == "Gains: files -22 to -23 % against 1; full_page_writes: no measurable difference."
    assert any(text.startswith("Gains: 4 or 8 files instead of 1: -22 to -23 ± 1 %; ") for text in sentences(findings))


def test_the_wait_that_fell_with_the_time_is_the_reason():
    findings = analysed({FILES: [1, 8]}, noisy(lambda at: 10.0 if at[FILES] == 8 else 13.0))
    (line,) = [line for line in texts(findings) if line.startswith("Why")]
    # 0.25 of 13 s, and 0.03 of 10 s.
    assert line == "Why, files: 1 -> 8, Lock:extend 3.23 -> 0.30 s per session."


def test_two_layouts_are_answered_in_four_lines():
    assert texts(analysed({FILES: [1, 8]}, noisy(lambda at: 10.0 if at[FILES] == 8 else 13.0))) == [
        "Use 8 data files: faster than the other layout.",
        "MEASURED, 10 runs, 2 layouts.",
        "It takes 10.06 s (95 % CI 9.95 to 10.19 s); 23 % (21 to 24 %) less time than the other, 1 file.",
        "Why, files: 1 -> 8, Lock:extend 3.23 -> 0.30 s per session.",
    ]


def test_one_layout_alone_has_its_time():
    lines = texts(analysed({}, noisy(lambda at: 10.0)))
    assert lines[0] == "There was one layout, so there is none to choose."
    assert re.fullmatch(r"It took 9\.96 s \(95 % CI 9\.81 to 10\.11 s\)\.", lines[2])


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
            [("a", "b", "c"), (f"{LONG} 1", f"{LONG} 2", f"{LONG} 3"), (f"{WORD}1", f"{WORD}2", f"{WORD}3")]
        )
    )
    many = draw(st.booleans())
    factors: list[Factor] = []
    plain = {FILES: [1, 2, 4, 8, 16], CONNECTIONS: [4, 8, 16], LOG: ["a", "b"], FORMAT: ["on", "off"]}
    for name in draw(st.lists(st.sampled_from(list(plain)), unique=True, max_size=2 if many else 4)):
        values = plain[name][: draw(st.integers(1, 3))]
        factors.append(Factor(name=name, levels=tuple(Level(value=value, sets={name: value}) for value in values)))
    if many:
        number = draw(st.sampled_from([2, 3, 12, 100 if len(factors) == 0 else 4]))
        texts_ = [f"{labels[place % 3]}, {place}" for place in range(number)]
        name = draw(st.sampled_from(["storage", LONG, WORD]))
        factors.append(
            Factor(name=name, levels=tuple(Level(value=text, sets={"target.settings.x": text}) for text in texts_))
        )
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


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(drawn_findings())
def test_any_experiment_is_answered_in_eight_rows_of_a_terminal_with_80_columns(drawn):
    check_the_lines_of(drawn)


@pytest.mark.slow
@pytest.mark.campaign
@settings(max_examples=150, deadline=None)
@given(drawn_findings())
def test_and_so_are_many_more(drawn):
    check_the_lines_of(drawn)


def check_the_lines_of(drawn: Drawn) -> None:
    lines = texts(drawn.findings)
    screen = io.StringIO()
    print_answer(Console(file=screen, width=LINE), answer_lines(drawn.findings))
    assert 1 <= len(screen.getvalue().splitlines()) <= LINES
    assert [row for row in screen.getvalue().splitlines() if len(row) > LINE and " " in row.strip()] == []
    basis = {"MEASURED", "SIMULATED", "NOTHING MEASURED"}
    assert len([line for line in lines[:2] if line.split(",")[0].split(":")[0] in basis]) == 1
    assert [line for line in lines if not line.endswith((".", "..."))] == []
    for line in lines:
        # A long name is whole, or cut with a mark.
        assert "x" * 30 not in line or WORD in line or "xxx..." in line


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(drawn_findings())
def test_what_a_pattern_means_is_tied(drawn):
    for choice in answer(drawn.findings).choices:
        assert {*choice.meant} <= {*choice.tied}
        assert choice.pick.cell_id in choice.meant
        for cell_id in choice.meant:
            levels = drawn.findings.cell(cell_id).levels
            assert all(repr(levels[good.factor]) in map(repr, good.levels) for good in choice.pattern.needed)


# --- Real ones -------------------------------------------------------------------------------------------------------

GOLDEN = Path(__file__).parent / "golden" / "answers"


@pytest.mark.parametrize("golden", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_the_answer_of_a_real_experiment_is_what_it_was(golden):
    """If one changes for the better: `python tools/make_golden_answers.py RESULTS NAME`."""
    findings = Findings.model_validate_json(golden.read_text("utf-8"))
    assert texts(findings) == golden.with_suffix(".txt").read_text("utf-8").splitlines()


def test_the_example_of_the_docs_is_a_real_answer():
    page = (Path(__file__).parent.parent / "docs" / "how-to" / "read-a-report.md").read_text("utf-8")
    assert (GOLDEN / "multiple-data-files.txt").read_text("utf-8") in page
