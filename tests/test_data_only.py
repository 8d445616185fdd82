"""What hostile workers and schedulers send to the machine that stores runs: none of it is run, and none is stored."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from real_servers import until
from rogue import LARGE_BYTES, Bomb, Rogue
from test_cluster import make
from test_loop import results

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
import msgpack
from distributed.comm import listen
from distributed.protocol.serialize import ToPickle, to_serialize
from real_cluster import Machines, machines

from storagelab.errors import PreflightError
from storagelab.run import asking, data_only, joining, loop
from storagelab.run.cluster import Cluster
from storagelab.run.joining import Reach, joined

pytestmark = pytest.mark.slow


class Patient(Cluster):
    """Assigns nothing until two workers are welcome."""

    met = False

    def _assign(self, jobs) -> bool:
        self.met |= self.at_once >= 2
        return super()._assign(jobs) if self.met else True


@pytest.fixture(scope="module")
def honest(tmp_path_factory) -> Iterator[Machines]:
    with machines(tmp_path_factory.mktemp("cluster"), workers=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> dict[int, str]:
    folder = tmp_path_factory.mktemp("straight")
    make(folder, None)
    return results(folder)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("pickle", "it sent an invalid answer: it is cut off"),
        ("error", "it failed: "),
        ("no bytes", "it sent an invalid answer: it is empty, or not bytes"),
        ("another cell", "it sent an invalid answer: run 1000000, attempt 1, where run"),
        ("another attempt", "it sent an invalid answer: run"),
        ("nan", "it sent an invalid answer: "),
        ("large", "it sent an invalid answer: it has 6,000,"),
        ("half", "it sent an invalid answer: it is cut off"),
        ("drives", "it sent an invalid answer: the state of its drives is not packed"),
    ],
)
def test_a_worker_that_forges_its_answer_is_refused_and_the_others_do_its_work(
    honest, tmp_path, straight, monkeypatch, way, words
):
    monkeypatch.setattr(loop, "_BUDGET_S", 0.0)
    for module in (data_only, asking):
        monkeypatch.setattr(module, "LARGEST_BYTES", LARGE_BYTES - 1_000_000)
    bomb = tmp_path / "bomb"
    rogue = honest.add_worker(ROGUE=way, BOMB=str(bomb))
    until(honest.all_are_there, timeout_s=90)
    said: list[str] = []
    try:
        make(tmp_path / "r", Patient(Rogue(), Reach(honest.address, 1), said.append, limit_s=60.0, tick_s=0.1))
    finally:
        honest.end(rogue)
    assert results(tmp_path / "r") == straight
    assert any(" is refused: " + words in line for line in said), said
    assert not bomb.exists()


def test_the_client_loads_no_pickle_that_names_anything_in_any_of_its_threads(tmp_path):
    data_only.close()
    bomb, refused = pickle.dumps(Bomb(str(tmp_path / "bomb"))), list[TypeError]()

    def load() -> None:
        try:
            pickle.loads(bomb)
        except TypeError as error:
            refused.append(error)

    other = threading.Thread(target=load)
    other.start()
    other.join()
    assert len(refused) == 1
    assert not (tmp_path / "bomb").exists()


class Trap:
    """A scheduler's port that answers every message with the same bytes, or as Dask would."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.loop = asyncio.new_event_loop()
        self.address = ""

    def __enter__(self) -> Trap:
        ready = threading.Event()

        async def serve() -> None:
            self.listener = await listen("tcp://127.0.0.1:0", self._talk, deserialize=False)
            self.address = self.listener.contact_address
            ready.set()

        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        asyncio.run_coroutine_threadsafe(serve(), self.loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.listener.stop)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    async def _talk(self, comm: Any) -> None:
        with contextlib.suppress(Exception):
            while True:
                await comm.read()
                if isinstance(self.answer, bytes):
                    await comm.stream.write(self.answer)
                else:
                    await comm.write(self.answer)


@pytest.mark.parametrize("wrapped", [ToPickle, to_serialize])
def test_a_scheduler_that_sends_pickles_is_not_joined_and_nothing_is_run(tmp_path, monkeypatch, wrapped):
    monkeypatch.setattr(joining, "_ANSWER_S", 3.0)
    bomb = tmp_path / "bomb"
    with (
        Trap({"status": "OK", "warning": wrapped(Bomb(str(bomb))), "type": wrapped(Bomb(str(bomb)))}) as trap,
        pytest.raises(PreflightError, match=r"no scheduler answers at tcp://127\.0\.0\.1"),
        joined(Reach(trap.address, 1)),
    ):
        pass
    assert not bomb.exists()


def test_a_message_that_says_it_is_huge_is_refused_before_any_memory_is_taken(monkeypatch):
    monkeypatch.setattr(joining, "_ANSWER_S", 3.0)
    began = time.monotonic()
    with (
        Trap(struct.pack("<Q", 2**45) + msgpack.dumps({})) as trap,
        pytest.raises(PreflightError, match="no scheduler answers"),
        joined(Reach(trap.address, 1)),
    ):
        pass
    assert time.monotonic() - began < 60
