"""The engines that an experiment may name, and facts about them that all modules may use.

The code of an engine is in its own folder below `engines`, in the module `engine`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

Provenance = Literal["measured", "simulated"]
Provenances = Literal["measured", "simulated", "measured and simulated"]
"""The provenance of a whole experiment. It may be mixed, because raw I/O may run on simulated and on real drives."""
LARGEST_SCALE = 1000
"""The largest scale of a simulation. The core has the same limit, as a test checks. Beyond it, a PFS page would cover
less than an extent."""


class Engine(NamedTuple):
    """Facts about the engine of a cell. `folder` is the engine's folder below `engines`."""

    title: str
    folder: str
    provenance: Provenance = "measured"
    starts_server: bool = True
    """Whether storagelab starts a private server if the spec names no running server."""
    log_per_database: bool = False
    """Whether each database has its own log. If so, storagelab can choose the log's place even on a running server."""
    drives_remember: bool = False
    """Whether a run's effect on the drives carries over to the next run of its block."""
    portable: bool = False
    """Whether any process can continue a block that another process began. It can if the results folder has all data
    that the process needs.
    """
    raw_io: bool = False
    """Whether the engine sends requests to a volume, without a database."""
    generators: tuple[str, ...] = ()
    """The programs that can send transactions to the engine. The first is the default."""
    memory_setting: str = ""
    """An example of the setting that gives the server most of its memory, with a value."""
    page_bytes: int = 8192
    schemes: tuple[str, ...] = ()
    """The schemes that a running server's DSN may have before `://`."""
    dsn_of_words: bool = False
    """Whether a DSN may consist of parameters such as `host=... dbname=...` instead of a URL (as in libpq)."""
    own_schemas: tuple[str, ...] = ()
    """The schemas that hold the server's own tables."""
    copies_databases: bool = False
    """Whether the server has a command that copies a database. If so, a running server can keep a template."""
    indexes_apart: bool = False
    """Whether an index may be on another volume than its table."""
    temporary_fixed: bool = False
    """Whether the folder of temporary files can't be changed while the server runs."""
    default_scale: int = 1
    """The default scale of a simulation: 64 means 1/64 of the real size."""
    setup_s: float = 2.0
    work_per_s: float = 50_000.0
    """The work per second at this scale, in the unit of the work. With `setup_s`, it gives a first guess at the length
    of a run.
    """


_SIMULATED = Engine(
    "simulated server", "simulated", "simulated", starts_server=False, drives_remember=True, portable=True,
    default_scale=64,
    setup_s=0.0, work_per_s=3_000_000.0,
)  # fmt: skip

ENGINES = {
    "postgres": Engine(
        "PostgreSQL",
        "postgres",
        generators=("pgbench", "sysbench"),
        schemes=("postgres", "postgresql"),
        dsn_of_words=True,
        own_schemas=("pg_catalog", "information_schema"),
        memory_setting='shared_buffers = "8GB"',
        copies_databases=True,
        indexes_apart=True,
    ),
    "mariadb": Engine(
        "MariaDB",
        "mariadb",
        generators=("sysbench",),
        schemes=("mysql", "mariadb"),
        own_schemas=("mysql", "sys", "performance_schema"),
        memory_setting='innodb_buffer_pool_size = "8G"',
        page_bytes=16384,
        temporary_fixed=True,
    ),
    "sqlserver": Engine(
        "SQL Server", "sqlserver", starts_server=False, log_per_database=True, schemes=("mssql", "sqlserver")
    ),
    "simulated": _SIMULATED,
    "raw-io": _SIMULATED._replace(title="raw I/O on simulated drives", raw_io=True, work_per_s=20_000.0),
}

ON_PATHS = {
    "raw-io": Engine("raw I/O by fio", "fio", starts_server=False, raw_io=True, setup_s=1.0, work_per_s=1_000.0)
}
"""Maps the name of an engine to the engine that replaces it if its volumes have paths. The replacement uses this
machine's drives instead of simulated drives."""


def taking(generator: str) -> tuple[str, ...]:
    """Returns the names of the engines to which the program `generator` can send transactions."""
    return tuple(name for name, engine in ENGINES.items() if generator in engine.generators)


def engine_of(dsn: str) -> str | None:
    """Returns the engine of a DSN. The scheme of the DSN decides, or its form if it has no scheme. Returns None if no
    engine matches.
    """
    scheme, colon, _ = dsn.partition("://")
    for name, engine in ENGINES.items():
        if scheme.lower() in engine.schemes if colon else engine.dsn_of_words and "=" in dsn:
            return name
    return None


KINDS_OF_ENGINE = (*ENGINES.values(), *ON_PATHS.values())

if TYPE_CHECKING:
    EngineName = str
    ServerName = str
else:
    EngineName = Literal[*ENGINES]
    ServerName = Literal[*(name for name, engine in ENGINES.items() if engine.provenance == "measured")]
