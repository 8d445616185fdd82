"""Drafts of specs: for a server that runs, or from the answers to three questions.

A draft plans at once, and its comments say what to change.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from storagelab.experiments import with_schema
from storagelab.machine.disks import mount_of, mounts_here
from storagelab.model.engines import ENGINES
from storagelab.targets.found import Found
from storagelab.words.numbers import bytes_

HERE = "."
_DECIDE = 'For figures to decide by: duration = "300s", warm_up = "60s", repetitions = 5.'
LOADS = {
    "pgbench": 'kind = "pgbench"\nscale = 10            # 100 = about 1.5 GB\nscripts = ["tpcb-like"]',
    "sysbench": 'kind = "sysbench"\nscript = "oltp_read_write"\ntables = 4\ntable_size = 100_000',
    "inserts": 'kind = "random-insert"\nrows_per_connection = 20_000\nrows_per_transaction = 1_000',
}
_TIMED = 'duration = "8s"\nwarm_up = "2s"'
LOAD_OF = {"postgres": "pgbench", "mariadb": "sysbench"}
"""The load of an engine unless another is asked for."""


class Volume(NamedTuple):
    """A volume of a draft; `holds` says what a running server keeps there."""

    name: str
    path: str
    holds: tuple[str, ...] = ()


class Draft(NamedTuple):
    """A spec in the making. `now`: the volumes that hold data and log today; None if nothing is known of that."""

    head: Sequence[str]
    question: str
    target: Mapping[str, object]
    volumes: Sequence[Volume]
    load: str
    now: tuple[str, str] | None = None

    def text(self) -> str:
        parts = [
            "".join(f"# {line}\n" if line else "#\n" for line in self.head),
            f'name = "my-server"\nquestion = {_toml(self.question)}\nrepetitions = 3\n',
            "[target]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in self.target.items()),
            *(_volume(one) for one in self.volumes),
            *([f'[layout]\ndata = ["{self._data}"]\nlog = "{self._data}"\n'] if self.volumes else []),
            f"[workload]\n{LOADS[self.load]}\nconnections = 8\n" + ("" if self.load == "inserts" else f"{_TIMED}\n"),
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
    return f'  {{ label = {_toml(label)}, "layout.data" = ["{data}"], "layout.log" = "{log}" }},\n'


def _volume(one: Volume) -> str:
    holds = "".join(f"# {line}\n" for line in one.holds)
    return f"[volumes.{one.name}]\n{holds}path = {_toml(one.path)}\n"


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{name} = {_toml(one)}" for name, one in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return json.dumps(value, ensure_ascii=False)


# --- a server that runs -----------------------------------------------------------------------------------------------


def of_server(engine: str, found: Found, variable: str) -> str:
    """The draft for a running server: a private one like it, if it runs on this machine; else the server itself, whose
    DSN is in this variable of the environment.
    """
    holds = f"Its databases hold {bytes_(found.data_bytes)}."
    if not found.here:
        elsewhere = (
            f"{found.title}, on another machine. {holds} storagelab makes a schema of its own there, and drops it",
            f"after each run. The variable {variable} holds its DSN. Its log stays where it is.",
            "",
            "Change: the load. To compare volumes, name folders of that machine, each with remote = true.",
            _DECIDE,
        )
        target: dict[str, object] = {"engine": engine, "dsn_env": variable}
        question = "How many connections does my running server serve best?"
        return Draft(elsewhere, question, target, (), LOAD_OF[engine]).text()
    volumes, names = _volumes(found.places)
    head = (
        f"{found.title}, as it runs on this machine: a private server with the same settings, on the same volumes.",
        f"The running one was only asked, and stays as it is. {holds}",
        "",
        "Change: the load, to one like yours; the volumes, to those that you want to compare. To measure the running",
        f'server itself, replace bin_dir and settings by dsn_env = "{variable}", with the DSN in that variable; its '
        "log",
        "then stays where it is.",
        _DECIDE,
    )
    programs = {} if found.bin_dir is None else {"bin_dir": str(found.bin_dir)}
    target = {"engine": engine, **programs, "settings": found.settings}
    now = (names["data"], names["log"]) if "data" in names else None
    return Draft(
        head, "Which of this server's volumes suit its data and its log?", target, volumes, LOAD_OF[engine], now
    ).text()


def _volumes(places: Mapping[str, Path]) -> tuple[tuple[Volume, ...], dict[str, str]]:
    """A volume for each file system that holds any of these folders; and each folder's volume. A volume is the mount
    point, or, where this user may not write there or it is the whole machine's, the folder of the spec.
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
    holds = tuple(f"now: {name} in {_toml(str(places[name]))}" for name in names)
    if point == "/" or not os.access(point, os.W_OK):
        return Volume(names[0], HERE, (*holds, "Change this to a folder on the same disk, in which you may write."))
    return Volume(names[0], point, holds)


# --- three answers ----------------------------------------------------------------------------------------------------


def of_answers(engine: str, paths: Sequence[str], load: str) -> str:
    """The draft for a private server on these paths."""
    volumes = tuple(Volume(f"volume{number}", path) for number, path in enumerate(paths, 1))
    head = (
        f"A private {ENGINES[engine].title}: storagelab starts it for each run, and removes it afterwards.",
        "",
        'Change: the settings, to those of your server, such as settings = { shared_buffers = "8GB" }; the size of '
        "the load."
        if engine == "postgres"
        else "Change: the settings, to those of your server; the size of the load.",
        _DECIDE,
    )
    return Draft(head, "Which of these volumes suit data and log?", {"engine": engine}, volumes, load).text()
