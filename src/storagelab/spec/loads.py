"""Loads of a generator in a spec: scripts with weights, and the rules between the keys of one cell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from storagelab.errors import SpecError
from storagelab.model.config import Config
from storagelab.model.workload import GeneratedLoad, Pgbench, Sql, Sysbench
from storagelab.spec.keys import choices, shown

ENGINES_OF = {"pgbench": ("postgres",), "sysbench": ("postgres", "mariadb"), "sql": ("postgres", "mariadb")}
"""The engines that a kind of load is for; one that is not listed is for all."""

BUILT_IN = ("tpcb-like", "simple-update", "select-only")
"""The names of pgbench's own scripts."""
SPREAD = ("pgbench_accounts",)
"""pgbench's big table."""
_WEIGHT = re.compile(r"[0-9]{1,9}")


class Script(NamedTuple):
    """A script by its name or file, and how often it is picked against the others."""

    name: str
    weight: int

    @property
    def built_in(self) -> bool:
        return self.name in BUILT_IN


def script_of(text: str) -> Script:
    """The script that `"select-only@9"` or `"order.sql"` means. Raises ValueError in words that follow the key."""
    name, at, weight = text.rpartition("@")
    if not at:
        name, weight = text, "1"
    if _WEIGHT.fullmatch(weight) is None or int(weight) == 0:
        raise ValueError(f"has the weight {weight or 'nothing'}, which must be a whole number of at least 1")
    if not name.strip() or "\0" in name:
        raise ValueError("names no script")
    return Script(name, int(weight))


def conflicts(config: Config, load: GeneratedLoad) -> Iterator[SpecError]:
    """What contradicts itself in a cell with a generated load."""
    yield from _length_conflicts(load)
    if load.threads > load.connections:
        hint = f"Set threads to at most {load.connections}, or raise connections."
        yield SpecError(
            f"{load.threads} threads can't share {load.connections} connections", key="workload.threads", hint=hint
        )
    if config.target.attached and config.between_runs.data == "template":
        yield from _attached_template_conflicts(config)
    if isinstance(load, Pgbench):
        yield from _pgbench_conflicts(config, load)
    if isinstance(load, Sql):
        yield from _sql_conflicts(config, load)
    if isinstance(load, Sysbench):
        yield from _sysbench_conflicts(load)
    if config.target.engine == "mariadb":
        for what in config.extra_volumes:
            hint = "Leave it out: InnoDB keeps indexes in the table's own files, which go to the data files."
            yield SpecError("is for PostgreSQL, and target.engine is mariadb", key=f"layout.{what}", hint=hint)
    for what, volume in config.extra_volumes.items():
        if volume in config.volumes and config.volumes[volume].remote:
            hint = "Name a volume of this machine, or leave it out."
            yield SpecError(
                "is a volume of another machine, where only data files can be put", key=f"layout.{what}", hint=hint
            )


def _attached_template_conflicts(config: Config) -> Iterator[SpecError]:
    """Why a server that already runs can't keep a template: its files can't be copied by others while it runs."""
    hint = "Leave it out, and the tables are made again for each run; or leave the DSN out, for a private server."
    if config.target.engine != "postgres":
        problem = (
            "can't be had here: MariaDB has no command that copies a database, as PostgreSQL has, and a server that "
        )
        problem += "already runs can't be shut down to have its files copied"
        yield SpecError(problem, key="between_runs.data", hint=hint)
    elif any(config.volumes[name].remote for name in config.data_volumes if name in config.volumes):
        problem = "needs volumes of this machine: each template has folders of its own, which storagelab makes"
        yield SpecError(problem, key="between_runs.data", hint=hint)


def _length_conflicts(load: GeneratedLoad) -> Iterator[SpecError]:
    """How long a run and its warm-up take."""
    timed = load.model_fields_set & {"duration_s", "warm_up_s", "warm_up_at_most_s"}
    if load.transactions_per_connection is not None and timed:
        yield SpecError(
            "conflicts with workload.transactions_per_connection",
            key=f"workload.{min(timed)}",
            hint="A run has a set time or a set number of transactions: keep one of them.",
        )
    elif load.warm_up_at_most_s is not None and load.warm_up_s != "auto":
        hint = 'Set warm_up = "auto", or leave it out.'
        yield SpecError("is for a warm-up that is to be found", key="workload.warm_up_at_most_s", hint=hint)


def _pgbench_conflicts(config: Config, load: Pgbench) -> Iterator[SpecError]:
    for number, text in enumerate(load.scripts, 1):
        key = f"workload.scripts[{number}]"
        try:
            script = script_of(text)
        except ValueError as error:
            hint = 'Write name@weight: scripts = ["select-only@9", "tpcb-like@1"].'
            yield SpecError(f"{shown(text)} {error}", key=key, hint=hint)
            continue
        if not script.built_in and not re.search(r"[./]", script.name):
            hint = choices(script.name, BUILT_IN, "A file's name has a dot or a slash in it; pgbench's own scripts are")
            yield SpecError(f"no script of pgbench's is named {shown(script.name)}", key=key, hint=hint)
    for name in config.layout.spread or ():
        if name not in SPREAD:
            hint = "Leave it out: pgbench_accounts is spread, the one big table of pgbench's."
            yield SpecError(f"pgbench spreads no table {shown(name)}", key="layout.spread", hint=hint)
    if load.latency_limit_s is not None and load.rate is None:
        hint = "Set a rate, or leave it out."
        problem = "is for loads with a rate: only those know when a transaction is late"
        yield SpecError(problem, key="workload.latency_limit_s", hint=hint)
    if load.partitions is not None and load.partitions < config.layout.data_files:
        hint = f"Raise it to {config.layout.data_files}, or leave it out."
        yield SpecError(
            f"{load.partitions} partitions can't be spread over {config.layout.data_files} data files",
            key="workload.partitions", hint=hint,
        )  # fmt: skip


def _sysbench_conflicts(load: Sysbench | Sql) -> Iterator[SpecError]:
    """sysbench keeps the time itself, in whole seconds."""
    if load.warm_up_s == "auto":
        problem = "can't be found for sysbench, which takes its warm-up before it starts"
        yield SpecError(problem, key="workload.warm_up_s", hint='Write a time: warm_up = "60s".')
        return
    for name, seconds in (("duration_s", load.duration_s), ("warm_up_s", load.warm_up_s)):
        if seconds != int(seconds) or (name == "duration_s" and seconds < 1):
            hint = 'Write whole seconds: duration = "60s".'
            yield SpecError(
                f"{seconds:g} s is no whole number of seconds, as sysbench needs", key=f"workload.{name}", hint=hint
            )


def _sql_conflicts(config: Config, load: Sql) -> Iterator[SpecError]:
    """A database of the user's own."""
    if not load.setup and load.restore is None:
        yield SpecError(
            "is missing: nothing makes the tables", key="workload.setup", hint='setup = ["schema.sql"], or restore.'
        )
    if config.target.engine == "mariadb":
        yield from _sysbench_conflicts(load)
        yield from _sql_on_mariadb_conflicts(config, load)
    if config.layout.data_files > 1 and not config.layout.spread:
        hint = 'Name the big tables: spread = ["orders"] in [layout].'
        yield SpecError("is missing: there are several data files", key="layout.spread", hint=hint)


def _sql_on_mariadb_conflicts(config: Config, load: Sql) -> Iterator[SpecError]:
    """What sysbench, which runs the transactions there, can't do; and where the server leaves tables that are not spread."""
    for name in ("protocol", "latency_limit_s"):
        if name in load.model_fields_set:
            hint = "Leave it out: on mariadb sysbench runs the transactions."
            yield SpecError("is for pgbench, which knows postgres only", key=f"workload.{name}", hint=hint)
    if config.target.attached and config.data_volumes and not config.layout.spread:
        hint = 'Name the big tables: spread = ["orders"] in [layout]; or leave [volumes] out.'
        problem = "is missing: the server keeps tables that are not spread in a folder of its own, and not on a volume"
        yield SpecError(problem, key="layout.spread", hint=hint)


def only_for_generators(config: Config) -> Iterator[SpecError]:
    """Refuses keys of a generated load in a cell with another load."""
    if config.between_runs.data == "template":
        problem = "is for loads of a generator: rows are inserted into an empty table, which takes no time to make"
        yield SpecError(problem, key="between_runs.data", hint="Leave it out.")
    for name in ("spread", "tables", "indexes", "temp"):
        if name in config.layout.model_fields_set:
            kinds = ", ".join(f'"{kind}"' for kind in ENGINES_OF)
            yield SpecError(
                f"is for loads of a generator, and workload.kind is {config.workload.kind}",
                key=f"layout.{name}", hint=f"Leave it out, or set workload.kind to {kinds}.",
            )  # fmt: skip
