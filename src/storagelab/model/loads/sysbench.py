"""sysbench: its OLTP transactions on its own tables, or the user's Lua script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from storagelab.errors import SpecError
from storagelab.model.engines import taking
from storagelab.model.loads.base import Data, GeneratedLoad, Rule, broken
from storagelab.model.values import Scalar

if TYPE_CHECKING:
    from storagelab.model.config import Config


_OPTION = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
_KEYS = {
    "tables": "tables", "table_size": "table_size", "threads": "connections", "time": "duration",
    "max_time": "duration",
    "events": "transactions_per_connection", "max_requests": "transactions_per_connection", "rate": "rate",
    "tx_rate": "rate", "warmup_time": "warm_up",
}  # fmt: skip
"""Maps options of sysbench to the keys of the load that set them."""
_NOT_OF_SCRIPTS = frozenset({
    "config_file", "debug", "forced_shutdown", "help", "histogram", "luajit_cmd", "num_threads", "percentile",
    "rand_seed",
    "report_checkpoints", "report_interval", "thread_init_timeout", "thread_stack_size", "validate", "verbosity",
    "version",
})  # fmt: skip
_OF_SERVERS = ("db_", "mysql_", "pgsql_")
"""How the names of options begin that name a server or set its login."""
_SPREAD = 'Name the big tables: spread = ["orders"] in [layout]'
NOTHING_SPREAD = (
    Rule("layout.spread",
         lambda config: "pgbench" not in config.kind.generators and config.target.attached
             and bool(config.data_volumes) and not config.layout.spread and not config.placed,
         "is missing: the server keeps tables that are not spread in a folder of its own, and not on a volume",
         f"{_SPREAD}; or place them: tables = \"a\" in [layout]; or leave [volumes] out."),
    Rule("layout.spread", lambda config: config.layout.data_files > 1 and not config.layout.spread,
         "is missing: there are several data files", f"{_SPREAD}."),
)  # fmt: skip
READ_ONLY = ("oltp_read_only", "oltp_point_select", "select_random_points", "select_random_ranges")
"""The scripts of sysbench itself that write nothing."""


class Sysbench(GeneratedLoad):
    """sysbench on PostgreSQL or MariaDB: its OLTP transactions, or your own Lua script."""

    module, engines = "sysbench", taking("sysbench")
    less_data = "lower workload.tables or workload.table_size"
    rows_made_per_s = 30_000  # measured on two slow cores: 200,000 in 7 s
    kind: Literal["sysbench"] = "sysbench"
    script: str = Field("oltp_read_write", min_length=1)
    """The script of the transactions: `oltp_read_write`, `oltp_read_only`, `oltp_write_only`, `oltp_point_select`,
    `oltp_insert`, another script of sysbench, or a Lua file. A relative path starts at the spec's folder. The other Lua
    files of that folder are copied, too, so your script may `require` them.
    """
    tables: int = Field(1, ge=1, le=1024)
    """The number of tables. Your own script gets this number and `table_size` only if the spec sets them."""
    table_size: int = Field(10_000, ge=1, le=10**10)
    """The number of rows of each table."""
    options: dict[str, Scalar] = Field(default_factory=dict)
    """Options of the script itself, by name: `options = { point_selects = 5, skip_trx = true }`. `sysbench SCRIPT help`
    lists them. storagelab sets all options of sysbench and of the connection.
    """

    @property
    def is_own(self) -> bool:
        """Whether the script is a Lua file of the user."""
        return "." in self.script or "/" in self.script

    @property
    def own_files(self) -> tuple[tuple[str, str], ...]:
        return (("workload.script", self.script),) if self.is_own else ()

    @property
    def reads_only(self) -> bool:
        return self.script in READ_ONLY

    @property
    def table_names(self) -> tuple[str, ...]:
        return tuple(f"sbtest{number}" for number in range(1, self.tables + 1))

    @property
    def rows_made(self) -> int:
        return self.tables * self.table_size

    @property
    def data(self) -> Data:
        if self.is_own:
            return Data(None, "a script of your own makes")
        return Data(
            self.rows_made, f"in {self.tables} table{'s' if self.tables > 1 else ''} of {self.table_size:,} rows"
        )

    def _own_conflicts(self, config: Config) -> Iterator[SpecError]:
        yield from whole_seconds(self)
        if config.layout.spread is not None:
            yield from broken(config, NOTHING_SPREAD)
        for name, value in self.options.items():
            key, plain = f"workload.options.{name}", name.replace("-", "_")
            if not _OPTION.fullmatch(name) or "\n" in str(value) or "\0" in str(value):
                hint = (
                    "Write the name without its dashes, and a number, a text or true: options = { point_selects = 5 }."
                )
                yield SpecError("is no option of a script", key=key, hint=hint)
            elif plain in _KEYS or plain in _NOT_OF_SCRIPTS or plain.startswith(_OF_SERVERS):
                own = _KEYS.get(plain)
                hint = f"Set workload.{own} instead." if own else "Leave it out: options are those of the script."
                yield SpecError("is an option that storagelab sets", key=key, hint=hint)


def whole_seconds(load: GeneratedLoad) -> Iterator[SpecError]:
    """Refuses times that sysbench can't measure. sysbench itself measures the time, in whole seconds."""
    if load.warm_up_s == "auto":
        problem = 'can\'t be "auto" for sysbench, which needs the length of its warm-up before it starts'
        yield SpecError(problem, key="workload.warm_up_s", hint='Write warm_up = "60s", and no warm_up_at_most.')
        return
    for name, seconds in (("duration_s", load.duration_s), ("warm_up_s", load.warm_up_s)):
        if seconds != int(seconds) or (name == "duration_s" and seconds < 1):
            hint = 'Write whole seconds: duration = "60s".'
            yield SpecError(
                f"{seconds:g} s is no whole number of seconds, as sysbench needs", key=f"workload.{name}", hint=hint
            )
