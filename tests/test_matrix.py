"""The matrix: the cells, and the order of their runs."""

import itertools
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import pytest
from builders import make_experiment
from hypothesis import given, settings
from hypothesis import strategies as st

from storagelab.errors import SpecError
from storagelab.model.plan import Experiment, Plan
from storagelab.spec.matrix import FEW, MAX_CELLS, expand
from storagelab.spec.reading import parse

HEAD = '[target]\nengine = "postgres"\n[volumes.a]\npath = "."\n[volumes.b]\npath = "."\n[factors]\n'


def experiment(
    factors: dict[str, list[object]], excludes: list[dict[str, object]] | None = None, **header: object
) -> Experiment:
    """An experiment made from its TOML, like every experiment."""
    top = "".join(f"{key} = {json.dumps(value)}\n" for key, value in header.items())
    listed = "".join(f'"{name}" = {json.dumps(levels)}\n' for name, levels in factors.items())
    left_out = "".join(
        "[[exclude]]\n" + "".join(f'"{name}" = {json.dumps(value)}\n' for name, value in entry.items())
        for entry in excludes or []
    )
    return parse(top + HEAD + listed + left_out, "matrix.toml")


def order_of(plan: Plan) -> list[tuple[int, str]]:
    return [(run.repetition, run.cell_id) for run in plan.runs]


FILES, LOG, WAL = "layout.data_files", "layout.log", "target.settings.wal_compression"
THREE = {FILES: [1, 2, 4], LOG: ["a", "b"], WAL: ["off", "on"]}


# --- Cells -----------------------------------------------------------------------------------------------------------


def test_cells_are_every_combination_in_the_order_listed() -> None:
    plan = expand(experiment({FILES: [1, 2], LOG: ["a", "b"]}))
    assert [(cell.cell_id, cell.levels[FILES], cell.levels[LOG]) for cell in plan.cells] == [
        ("c01", 1, "a"),
        ("c02", 1, "b"),
        ("c03", 2, "a"),
        ("c04", 2, "b"),
    ]


def test_a_cell_s_levels_stand_in_its_configuration_and_nothing_else_changes() -> None:
    for cell in expand(experiment(THREE)).cells:
        assert cell.config.layout.data_files == cell.levels[FILES]
        assert cell.config.layout.log == cell.levels[LOG]
        assert cell.config.target.settings == {"wal_compression": cell.levels[WAL]}
        assert list(cell.config.volumes) == ["a", "b"]


def test_expanding_leaves_the_experiment_as_it_was() -> None:
    one = experiment(THREE)
    before = one.model_dump_json()
    expand(one)
    assert one.model_dump_json() == before


def test_a_cell_is_left_out_when_all_lines_of_an_exclusion_match() -> None:
    plan = expand(experiment(THREE, [{FILES: 4, LOG: "b"}, {WAL: "on", FILES: 1}]))
    assert len(plan.cells) == 12 - 2 - 2
    assert not [cell for cell in plan.cells if (cell.levels[FILES], cell.levels[LOG]) == (4, "b")]
    assert [cell.cell_id for cell in plan.cells] == [f"c{number:02}" for number in range(1, 9)]


def test_an_exclusion_of_one_leaves_true_in() -> None:
    plan = expand(experiment({"target.settings.x": [1, True]}, [{"target.settings.x": 1}]))
    assert [cell.levels["target.settings.x"] for cell in plan.cells] == [True]


def test_cell_ids_are_as_wide_as_the_last_one() -> None:
    ids = [cell.cell_id for cell in expand(experiment({FILES: list(range(1, 121))})).cells]
    assert (ids[0], ids[-1]) == ("c001", "c120")
    assert ids == sorted(ids)


def test_a_combination_that_can_t_be_is_refused_naming_its_levels() -> None:
    one = experiment({"workload.rows_per_connection": [10, 1000], "workload.rows_per_transaction": [10, 100]})
    with pytest.raises(SpecError) as caught:
        expand(one)
    assert caught.value.key == "workload.rows_per_transaction"
    assert "in the cell workload.rows_per_connection = 10, workload.rows_per_transaction = 100" in caught.value.problem
    assert str(caught.value).startswith("matrix.toml: ")
    left_out = [{"workload.rows_per_connection": 10, "workload.rows_per_transaction": 100}]
    assert (
        len(
            expand(
                experiment({factor.name: [level.value for level in factor.levels] for factor in one.factors}, left_out)
            ).cells
        )
        == 3
    )


def test_a_matrix_without_end_is_refused_before_it_is_made() -> None:
    with pytest.raises(SpecError, match=f"200 x 600 levels make more than {MAX_CELLS} cells"):
        expand(experiment({"target.settings.x": list(range(200)), "target.settings.y": list(range(600))}))
    with pytest.raises(SpecError, match="2000 cells x 10000 repetitions make more than 1000000 runs"):
        expand(experiment({"target.settings.x": list(range(1000)), "target.settings.y": [1, 2]}, repetitions=10_000))


# --- Order -----------------------------------------------------------------------------------------------------------


def test_as_listed_goes_round_by_round() -> None:
    plan = expand(experiment({FILES: [1, 2, 4]}, order="as-listed", repetitions=2))
    assert order_of(plan) == [(1, "c01"), (1, "c02"), (1, "c03"), (2, "c01"), (2, "c02"), (2, "c03")]
    assert [run.sequence for run in plan.runs] == [0, 1, 2, 3, 4, 5]
    assert {run.block for run in plan.runs} == {0}


def test_a_costly_factor_is_changed_least_often() -> None:
    plan = expand(experiment({FILES: [1, 2], LOG: ["a", "b"]}, order="as-listed", repetitions=2, costly=[LOG]))
    assert [plan.cell(run.cell_id).levels[LOG] for run in plan.runs] == ["a"] * 4 + ["b"] * 4
    assert [run.block for run in plan.runs] == [0] * 4 + [1] * 4
    assert order_of(plan)[:4] == [(1, "c01"), (1, "c03"), (2, "c01"), (2, "c03")]


def test_a_target_can_name_costly_factors_by_path_or_by_the_start_of_one() -> None:
    by_factor = expand(experiment(THREE, costly=[FILES]))
    assert expand(experiment(THREE), costly=[FILES]) == by_factor
    assert expand(experiment(THREE), costly=["layout.data_files"]) == by_factor
    assert expand(experiment(THREE), costly=["layout"]) == expand(experiment(THREE, costly=[FILES, LOG]))
    assert expand(experiment(THREE), costly=["layout.data", "no.such.path"]) == expand(experiment(THREE))


def test_a_labelled_factor_is_costly_when_any_of_its_levels_touches_the_place() -> None:
    text = HEAD + 'place = [{ label = "x" }, { label = "y", "layout.log" = "b" }]\n"layout.data_files" = [1, 2]\n'
    plan = expand(parse(text, "matrix.toml"), costly=["layout.log"])
    assert [len(list(runs)) for _, runs in itertools.groupby(plan.runs, key=lambda run: run.block)] == [10, 10]


def test_the_random_order_of_earlier_versions_is_the_same_for_ever() -> None:
    """Written down once, from the definition: if this changes, stored experiments can no longer be continued."""
    plan = expand(experiment({FILES: [1, 2, 4, 8]}, seed=1, repetitions=2).model_copy(update={"balanced": False}))
    assert [run.cell_id for run in plan.runs] == ["c03", "c02", "c01", "c04", "c02", "c03", "c01", "c04"]
    assert [run.seed for run in plan.runs][:2] == [7352258612663182143, 6633631430864435698]


def test_a_run_has_the_same_seed_in_any_order() -> None:
    def seeds(**header: object) -> dict[tuple[str, int], int]:
        return {(run.cell_id, run.repetition): run.seed for run in expand(experiment(THREE, **header)).runs}

    listed = seeds(order="as-listed")
    assert seeds(order="randomised") == listed
    assert seeds(costly=[WAL]) == listed
    assert seeds(repetitions=9).items() > listed.items()
    assert not set(seeds(seed=2).values()) & set(listed.values())


# --- Whatever the experiment -----------------------------------------------------------------------------------------


@dataclass
class Made:
    """An experiment made up by hypothesis, and the combinations that it should have."""

    factors: dict[str, list[object]]
    excludes: list[dict[str, object]]
    header: dict[str, object]
    wanted: set[tuple[object, ...]] = field(default_factory=set)

    @property
    def experiment(self) -> Experiment:
        return experiment(self.factors, self.excludes, **self.header)


@st.composite
def made(draw: st.DrawFn) -> Made:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    factors: dict[str, list[object]] = {
        f"target.settings.s{number}": [f"v{level}" for level in range(size)] for number, size in enumerate(sizes)
    }
    entry = st.fixed_dictionaries({}, optional={name: st.sampled_from(levels) for name, levels in factors.items()})
    excludes = draw(st.lists(entry.filter(bool), max_size=4))
    header = {
        "repetitions": draw(st.integers(1, 4)),
        "order": draw(st.sampled_from(["randomised", "as-listed"])),
        "seed": draw(st.integers(0, 2**63 - 1)),
        "costly": draw(st.lists(st.sampled_from(sorted(factors)), unique=True)),
    }
    result = Made(factors, excludes, header)
    for levels in itertools.product(*factors.values()):
        cell = dict(zip(factors, levels, strict=True))
        if not any(all(cell[name] == value for name, value in exclude.items()) for exclude in excludes):
            result.wanted.add(levels)
    return result


@given(made())
def test_every_combination_not_excluded_is_run_once_per_repetition_and_no_other(one: Made) -> None:
    if not one.wanted:
        with pytest.raises(SpecError, match="leaves none of the"):
            expand(one.experiment)
        return
    plan = expand(one.experiment)
    got = Counter((tuple(plan.cell(run.cell_id).levels.values()), run.repetition) for run in plan.runs)
    rounds = range(1, int(str(one.header["repetitions"])) + 1)
    assert got == Counter(itertools.product(one.wanted, rounds))
    assert [run.sequence for run in plan.runs] == list(range(len(plan.runs)))
    assert len({run.seed for run in plan.runs}) == len(plan.runs)
    assert all(0 <= run.seed < 2**63 for run in plan.runs)


@given(made().filter(lambda one: bool(one.wanted)))
def test_blocks_come_one_after_the_other_each_in_complete_rounds(one: Made) -> None:
    plan = expand(one.experiment)
    costly = one.experiment.costly
    assert [run.block for run in plan.runs] == sorted(run.block for run in plan.runs)
    levels_of = defaultdict(set)
    for run in plan.runs:
        levels_of[run.block].add(tuple(plan.cell(run.cell_id).levels[name] for name in costly))
    assert all(len(levels) == 1 for levels in levels_of.values())
    assert len(set.union(*levels_of.values())) == len(levels_of)
    for _, block in itertools.groupby(plan.runs, key=lambda run: run.block):
        runs = list(block)
        cells = sorted({run.cell_id for run in runs})
        in_turns = 2 if len(cells) <= FEW and one.experiment.order == "randomised" else 1
        for number in range(0, one.experiment.repetitions, in_turns):
            together = range(number + 1, min(number + in_turns, one.experiment.repetitions) + 1)
            made, runs = runs[: len(cells) * len(together)], runs[len(cells) * len(together) :]
            assert sorted((run.repetition, run.cell_id) for run in made) == list(itertools.product(together, cells))
        assert not runs


@settings(max_examples=40)
@given(made().filter(lambda one: bool(one.wanted)))
def test_the_same_experiment_has_the_same_plan(one: Made) -> None:
    assert expand(one.experiment) == expand(one.experiment)


@settings(max_examples=40)
@given(st.integers(0, 2**62), st.integers(1, 2**61))
def test_another_seed_gives_another_order(seed: int, further: int) -> None:
    def order(seed: int) -> list[tuple[int, str]]:
        return order_of(expand(experiment({FILES: list(range(1, 31))}, seed=seed, repetitions=2)))

    # 30! x 30! orders: two equal ones would be a fault, not chance.
    assert order(seed) != order(seed + further)


# --- Burn-in ---------------------------------------------------------------------------------------------------------


def burnt_in(runs: int, **fields: object) -> Plan:
    experiment = make_experiment({"layout.log": ["a", "b"], "layout.data_files": [1, 4]}, 3, **fields)
    return expand(experiment.model_copy(update={"base": experiment.base | {"between_runs": {"burn_in": runs}}}))


def test_every_block_begins_with_its_burn_in_and_those_repetitions_count_from_0_down() -> None:
    plan = burnt_in(3, costly=("layout.log",))
    for block in (0, 1):
        runs = [run for run in plan.runs if run.block == block]
        assert [run.repetition for run in runs[:3]] == [0, 0, -1]
        assert all(run.burn_in for run in runs[:3])
        assert not any(run.burn_in for run in runs[3:])
        assert len(runs) == 3 + 6
    assert len({(run.cell_id, run.repetition) for run in plan.runs}) == len(plan.runs)


def test_a_burn_in_changes_nothing_of_the_runs_that_are_judged() -> None:
    judged = [(run.cell_id, run.repetition, run.seed) for run in burnt_in(2).runs if not run.burn_in]
    assert judged == [(run.cell_id, run.repetition, run.seed) for run in burnt_in(0).runs]


def test_cells_of_different_burn_in_are_of_different_blocks() -> None:
    plan = expand(make_experiment({"between_runs.burn_in": [0, 2]}, 2))
    assert [run.block for run in sorted(plan.runs, key=lambda run: run.block)] == [0, 0, 1, 1, 1, 1]
