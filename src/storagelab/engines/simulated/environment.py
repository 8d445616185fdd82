"""A simulated run's environment: the scenario's server and drives, and the simulator; nothing about this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storagelab.engines.simulated.scenario import switches_set
from storagelab.model.config import Config, VolumeConfig
from storagelab.version import __version__


def describe(content: Mapping[str, Any], config: Config) -> dict[str, object]:
    """A block's environment, from its scenario `content`: only the costs and switches that the spec sets, and
    identical drives once.
    """
    singles = config.single_drives
    drives = {singles.get(name, name): _drive(drive) for name, drive in content["drives"].items()}
    for name, drive in drives.items():
        if name in config.drives and config.drives[name].count > 1:
            drive["count"] = config.drives[name].count
    return {
        "storagelab": {"version": __version__},
        "server": {
            "engine": "raw I/O on simulated drives",
            "scale": config.target.world_scale,
            "prepared": content.get("prepared", "filled"),
        }
        if config.target.raw_io
        else _server(config),
        "drives": drives,
        "volumes": {name: _volume(volume, config.volumes[name]) for name, volume in content["volumes"].items()},
    }


def _server(config: Config) -> dict[str, object]:
    server = config.server
    assert server is not None
    return {
        "engine": "simulated server",
        "cores": server.cores,
        "memory_bytes": server.memory_bytes,
        "scale": config.target.world_scale,
        "switches": switches_set(server),
        "costs": server.costs,
    }


def _volume(volume: Mapping[str, Any], declared: VolumeConfig) -> dict[str, object]:
    """The spec's common name for identical drives."""
    facts = {
        name: value for name, value in volume.items() if name in ("raid", "stripe_bytes", "arrays", "offset_bytes")
    }
    for name in ("cache", "link"):
        if name in volume:
            facts |= {f"{name}_{figure}": value for figure, value in volume[name].items()} or {
                name: "with its defaults"
            }
    lost = {"lost": ", ".join(declared.lost)} if declared.lost else {}
    return {"drives": ", ".join(declared.drives or ()), **facts, **lost}


_HISTORIES = {
    "formatted": "none: as it comes from the factory",
    "filled": "every address written once, in order",
    "aged": "years of writes at random",
}


def _drive(drive: Mapping[str, Any]) -> dict[str, object]:
    profile = drive["profile"]
    if profile["kind"] == "disk":
        return {
            "title": profile["title"],
            "profile": profile["name"],
            "usable_bytes": profile["platters"]["usable_bytes"]["value"],
            "sector_bytes": profile["platters"]["sector_bytes"]["value"],
            "order": drive["order"] or profile["electronics"]["order"]["value"],
        }
    if profile["kind"] != "flash":
        host = profile["host"]
        sizes = {name: host[name]["value"] for name in ("usable_bytes", "sector_bytes")}
        return {"title": profile["title"], "profile": profile["name"], **sizes}
    history = {"history": _HISTORIES[drive["history"]]} if "history" in drive else {}
    return {
        "title": profile["title"],
        "profile": profile["name"],
        "format": f"{drive['format']}, by the operating system alone" if history else drive["format"],
        **history,
        "usable_bytes": profile["formats"][drive["format"]]["value"],
        "driver": drive["driver"],
        "sector_bytes": drive["sector_bytes"],
        "trim": profile["trim"]["value"] if drive["trim"] is None else drive["trim"],
    }
