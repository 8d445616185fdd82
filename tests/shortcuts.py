"""What most tests may have cheaper than users do, as they test something else.

New databases of private servers are copies of one that the engine's own program made: a tenth of the time. Tests of how
databases are made ask for the fixture `fresh_databases`. Charts of reports stay blank: a chart takes a tenth of a second to
draw, a report has a dozen. Tests of what is drawn ask for `drawn_charts`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storagelab.report import drawing
from storagelab.targets.mariadb.server import Server as MariaDBServer
from storagelab.targets.postgres.server import Server as PostgresServer
from storagelab.targets.private import PrivateServer

Make = Callable[[PrivateServer], None]
MAKERS: dict[type[PrivateServer], Make] = {
    PostgresServer: PostgresServer._init_database,
    MariaDBServer: MariaDBServer._make_database,
}
DRAWING = {"_started": drawing._started, "to_svg": drawing.to_svg}


def copy(source: Path, target: Path) -> None:
    """All that is in one folder into another, with its owners and modes; done by cp, as it is quicker than Python."""
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)


def kind(server: PrivateServer) -> str:
    """Says what decides how a new database looks: the programs, and what MariaDB must know from the start."""
    settings = server.settings if isinstance(server, MariaDBServer) else {}
    return repr((server.binaries, sorted(settings.items())))


def copying(make: Make, templates: Path) -> Make:
    """`make`, which fills a server's empty folders; run once for each kind of database."""
    known: dict[str, Path] = {}

    def make_or_copy(server: PrivateServer) -> None:
        template = known.get(kind(server))
        if template is None:
            make(server)
            template = templates / f"{type(server).__module__}-{len(known)}"
            for folder, part in ((server.data_folder, "data"), (server.log_folder, "log")):
                (template / part).mkdir(parents=True)
                copy(folder, template / part)
            known[kind(server)] = template
            return
        copy(template / "log", server.log_folder)
        copy(template / "data", server.data_folder)
        log = server.data_folder / "pg_wal"
        if log.is_symlink():
            log.unlink()
            log.symlink_to(server.log_folder)

    return make_or_copy


@contextmanager
def taken(templates: Path) -> Iterator[None]:
    """Within it, new databases are copies of those below `templates`, and charts are blank."""
    with pytest.MonkeyPatch.context() as patch:
        for server, make in MAKERS.items():
            patch.setattr(server, make.__name__, copying(make, templates))
        patch.setattr(drawing, "_started", lambda: None)
        patch.setattr(drawing, "to_svg", lambda spec: "<svg></svg>")
        yield


@contextmanager
def drawn() -> Iterator[None]:
    """Within it, charts are drawn as for users."""
    with pytest.MonkeyPatch.context() as patch:
        for name, real in DRAWING.items():
            patch.setattr(drawing, name, real)
        yield
