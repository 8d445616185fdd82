"""A layer that nobody has: a loop device on the volume's drive."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from pydantic import Field

from storagelab.model.layers import Layer, LayerKeys, Tools, Top
from storagelab.model.loads.base import Rule

if TYPE_CHECKING:
    from storagelab.model.volume import VolumeConfig


class Keys(LayerKeys):
    nested: int = Field(0, ge=0, le=2, description="Volumes that storagelab makes: how many loop devices lie between.")
    rules = (
        Rule("volumes.*.nested", lambda _, volume: volume.nested > 0 and volume.sector_bytes == 1024,
             "takes no such sectors", "Leave sector_bytes out."),
    )  # fmt: skip


def layers(volume: VolumeConfig, tools: Tools) -> Iterator[Layer]:
    for number in range(volume.nested):
        step = f"losetup: loop device {number + 1} of {volume.nested} on the drive"
        yield Layer("nested", step, (), {"losetup": "mount"}, partial(_made, tools))


@contextlib.contextmanager
def _made(tools: Tools, devices: Sequence[str], _own: str, _uuids: Sequence[UUID]) -> Iterator[Top]:
    below = f"/dev/{devices[0]}"
    node = tools.said("losetup", "--find", "--show", below)
    try:
        shown = ("losetup", "--noheadings", "--output=BACK-FILE", node)
        yield Top(
            node.removeprefix("/dev/"), {"nested": below}, lambda: {"below": (below, tools.said(*shown))}, "losetup"
        )
    finally:
        tools.said("losetup", "--detach", node)
