"""Drafts of specs. A draft for a running server is either a new spec or a completed ready-made spec. A draft can also
be made from the answers to three questions. `plan` accepts a draft unchanged. Comments in the draft say what to change,
and what was left out.
"""

from __future__ import annotations

import math
import os
import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from storagelab.errors import SpecError
from storagelab.experiments import with_schema
from storagelab.machine.disks import Mount, mount_of, mounts_here
from storagelab.machine.host import free_bytes
from storagelab.model.engines import ENGINES
from storagelab.servers.attached import RunningServer
from storagelab.servers.space import memory_here
from storagelab.spec.keys import value_text
from storagelab.words.numbers import bytes_

HERE = "."
_DECIDE = "To decide by the results: repetitions = 5."
LOADS = {
    "pgbench": 'kind = "pgbench"\nscale = 10            # 100 = about 1.5 GB\nscripts = ["tpcb-like"]\n'
    'duration = "30s"\nwarm_up = "auto"      # until throughput has settled; whole checkpoint cycles count\n'
    'warm_up_at_most = "60s"\n',
    "sysbench": 'kind = "sysbench"\nscript = "oltp_read_write"\ntables = 4\ntable_size = 100_000\nduration = "150s"\n'
    'warm_up = "10s"\n',
    "inserts": 'kind = "random-insert"\nrows_per_connection = 20_000\nrows_per_transaction = 1_000\n',
}
_SHORT_CYCLES = """[target.settings]
checkpoint_timeout = "30s"  # so that runs of a minute count whole checkpoint cycles; the default is "5min"
"""
_CYCLES = 5
"""If a run of fixed length has at least this many checkpoint cycles, it hardly matters where in a cycle it starts."""
PRIVATE = tuple(name for name, engine in ENGINES.items() if engine.generators)
"""The engines for which a draft can be made, because they have load generators."""


class Volume(NamedTuple):
    """A volume of a draft. `holds` are comment lines, e.g. about the files that a running server has there."""

    name: str
    path: str
    holds: tuple[str, ...] = ()


class Draft(NamedTuple):
    """The parts of a draft. `now` has the volumes of the running server's data and log, or None if they are unknown."""

    head: Sequence[str]
    question: str
    target: Mapping[str, object]
    settings: str
    volumes: Sequence[Volume]
    load: str
    now: tuple[str, str] | None = None

    def text(self) -> str:
        parts = [
            "".join(f"# {line}\n" if line else "#\n" for line in self.head),
            f'name = "my-server"\nquestion = {value_text(self.question)}\nrepetitions = 3\n',
            "[target]\n"
            + "".join(f"{key} = {value_text(value)}\n" for key, value in self.target.items())
            + self.settings,
            *(_volume(one) for one in self.volumes),
            *([f'[layout]\ndata = ["{self._data}"]\nlog = "{self._data}"\n'] if self.volumes else []),
            f"[workload]\n{LOADS[self.load]}connections = 8\n",
            f"[factors]\n{self._factors()}",
        ]
        return with_schema("\n".join(parts))

    @property
    def _data(self) -> str:
        return self.now[0] if self.now is not None else self.volumes[0].name

    def _factors(self) -> str:
        if not self.volumes:
            return '"workload.connections" = [4, 8, 16]\n'
        if len(self.volumes) == 1:
            return '"layout.data_files" = [1, 4]\n'
        names = [one.name for one in self.volumes]
        levels = {(name, name): f"all on {name}" for name in names} | {(names[0], names[1]): f"log on {names[1]}"}
        if self.now is not None:
            levels = {self.now: "as now"} | {places: label for places, label in levels.items() if places != self.now}
        return "layout = [\n" + "".join(_level(label, *places) for places, label in levels.items()) + "]\n"


def _level(label: str, data: str, log: str) -> str:
    return f'  {{ label = {value_text(label)}, "layout.data" = ["{data}"], "layout.log" = "{log}" }},\n'


def _volume(one: Volume) -> str:
    holds = "".join(f"# {line}\n" for line in one.holds)
    return f"[volumes.{one.name}]\n{holds}path = {value_text(one.path)}\n"


def _settings(found: RunningServer, own: Mapping[str, object]) -> str:
    """The table of settings. It has the server's settings, and those `own` settings of the spec that the server does
    not have. Comments list the settings that were left out.
    """
    settings = {**{name: value for name, value in own.items() if name not in found.asked}, **found.settings}
    lines = [
        f"{name if _BARE.fullmatch(name) else value_text(name)} = {value_text(value)}"
        for name, value in settings.items()
    ]
    wrapped = (textwrap.fill(line, 118, initial_indent="# - ", subsequent_indent="#   ") for line in found.left_out)
    left = ["# Set on the server, but left out here:", *wrapped]
    return "\n".join(["[target.settings]", *lines, *(left if found.left_out else ()), ""])


# --- a server that runs -----------------------------------------------------------------------------------------------


def of_server(engine: str, found: RunningServer, variable: str) -> str:
    """The draft for a running server. If the server runs on this machine, the draft has a private server like it.
    Otherwise the draft measures the server itself, and the environment variable `variable` has its DSN.
    """
    holds = f"Its databases hold {bytes_(found.data_bytes)}."
    if not found.here:
        elsewhere = (
            f"{found.title}, on another machine. {holds} storagelab makes its own schema there, and drops this schema",
            f"after each run. The variable {variable} holds the server's DSN. The server's log stays where it is.",
            "",
            "Change: the load. To compare volumes, name folders of that machine, each with remote = true.",
            _DECIDE,
        )
        target: dict[str, object] = {"engine": engine, "dsn_env": variable}
        question = "With how many connections does my running server reach its highest throughput?"
        return Draft(elsewhere, question, target, "", (), ENGINES[engine].generators[0]).text()
    volumes, names = _volumes(found.places)
    head = (
        f"{found.title}, as it runs on this machine: the draft has a private server like it, on the same volumes.",
        f"storagelab only read from the running server, and changed nothing. {holds}",
        "",
        "Change: the load, to one like yours; the volumes, to those that you want to compare. To measure the running",
        f'server itself, replace bin_dir and settings by dsn_env = "{variable}", with the DSN in that variable; its '
        "log",
        "then stays where it is.",
        _DECIDE,
    )
    programs = {} if found.bin_dir is None else {"bin_dir": str(found.bin_dir)}
    now = (names["data"], names["log"]) if "data" in names else None
    question = "Which of this server's volumes suit its data and its log?"
    of = (volumes, ENGINES[engine].generators[0], now)
    text = Draft(head, question, {"engine": engine, **programs}, _settings(found, {}), *of).text()
    return _edited(text, _load_like(tomllib.loads(text), found, volumes[0].path), {})


def _volumes(places: Mapping[str, Path]) -> tuple[tuple[Volume, ...], dict[str, str]]:
    """A volume for each file system that has any of these folders, and the volume of each folder. The path of a volume
    is its mount point. If this user may not write there, or if it is the root file system, the path is the spec's
    folder.
    """
    mounts, by_mount = mounts_here(), dict[str, list[str]]()
    for name, folder in places.items():
        mount = mount_of(folder, mounts)
        by_mount.setdefault(mount.mount_point if mount is not None else "/", []).append(name)
    volumes = tuple(_volume_of(point, names, places) for point, names in by_mount.items())
    if not volumes:
        return (Volume("data", HERE),), {}
    return volumes, {name: names[0] for names in by_mount.values() for name in names}


def _volume_of(point: str, names: Sequence[str], places: Mapping[str, Path]) -> Volume:
    holds = tuple(f"now: {name} in {value_text(str(places[name]))}" for name in names)
    here = mount_of(HERE, mounts_here())
    if here is not None and here.mount_point == point:
        return Volume(names[0], HERE, (*holds, "This folder is on the same disk."))
    if point == "/" or not os.access(point, os.W_OK):
        return Volume(names[0], HERE, (*holds, "Change this to a folder on the same disk, in which you may write."))
    return Volume(names[0], point, holds)


# --- a ready-made spec for a running server ---------------------------------------------------------------------------

_SCALE_BYTES, _ROW_BYTES = 15 * 2**20, 250
"""The size in bytes of one unit of pgbench's scale, and of one row of sysbench with its index entries."""
_FEWEST, _OF_MEMORY, _OF_ROOM = 10, 3, 5
"""The smallest scale of pgbench. The data has at most _OF_MEMORY times the memory's size, and 1/_OF_ROOM of the free
space.
"""
_LEAST_ROOM = 4 * 2**30
"""Drives with less free space, such as a boot partition, are not proposed, because a log with its spare segments needs
1.5 GiB.
"""
_COUNTED_S = 60
_FOR_DATA = ("ext4", "xfs", "btrfs", "f2fs")
_OF_THE_SYSTEM = ("/boot", "/etc", "/dev", "/proc", "/sys", "/run", "/usr")


def filled(name: str, text: str, engine: str, found: RunningServer, variable: str) -> str:
    """A ready-made spec with this server's programs, settings and volumes, and with data of a similar size. Raises
    SpecError if the spec is for another engine, or for several engines.
    """
    spec = tomllib.loads(text)
    of_spec = spec.get("target", {}).get("engine")
    if of_spec != engine:
        what = f"is for {ENGINES[of_spec].title}" if of_spec else "compares engines, each with its own settings"
        hint = "Name a ready-made spec of that engine (storagelab init lists them), or none, for a draft."
        raise SpecError(f"{name} {what}, and the server is {found.title}", key="--from-server", hint=hint)
    if "dsn_env" in spec["target"]:
        changes: _Changes = {("target", "dsn_env"): variable}
        target = ""
    else:
        unseen = "# This user can't see the server's programs. Set bin_dir, or the version that `plan` shows is used.\n"
        programs = unseen if found.bin_dir is None else f"bin_dir = {value_text(str(found.bin_dir))}\n"
        changes = {("target", "settings"): None}
        target = programs + _settings(found, spec["target"].get("settings", {}))
    paths, notes = _places(spec, found)
    changes |= {(f"volumes.{one}", "path"): path for one, path in paths.items()}
    changes |= _load_like(spec, found, next(iter(paths.values()), HERE))
    where = "on this machine" if found.here else "on another machine: the runs measure this machine's drives"
    head = [
        f"# Filled in for {found.title}, which runs {where}. storagelab only read from it, and changed nothing.",
        f"# Its databases hold {bytes_(found.data_bytes)}. {found.sessions} sessions are open, and {found.working} of "
        "them work now.", "#",
    ]  # fmt: skip
    first, _, rest = _edited(text, changes, {"target": target, **notes}).partition("\n")
    return "\n".join([first, *head, rest])


_Changes = dict[tuple[str, str], object]
"""Maps a table and a key to the new value. None removes the key."""
_HEADER, _KEY, _BARE = re.compile(r"\[+([^\]]+)\]+"), re.compile(r'("[^"]+"|[\w-]+) = '), re.compile(r"[\w-]+")


def _edited(text: str, changes: _Changes, more: Mapping[str, str]) -> str:
    """The spec with the changed values, and with the lines of `more` at the ends of their tables. The rest stays
    unchanged.
    """
    table, lines, ends = "", list[str](), dict[str, int]()
    for line in text.splitlines():
        if header := _HEADER.match(line):
            table = header[1]
        if key := _KEY.match(line):
            place = (table, key[1].strip('"'))
            if place in changes and changes[place] is None:
                continue
            lines.append(f"{key[0]}{value_text(changes[place])}" if place in changes else line)
        else:
            lines.append(line)
        if line.strip() and not line.startswith("#"):
            ends[table] = len(lines)
    for name, at in sorted(ends.items(), key=lambda one: -one[1]):
        lines[at:at] = more.get(name, "").splitlines()
    return "\n".join(lines) + "\n"


def _places(spec: Mapping[str, Any], found: RunningServer) -> tuple[dict[str, str], dict[str, str]]:
    """Paths for the spec's volumes, and comments about them. The first volumes get the places of the server's files,
    and the next get other mounted drives.
    """
    kept = ("devices", "prepare")
    volumes = [
        name for name, one in spec["volumes"].items() if one["path"] == HERE and not any(key in one for key in kept)
    ]
    used = list(_volumes(found.places)[0]) if found.here and found.places else []
    used += [
        Volume("", mount.mount_point, ("No file of the server is here. Change this if it is not a volume to try.",))
        for mount in _other_mounts(found.places.values())
    ]
    used += [Volume("", used[0].path if used else HERE, ("Change this to a folder on the volume to try.",))] * len(
        volumes
    )
    given = dict(zip(volumes, used, strict=False))
    notes = {f"volumes.{name}": "".join(f"# {line}\n" for line in one.holds) for name, one in given.items()}
    return {name: one.path for name, one in given.items()}, notes


def _other_mounts(folders: Iterable[Path]) -> Iterator[Mount]:
    """Mounted drives that have none of these folders, enough free space, and a mount point where this user
    may write.
    """
    mounts = mounts_here()
    seen = {mount.device_numbers for folder in (*folders, Path("/")) if (mount := mount_of(folder, mounts))}
    for mount in mounts:
        is_drive = mount.source.startswith("/dev/") and mount.filesystem in _FOR_DATA and not mount.read_only
        is_system = mount.mount_point.startswith(_OF_THE_SYSTEM) or not os.path.isdir(mount.mount_point)
        is_usable = is_drive and not is_system and os.access(mount.mount_point, os.W_OK)
        if is_usable and mount.device_numbers not in seen and free_bytes(mount.mount_point) >= _LEAST_ROOM:
            seen.add(mount.device_numbers)
            yield mount


def _load_like(spec: Mapping[str, Any], found: RunningServer, place: str) -> _Changes:
    """Changes of the load, so that its data is about as large as the server's, and that its times contain whole
    checkpoint cycles of the server.
    """
    load, changes = spec["workload"], _Changes()
    room, memory = free_bytes(Path(place)), memory_here()
    wanted = min(found.data_bytes, _OF_MEMORY * (memory or found.data_bytes), room // _OF_ROOM)
    scale = max(_FEWEST, round(wanted / _SCALE_BYTES))
    if "workload.scale" in spec["factors"]:
        changes["factors", "workload.scale"] = [max(1, scale // 10), scale]
    elif load["kind"] == "pgbench":
        changes["workload", "scale"] = scale
    elif load["kind"] == "sysbench":
        changes["workload", "table_size"] = max(10_000, round(wanted / _ROW_BYTES / load["tables"], -4))
    for name, volume in spec["volumes"].items():
        if "file" in volume:
            changes[f"volumes.{name}", "file"] = f"{math.ceil((3 * scale * _SCALE_BYTES >> 30) + 4)}GiB"
    if found.checkpoint_s is not None and load.get("warm_up") == "auto":
        changes["workload", "duration"] = f"{_COUNTED_S}s"
        changes["workload", "warm_up_at_most"] = f"{math.ceil(max(_COUNTED_S, 2 * found.checkpoint_s - _COUNTED_S))}s"
    elif found.checkpoint_s is not None and load["kind"] == "sysbench":
        changes["workload", "duration"] = f"{math.ceil(_CYCLES * found.checkpoint_s)}s"
    return changes


# --- from three answers -----------------------------------------------------------------------------------------------


def of_answers(engine: str, paths: Sequence[str], load: str) -> str:
    """The draft for a private server with one volume at each of these paths."""
    volumes = tuple(Volume(f"volume{number}", path) for number, path in enumerate(paths, 1))
    head = (
        f"A private {ENGINES[engine].title}: storagelab starts it for each run, and removes it afterwards.",
        "",
        f"Change: the settings, to those of your server, such as {{ {ENGINES[engine].memory_setting} }}; the size of "
        "the load.",
        _DECIDE,
    )
    settings = _SHORT_CYCLES if engine == "postgres" else ""
    return Draft(head, "Which of these volumes suit data and log?", {"engine": engine}, settings, volumes, load).text()
