"""A race that begins in small worlds, from the command line to its report."""

from __future__ import annotations

import json
import math
import random
import shutil

import pytest
from builders import make_measurement, make_run
from simulated_specs import ONE_BLOCK, SMALL

from storagelab.errors import SpecError
from storagelab.model.measurement import Run
from storagelab.model.plan import Race, SmallWorlds
from storagelab.run.race import Racing
from storagelab.run.small_worlds import experiment_in_small_worlds
from storagelab.run.store import Store
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse

CHANGES = (
    ONE_BLOCK,
    ('order = "cell-by-cell"', 'order = "randomised"'),
    ("repetitions = 2", "repetitions = 3"),
    ("scale = 256", "scale = 128"),
    ("rows_per_connection = 500_000", "rows_per_connection = 50_000"),
    ("[1, 4]", str(list(range(1, 23)))),
)
OPTIONS = ("--find-best", "--small-worlds", "512", "-j", "1")


def text(*changes: tuple[str, str]) -> str:
    written = SMALL
    for old, new in (*CHANGES, *changes):
        assert old in written
        written = written.replace(old, new)
    return written


def sequence(folder) -> list[tuple[str, int]]:
    with Store.reading(folder) as store:
        runs = sorted(store.runs(), key=lambda run: run.sequence)
    assert [run.sequence for run in runs] == list(range(len(runs)))
    return [(run.cell_id, run.repetition) for run in runs]


@pytest.mark.slow
def test_a_race_in_small_worlds_is_run_and_told_and_goes_on_as_it_began(typed, home):
    (home / "small.toml").write_text(text())
    code, out, err = typed("run", "small.toml", *OPTIONS)
    assert code == 0, err
    place = home / "results" / "small"
    assert "first in worlds 512 times smaller than life-size, kept in results/small/small" in err
    assert len(sequence(place / "small")) == 3 * 22

    with Store.reading(place) as store:
        experiment, runs = store.experiment(), store.runs()
    assert experiment.race is not None
    assert experiment.race.small is not None
    assert set(experiment.race.small.log_s) == {cell.cell_id for cell in expand(experiment).cells}
    assert {run.config.target.scale for run in runs} == {128}
    first = {run.cell_id for run in runs if run.repetition == 1}
    assert len(first) == 13, "gauges and leaders"

    told = " ".join(out.split())
    assert "66 runs in worlds 512 times smaller than life-size" in told
    assert "`storagelab report small/small` shows them" in told
    found = json.loads(typed("export", "small")[1])["findings"]
    small = found["race"]["small"]
    assert (small["scale"], small["rounds"], small["runs"]) == (512, 3, 66)
    assert [one["pairs"] for one in small["biases"]] == [10]
    ran = {run.cell_id for run in runs}
    assert {*small["left"]} == {cell.cell_id for cell in expand(experiment).cells} - ran
    assert found["not_compared"] == []

    assert json.loads(typed("export", "small/small")[1])["findings"]["race"] is None

    # Without what small worlds stored, a begun race still goes on; with other options it does not.
    whole = sequence(place)
    shutil.rmtree(place / "small")
    code, _, err = typed("run", "small.toml", *OPTIONS)
    assert code == 0, err
    assert sequence(place) == whole
    code, _, err = typed("run", "small.toml", "--find-best")
    assert code == 2
    assert "storagelab run SPEC --find-best --small-worlds 512" in err


def raced(runs: list[Run]) -> tuple[Racing, list[Run]]:
    """The race to its end, with fabricated times: the more data files, the slower, and a tenth more in small worlds."""
    experiment = parse(text(), "small.toml")
    cells = expand(experiment).cells
    slow = {cell.cell_id: 0.03 * place for place, cell in enumerate(cells)}
    chance = {cell.cell_id: random.Random(place).gauss(0, 0.004) for place, cell in enumerate(cells)}
    log_s = {cell: 0.1 + time + chance[cell] for cell, time in slow.items()}
    small = SmallWorlds(scale=512, rounds=3, runs=66, spent_s=10.0, log_s=log_s)
    of = Racing(experiment.model_copy(update={"race": Race(small=small)}), runs)
    runs = list(runs)
    while of.course.possible:
        made = {(run.cell_id, run.repetition) for run in runs}
        for planned in of.course.plan.runs:
            if (planned.cell_id, planned.repetition) not in made:
                time_s = math.exp(slow[planned.cell_id] + random.Random(planned.seed).gauss(0, 0.004))
                cell = of.course.plan.cell(planned.cell_id)
                runs.append(make_run(planned, cell, make_measurement(cell.config, time_s, None, None)))
                of.told_of(runs[-1])
        of.further()
    return of, runs


def test_gauges_and_leaders_run_first_and_those_not_ruled_out_join_them():
    of, runs = raced([])
    by_round = [{run.cell_id for run in runs if run.repetition == turn} for turn in (1, 2, 3)]
    assert by_round[0] == by_round[1]
    assert len(by_round[0]) == 13
    (heat,) = of.course.heats
    assert heat.sifted is not None
    assert heat.sifted.left
    ruled_out = {of.course.plan.cells[cell].cell_id for cell in heat.sifted.left}
    assert ruled_out.isdisjoint({run.cell_id for run in runs})
    assert ruled_out | {run.cell_id for run in runs} == {cell.cell_id for cell in of.course.plan.cells}


@pytest.mark.parametrize("stop_after", [5, 13, 26, 28])
def test_an_interrupted_race_in_small_worlds_comes_to_the_same(stop_after):
    straight = [(run.cell_id, run.repetition) for run in raced([])[1]]
    runs = raced(raced([])[1][:stop_after])[1]
    assert [(run.cell_id, run.repetition) for run in runs] == straight


def refused(written: str, scale: int) -> str:
    experiment = parse(written, "small.toml")
    with pytest.raises(SpecError) as told:
        experiment_in_small_worlds(experiment, expand(experiment), scale)
    return str(told.value)


def test_worlds_must_be_smaller_than_those_of_the_spec():
    assert "--small-worlds: 128 is not between 129 and 1000" in refused(text(), 128)
    assert "--small-worlds: 1001 is not between" in refused(text(), 1001)


def test_the_scale_must_not_be_a_factor():
    written = text(("[factors]\n", '[factors]\n"target.scale" = [64, 128]\n'))
    assert "it is a factor of the experiment" in refused(written, 512)


def test_only_simulated_worlds_have_a_scale(typed, home):
    (home / "real.toml").write_text(
        '[target]\nengine = "postgres"\n[volumes.a]\npath = "."\n[factors]\n"layout.data_files" = [1, 2]\n'
    )
    experiment = parse((home / "real.toml").read_text(), "real.toml")
    with pytest.raises(SpecError, match="--small-worlds: only simulated worlds have a scale"):
        experiment_in_small_worlds(experiment, expand(experiment), 512)


def test_small_worlds_are_another_spec():
    experiment = parse(text(), "small.toml")
    small = experiment_in_small_worlds(experiment, expand(experiment), 512)
    assert small.sha256 != experiment.sha256
    assert small.name == "small/small"
    assert {cell.config.target.scale for cell in expand(small).cells} == {512}
    assert {cell.config.target.scale for cell in expand(experiment).cells} == {128}
