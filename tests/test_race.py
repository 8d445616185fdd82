"""A race from the command line, in simulated worlds whose drives remember and on a real server."""

import json

import pytest
from real_servers import site_at
from simulated_specs import small
from test_cli import write_spec
from test_loop import Listening

from storagelab.errors import SpecError
from storagelab.model.plan import Experiment, Race
from storagelab.run import loop
from storagelab.run.store import Store
from storagelab.run.stored import Racing
from storagelab.verbs import _running as verb
from storagelab.verbs._running import race as asked

pytestmark = pytest.mark.slow

RACED = (
    ('order = "cell-by-cell"', 'order = "randomised"'), ("repetitions = 2", "repetitions = 4"),
    ("scale = 256", "scale = 64"), ("[1, 4]", "[1, 2, 16, 32]"), ("connections = 8", "connections = 64"),
    ("rows_per_connection = 500_000", "rows_per_connection = 62_500"),
)  # fmt: skip
"""Layouts that differ: with few data files, many connections wait for the same page."""


def experiment() -> Experiment:
    return small(*RACED).model_copy(update={"race": Race()})


def make(folder, *, jobs: int = 1, stop_after: int = 10**6) -> None:
    spec = experiment()
    with Store.writing(folder, spec) as store:
        rounds = Racing(spec, store.runs())
        loop.run_all(rounds.state.plan, store, site_at(folder), Listening(stop_after), jobs=jobs, rounds=rounds)


def results(folder) -> dict[tuple[str, int], str]:
    with Store.reading(folder) as store:
        runs = store.runs()
    assert {run.status for run in runs} == {"ok"}
    assert sorted(run.sequence for run in runs) == list(range(len(runs)))
    return {
        (run.cell_id, run.repetition): run.measurement.model_copy(update={"teardown_s": None}).model_dump_json()
        for run in runs
    }


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> dict[tuple[str, int], str]:
    """The results of a race made in one go and in one process."""
    folder = tmp_path_factory.mktemp("straight")
    make(folder)
    return results(folder)


def test_a_race_in_a_simulated_world_is_shorter_than_all_repetitions(straight):
    assert 16 < len(straight) < 32


def test_it_comes_to_the_same_in_several_processes(tmp_path, straight):
    make(tmp_path, jobs=2)
    assert results(tmp_path) == straight


@pytest.mark.parametrize("made", [3, 16, 19])
def test_it_comes_to_the_same_after_an_interruption(tmp_path, straight, made):
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, stop_after=made)
    assert len(results(tmp_path)) == made
    make(tmp_path)
    assert results(tmp_path) == straight


def test_a_race_on_a_real_server_is_run_and_told_and_never_mixed_with_all_repetitions(typed, home, monkeypatch):
    spec = write_spec(home, repetitions=3, rows=200)
    code, out, err = typed("run", spec, "--find-best", "--within", "50%")
    assert code == 0, err
    assert "at most 6 runs to make" in err
    assert "after round 2, 2 of 2 layouts may still be the fastest" in err
    assert "MEASURED, 6 runs of a race (6 without one), 2 layouts." in " ".join(out.split())
    monkeypatch.setattr(verb, "try_starting", lambda *_: pytest.fail("nothing is left to run"))
    code, out, err = typed("run", spec, "--find-best", "--within", "50%")
    assert code == 0, err
    assert "[" not in "".join(line[:1] for line in err.splitlines()), "nothing was run again"
    assert json.loads(typed("export", "files")[1])["findings"]["found"]["race"][0]["runs_of_all"] == 6
    code, _, err = typed("run", spec)
    assert code == 2
    assert "a race with a margin of 50 %\n  to continue it: storagelab run SPEC --find-best --within 50%\n" in err
    assert typed("run", spec, "--find-best")[0] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"find_best": True, "within": "3"}, "--within: '3' is no margin"),
        ({"find_best": True, "within": "0%"}, "--within: '0%' is no margin"),
        ({"find_best": True, "budget": "2"}, "--budget: '2' is not a duration"),
        ({"find_best": True, "budget": "0h"}, "--budget: must be above 0"),
    ],
)
def test_wrong_options_are_told(words, message):
    with pytest.raises(SpecError) as told:
        asked(**{"find_best": False, "within": None, "budget": None, **words})
    assert str(told.value).startswith(message)


def test_options_are_read():
    def of(**given):
        return asked(**{"find_best": False, "within": None, "budget": None, **given})

    assert of(find_best=True, within="2.5 %", budget="90min") == (Race(within=0.025), 5400.0)
    assert of(find_best=True) == (Race(), None)
    assert of() == (None, None)
