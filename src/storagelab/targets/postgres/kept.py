"""The template of one cell on a server that already runs: a database of storagelab's own, from which each run's is made.

Tables are made in the run's database, which is then renamed: so a template that is there is whole. Its tablespaces have
names and folders of its own, since several layouts have templates at once, and live as long as it does. The server copies a
template with what it holds in every tablespace.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import NamedTuple

from psycopg import sql

from storagelab.model import prepared
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.targets import Site, descriptors, templates
from storagelab.targets.attaching import OWNERSHIP
from storagelab.targets.postgres.connecting import Connection
from storagelab.targets.steps import check_same

NAME = "t[0-9a-f]{12}"
"""What the template of one cell has in its names after the prefix, as a pattern."""
_STRATEGY_SINCE = 150_000


class Copied(NamedTuple):
    """What was copied for a run: the sizes of the template and of the copy, by the server."""

    asked_bytes: int
    got_bytes: int
    how: str = "copied by the server"

    def checks(self) -> list[Check]:
        asked, got = f"{self.asked_bytes:,} bytes", f"{self.got_bytes:,} bytes"
        return [check_same("data restored from a template", asked, got, "pg_database_size")]


class Kept:
    """The template database of one cell."""

    def __init__(self, config: Config, site: Site) -> None:
        self.prefix = f"{site.prefix}_t{prepared.name_of(config)}"
        """Its name, and the beginning of its tablespaces' names."""
        self._above = templates.folders_of(site, site.volume_paths(config))
        self.folders = self._above.inside(self.prefix)
        """Where the folders of its tablespaces are made, by the volume's name."""
        self._run = sql.Identifier(site.prefix)
        self._name = sql.Identifier(self.prefix)
        self._run_name = site.prefix

    def exists(self, connection: Connection) -> bool:
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [self.prefix]).fetchone()
        return found is not None

    def make_folders(self) -> None:
        """The folders in which those of its tablespaces are made. Raises RunFailed."""
        self._above.make(again=True)
        for folder in set(self.folders.values()):
            with self._above.held(folder.parent) as above:
                descriptors.remove(folder.name, above)  # of an attempt that failed amid this
                os.mkdir(folder.name, dir_fd=above)
                with descriptors.folder(folder.name, above) as made:
                    os.fchmod(made, 0o711)  # as the one above

    def keep(self, connection: Connection) -> None:
        """Make the run's database, to which nobody is connected, the template. Raises psycopg.Error."""
        # Nobody else comes in, not even the server's own workers, which would change what later runs get.
        connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(self._run))
        connection.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(self._run, self._name))

    def restore(self, connection: Connection) -> Copied:
        """Make the run's database from the template. Raises psycopg.Error."""
        # Written through the log (WAL_LOG, the default since 15), the data would fill the log and the buffers just before the
        # run. Older servers always copy files.
        strategy = sql.SQL(" STRATEGY FILE_COPY" if connection.info.server_version >= _STRATEGY_SINCE else "")
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(self._run, self._name) + strategy)
        mark = sql.SQL("COMMENT ON DATABASE {} IS {}").format(self._run, sql.Literal(OWNERSHIP))
        connection.execute(mark)
        sizes = connection.execute(
            "SELECT pg_database_size(%s::name), pg_database_size(%s::name)", [self.prefix, self._run_name]
        ).fetchone()
        assert sizes is not None
        return Copied(*sizes)

    def remove_unfinished(self, connection: Connection) -> None:
        """Remove the folders of a template that could not be made; its tablespaces are dropped."""
        for folder in () if self.exists(connection) else set(self.folders.values()):
            with contextlib.suppress(OSError), self._above.held(folder.parent) as above:
                descriptors.remove(folder.name, above)


def of_template(prefix: str, tablespace: str) -> str | None:
    """The template database to which a tablespace belongs, by its name; None for one of a run."""
    found = re.match(rf"{re.escape(prefix)}_{NAME}(?=_)", tablespace)
    return found[0] if found else None
