"""Properties that help to choose a drive: its space in each format, the host memory for its map, its requests per
second, and its price if the profile has one.

Requests per second are simulated. Random requests of 8 KB, 32 in progress, are sent to a drive that was fully written
once."""

from __future__ import annotations

import json

from storagelab import _sim
from storagelab.errors import PreflightError
from storagelab.model.values import Frozen
from storagelab.profiles import FlashProfile, Profile

_SCALE = 64
_DURATION_S = 64.0
_BLOCK_BYTES = 8192
OUTSTANDING = 32
_SEED = 1


class MapOfDrive(Frozen):
    """The host memory for the map of two drives: one that is full of database pages, and one whose sectors were written
    one by one.
    """

    sector_bytes: int
    driver: str
    format: str
    pages_bytes: float
    worst_bytes: float


class Capacity(Frozen):
    """The figures of one format. A disk has a single format without a name. Rates count random requests of 8 KB."""

    format: str
    usable_bytes: int
    reads_per_s: float
    writes_per_s: float


class Sizing(Frozen):
    price_usd: float | None
    capacities: tuple[Capacity, ...]
    maps: tuple[MapOfDrive, ...]


def sizing(profile: Profile) -> Sizing:
    """Returns the properties of the drive. Takes a fraction of a second per format. Raises PreflightError if the core
    refuses the profile.
    """
    price = profile.price_usd
    return Sizing(
        price_usd=None if price is None else float(price.value),
        capacities=tuple(
            Capacity(
                format=name,
                usable_bytes=profile.usable_bytes(name),
                reads_per_s=_ios_per_s(profile, name, "read"),
                writes_per_s=_ios_per_s(profile, name, "write"),
            )
            for name in profile.formats or ("",)
        ),
        maps=tuple(_maps(profile)) if isinstance(profile, FlashProfile) else (),
    )


def _maps(profile: FlashProfile) -> list[MapOfDrive]:
    return [
        MapOfDrive(
            sector_bytes=size,
            driver=driver,
            format=name,
            pages_bytes=profile.map_bytes(float(usable.value), driver, size),
            worst_bytes=profile.map_bytes(float(usable.value), driver, size, extent_bytes=size),
        )
        for size in profile.sectors
        for driver in profile.drivers
        for name, usable in profile.formats.items()
        if profile.map_bytes(float(usable.value), driver, size) > 0
    ]


def _ios_per_s(profile: Profile, name: str, access: str) -> float:
    drive: dict[str, object] = {"profile": profile.model_dump(exclude_none=True, exclude={"price_usd"})}
    if isinstance(profile, FlashProfile):
        drive |= {"format": name, "driver": list(profile.drivers)[-1], "sector_bytes": profile.sectors[0]}
    test = {
        "volume": "a", "access": access, "pattern": "random", "block_bytes": _BLOCK_BYTES, "outstanding": OUTSTANDING,
        "duration_s": _DURATION_S, "warm_up_s": _DURATION_S / 4, "seed": _SEED,
    }  # fmt: skip
    content = {
        "scale": _SCALE,
        "seed": _SEED,
        "drives": {"a": drive},
        "volumes": {"a": {"drives": ["a"]}},
        "tests": [test],
    }
    try:
        text = _sim.RawBlock(json.dumps(content)).run_next()
    except _sim.Refused as refusal:
        raise PreflightError(refusal.what) from None
    assert text is not None
    return float(json.loads(text)["ios_per_s"])
