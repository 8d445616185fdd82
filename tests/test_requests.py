"""What a worker's answer must hold: runs that were asked for, with figures that a run can have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import make_environment, make_measurement, make_run
from real_servers import site_at
from simulated_specs import planned

from storagelab.model.measurement import Run
from storagelab.run import messages, requests
from storagelab.run.messages import NoMessage, packed, read
from storagelab.run.requests import MeasuredRun, SimulatedRuns, batch_in, batch_message
from storagelab.run.scheduling import Batch
from storagelab.targets.states import Carried


@pytest.fixture
def task() -> Batch:
    block = planned().blocks[0]
    return Batch(block, {0: 1, 1: 2}, site_at(Path()), Carried(b"drives"), 5.0)


def runs_of(task: Batch, host: str = "db1") -> list[Run]:
    environment = {**make_environment(), "host": {"name": host}}
    return [
        make_run(
            task.block.runs[at], task.block.cell_of(task.block.runs[at]),
            make_measurement(task.block.cell_of(task.block.runs[at]).config, 1.5, None, environment), attempt=attempt,
        )
        for at, attempt in sorted(task.wanted.items())
    ]  # fmt: skip


def told(task: Batch, change: Callable[[list[dict[str, Any]]], object] = lambda _: None) -> bytes:
    runs = json.loads(requests.outcomes(runs_of(task)))
    change(runs)
    return json.dumps(runs).encode()


def test_a_slice_arrives_as_it_left(task):
    arrived, campaign = batch_in(batch_message(task, "mine"))
    assert arrived._replace(state=task.state) == task
    assert (arrived.state.read(), campaign) == (b"drives", "mine")


def test_a_run_comes_back_whole_though_only_its_outcome_was_sent(task):
    sent = told(task)
    assert b"drives.ssd" not in sent
    assert list(messages.read(MeasuredRun(""), task, "db1", packed(b"", sent)).reports) == runs_of(task)


def changed(at: int, **fields: object) -> Callable[[list[dict[str, Any]]], object]:
    return lambda runs: runs[at].update(fields)


def measured(at: int, **fields: object) -> Callable[[list[dict[str, Any]]], object]:
    return lambda runs: runs[at]["measurement"].update(fields)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (changed(0, sequence=10**6), "run 1000000, attempt 1, where run 0, attempt 1, was asked for"),
        (changed(1, attempt=1), "attempt 1, where run 1, attempt 2, was asked for"),
        (lambda runs: runs.reverse(), "was asked for"),
        (lambda runs: runs.clear(), "0 runs of 2"),
        (lambda runs: runs.append(runs[0]), "3 runs of 2"),
        (changed(0, cell_id="another"), "cell_id"),
        (changed(0, wall_s=-1.0), "wall_s"),
        (changed(0, started_at="yesterday"), "started_at"),
        (changed(0, measurement=None), "no time passed in it"),
        (changed(0, status="best"), "status"),
        (measured(0, elapsed_s=float("nan")), "elapsed_s"),
        (measured(0, elapsed_s=0.0), "no time passed in it"),
        (measured(0, elapsed_s=1e300), "elapsed_s"),
        (measured(0, rows=2**63), "no run does"),
        (measured(0, rows=-1), "no run does"),
        (measured(0, counters={"a": {"b": float("inf")}}), "counter b is inf"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_and_says_why(task, change, words):
    with pytest.raises(NoMessage, match=words):
        read(MeasuredRun(""), task, "db1", packed(b"", told(task, change)))


def test_a_run_of_another_host_is_refused(task):
    with pytest.raises(NoMessage, match="a run of db1, and its host is db2"):
        read(MeasuredRun(""), task, "db2", packed(b"", told(task)))


def test_drives_that_are_not_packed_are_refused(task):
    with pytest.raises(NoMessage, match="not packed"):
        read(SimulatedRuns(), task, "", packed(b"", told(task), b"as they are"))
