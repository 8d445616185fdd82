"""The interface of layers between the drives and the file system of a volume.

Each kind of layer is one file in this folder. The file has the class `Keys`, with the keys and the rules between them,
and the function `layers`, which returns the layers of a volume with these keys. A `Layer` has its texts, its
requirements, and the functions that make it, read it back and undo it. No file here runs programs directly, because the
caller passes `Tools` (`storagelab.volumes.file_systems`)."""

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
"""The files of the lowest layers, from the drives upward. All other layers are above them."""
Pairs = Mapping[str, tuple[object, object]]
"""Maps names of a layer's properties to the requested and the actual value, as texts. A requested value is None if the
spec does not set it."""


class LayerKeys(Described):
    """The keys of one kind of layer."""

    of_drives: ClassVar[bool] = False
    """Whether these keys are only for volumes made of whole drives."""
    rules: ClassVar[tuple[Rule, ...]] = ()


class Tools(Protocol):
    """The programs that make a layer. Devices are named as the kernel names them, such as "md127"."""

    def said(self, program: str, *arguments: str, given: str = "") -> str:
        """Runs a program with the text `given` as its input, and returns its output. Raises RunFailed with the
        program's message.
        """

    def node(self, device: str) -> Path:
        """Returns the kernel's folder with the properties of a device."""

    def text(self, file: Path) -> str:
        """Returns the content of a kernel file, or "" if the file can't be read."""

    def made_of(self, device: str) -> str:
        """Returns the device that was just made on top of `device`. Raises RunFailed."""

    def take_apart(self, device: str) -> None:
        """Unmounts and disassembles everything that was made on top of the device. Begins with the uppermost layer.
        Raises RunFailed.
        """

    def take_down(self, *devices: str) -> None:
        """Disassembles the layers like `take_apart`. Also removes the superblocks of arrays from the devices. Raises
        RunFailed.
        """

    def holding(self, kind: str, devices: Sequence[str]) -> Iterator[str]:
        """Yields the devices whose content has a signature of this kind."""

    def patiently(self, step: Callable[[], object]) -> None:
        """Calls the function, and repeats a failed call for some time. A call may fail because udev reads each device
        after a write. Raises RunFailed if the call still fails at the end.
        """

    def until(self, is_so: Callable[[], bool], within_s: float, pause_s: float) -> bool:
        """Waits until a condition holds. Returns False if it does not hold within `within_s` seconds."""

    def size(self, size_bytes: int) -> str:
        """Returns a size as text."""


class Top(NamedTuple):
    """The device that a layer provides. `look` reads the layer's properties back."""

    device: str
    facts: Mapping[str, object]
    look: Callable[[], Pairs]
    read_from: str


class Layer(NamedTuple):
    """One layer of a volume. `key` is its key in the spec. `step` describes how the layer is made. `programs` maps the
    needed programs to their Debian packages. `made` is a context manager that makes the layer and undoes it. Its
    arguments are the devices below, the volume's name for the layer, and one UUID for the content of each device.
    """

    key: str
    step: str
    drivers: tuple[str, ...]
    programs: Mapping[str, str]
    made: Callable[[Sequence[str], str, Sequence[UUID]], AbstractContextManager[Top]]
    hides: bool = True
    """Whether the layer changes the content so that it can't be read on the drives themselves."""


def files() -> tuple[ModuleType, ...]:
    """Returns the modules of this folder, from the drives upward."""
    others = sorted({one.name for one in iter_modules(__path__)} - {*_FIRST})
    return tuple(import_module(f"{__name__}.{name}") for name in (*_FIRST, *others))
