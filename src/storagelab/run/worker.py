"""What a worker does: one function for each errand, which Dask finds there by its name. It takes bytes and returns bytes."""

from __future__ import annotations

from storagelab.model.measurement import Run
from storagelab.run import errands, fleet, joining, loop, messages
from storagelab.run.fleet import Asked, Found
from storagelab.run.loop import Made, News
from storagelab.targets.states import Carried


def introduce(_: bytes) -> bytes:
    return messages.answer_of(lambda: [joining.introduction().model_dump_json().encode()])


def simulate(message: bytes) -> bytes:
    def do() -> list[bytes]:
        told: list[News] = []
        loop.make_elsewhere(errands.slice_in(message)[0], told.append)
        (made,) = told
        assert isinstance(made, Made)
        assert isinstance(made.state, Carried)
        return [errands.outcomes(made.runs), made.state.packed()]

    return messages.answer_of(do)


def measure(message: bytes) -> bytes:
    def do() -> list[bytes]:
        runs: list[Run] = []
        task, campaign = errands.slice_in(message)
        fleet.make_on_host(campaign, task, runs.append)
        return [errands.outcomes(runs)]

    return messages.answer_of(do)


def look_around(message: bytes) -> bytes:
    def do() -> list[bytes]:
        found: Found = fleet.look_around(_asked(message))
        return [found.model_dump_json().encode()]

    return messages.answer_of(do)


def clean_up(message: bytes) -> bytes:
    def do() -> list[bytes]:
        fleet.clean_up(_asked(message))
        return []

    return messages.answer_of(do)


def _asked(message: bytes) -> Asked:
    (asked,) = messages.unpacked(message)
    return Asked.model_validate_json(asked)
