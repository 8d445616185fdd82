"""pgbench: PostgreSQL's own load generator. It runs its own transactions, or the user's scripts on its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from storagelab.errors import SpecError, choices, shown
from storagelab.model.engines import taking
from storagelab.model.loads.base import Data, GeneratedLoad, Rule, as_tuple
from storagelab.model.values import LeftOut

if TYPE_CHECKING:
    from storagelab.model.config import Config

BUILT_IN = ("tpcb-like", "simple-update", "select-only")
"""The names of pgbench's own scripts."""
READS_ONLY = "select-only"
SPREAD = ("pgbench_accounts",)
"""pgbench's big table."""
_WEIGHT = re.compile(r"[0-9]{1,9}")
_ROWS_PER_SCALE = 100_000


class Script(NamedTuple):
    """A script, by its own name or its file. Its weight says how often it is chosen relative to the others."""

    name: str
    weight: int

    @property
    def built_in(self) -> bool:
        return self.name in BUILT_IN


def script_of(text: str) -> Script:
    """Reads a script from a text such as `"select-only@9"`. Raises ValueError, whose text follows the key in a
    message.
    """
    name, at, weight = text.rpartition("@")
    if not at:
        name, weight = text, "1"
    if _WEIGHT.fullmatch(weight) is None or int(weight) == 0:
        raise ValueError(f"has the weight {weight or 'nothing'}, but it must be a whole number of at least 1")
    if not name.strip() or "\0" in name:
        raise ValueError("names no script")
    return Script(name, int(weight))


class Pgbench(GeneratedLoad):
    """PostgreSQL's own load generator: its TPC-B-like transactions, or your own scripts on its tables."""

    module, engines = "pgbench", taking("pgbench")
    rules = (
        Rule("workload.latency_limit_s",
             lambda config: config.workload.latency_limit_s is not None and config.workload.rate is None,
             "is for loads with a rate: only those know when a transaction is late", "Set a rate, or leave it out."),
        Rule("workload.partitions", lambda config: 0 < (config.workload.partitions or 0) < config.layout.data_files,
             "{load.partitions} partitions can't be spread over {config.layout.data_files} data files",
             "Raise it to {config.layout.data_files}, or leave it out."),
    )  # fmt: skip
    less_data = "lower workload.scale"
    rows_made_per_s = 150_000  # measured on two slow cores: 1.5 million in 10 to 15 s
    kind: Literal["pgbench"] = "pgbench"
    scale: int = Field(1, ge=1, le=100_000)
    """The size of pgbench's tables, in units of 100,000 accounts (15 MB)."""
    scripts: Annotated[tuple[str, ...], BeforeValidator(as_tuple), Field(min_length=1)] = ("tpcb-like",)
    """The scripts of the transactions: `tpcb-like`, `simple-update`, `select-only`, or files in pgbench's own language,
    each with its weight after @, as in `["select-only@9", "order.sql@1"]`. Relative paths start at the spec's folder.
    """
    latency_limit_s: Annotated[float | None, LeftOut("none are skipped")] = Field(None, gt=0, lt=1e6)
    """With a rate: if a transaction would begin later than this after its scheduled moment, it is skipped, and counted
    as skipped.
    """
    protocol: Literal["simple", "extended", "prepared"] = "simple"
    """How queries reach the server. The values are those of pgbench's option `--protocol`."""
    fillfactor: int = Field(100, ge=10, le=100)
    """How full a table's pages are at the beginning, in per cent."""
    partitions: Annotated[int | None, LeftOut("one for each data file; none for one data file")] = Field(
        None, ge=1, le=1024
    )
    """The number of hash partitions of pgbench_accounts. They are placed in turn on the data files."""

    @property
    def rows_made(self) -> int:
        return self.scale * _ROWS_PER_SCALE

    @property
    def reads_only(self) -> bool:
        return all(script_of(text).name == READS_ONLY for text in self.scripts)

    @property
    def own_files(self) -> tuple[tuple[str, str], ...]:
        scripts = (text.rpartition("@")[0] or text for text in self.scripts)
        return tuple(("workload.scripts", name) for name in scripts if name not in BUILT_IN)

    @property
    def data(self) -> Data:
        return Data(self.scale * 100 / self.fillfactor, f"at scale {self.scale}")

    def _own_conflicts(self, config: Config) -> Iterator[SpecError]:
        for number, text in enumerate(self.scripts, 1):
            key = f"workload.scripts[{number}]"
            try:
                script = script_of(text)
            except ValueError as error:
                hint = 'Write name@weight: scripts = ["select-only@9", "tpcb-like@1"].'
                yield SpecError(f"{shown(text)} {error}", key=key, hint=hint)
                continue
            if not script.built_in and not re.search(r"[./]", script.name):
                hint = choices(
                    script.name, BUILT_IN, "A file's name has a dot or a slash in it; pgbench's own scripts are"
                )
                yield SpecError(f"no script of pgbench's is named {shown(script.name)}", key=key, hint=hint)
        for name in config.layout.spread or ():
            if name not in SPREAD:
                hint = "Leave it out: only pgbench_accounts, pgbench's one big table, is spread."
                yield SpecError(f"pgbench spreads no table {shown(name)}", key="layout.spread", hint=hint)
