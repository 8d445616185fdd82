"""A campaign -> what may be shared of it. Nothing is copied but what is known to be harmless: numbers, and listed words."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from storagelab.errors import StoreError
from storagelab.findings.model import Findings
from storagelab.gallery.entry import Drive, Entry, Host, Layout, SharedFactor, Verdict
from storagelab.model.config import Config
from storagelab.model.engines import ENGINES
from storagelab.model.measurement import Run
from storagelab.model.objects import KEY
from storagelab.model.plan import Experiment, Factor, Plan
from storagelab.provisioning.cloud_disks import disks as cloud_disks
from storagelab.version import __version__

_WORDS = {
    "ext4", "xfs", "btrfs", "zfs", "none", "mq-deadline", "kyber", "bfq", "worker", "sync", "io_uring", "fsync",
    "fdatasync", "open_datasync", "open_sync", "O_DIRECT", "O_DSYNC", "O_DIRECT_NO_FSYNC", "pglz", "lz4", "zstd", "minimal",
    "replica", "logical", "local", "remote_write", "remote_apply", "on", "off", "true", "false", "read", "write", "random",
    "sequential", "mixed", "rebuild", "template", "tpcb-like", "simple-update", "select-only", "oltp_read_write",
    "oltp_read_only", "oltp_write_only", "oltp_insert", "oltp_point_select", "defaults", "noatime", "relatime", "throughput",
    "p50", "p95", "p99", "mean", "random-insert", "sequential-insert", "pgbench", "sysbench", "sql", "raw-io", "auto",
    "simple", "extended", "prepared",
}  # fmt: skip
"""Values of keys that say nothing of who measured."""
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)? ?([kKMGT]i?B?|B|us|ms|s|min|h|d)?")
_SETTING = re.compile(r"target\.settings\.[a-z][a-z0-9_]{0,50}")
_PLACES = re.compile(r"layout\.(data|log|tables|indexes|temp|objects\..+)")
_OF_VOLUME = re.compile(r"volumes\.[^.]+\.([a-z_.]+)")
_SHORTEST_SECRET = 4
"""Shorter names occur in words by chance."""


def entry_of(experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings) -> Entry:
    """Raises StoreError if there is nothing to share."""
    if findings.provenance != "measured":
        raise StoreError("only measured campaigns are shared\n  anybody can simulate a spec again: share the spec")
    if not any(cell.cell_id in (findings.best, *findings.tied) for cell in findings.cells) and not findings.comparisons:
        raise StoreError("nothing was judged in this campaign\n  `storagelab report` says why; run it to its end")
    configs = [cell.config for cell in plan.cells]
    environments = [run.measurement.environment for run in runs if run.measurement is not None]
    factors = [_factor(number, factor, configs[0]) for number, factor in enumerate(experiment.factors, start=1)]
    engines = {config.target.engine for config in configs}
    entry = Entry(
        storagelab=__version__,
        month=min(run.started_at for run in runs)[:7],
        engine=engines.pop() if len(engines) == 1 else "several",
        version=_version(environments),
        load=_load(configs),
        settings=_settings(configs),
        drive=_drive(experiment, configs, environments),
        host=_host(environments),
        factors=tuple(SharedFactor(name=name, levels=tuple(levels)) for name, levels in factors),
        repetitions=experiment.repetitions,
        layouts=tuple(_layouts(experiment, findings, factors)),
        cautions=tuple(sorted({one.kind for one in findings.cautions})),
    )
    refuse_names(entry.model_dump_json(), names_in(experiment, environments))
    return entry


# --- the parts -------------------------------------------------------------------------------------------------------


def _shared_value(value: object) -> bool | int | float | str | None:
    """The value, if it says nothing of who measured; else None."""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str) and (value in _WORDS or value in ENGINES or value in cloud_disks()):
        return value
    return value if isinstance(value, str) and _QUANTITY.fullmatch(value) else None


def _factor(number: int, factor: Factor, config: Config) -> tuple[str, list[Any]]:
    """A factor's name and its levels. Names of volumes become numbers; what a user called things, its place."""
    paths = list(dict.fromkeys(path for level in factor.levels for path in level.sets))
    volumes = list(config.volumes)
    known = [_name_of(path) for path in paths]
    levels: list[Any] = []
    for place, level in enumerate(factor.levels, start=1):
        values = [_level_value(path, value, volumes) for path, value in level.sets.items()]
        same = set(map(str, values))
        levels.append(values[0] if len(same) == 1 and None not in values else f"level {place}")
    if len(set(map(str, levels))) < len(levels):
        levels = [f"level {place}" for place in range(1, len(levels) + 1)]
    name = known[0] if known and len(set(known)) == 1 and known[0] else f"factor-{number}"
    return name, levels


def _name_of(path: str) -> str:
    if found := _OF_VOLUME.fullmatch(path):
        return f"volume.{found[1]}"
    if path.startswith(f"{KEY}."):
        return KEY  # what follows is the name of a user's table
    listed = path.startswith(("layout.", "workload.", "between_runs.", "target.engine", "target.bin_dir"))
    return path if listed or _SETTING.fullmatch(path) else ""


def _level_value(path: str, value: object, volumes: Sequence[str]) -> bool | int | float | str | None:
    if _PLACES.fullmatch(path):
        listed = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []
        numbers = [str(volumes.index(one) + 1) for one in listed if one in volumes]
        return "volume " + "+".join(numbers) if numbers and len(numbers) == len(listed) else None
    return _shared_value(value)


def _load(configs: Sequence[Config]) -> dict[str, Any]:
    """What is the same in all cells, of the load's keys."""
    found: dict[str, Any] = {}
    loads = [config.workload.model_dump(exclude_none=True) for config in configs]
    for key, value in loads[0].items():
        if all(load.get(key) == value for load in loads):
            one = value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
            found[key] = shared if (shared := _shared_value(one)) is not None else "of its own"
    return {key: value for key, value in found.items() if re.fullmatch(r"[a-z_0-9]+", key)}


def _settings(configs: Sequence[Config]) -> dict[str, Any]:
    """The server's settings by the spec that are the same in all cells, as far as they are numbers or known words."""
    tables = [config.target.settings for config in configs]
    return {
        name: shared
        for name, value in tables[0].items()
        if all(table.get(name) == value for table in tables)
        and re.fullmatch(r"[a-z][a-z0-9_]{0,50}", name)
        and (shared := _shared_value(value)) is not None
    }


def _version(environments: Sequence[Mapping[str, Any]]) -> str:
    texts = {str(_table(one, "server").get("version", "")) for one in environments}
    found = {match[0] if (match := re.match(r"[0-9]+(\.[0-9]+){0,2}", text)) else "unknown" for text in texts}
    return found.pop() if len(found) == 1 else "varies" if found else "unknown"


def _host(environments: Sequence[Mapping[str, Any]]) -> Host:
    host = next((_table(one, part) for one in environments for part in ("host", "client") if part in one), {})
    architecture = str(host.get("architecture"))
    return Host(
        cpus=_number(host.get("cpu_count")) or 1,
        memory_gib=round((_number(host.get("memory_bytes")) or 0) / 2**30),
        architecture=architecture if architecture in ("x86_64", "aarch64", "arm64", "ppc64le", "s390x") else "other",
        virtual=bool(host.get("virtual_machine")),
    )


def _drive(experiment: Experiment, configs: Sequence[Config], environments: Sequence[Mapping[str, Any]]) -> Drive:
    """Of the first volume that holds data."""
    config = configs[0]
    name = next(iter(config.data_volumes), next(iter(config.volumes), ""))
    declared = config.volumes.get(name)
    facts = next((_table(one, "volumes", name) for one in environments if _table(one, "volumes", name)), {})
    varied = {_name_of(path) for factor in experiment.factors for level in factor.levels for path in level.sets}
    filesystem = str((declared.filesystem if declared else None) or facts.get("filesystem"))
    limit = declared.limit if declared else None
    like = limit.like if limit is not None else None
    if any(one.startswith("volume.limit") for one in varied):
        limited = "varies"
    else:
        limited = "none" if limit is None else like if like in cloud_disks() else "own figures"
    return Drive(
        kind=_kind_of_drive(facts),
        made_of_file=declared is not None and declared.file_bytes is not None,
        filesystem="varies" if "volume.filesystem" in varied else filesystem if filesystem in _WORDS else "other",
        limit=limited or "none",
    )


def _kind_of_drive(facts: Mapping[str, Any]) -> Any:
    if facts.get("claim"):
        return "claim"
    if facts.get("in_memory"):
        return "memory"
    if str(facts.get("filesystem")) in ("nfs", "nfs4", "cifs", "ceph", "glusterfs"):
        return "network"
    if facts.get("virtual"):
        return "virtual disk"
    device = str(facts.get("device") or "")
    return "NVMe" if device.startswith("nvme") else "SATA or SAS" if device.startswith("sd") else "unknown"


def _layouts(
    experiment: Experiment, findings: Findings, factors: Sequence[tuple[str, Sequence[Any]]]
) -> Iterator[Layout]:
    compared = {one.cell_id: one for one in findings.comparisons}
    best = {one.best_cell_id for one in findings.comparisons} | ({findings.best} if findings.best else set())
    for cell in findings.cells:
        levels = {}
        for factor, (name, shared) in zip(experiment.factors, factors, strict=True):
            place = next(n for n, level in enumerate(factor.levels) if level.value == cell.levels[factor.name])
            levels[name] = shared[place]
        one = compared.get(cell.cell_id)
        if cell.cell_id in best:
            yield Layout(levels=levels, verdict="best", ratio=1.0)
        elif one is None or one.across_blocks or one.p_value is None or not math.isfinite(one.ratio.high or math.inf):
            yield Layout(levels=levels, verdict="not compared")
        else:
            verdict: Verdict = "slower" if one.distinguishable else "tied"
            low, high = one.ratio.low, one.ratio.high
            assert low is not None
            assert high is not None
            yield Layout(
                levels=levels, verdict=verdict, ratio=round(one.ratio.value, 4), low=round(low, 4), high=round(high, 4)
            )


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def _table(one: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        below = one.get(name)
        one = below if isinstance(below, Mapping) else {}
    return one


# --- a second look ---------------------------------------------------------------------------------------------------


def names_in(experiment: Experiment, environments: Iterable[Mapping[str, Any]]) -> set[str]:
    """Names of hosts, users, files and servers that a campaign knows of, and of this machine."""
    found = {os.uname().nodename, os.environ.get("USER", ""), os.environ.get("HOME", ""), experiment.source}
    for one in environments:
        host, server = _table(one, "host"), _table(one, "server")
        found |= {str(host.get(key) or "") for key in ("hostname", "name")}
        found |= {str(server.get(key) or "") for key in ("host", "user", "database", "dsn", "socket", "bin_dir")}
        found |= {str(part) for part in _table(host, "kubernetes").values() if isinstance(part, str)}
        for volume in _table(one, "volumes").values():
            if isinstance(volume, Mapping):
                found |= {str(volume.get(key) or "") for key in ("path", "mount_point", "source")}
    return {name for name in found if len(name) >= _SHORTEST_SECRET and name not in {*_WORDS, *ENGINES}}


def refuse_names(text: str, names: Iterable[str]) -> None:
    """Raises StoreError if a text that is to be shared holds one of the names."""
    for name in sorted(names):
        if re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", text):
            raise StoreError(f"what would be shared holds {name!r}, which may be a name\n  nothing was written")
