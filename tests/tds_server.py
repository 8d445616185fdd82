"""A server that speaks TDS over a real socket, for tests: the driver, its threads and its errors are real; the answers
come from the test's `answer`. It knows no SQL, and does not show what SQL Server itself would do.

The protocol is Microsoft's open specification [MS-TDS], as far as a driver needs it: prelogin, login, batches.
"""

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

PRELOGIN, LOGIN7, SQL_BATCH, ATTENTION, ANSWER = 0x12, 0x10, 0x01, 0x06, 0x04
_COLLATION = bytes.fromhex("0904d00034")
_TDS_74 = 0x74000004


class ServerError(Exception):
    """The server's error response in place of rows."""

    def __init__(self, number: int, message: str, *, severity: int = 16) -> None:
        super().__init__(message)
        self.number, self.message, self.severity = number, message, severity


class Cut(Exception):
    """The server ends the connection."""


@dataclass
class Answer:
    """One result: names of its columns, and rows of int, str, bytes, bool, float or None."""

    columns: list[str] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)


@dataclass
class Login:
    spid: int
    user: str
    password: str
    database: str
    application: str


class TdsServer:
    """`log_in(login)` may raise ServerError; `answer(login, text)` gives the result of a batch, or raises it."""

    def __init__(self, log_in: Callable[[Login], None], answer: Callable[[Login, str], Answer]) -> None:
        self._log_in, self._answer = log_in, answer
        self._spids = itertools.count(51)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # Closing the listener alone would not interrupt accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, EOFError, Cut):
            self._talk(connection)
        self._open.discard(connection)

    def _talk(self, connection: socket.socket) -> None:
        login: Login | None = None
        spid = next(self._spids)
        while True:
            kind, content = _receive(connection)
            if kind == PRELOGIN:
                _send(connection, _prelogin())
            elif kind == LOGIN7:
                login = _login(spid, content)
                try:
                    self._log_in(login)
                except ServerError as error:
                    _send(connection, _error(error) + _done(0, failed=True))
                    raise Cut from error
                _send(connection, _login_ack(login.database))
            elif kind == SQL_BATCH:
                assert login is not None
                _send(connection, self._reply(login, _batch_text(content)))
            elif kind == ATTENTION:
                _send(connection, struct.pack("<BHHQ", 0xFD, 0x20, 0, 0))

    def _reply(self, login: Login, text: str) -> bytes:
        try:
            answer = self._answer(login, text)
        except ServerError as error:
            return _error(error) + _done(0, failed=True)
        if not answer.columns:
            return _done(0)
        columns = ([row[at] for row in answer.rows if row[at] is not None] for at in range(len(answer.columns)))
        types = [type(values[0]) if values else int for values in columns]
        rows = b"".join(b"\xd1" + b"".join(map(_value, types, row)) for row in answer.rows)
        return _metadata(answer.columns, types) + rows + _done(len(answer.rows))


def _receive(connection: socket.socket) -> tuple[int, bytes]:
    content = b""
    while True:
        kind, status, length = struct.unpack(">BBH", _exactly(connection, 4))
        content += _exactly(connection, length - 4)[4:]
        if status & 1:
            return kind, content


def _exactly(connection: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        part = connection.recv(length - len(found))
        if not part:
            raise EOFError
        found += part
    return found


def _send(connection: socket.socket, content: bytes) -> None:
    size = 4000
    parts = [content[start : start + size] for start in range(0, len(content), size)] or [b""]
    for number, part in enumerate(parts, 1):
        last = number == len(parts)
        connection.sendall(struct.pack(">BBHHBB", ANSWER, int(last), len(part) + 8, 0, number % 256, 0) + part)


def _prelogin() -> bytes:
    # Version 15.0, and no encryption, as the machine talks to itself.
    version, encryption = struct.pack(">BBHH", 15, 0, 4153, 0), b"\x02"
    head = struct.pack(">BHH", 0, 11, len(version)) + struct.pack(">BHH", 1, 11 + len(version), 1) + b"\xff"
    return head + version + encryption


def _login(spid: int, content: bytes) -> Login:
    def text(place: int) -> bytes:
        offset, characters = struct.unpack_from("<HH", content, place)
        return content[offset : offset + 2 * characters]

    hidden = bytes(((byte ^ 0xA5) >> 4 | (byte ^ 0xA5) << 4) & 0xFF for byte in text(44))
    user, application, database = (text(place).decode("utf-16-le") for place in (40, 48, 68))
    return Login(spid, user, hidden.decode("utf-16-le"), database, application)


def _short(text: str) -> bytes:
    return bytes([len(text)]) + text.encode("utf-16-le")


def _token(kind: int, content: bytes) -> bytes:
    return struct.pack("<BH", kind, len(content)) + content


def _login_ack(database: str) -> bytes:
    return (
        _token(0xE3, b"\x01" + _short(database or "master") + _short("master"))
        + _token(0xE3, b"\x07\x05" + _COLLATION + b"\x00")
        + _token(0xAD, struct.pack(">BI", 1, _TDS_74) + _short("Microsoft SQL Server") + bytes([15, 0, 16, 57]))
        + _token(0xE3, b"\x04" + _short("4096") + _short("4096"))
        + _done(0)
    )


def _batch_text(content: bytes) -> str:
    (headers,) = struct.unpack_from("<I", content)
    return content[headers:].decode("utf-16-le")


def _error(error: ServerError) -> bytes:
    message = error.message.encode("utf-16-le")
    content = struct.pack("<iBBH", error.number, 1, error.severity, len(error.message)) + message
    return _token(0xAA, content + _short("RECORDED") + _short("") + struct.pack("<I", 1))


def _done(rows: int, *, failed: bool = False) -> bytes:
    return struct.pack("<BHHQ", 0xFD, 0x02 if failed else 0x10, 0xC1, rows)


_TYPE_TEXT = {
    int: b"\x26\x08", float: b"\x6d\x08", bool: b"\x68\x01", str: b"\xe7" + struct.pack("<H", 8000) + _COLLATION,
    bytes: b"\xa5" + struct.pack("<H", 8000),
}  # fmt: skip


def _metadata(columns: list[str], types: list[type]) -> bytes:
    described = (
        struct.pack("<IH", 0, 0x09) + _TYPE_TEXT[kind] + _short(name) for name, kind in zip(columns, types, strict=True)
    )
    return struct.pack("<BH", 0x81, len(columns)) + b"".join(described)


def _value(kind: type, value: Any) -> bytes:
    if kind in (str, bytes):
        if value is None:
            return b"\xff\xff"
        content = value.encode("utf-16-le") if kind is str else value
        return struct.pack("<H", len(content)) + content
    if value is None:
        return b"\x00"
    return {int: b"\x08" + struct.pack("<q", int(value)), float: b"\x08" + struct.pack("<d", float(value))}.get(
        kind, b"\x01" + bytes([bool(value)])
    )
