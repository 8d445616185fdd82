"""Doubts about a fleet: hosts that are not alike, by the manifests of their runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from storagelab.findings import caution_kinds as kinds
from storagelab.findings.evidence import Evidence
from storagelab.model.measurement import host_of

HOST = (
    "cpu_model", "cpu_count", "memory_bytes", "architecture", "operating_system", "kernel", "hypervisor", "cpu_governor",
    "transparent_hugepages",
)  # fmt: skip
SERVER = ("version",)
VOLUME = ("filesystem", "device_model", "device_vendor", "device_driver", "virtual", "in_memory")
QUEUE = ("rotational", "scheduler", "write_cache")
"""What a manifest says of each part that another host should share. Names and places of devices are a host's own."""
MEMORY_UNIT = 2**30
"""Hosts with as much memory built in differ by what their firmware keeps."""


def unlike_hosts(evidence: Evidence) -> Iterator[kinds.UnlikeHosts]:
    """One for all that differs, if runs were made on several hosts."""
    facts_of: dict[str, dict[str, str]] = {}
    for _, run, measurement in evidence.measurements():
        name = host_of(run)
        if name not in facts_of:
            facts_of[name] = dict(_facts(measurement.environment))
    if len(facts_of) < 2 or evidence.provenance != "measured":
        return
    names = list(dict.fromkeys(fact for facts in facts_of.values() for fact in facts))
    differs = []
    for fact in names:
        hosts_with: dict[str, list[str]] = {}
        for host, facts in sorted(facts_of.items()):
            hosts_with.setdefault(facts.get(fact, ""), []).append(host)
        if len(hosts_with) > 1:
            differs.append(
                kinds.Unlike(
                    fact=fact, values=tuple((value, tuple(hosts)) for value, hosts in hosts_with.items())
                )
            )  # fmt: skip
    if differs:
        yield kinds.UnlikeHosts(differs=tuple(differs))


def _facts(environment: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """What should be alike, by name; each value as text."""
    yield from _of("host", environment.get("host"), HOST)
    yield from _of("server", environment.get("server"), SERVER)
    volumes = environment.get("volumes")
    for name, volume in volumes.items() if isinstance(volumes, Mapping) else ():
        if isinstance(volume, Mapping):
            yield from _of(f"volume {name}", volume, VOLUME)
            yield from _of(f"volume {name}", volume.get("queue"), QUEUE)


def _of(part: str, facts: object, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if not isinstance(facts, Mapping):
        return
    for name in names:
        value = facts.get(name)
        if name.endswith("_bytes") and isinstance(value, int | float):
            value = round(value / MEMORY_UNIT) * MEMORY_UNIT
        yield f"{part}: {name}", "" if value is None else str(value)


CHECKS = (unlike_hosts,)
