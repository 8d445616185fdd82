"""The loop makes, judges and appends each run that is not stored. The target here measures nothing, so it is fast."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import pytest
from builders import extension_story, make_experiment, make_measurement, make_plan
from real_servers import site_at

from storagelab.errors import RunFailed
from storagelab.model.measurement import Check, Measurement
from storagelab.model.target import Target
from storagelab.run import loop
from storagelab.run.loop import run_all
from storagelab.run.scheduling import pending
from storagelab.run.store import Store

EXPERIMENT = make_experiment({"layout.data_files": [1, 2, 4]}, repetitions=2)
PLAN = make_plan(EXPERIMENT)


class Listening:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, int]] = []

    def started(self, planned, cell) -> None:
        self.told.append(("started", planned.cell_id, planned.repetition))

    def work_done(self, planned, amount) -> None:
        self.told.append(("rows", "", amount))

    def stored(self, run) -> None:
        self.told.append((run.status, run.cell_id, run.repetition))


class Block(NamedTuple):
    """A block of independent runs, all of them on one target."""

    target: AbstractContextManager[Target]

    def needed(self, wanted):
        return sorted(wanted)

    def open(self, planned):
        return self.target


@pytest.fixture
def target(monkeypatch):
    """Stands in for a server: `target.answer` gives each run's outcome, `target.leave` its teardown's."""

    class Target:
        def __init__(self) -> None:
            self.made: list[tuple[str, int, int]] = []
            self.answer: Callable[..., Measurement] = lambda cell: make_measurement(
                cell.config, 8.0, extension_story(cell.levels, 1)
            )
            self.enter: Callable[[], None] = lambda: None
            self.leave: Callable[[], None] = lambda: None

        def __enter__(self):
            self.enter()
            return self

        def __exit__(self, *_):
            self.leave()

        def run(self, cell, repetition, seed, progress):
            self.made.append((cell.cell_id, repetition, seed))
            progress(cell.config.workload.rows)
            return self.answer(cell)

    made = Target()
    monkeypatch.setattr(loop, "open_block", lambda *_: nullcontext(Block(made)))
    return made


@pytest.fixture
def run_again(tmp_path, target):
    """Runs what is left, as each `storagelab run` does; returns the runs made this time."""

    def run(*, again: bool = False, listener=None) -> list[tuple[str, int, int]]:
        target.made.clear()
        with Store.writing(tmp_path / "results", EXPERIMENT) as store:
            run_all(PLAN, store, site_at(tmp_path), listener or Listening(), again=again)
        return list(target.made)

    return run


def stored(tmp_path):
    with Store.reading(tmp_path / "results") as store:
        return store.runs()


def fail(reason: str) -> Callable[..., Measurement]:
    def answer(*_):
        raise RunFailed(reason)

    return answer


# --- which runs ------------------------------------------------------------------------------------------------------


def test_every_run_of_the_plan_is_made_once_and_in_its_order(tmp_path, run_again):
    assert run_again() == [(planned.cell_id, planned.repetition, planned.seed) for planned in PLAN.runs]
    runs = stored(tmp_path)
    assert [(run.sequence, run.cell_id, run.repetition) for run in runs] == [
        (planned.sequence, planned.cell_id, planned.repetition) for planned in PLAN.runs
    ]
    assert {run.status for run in runs} == {"ok"}
    assert all(
        run.config == PLAN.cell(run.cell_id).config and run.levels == PLAN.cell(run.cell_id).levels for run in runs
    )


def test_a_stop_during_the_teardown_costs_no_run_that_was_measured(tmp_path, target, run_again):
    def stop():
        raise KeyboardInterrupt

    target.leave = stop
    with pytest.raises(KeyboardInterrupt):
        run_again()
    (run,) = stored(tmp_path)
    assert (run.status, run.measurement.elapsed_s) == ("ok", 8.0)


def test_a_failed_run_is_made_again_only_when_asked_and_as_another_attempt(tmp_path, target, run_again):
    good = target.answer
    target.answer = lambda cell: fail("the disk is full")() if len(target.made) == 2 else good(cell)
    assert len(run_again()) == 6
    assert run_again() == []
    target.answer = good
    assert [made[:2] for made in run_again(again=True)] == [(PLAN.runs[1].cell_id, PLAN.runs[1].repetition)]
    assert run_again(again=True) == []
    attempts = [(run.attempt, run.status, run.reason) for run in stored(tmp_path) if run.sequence == 1]
    assert attempts == [(1, "failed", "the disk is full"), (2, "ok", "")]


def test_what_is_left_is_known_from_what_is_stored():
    first, second, *rest = PLAN.runs
    latest = {(first.cell_id, first.repetition): (1, "unverified"), (second.cell_id, second.repetition): (2, "failed")}
    assert pending(PLAN, latest) == rest
    assert pending(PLAN, latest, again=True) == [second, *rest]
    assert pending(PLAN, {}) == list(PLAN.runs)


# --- how they end ----------------------------------------------------------------------------------------------------


def test_a_run_that_fails_is_stored_with_its_reason_and_the_next_go_on(tmp_path, target, run_again):
    target.answer = fail("the disk is full")
    assert len(run_again()) == 6
    assert {(run.status, run.reason, run.measurement) for run in stored(tmp_path)} == {
        ("failed", "the disk is full", None)
    }


def test_a_run_with_something_not_as_asked_is_unverified_and_says_what(tmp_path, target, run_again):
    checks = (
        Check(name="layout.data_files", asked="2", got="2", ok=True, read_from="pg_class"),
        Check(name="target.settings.fsync", asked="on", got="off", ok=False, read_from="pg_settings"),
        Check(name="place of the log", asked="/a", got="unknown", ok=None, read_from="pg_wal"),
    )
    target.answer = lambda cell: make_measurement(cell.config, 8.0, None, checks=checks)
    run_again()
    run = stored(tmp_path)[0]
    assert run.status == "unverified"
    assert run.reason == "target.settings.fsync: asked on, got off; place of the log: asked /a, got unknown"
    assert run.usable


def test_a_teardown_that_fails_costs_the_verification_and_not_the_measurement(tmp_path, target, run_again):
    target.leave = fail("can't remove a folder")
    run_again()
    run = stored(tmp_path)[0]
    assert (run.status, run.reason) == ("unverified", "can't remove a folder")
    assert run.measurement.rows == PLAN.cells[0].config.workload.rows
    assert run.measurement.teardown_s >= 0


def test_of_two_reasons_the_first_is_said_first(tmp_path, target, run_again):
    target.answer, target.leave = fail("the disk is full"), fail("can't remove a folder")
    run_again()
    assert stored(tmp_path)[0].reason == "the disk is full\ncan't remove a folder"


def test_a_figure_that_no_measurement_can_have_fails_the_run_and_is_named(tmp_path, target, run_again):
    target.answer = lambda cell: Measurement(provenance="measured", elapsed_s=math.nan, rows=1)
    run_again()
    assert {(run.status, run.reason) for run in stored(tmp_path)} == {
        ("failed", "the measured figures are impossible: elapsed_s = nan")
    }


def test_a_mistake_in_the_program_is_not_dressed_up_as_a_failed_run(tmp_path, target, run_again):
    target.answer = lambda cell: 1 / 0
    with pytest.raises(ZeroDivisionError):
        run_again()
    assert stored(tmp_path) == ()


def test_the_listener_is_told_of_start_rows_and_outcome(run_again):
    listener = Listening()
    run_again(listener=listener)
    first = PLAN.runs[0]
    assert listener.told[:3] == [
        ("started", first.cell_id, first.repetition),
        ("rows", "", PLAN.cell(first.cell_id).config.workload.rows),
        ("ok", first.cell_id, first.repetition),
    ]
    assert len(listener.told) == 18
