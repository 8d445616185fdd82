"""The interface of layers between the drives and the file system of a volume.

A kind of layer is one file in this folder: the class `Keys` with its keys and the rules between them, and the function
`layers`, which returns the layers of a volume with these keys. A `Layer` has its texts, its requirements, and the
functions that make it, read it back and undo it. No file here runs programs directly: the caller passes `Tools`
(`storagelab.volumes.file_systems`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import ClassVar, NamedTuple, Protocol
from uuid import UUID

from storagelab.model.loads.base import Rule
from storagelab.model.values import Described

_FIRST = ("raid", "mapped")
"""The lowest layers, from the drives upward; other layers follow."""
Pairs = Mapping[str, tuple[object, object]]
"""The requested and the actual properties of a layer, as texts; None if not requested."""


class LayerKeys(Described):
    """The keys of a kind of layer."""

    of_drives: ClassVar[bool] = False
    """These keys are only for volumes made of whole drives."""
    rules: ClassVar[tuple[Rule, ...]] = ()


class Tools(Protocol):
    """The programs that make a layer. A device has the kernel's name, such as "md127"."""

    def said(self, program: str, *arguments: str, given: str = "") -> str:
        """Runs a program with `given` on stdin, and returns its output. Raises RunFailed with the program's message."""

    def node(self, device: str) -> Path:
        """The kernel's folder about a device."""

    def text(self, file: Path) -> str:
        """The content of a kernel file; "" if it can't be read."""

    def made_of(self, device: str) -> str:
        """The device that was just made of this one. Raises RunFailed."""

    def take_apart(self, device: str) -> None:
        """Unmounts and disassembles everything that is made of the device, from the top down. Raises RunFailed."""

    def take_down(self, *devices: str) -> None:
        """Disassembles the layers like `take_apart`, and removes the devices' array superblocks. Raises RunFailed."""

    def holding(self, kind: str, devices: Sequence[str]) -> Iterator[str]:
        """The devices that have a signature of this kind."""

    def patiently(self, step: Callable[[], object]) -> None:
        """Calls the function, and repeats failed calls for some time, because udev reads each device that was written
        to. Raises RunFailed.
        """

    def until(self, is_so: Callable[[], bool], within_s: float, pause_s: float) -> bool:
        """Waits until a condition holds; False if it does not hold in time."""

    def size(self, size_bytes: int) -> str:
        """A size as text."""


class Top(NamedTuple):
    """The device that a layer gives; `look` reads it back."""

    device: str
    facts: Mapping[str, object]
    look: Callable[[], Pairs]
    read_from: str


class Layer(NamedTuple):
    """One layer of a volume. `key` is its key in the spec, `step` describes how it is made. `programs` have their
    packages on Debian. `made` is a context manager that makes and undoes it: its arguments are the devices below, the
    volume's name for the layer, and the UUIDs of the content of each device.
    """

    key: str
    step: str
    drivers: tuple[str, ...]
    programs: Mapping[str, str]
    made: Callable[[Sequence[str], str, Sequence[UUID]], AbstractContextManager[Top]]
    hides: bool = True
    """Whether the layer's content can't be seen on the drives themselves."""


def files() -> tuple[ModuleType, ...]:
    """The files of this folder, from the drives upward."""
    others = sorted({one.name for one in iter_modules(__path__)} - {*_FIRST})
    return tuple(import_module(f"{__name__}.{name}") for name in (*_FIRST, *others))
