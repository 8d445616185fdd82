"""Shortcuts for tests that test something else.

New databases of private servers are copies of one that the engine's own program made, which takes a tenth of the time.
PostgreSQL's lacks template1, a third of its files. Tests of making databases request the fixture `fresh_databases`.
Charts of reports stay blank: drawing one takes a tenth of a second, and a report has a dozen. Tests of drawings request
`drawn_charts`.

A process of its own takes the same shortcuts: `shortcuts.py FOLDER WORDS` is `storagelab WORDS`.
"""

import contextlib
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from storagelab.__main__ import main
from storagelab.engines.mariadb.server import Server as MariaDBServer
from storagelab.engines.postgres.server import MADE_WITH
from storagelab.engines.postgres.server import Server as PostgresServer
from storagelab.report.page import html
from storagelab.servers.private import PrivateServer

Make = Callable[[PrivateServer], None]
MAKERS: dict[type[PrivateServer], Make] = {
    PostgresServer: PostgresServer._make_database,
    MariaDBServer: MariaDBServer._make_database,
}
DROP_TEMPLATE1 = """echo "UPDATE pg_database SET datistemplate = false WHERE datname = 'template1'
DROP DATABASE template1" | "$0" --single -D "$1" postgres"""
"""A script for a shell, whose words are the server's program and its folder."""
DRAWING = {"to_svg": html.to_svg}
BLANK = {"to_svg": lambda spec: "<svg></svg>"}


def command(templates: Path) -> list[str]:
    """Replaces `storagelab` where it runs as a process."""
    return [sys.executable, __file__, str(templates)]


def take(templates: Path) -> None:
    """From now on, new databases are copies of those below `templates`, and charts are blank."""
    for server, make in MAKERS.items():
        setattr(server, make.__name__, copying(make, templates))
    vars(html).update(BLANK)


@contextlib.contextmanager
def drawn() -> Iterator[None]:
    """Draws charts as for users within this context."""
    vars(html).update(DRAWING)
    try:
        yield
    finally:
        vars(html).update(BLANK)


def copying(make: Make, templates: Path) -> Make:
    """`make`, which fills a server's empty folders; run once for each kind of database."""

    def make_or_copy(server: PrivateServer) -> None:
        template = templates / kind(server)
        if template.exists():
            copy(template / "log", server.log_folder)
            copy(template / "data", server.data_folder)
            log = server.data_folder / "pg_wal"
            if log.is_symlink():
                log.unlink()
                log.symlink_to(server.log_folder)
        else:
            make(server)
            if isinstance(server, PostgresServer):
                server._run(["sh", "-c", DROP_TEMPLATE1, server.programs.program("postgres"), str(server.data_folder)])
            made = Path(tempfile.mkdtemp(dir=templates))
            for folder, part in ((server.data_folder, "data"), (server.log_folder, "log")):
                (made / part).mkdir()
                copy(folder, made / part, "--sparse=always")  # logs are zeros at first, a hundred megabytes of them
            made.rename(template)

    make_or_copy.__name__ = make.__name__
    return make_or_copy


def kind(server: PrivateServer) -> str:
    """A key for the facts that determine a new database: the programs, and the options that it needs from the start."""
    settings = {
        name: value for name, value in server.settings.items() if isinstance(server, MariaDBServer) or name in MADE_WITH
    }
    return hashlib.sha256(repr((server.programs, sorted(settings.items()))).encode()).hexdigest()


def copy(source: Path, target: Path, *options: str) -> None:
    """Copies the content of one folder into another, with owners and modes, by cp, because cp is faster than Python."""
    subprocess.run(["cp", "-a", *options, f"{source}/.", str(target)], check=True)


if __name__ == "__main__":
    take(Path(sys.argv.pop(1)))
    main()
