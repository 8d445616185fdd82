"""Shows a capture as text and tables: the reads and writes of each object, volume and kind of process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from storagelab.capture.folder import Capture, CapturedObject, DeviceRow, IoRow
from storagelab.model.engines import ENGINES
from storagelab.report.document import Document, Heading, Table, paper
from storagelab.words import numbers

MOST_OBJECTS = 20
SYSTEM = "system tables"
_BY = {
    "session": "sessions", "checkpoint": "checkpoints", "log": "the log's writer", "background": "other processes",
}  # fmt: skip


@dataclass
class Sum:
    """The sum of requests of one kind. `in_order` and `seconds` are None if they are unknown for any part."""

    requests: int = 0
    bytes: int = 0
    in_order: int | None = 0
    seconds: float | None = 0.0

    def add(self, row: IoRow | DeviceRow) -> None:
        self.requests += row.requests
        self.bytes += row.bytes
        in_order = row.sequential_requests if isinstance(row, IoRow) else None
        self.in_order = None if self.in_order is None or in_order is None else self.in_order + in_order
        self.seconds = None if self.seconds is None or row.seconds is None else self.seconds + row.seconds

    @property
    def share_in_order(self) -> float | None:
        return None if self.in_order is None or not self.requests else self.in_order / self.requests


def sums_by(rows: Iterable[IoRow], key: Callable[[IoRow], str]) -> dict[str, dict[str, Sum]]:
    """Maps each key to a mapping from operation to the sum of its requests. The key with the most bytes comes first."""
    found: dict[str, dict[str, Sum]] = defaultdict(lambda: defaultdict(Sum))
    for row in rows:
        found[key(row)][row.operation].add(row)
    return dict(sorted(found.items(), key=lambda one: _weight(one[1]), reverse=True))


def _weight(sums: dict[str, Sum]) -> tuple[int, int]:
    return sum(one.bytes for one in sums.values()), sum(one.requests for one in sums.values())


def shown_as(name: str, engine: str) -> str:
    """Returns the name of an object in reports. All of the server's own tables share one name."""
    return SYSTEM if name.partition(".")[0] in ENGINES[engine].own_schemas else name


def capture_paper(capture: Capture, name: str) -> Document:
    """Returns the report on a capture. `name` is the name of its folder."""
    manifest = capture.manifest
    title = f"What {ENGINES[manifest.engine].title} {manifest.server_version} reads and writes ({name})"
    return paper(title, "measured", _verdict(capture), list(_notes(capture)), _tables(capture))


def _verdict(capture: Capture) -> str:
    by_object = sums_by(capture.io, lambda row: shown_as(row.object, capture.manifest.engine))
    total = sum(_weight(sums)[1] for sums in by_object.values())
    length = numbers.duration(capture.manifest.seconds)
    if not total or not capture.manifest.seconds:
        return f"The server read and wrote nothing in {length}."
    most, sums = max(by_object.items(), key=lambda one: _weight(one[1])[1])
    share = numbers.percent(_weight(sums)[1] / total)
    per_s = numbers.rate(total / capture.manifest.seconds, "requests")
    return f"In {length}, the server sent {per_s} to the operating system, of which {share} were for {most}."


def _notes(capture: Capture) -> Iterator[str]:
    manifest = capture.manifest
    if not manifest.complete:
        yield f"The capture was cut off after {numbers.duration(manifest.seconds)}. This is what it has."
    if manifest.connections is not None:
        ended = manifest.transactions
        done = "" if ended is None else f", {numbers.count(ended)} {manifest.unit}s ended"
        yield f"On average, {numbers.significant(manifest.connections, 2)} sessions worked at once{done}."
    if manifest.unit == "unit":
        yield (
            "A unit is a COMMIT or a change in autocommit mode. Reads in autocommit mode are not counted. "
            "To count all transactions, enable the instrument `transaction` of performance_schema."
        )
    if manifest.machine is not None and manifest.machine.crowding > 1:
        yield f"The machine had other work: {manifest.machine}."
    yield from (f"After {numbers.duration(change.second)}: {change.what}" for change in manifest.changes)
    yield from manifest.notes
    if manifest.cost_percent is None:
        yield "The cost of the capture was not measured (--measure-cost measures it)."


def _tables(capture: Capture) -> Iterator[Table]:
    manifest = capture.manifest
    of = {one.id: one for one in manifest.objects}
    by_object = sums_by(capture.io, lambda row: shown_as(row.object, capture.manifest.engine))
    shown = list(by_object)[:MOST_OBJECTS]
    rest = len(by_object) - len(shown)
    left = f"; {numbers.plural(rest, 'other')} did less" if rest else ""
    parts: dict[str, list[CapturedObject]] = defaultdict(list)
    for name in {row.object for row in capture.io} & of.keys():
        parts[shown_as(name, manifest.engine)].append(of[name])
    facts = [[_each(one.kind for one in parts[name]), _each(one.volume for one in parts[name])] for name in shown]
    yield _table(
            [Heading("object", "text"), Heading("kind", "text"), Heading("volume", "text")],
            [[name, *some] for name, some in zip(shown, facts, strict=True)],
            [by_object[name] for name in shown], manifest.seconds,
        ).called(f"Objects{left}", ranks=_RANKS)  # fmt: skip
    by_kind = sums_by(capture.io, lambda row: row.by)
    yield _table(
        [Heading("by", "text")], [[_BY[by]] for by in by_kind], list(by_kind.values()), manifest.seconds
    ).called("Kinds of processes", ranks=_RANKS)
    yield _volumes(capture).called("Volumes")


def _each(words: Iterable[str]) -> str:
    return ", ".join(sorted(set(words)))


_RANKS = {"kind": 2, "read each": 4, "written each": 4, "syncs/s": 3}


def _table(
    headings: list[Heading], firsts: Sequence[list[str]], sums: Sequence[dict[str, Sum]], seconds: float
) -> Table:
    asked = [
        Heading("reads/s"), Heading("read each", meaning="mean size of a read"),
        Heading("in order", meaning="reads that begin where the last read of the same file ended"),
        Heading("writes/s"), Heading("written each", meaning="mean size of a write"),
        Heading("in order ", meaning="writes that begin where the last write of the same file ended"),
        Heading("syncs/s"),
    ]  # fmt: skip
    return Table([*headings, *asked], [[*first, *_asked(of, seconds)] for first, of in zip(firsts, sums, strict=True)])


def _asked(sums: dict[str, Sum], seconds: float) -> list[str]:
    cells = []
    for operation in ("read", "write"):
        one = sums.get(operation) or Sum()
        cells += [
            _per_s(one, seconds), numbers.bytes_(one.bytes / one.requests) if one.requests else "",
            numbers.percent(one.share_in_order, 0) if one.requests and one.share_in_order is not None else "",
        ]  # fmt: skip
    return [*cells, _per_s(sums.get("sync") or Sum(), seconds)]


def _per_s(one: Sum, seconds: float) -> str:
    return numbers.significant(one.requests / seconds, 3) if one.requests and seconds else ""


def _volumes(capture: Capture) -> Table:
    """Returns a table of the server's requests to each volume, beside the requests that reached its devices."""
    seconds = capture.manifest.seconds
    of = {one.id: one.volume for one in capture.manifest.objects}
    asked = sums_by(capture.io, lambda row: of.get(row.object, ""))
    reached: dict[str, dict[str, Sum]] = defaultdict(lambda: defaultdict(Sum))
    for row in capture.devices:
        reached[row.volume][row.operation].add(row)
    headings = [
        Heading("volume", "text"), Heading("device", "text"),
        Heading("asked to read", meaning="by the server, of the operating system"),
        Heading("read", meaning="by the device, for all programs"),
        Heading("asked to write", meaning="by the server, of the operating system"),
        Heading("written", meaning="by the device, for all programs"),
    ]  # fmt: skip
    rows = []
    for volume in capture.manifest.volumes:
        cells = [volume.name, volume.device or ""]
        for operation in ("read", "write"):
            for sums in (asked.get(volume.name, {}), reached.get(volume.name, {})):
                one = sums.get(operation)
                cells.append(f"{numbers.bytes_(one.bytes / seconds)}/s" if one and seconds else "")
        rows.append(cells)
    return Table(headings, rows)
