"""Keeps Dask's client in this process from loading code: whatever a scheduler or a worker sends is read as data, or
not at all.

Dask lets the other end put a pickle into any message, and has no option against it. So our own reader replaces Dask's.
And if Dask reads a pickle elsewhere, Python itself refuses to load what the pickle names.
"""

from __future__ import annotations

import pickletools
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped]
from distributed import Client
from distributed.comm import CommClosedError, tcp
from distributed.protocol.utils import msgpack_opts

from storagelab.errors import PreflightError
from storagelab.run.messages import LARGEST_BYTES, words

_REPLACED = "from_frames", "read_bytes_rw"
_MOST_STRINGS = 2
_OF_THE_PICKLE = "tblib", "unpickle_", "builtins"
_UNREAD = b""
"""Stands in for anything that is not data."""
_closed = threading.Event()


def close() -> None:
    """Takes effect from now on, until this process ends. Raises PreflightError if this Dask works differently
    inside.
    """
    if _closed.is_set():
        return
    if not all(hasattr(tcp, name) for name in _REPLACED):
        raise PreflightError(
            "this version of Dask can't be kept from running what a scheduler sends", key="--executor",
            hint="install the one that requirements-cluster.lock names",
        )  # fmt: skip
    tcp.from_frames = _data_in
    tcp.read_bytes_rw = _of_some_size(tcp.read_bytes_rw)
    Client._default_event_handlers = {}  # noqa: SLF001 - a scheduler's events are unpickled, or printed as they are
    sys.addaudithook(_refuse_code)
    _closed.set()


def _refuse_code(event: str, _: tuple[object, ...]) -> None:
    """Allows only pickles that name nothing: numbers, texts, and lists of these. Dask works in its own threads."""
    if event == "pickle.find_class" and threading.current_thread() is not threading.main_thread():
        raise TypeError("a pickle from a cluster is not loaded here")  # Dask expects a TypeError, and goes on


def _of_some_size(reading: Any) -> Any:
    async def read(stream: Any, size: int) -> Any:
        if size > LARGEST_BYTES:
            raise CommClosedError(f"a message of {size:,} bytes is refused: {LARGEST_BYTES:,} are the most")
        return await reading(stream, size)

    return read


async def _data_in(frames: Sequence[bytes], **_: object) -> object:
    """Replaces Dask's `from_frames`."""

    def plain(found: Mapping[str, Any]) -> object:
        if (at := found.get("__Serialized__", 0)) > 0:
            header = msgpack.loads(frames[at], use_list=False, **msgpack_opts)
            return _bytes_in(header, frames[at + 1 : at + 1 + header["num-sub-frames"]])
        if "__Pickled__" in found or "__Serialized__" in found:
            raise TypeError("it has a pickle")
        if "__Set__" in found:
            return set(found["as-list"])
        return found

    try:
        return msgpack.loads(frames[0], object_hook=plain, use_list=False, **msgpack_opts)
    except Exception as error:  # noqa: BLE001 - whatever a message of another's making breaks with
        raise CommClosedError(f"a message is refused: {words(error)}") from None


def _bytes_in(header: Mapping[str, Any], frames: Sequence[bytes]) -> bytes:
    """Bytes as they are. Anything else, which needs a pickle to read or may unpack to any size, is left unread."""
    is_plain = header.get("serializer") == "dask" and header.get("type") == "bytes"
    return b"".join(frames) if is_plain and not any(header.get("compression") or ()) else _UNREAD


def error_text(error: BaseException) -> str:
    """The words in a worker's error, which comes as a pickle: its texts are read, and nothing is loaded."""
    pickled = error.args[0] if error.args else None
    if type(error) is not Exception or not isinstance(pickled, bytes):
        return words(f"{type(error).__name__}: {error}")
    texts = list[str]()
    try:
        for _, text, _ in pickletools.genops(pickled):
            if isinstance(text, str) and len(texts) < _MOST_STRINGS and not text.startswith(_OF_THE_PICKLE):
                texts.append(text)
    except ValueError:
        pass
    return words(": ".join(texts)) or "an error that is not readable"
