"""Rounds are scheduled to hosts: each host makes whole rounds, as many as the others, and nothing is patched together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from builders import make_environment, make_experiment, make_measurement, make_plan, make_run
from real_servers import site_at

from storagelab.model.measurement import Run, host_of
from storagelab.model.plan import PlannedRun
from storagelab.run.rounds import RoundSchedule, Scheduled, rounds_of, share_out

HOSTS = ("db1", "db2", "db3")
THERE = dict.fromkeys(HOSTS, True)
PLAN = make_plan(make_experiment({"layout.data_files": [1, 4, 8]}, repetitions=6))


def made_on(host: str, planned: PlannedRun, attempt: int = 1, failed: str = "") -> Run:
    """FABRICATED."""
    environment = make_environment()
    environment["host"] = {"name": host}
    cell = PLAN.cell(planned.cell_id)
    measurement = None if failed else make_measurement(cell.config, 10.0, None, environment)
    return make_run(planned, cell, measurement, failed, attempt)


class Hosts:
    """Makes rounds as a cluster does, on hosts that do what the test says."""

    def __init__(self, tmp_path, stored: Sequence[Run] = (), hosts: Sequence[str] = HOSTS, at_once: int = 3) -> None:
        self.runs = list(stored)
        todo = rounds_of(PLAN, stored)
        share_out(todo, hosts)
        self.schedule = RoundSchedule(todo, at_once, site_at(tmp_path))

    def make(self, host: str, present: dict[str, bool] = THERE) -> Scheduled | None:
        """Make the next run of a host, if it gets one."""
        scheduled = self.schedule.assign(host, present)
        if scheduled is not None:
            self.end(host, scheduled)
        return scheduled

    def end(self, host: str, scheduled: Scheduled) -> None:
        (attempt,) = scheduled.batch.wanted.values()
        run = made_on(host, scheduled.planned, attempt)
        self.runs.append(run)
        self.schedule.note_finished(run)

    def make_all(self, *hosts: str, present: dict[str, bool] = THERE) -> None:
        while sum(self.make(host, present) is not None for host in hosts):
            pass

    @property
    def host_of_round(self) -> dict[int, set[str]]:
        """By the latest attempts, which are those that count."""
        latest = {(run.cell_id, run.repetition): host_of(run) for run in self.runs}
        return {number: {host for (_, of), host in latest.items() if of == number} for number in range(1, 7)}


def test_each_host_makes_whole_rounds_and_as_many_as_the_others(tmp_path):
    hosts = Hosts(tmp_path)
    hosts.make_all(*HOSTS)
    assert hosts.schedule.ended
    assert hosts.host_of_round == {1: {"db1"}, 2: {"db2"}, 3: {"db3"}, 4: {"db1"}, 5: {"db2"}, 6: {"db3"}}
    assert [run.attempt for run in hosts.runs] == [1] * 18


def test_a_fast_host_takes_no_round_of_a_slow_one_that_is_there_or_may_come_back(tmp_path):
    hosts = Hosts(tmp_path)
    hosts.make_all("db1", present={"db1": True, "db2": True, "db3": False})
    assert len(hosts.runs) == 6
    assert not hosts.schedule.ended


def test_a_round_of_a_lost_host_is_made_from_its_begin_on_another_and_its_runs_stay(tmp_path):
    hosts = Hosts(tmp_path)
    first = hosts.make("db2")
    assert first is not None
    second = hosts.schedule.assign("db2", THERE)
    assert second is not None
    assert hosts.schedule.lost(second.batch) is None
    left = {"db1": True, "db3": True}
    hosts.make_all("db1", "db3", present=left)
    assert hosts.schedule.ended
    assert all(len(of) == 1 for of in hosts.host_of_round.values())
    again = [run for run in hosts.runs if run.sequence == first.planned.sequence]
    assert [(host_of(run), run.attempt) for run in again] == [("db2", 1), (host_of(again[1]), 2)]
    assert sorted(sum(of == {host} for of in hosts.host_of_round.values()) for host in left) == [3, 3]


def test_a_round_that_is_not_begun_is_taken_over_first_as_the_lost_host_may_come_back(tmp_path):
    hosts = Hosts(tmp_path)
    begun = hosts.make("db2")
    assert begun is not None
    hosts.make_all("db1")
    taken = hosts.make("db1", {"db1": True, "db3": True})
    assert taken is not None
    assert (taken.planned.repetition, taken.instead_of) == (5, "db2")
    back = hosts.make("db2")
    assert back is not None
    assert (back.planned.repetition, back.instead_of, list(back.batch.wanted.values())) == (2, "", [1])


def test_a_run_that_was_not_begun_is_dealt_to_its_host_again(tmp_path):
    hosts = Hosts(tmp_path)
    scheduled = hosts.schedule.assign("db1", THERE)
    assert scheduled is not None
    assert hosts.schedule.assign("db1", THERE) is None, "a host makes one run at a time"
    hosts.schedule.freed(scheduled.batch)
    again = hosts.schedule.assign("db1", THERE)
    assert again is not None
    assert (again.planned, again.batch.wanted) == (scheduled.planned, scheduled.batch.wanted)


def test_a_run_at_which_three_workers_ended_is_given_up(tmp_path):
    schedule = Hosts(tmp_path).schedule
    for _ in range(2):
        scheduled = schedule.assign("db1", THERE)
        assert scheduled is not None
        assert schedule.lost(scheduled.batch) is None
    scheduled = schedule.assign("db1", THERE)
    assert scheduled is not None
    assert schedule.lost(scheduled.batch) == scheduled.batch
    schedule.note_finished(made_on("db1", scheduled.planned, failed="three workers ended"))
    following = schedule.assign("db1", THERE)
    assert following is not None
    assert following.planned == PLAN.runs[1]


def test_hosts_that_share_a_disk_take_turns_run_by_run(tmp_path):
    hosts = Hosts(tmp_path, at_once=1)
    hosts.make_all(*HOSTS)
    assert [host_of(run) for run in hosts.runs] == [*HOSTS] * 6
    hosts = Hosts(tmp_path, at_once=1)
    first = hosts.schedule.assign("db1", THERE)
    assert first is not None
    assert hosts.schedule.assign("db2", THERE) is None
    hosts.end("db1", first)
    assert hosts.schedule.assign("db1", THERE) is None, "it is another's turn"
    assert hosts.make("db2") is not None
    assert hosts.make("db1", {"db1": True, "db2": True, "db3": False}) is not None, "who is away is not waited for"


def test_a_later_run_goes_on_with_the_rounds_of_each_host_and_shares_out_the_rest(tmp_path):
    before = Hosts(tmp_path)
    for host in ("db1", "db1", "db1", "db1", "db2"):
        before.make(host)
    hosts = Hosts(tmp_path, before.runs)
    hosts.make_all(*HOSTS)
    assert [run.attempt for run in hosts.runs] == [1] * 18
    assert hosts.host_of_round == {1: {"db1"}, 2: {"db2"}, 3: {"db3"}, 4: {"db1"}, 5: {"db2"}, 6: {"db3"}}
    without = Hosts(tmp_path, before.runs, hosts=("db1", "db3"))
    without.make_all("db1", "db3", present={"db1": True, "db3": True})
    assert all(len(of) == 1 for of in without.host_of_round.values())
    assert sorted(run.attempt for run in without.runs) == [1] * 18 + [2], "only what db2 had begun is made again"


def test_a_round_that_was_being_taken_over_goes_on_on_its_new_host():
    runs = [planned for planned in PLAN.runs if planned.repetition == 1]
    stored = [made_on("db2", runs[0]), made_on("db2", runs[1]), made_on("db3", runs[0], attempt=2)]
    first = rounds_of(PLAN, stored)[0]
    assert (first.host, first.left, first.attempts) == ("db3", [1, 2], {0: 2, 1: 1, 2: 0})


@pytest.mark.parametrize(("again", "left"), [(False, [2]), (True, [1, 2])])
def test_a_failed_run_is_made_again_only_if_that_is_asked_for(again, left):
    runs = [planned for planned in PLAN.runs if planned.repetition == 1]
    stored = [made_on("db1", runs[0]), made_on("db1", runs[1], failed="the disk was full")]
    assert rounds_of(PLAN, stored, again=again)[0].left == left
