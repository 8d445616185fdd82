"""Which process makes which runs of which block."""

import heapq
from pathlib import Path

import pytest
from builders import make_run
from real_servers import site_at
from simulated_specs import planned

from storagelab.model.plan import PlannedBlock
from storagelab.run.scheduling import Batch, Schedule

PLAN = planned()


def block_of(number: int, runs: int) -> Batch:
    whole = tuple(PLAN.runs[0].model_copy(update={"block": number, "sequence": at}) for at in range(runs))
    return Batch(PlannedBlock(whole, {}), dict.fromkeys(range(runs), 1), site_at(Path()), Path())


def scheduled(blocks: list[int], processes: int, run_s=lambda number: 1.0) -> tuple[float, list[Batch]]:
    """The time when all is done and the batches in scheduling order, for processes that take `run_s` per run."""
    schedule = Schedule([block_of(number, runs) for number, runs in enumerate(blocks)], processes)
    now, batches, at_work = 0.0, [], []
    while not schedule.ended:
        while len(at_work) < processes and (batch := schedule.assign()) is not None:
            assert batch.number not in {working.number for _, _, working in at_work}
            heapq.heappush(at_work, (now + len(batch.wanted) * run_s(batch.number), len(batches), batch))
            batches.append(batch)
        now, _, ended = heapq.heappop(at_work)
        for at in ended.wanted:
            schedule.note_finished(make_run(ended.block.runs[at], PLAN.cells[0], None))
    assert not at_work
    return now, batches


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 6, 8, 9, 20])
@pytest.mark.parametrize("blocks", [[40] * 9, [200] * 3, [40, 2, 2], [5] * 95, [1]])
def test_processes_end_at_about_the_same_time_if_no_block_is_too_long_for_that(blocks, processes):
    took_s, _ = scheduled(blocks, processes)
    at_best_s = max(sum(blocks) / processes, max(blocks))
    assert took_s <= 1.02 * at_best_s + 1, "and a run that began last"


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_every_run_is_dealt_out_once_and_those_of_a_block_in_their_order(processes):
    _, batches = scheduled([7, 30, 1, 12], processes)
    for number, runs in enumerate([7, 30, 1, 12]):
        assert [at for batch in batches if batch.number == number for at in batch.wanted] == list(range(runs))


def test_a_process_that_dies_after_its_last_report_takes_no_runs_with_it():
    """Its block may be at work in another process by then."""
    schedule = Schedule([block_of(number, 40) for number in range(9)], 2)
    first, second = schedule.assign(), schedule.assign()
    for at in first.wanted:
        schedule.note_finished(make_run(first.block.runs[at], PLAN.cells[0], None))
    assert schedule.lost(first) is None
    dealt_later = []
    while (batch := schedule.assign()) is not None or second is not None:
        if batch is None:
            batch, second = second, None
        dealt_later += [(batch.number, at) for at in batch.wanted]
        for at in batch.wanted:
            schedule.note_finished(make_run(batch.block.runs[at], PLAN.cells[0], None))
        assert schedule.lost(first) is None
    assert schedule.ended
    assert sorted(dealt_later) == sorted(
        {(block, at) for block in range(9) for at in range(40)} - {(first.number, at) for at in first.wanted}
    )
