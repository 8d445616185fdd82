"""Recommends at most three layouts that are worth a move, or none. Searches them with the model of `predict`, from a
capture and a file of volumes.

A unit is what moves as a whole: a table with its long values, an index, the log, or temporary files. If a unit causes
only a small part of its volume's load, it stays where it is. If there are few placements, all of them are predicted.
Otherwise a local search is made from several starts. It moves one unit at a time, as long as the predicted rate grows.
At the end, moves that gain little are undone.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from glob import escape
from itertools import product
from pathlib import Path

from pydantic import Field

from storagelab.capture.attribution import SINGLE
from storagelab.capture.folder import ALL_TABLES, TOAST, CapturedObject, Kind
from storagelab.drives.measured import OutsideMeasured
from storagelab.errors import SpecError, choices
from storagelab.model.engines import ENGINES
from storagelab.model.objects import INDEXES, LOG, TABLES, TEMPORARY
from storagelab.model.values import Described, Estimate
from storagelab.predicting import model
from storagelab.predicting.capability import LimitedVolume
from storagelab.predicting.demands import BY_SECOND
from storagelab.predicting.prediction import PRESENT, Errors, LayoutPrediction, Prediction, errors_like, known_cases
from storagelab.predicting.reckoning import Question, read
from storagelab.words.numbers import percent, plural

SHORT_S = 60
WORTH = 0.1
_MATTERS, _MOVE_GAINS, _OF_GAIN = 0.02, 0.02, 0.95
"""Three shares. A unit may move only if it causes at least this share of its volume's load. A move must gain at least
this share by itself. After moves are undone, at least this share of the best layout's gain must remain.
"""
_ALL_OF, _STARTS = 700, 6
"""If there are at most this many placements, all are predicted. Otherwise, this many local searches are made."""
_NAMES = ("proposal 1", "proposal 2", "proposal 3")
_ROOM = 1.1
"""The space that objects need, as a multiple of their size. They grow, and the file system needs space, too."""
_LOG_BYTES = 2**30
"""The least space for a log, because it grows between checkpoints. It is PostgreSQL's default of `max_wal_size`."""
_FAR = 2.0
"""If the captured rate is more than this many times the rate that the volumes explain, the volumes' figures
are wrong.
"""
_COPY_BYTES = 2**18
"""The largest request of a copy, in bytes. It is needed for volumes whose limit only counts requests."""


class Move(Described):
    """A unit that moves: a table, an index, `log` or `temp`. If the capture can't tell tables apart, all `tables` are
    one unit.
    """

    what: str
    """The unit's key in `layout.objects`, or `log`."""
    kind: Kind
    names: tuple[str, ...]
    """The schema and the name of a table or an index."""
    from_: str = Field(alias="from")
    to: str
    bytes: int | None
    copy_s: float | None
    """The least time in seconds that copying the unit takes. It follows from the limits of both volumes."""


class Proposal(Described):
    """A layout that is worth its moves. `name` is also the name of its prediction."""

    name: str
    times_present: Estimate
    """The layout's rate divided by today's rate."""
    moves: tuple[Move, ...]
    price: float | None
    """The monthly price of the volumes that the layout uses. The value is None if one of them has no price."""
    limited_today: str
    limited_then: str


class Advice(Described):
    """At most three proposals, the fastest first. If there is none, today's layout should stay, and `because` says why.
    Then `unsure` may be the best placement: its predicted gain is worth a move, but its interval includes no gain.
    """

    capture: str
    engine: str
    proposals: tuple[Proposal, ...]
    unsure: Proposal | None
    prediction: Prediction
    """The predictions of today's layout, and of the layouts that a proof may measure."""
    because: str
    today: dict[str, str]
    """The current volume of each unit, by the unit's key."""
    data: str | None
    """The volume with the server's own files. The value is None if it is unknown."""
    folders: dict[str, str]
    """Maps each volume to a folder on it. If the folder is unknown, the value is a placeholder."""
    worth: float
    """The least gain that is worth a change, as a share of today's rate."""
    price_today: float | None
    considered: tuple[str, ...]
    """The keys of the units that may move."""
    predicted: int
    """How many of the possible `placements` were predicted."""
    placements: int
    doubts: tuple[str, ...]
    """Sentences about facts that make the capture itself doubtful."""
    notes: tuple[str, ...]

    @property
    def measurable(self) -> tuple[Proposal, ...]:
        """The layouts that a proof measures besides today's layout."""
        return self.proposals or ((self.unsure,) if self.unsure is not None else ())


@dataclass(frozen=True)
class Unit:
    """Objects that move as a whole. `key` is the unit's name in `layout.objects`, or `log`."""

    key: str
    kind: Kind
    names: tuple[str, ...]
    ids: frozenset[str]
    volume: str
    bytes: int | None
    share: float
    """The largest of three fractions: what the unit causes of its volume's reads, of its writes, and of its bytes."""

    @property
    def name(self) -> str:
        """The unit's name in texts for the user."""
        return ".".join(self.names) or self.key


Places = tuple[str, ...]
"""A placement: the volume of each unit, in the order of the units."""


@dataclass
class Search:
    """Searches placements of units, and predicts each placement only once."""

    question: Question
    units: Sequence[Unit]
    budget: float | None = None
    found: dict[Places, float] = field(default_factory=dict)
    """The predicted rate of each placement. It is 0 if the placement can't be predicted, does not fit, or costs too
    much.
    """

    def __post_init__(self) -> None:
        self.today = model.present(self.question.capture)
        self.server = model.calibrated(self.question.server, self.today)
        self.volumes = list(self.question.asked.volumes)
        self.stays: Places = tuple(one.volume for one in self.units)

    @property
    def placements(self) -> int:
        return int(len(self.volumes) ** len(self.units))

    def layout(self, places: Places) -> model.Layout:
        moved = {name: to for unit, to in zip(self.units, places, strict=True) for name in unit.ids}
        return model.Layout({**self.today.places, **moved}, frozenset(moved))

    def per_s(self, places: Places) -> float:
        if places not in self.found:
            self.found[places] = self._per_s(places) if places == self.stays or self._may_be(places) else 0.0
        return self.found[places]

    def _per_s(self, places: Places) -> float:
        try:
            return self.server.expected(self.layout(places)).per_s
        except OutsideMeasured:
            return 0.0

    def _may_be(self, places: Places) -> bool:
        """Whether the volumes have enough space for this placement, and cost no more than the budget."""
        layout, needed = self.layout(places), defaultdict[str, float](float)
        for one in self.question.capture.manifest.objects:
            needed[layout.places[one.id]] += _ROOM * max(size_of(one) or 0, _LOG_BYTES if one.kind == "log" else 0)
        sizes = {name: one.size_bytes for name, one in self.question.asked.volumes.items()}
        fits = all(sizes[name] is None or bytes_ <= (sizes[name] or 0) for name, bytes_ in needed.items())
        return fits and (self.budget is None or (self.price(places) or 0.0) <= self.budget)

    def price(self, places: Places) -> float | None:
        """The price of the volumes that a placement uses, or None if one of them has no price."""
        prices = [self.question.asked.volumes[name].price for name in set(self.layout(places).places.values())]
        return None if None in prices else sum(one for one in prices if one is not None)

    def run(self, seed: int = 1) -> None:
        """Predicts placements, and stores them in `found`: all placements if they are few, otherwise by
        local search.
        """
        if self.placements <= _ALL_OF:
            for places in product(self.volumes, repeat=len(self.units)):
                self.per_s(places)
            return
        dice = random.Random(seed)
        alone = [(name,) * len(self.units) for name in self.volumes]
        drawn = [tuple(dice.choice(self.volumes) for _ in self.units) for _ in range(_STARTS)]
        for start in [self.stays, *alone, *drawn][:_STARTS]:
            here = start
            while (best := max(self._beside(here), key=self.per_s)) and self.per_s(best) > self.per_s(here):
                here = best

    def _beside(self, places: Places) -> Iterator[Places]:
        """The placements that differ in one step: one unit is moved, or two units are exchanged."""
        for at in range(len(places)):
            yield from ((*places[:at], to, *places[at + 1 :]) for to in self.volumes if to != places[at])
        for one in range(len(places)):
            for other in range(one):
                if places[one] != places[other]:
                    swapped = list(places)
                    swapped[one], swapped[other] = places[other], places[one]
                    yield tuple(swapped)

    def moves(self, places: Places) -> int:
        return sum(to != today for to, today in zip(places, self.stays, strict=True))

    def times(self, places: Places, errors: Errors) -> Estimate:
        """The placement's rate divided by today's rate, with its interval."""
        layouts = {PRESENT: self.today, "then": self.layout(places)}
        found = model.predicted(self.server, self.today, layouts, errors)[1].times_present
        assert found is not None, "it was predicted before"
        return found

    def with_fewest_moves(self, places: Places) -> Places:
        """The placement without unnecessary moves. A move is undone if it gains less than 2 % by itself, or if 95 % of
        the whole gain remain without it.
        """
        least = self.per_s(self.stays) + _OF_GAIN * (self.per_s(places) - self.per_s(self.stays))
        while True:
            back = {
                at: (*places[:at], unit.volume, *places[at + 1 :])
                for at, unit in enumerate(self.units)
                if places[at] != unit.volume
            }
            free = [one for one in back.values() if self.per_s(one) * (1 + _MOVE_GAINS) >= self.per_s(places)]
            cheap = [one for one in back.values() if self.per_s(one) >= least]
            if not (free or cheap):
                return places
            places = max(free or cheap, key=self.per_s)


def recommend(
    captured: Path, file: Path, keep: Iterable[str] = (), worth: float = WORTH, budget: float | None = None,
    own: Path | None = None,
) -> Advice:  # fmt: skip
    """Recommends layouts. `keep`: units that must stay. `worth`: the least gain that is worth a change. `budget`: the
    highest monthly price. `own`: the file with the user's own known cases. Raises SpecError, PreflightError or
    StoreError, which name the file, the key and the solution.
    """
    question = read(captured, file)
    unpriced = [name for name, one in question.asked.volumes.items() if one.price is None]
    if budget is not None and unpriced:
        hint = "Write the price for a month: price = 110."
        raise SpecError("is missing, but --budget needs it", file=file, key=f"volumes.{unpriced[0]}.price", hint=hint)
    _refuse_one_device_twice(question)
    units = _units(question)
    stay = set(keep)
    names = [one.name for one in units]
    if strange := stay.difference(names, (one.key for one in units)):
        name = min(strange)
        raise SpecError(f"nothing is named {name!r}", key="--keep", hint=choices(name, names, "There are"))
    moving = [one for one in units if one.share >= _MATTERS and not stay & {one.key, one.name}]
    search = Search(question, moving, budget)
    search.run()
    errors = errors_like(known_cases(own), question.capture.manifest.engine)
    chosen, because = _chosen(search, errors, worth)
    price_today = search.price(search.stays)
    if because and budget is not None and price_today is not None and price_today > budget:
        because += f"; today's volumes cost {price_today:g} a month, more than the budget"
    layouts = {PRESENT: search.today} | {name: search.layout(one) for name, one in zip(_NAMES, chosen, strict=False)}
    found = model.predicted(search.server, search.today, layouts, errors)
    small = sum(one.share < _MATTERS for one in units)
    left = f"{plural(small, 'object')} left in place: less than {percent(_MATTERS)} of the load of a volume each."
    notes = (*([left] if small else []), *question.notes(errors, found[0].at_most_per_s))
    told = tuple(_proposal(search, *one, found[0]) for one in zip(chosen, found[1:], strict=True))
    own_files = [name for name, one in question.asked.volumes.items() if "data" in (one.captured or (name,))]
    return Advice(
        capture=question.name, engine=question.capture.manifest.engine, because=because, folders=_folders(question),
        proposals=() if because else told, unsure=told[0] if because and told else None,
        data=next(iter(own_files), None),
        prediction=question.answered(found, notes), today={one.key: one.volume for one in units}, worth=worth,
        price_today=price_today, considered=tuple(one.key for one in search.units),
        predicted=len(search.found), placements=search.placements, notes=notes,
        doubts=tuple(_doubts(question)),
    )  # fmt: skip


def _refuse_one_device_twice(question: Question) -> None:
    """Raises SpecError if two volumes are on the same device, because then the device's limit would count twice."""
    names = {old: name for name, one in question.asked.volumes.items() for old in one.captured}
    places = [(names.get(one.name, one.name), one.path, one.device) for one in question.capture.manifest.volumes]
    places += [(name, one.path, None) for name, one in question.asked.volumes.items() if one.path is not None]
    found: dict[str | int, str] = {}
    for name, path, device in places:
        number = _device_number(path)
        # Captured folders may be on another machine. So the numbers of their devices are only noted, and not compared.
        keys = [device] if device is not None else [] if number is None else [number]
        first = next((found[key] for key in keys if found.get(key, name) != name), None)
        if first is not None:
            hint = f"Name a folder on another device; or leave {name} out, and place its objects on {first}."
            raise SpecError(f"is on the same device as {first}", file=question.file, key=f"volumes.{name}", hint=hint)
        found |= {key: name for key in (device, number) if key is not None}


def _device_number(path: str) -> int | None:
    """The kernel's number of the device that has this folder, or None if the folder can't be seen on this machine."""
    try:
        return Path(path).expanduser().stat().st_dev
    except OSError:
        return None


def _folders(question: Question) -> dict[str, str]:
    known = {name: one.path for name, one in question.asked.volumes.items() if one.path is not None}
    return {name: known.get(name, f"/FOLDER/ON/{name}") for name in question.asked.volumes}


def _doubts(question: Question) -> Iterator[str]:
    manifest = question.capture.manifest
    if manifest.seconds < SHORT_S:
        yield f"The capture lasted {manifest.seconds:.0f} s. Capture at least a minute of a busy hour."
    if manifest.sources.trace is None:
        yield "Without the kernel's traces, the writes of single objects are not known: capture as root."


def _chosen(search: Search, errors: Errors, worth: float) -> tuple[list[Places], str]:
    """Returns the placements that are worth their moves. The fastest placement comes first. If no placement is worth
    its moves, also returns the reason. The list then has only the best placement if its gain is uncertain. Otherwise,
    the list is empty.
    """
    today = search.per_s(search.stays)
    if not today:
        return [], "can't say: today's load on a volume is outside of what was measured of this volume"
    if (far := model.captured_over_modelled(search.server, search.today)) is not None and far > _FAR:
        return [], f"can't say: the captured rate is {far:.1f} times what these volumes explain; check their figures"
    if not search.units:
        return [], "no object that may move causes 2 % of its volume's load"
    best = search.with_fewest_moves(max(search.found, key=search.per_s))
    if best == search.stays:
        within = " that fits the volumes and the budget" * (0.0 in search.found.values())
        return [], f"no other placement{within} is predicted to be faster"
    if (gain := search.times(best, errors).value - 1) < worth:
        return [], f"the best placement is predicted to gain {percent(gain)}, less than {percent(worth)}"
    if not (search.times(best, errors).low or 0) > 1:
        return [best], "no gain is sure"
    chosen = [best]
    for places in sorted(search.found, key=search.per_s, reverse=True):
        if len(chosen) == len(_NAMES) or search.per_s(places) < (1 + worth) * today:
            break
        fewer = search.with_fewest_moves(places)
        has_merit = all(_has_merit(search, fewer, one) for one in chosen)
        if has_merit and search.per_s(fewer) >= (1 + worth) * today and (search.times(fewer, errors).low or 0) > 1:
            chosen.append(fewer)
    return chosen, ""


def _has_merit(search: Search, places: Places, faster: Places) -> bool:
    """Whether the placement has an advantage over a faster one: fewer moves, or a lower price."""
    price, of_faster = search.price(places), search.price(faster)
    cheaper = price is not None and of_faster is not None and price < of_faster
    return cheaper or search.moves(places) < search.moves(faster)


def _proposal(search: Search, places: Places, then: LayoutPrediction, today: LayoutPrediction) -> Proposal:
    assert then.times_present is not None, "it was predicted before"
    moves = (_move(search, one, to) for one, to in zip(search.units, places, strict=True) if to != one.volume)
    return Proposal(
        name=then.name, times_present=then.times_present, moves=tuple(moves), price=search.price(places),
        limited_today=_limited(today), limited_then=_limited(then),
    )  # fmt: skip


def _limited(one: LayoutPrediction) -> str:
    """The bottleneck of a layout, and the utilisation of each volume."""
    shares = [(load.volume, load.used_share) for load in one.volumes if load.used_share is not None]
    used = [f"{volume} {percent(min(1.0, share), 0)}" for volume, share in shares]
    return f"{one.limited_by} ({', '.join(used)} used)" if used else one.limited_by


def _move(search: Search, unit: Unit, to: str) -> Move:
    rates = []
    for name, way in ((unit.volume, "read"), (to, "write")):
        volume = search.server.volumes[name]
        if isinstance(volume, LimitedVolume):
            key = "read" if volume.shares_limit else way
            if f"{key}_iops" in volume.rates:
                rates.append(float(volume.rates[f"{key}_iops"] * _COPY_BYTES))
            if f"{key}_bytes_per_s" in volume.rates:
                rates.append(float(volume.rates[f"{key}_bytes_per_s"]))
    copy_s = unit.bytes / min(rates) if rates and unit.bytes is not None else None
    return Move(
        what=unit.key, kind=unit.kind, names=unit.names, to=to, bytes=unit.bytes, copy_s=copy_s,
        **{"from": unit.volume},
    )  # fmt: skip


# --- units that may move ----------------------------------------------------------------------------------------------


def size_of(one: CapturedObject) -> int | None:
    return one.bytes_at_end if one.bytes_at_end is not None else one.bytes_at_start


def _units(question: Question) -> list[Unit]:
    """The units that may move. They are sorted by their shares of their volumes' load. The unit with the largest share
    comes first.
    """
    capture, shares = question.capture, _shares(question)
    own = ENGINES[capture.manifest.engine].own_schemas
    together = any(row.object == ALL_TABLES for row in capture.io)
    parts: dict[tuple[str, Kind, tuple[str, ...]], list[CapturedObject]] = defaultdict(list)
    objects = {one.id: one for one in capture.manifest.objects}
    for one in objects.values():
        owner = objects.get(one.id.removesuffix(TOAST), one)
        if one.kind in ("log", "temporary"):
            parts[LOG if one.kind == "log" else TEMPORARY, one.kind, ()].append(one)
        elif one.id == ALL_TABLES or (together and one.kind in SINGLE and owner.schema_ not in own):
            parts[TABLES, "table", ()].append(one)
        elif one.kind in SINGLE and owner.schema_ not in own:
            names = tuple(filter(None, (owner.schema_, owner.name)))
            alone = owner.name not in _TAKEN and sum(other.name == owner.name for other in objects.values()) == 1
            parts[escape(owner.name if alone else ".".join(names)), owner.kind, names].append(one)
    units = []
    for (key, kind, names), some in parts.items():
        places = {one.volume for one in some}
        if len(places) > 1:
            continue  # the unit stays, because its parts are on several volumes
        sizes = [size for one in some if (size := size_of(one)) is not None]
        share = max(sum(shares[one.id][way] for one in some) for way in _WAYS)
        ids = frozenset(one.id for one in some)
        units.append(Unit(key, kind, names, ids, places.pop(), sum(sizes) if sizes else None, share))
    return sorted(units, key=lambda one: -one.share)


_WAYS = ("reads", "writes", "bytes")
_TAKEN = (LOG, TEMPORARY, TABLES, INDEXES)
"""Words that can't be the name of a single table, because each of them means more than one table."""


def _shares(question: Question) -> dict[str, dict[str, float]]:
    """For each object: its fractions of the reads, writes and bytes of its volume."""
    demands, volume_of = question.demands, model.present(question.capture).places
    of_object: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(_WAYS, 0.0))
    of_volume: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(_WAYS, 0.0))
    for need in demands.needs:
        way = "reads" if need.way in ("read", "background_reads") else "writes"
        times = 1.0 if need.way in BY_SECOND else demands.per_s
        for sums in (of_object[need.object.id], of_volume[volume_of[need.object.id]]):
            sums[way] += need.amount.requests * times
            sums["bytes"] += need.amount.bytes * times
    found: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(_WAYS, 0.0))
    for name, sums in of_object.items():
        whole = of_volume[volume_of[name]]
        found[name] = {way: sums[way] / whole[way] if whole[way] else 0.0 for way in _WAYS}
    return found
