"""The common parts of all tests: real PostgreSQL binaries, and hypothesis' search for counterexamples."""

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import each_engine
import pytest
import shortcuts
from hypothesis import settings
from real_servers import ask, connect, free_port, open_folder, running, server_folders, until
from recorded_machine import RecordedMachine

from bench.guest import Drive, Finished, absent, run, user_mode
from storagelab import cli
from storagelab.engines.postgres.server import Server
from storagelab.machine import temporary
from storagelab.machine.host import usable_cpus
from storagelab.model.target import Progress
from storagelab.report.drawing import vega
from storagelab.run.one_run import OneRun

# No deadline: the machine is shared, and a slow example is not a wrong one. A failure prints the line that repeats it.
settings.register_profile("ci", deadline=None, print_blob=True)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# What workers, and the programs that tests start, compile is kept for the next.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell without job control starts background jobs that ignore Ctrl-C and Ctrl-\, and the programs that tests
# interrupt inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) == signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)

# Campaigns that other tests kill at the same time leave marked programs, which a sweep in this process must not count.
temporary.MARK_VARIABLE = f"{temporary.MARK_VARIABLE}_OF_{os.environ.get('PYTEST_XDIST_WORKER', 'TESTS')}"

GUEST_SCRIPTS = Path(__file__).parent / "guest_scripts"
SLOW_FIXTURES = {"attached", "browser", "drawn_charts", "guest", "quick_guest", "scratch", "shared_server"}
"""The fixtures that tests of real servers, browsers, throw-away drives and drawings request."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    patience_s: dict[Path, float] = {}
    for item in items:
        if not SLOW_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("slow")
        limit = item.get_closest_marker("timeout")
        patience_s[item.path] = max(patience_s.get(item.path, 0), limit.args[0] if limit else 0)
    items.sort(key=lambda item: -patience_s[item.path])  # a file that may take long begins first, beside the others


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than the cores, because many tests wait for servers. Any machine's memory is enough for it."""
    return min(usable_cpus() + 1, 8)


@pytest.fixture(scope="session")
def postgres_bin_dirs() -> list[Path]:
    """The folder of server programs of every PostgreSQL at hand: first the wheels', then the system's. Never empty."""
    return server_folders()


@pytest.fixture(scope="session", autouse=True)
def templates(tmp_path_factory) -> Path:
    """The folder of databases to copy. Charts stay blank, too. Tests that need real databases or charts request a
    fixture below."""
    folder = tmp_path_factory.mktemp("databases")
    shortcuts.take(folder)
    return folder


@pytest.fixture
def fresh_databases(monkeypatch) -> None:
    """For tests in which the engine's own program must make the database."""
    for server, make in shortcuts.MAKERS.items():
        monkeypatch.setattr(server, make.__name__, make)


@pytest.fixture
def drawn_charts() -> Iterator[None]:
    """For tests of a report's drawings."""
    with shortcuts.drawn():
        yield


@pytest.fixture(scope="module")
def without_the_charts_runtime() -> Iterator[None]:
    """It takes seconds to make, and is the same in every page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vega, "_made", lambda: b"")
        patch.setattr(vega, "_keep", lambda file, packed: None)
        yield


@pytest.fixture
def scratch(monkeypatch) -> Iterator[Path]:
    """A folder for servers, which can't enter pytest's own, with the temporary folder inside it."""
    with open_folder() as folder:
        (folder / "tmp").mkdir(mode=0o711)
        monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
        monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
        yield folder


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    """A server that runs as long as the tests, for tests that need no separate server."""
    with open_folder() as folder, running(folder, max_connections=120, fsync=False) as server:
        yield server


@pytest.fixture
def attached(shared_server) -> Iterator[Server]:
    """The shared server, with a check that the test left nothing of storagelab's on it."""
    yield shared_server
    with connect(shared_server) as connection:
        assert ask(connection, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'storagelab%'") == 0
        assert ask(connection, "SELECT count(*) FROM pg_tablespace WHERE spcname LIKE 'storagelab%'") == 0


@pytest.fixture(scope="module", params=each_engine.ENGINES)
def shared(request, shared_server) -> Iterator[each_engine.RunningServer]:
    """A server of each engine that runs as long as a module's tests; `each_engine.on_mariadb` for MariaDB's alone."""
    with each_engine.running(request.param, shared_server) as server:
        yield server


@pytest.fixture
def server(shared) -> Iterator[each_engine.RunningServer]:
    """The same, with a check that the test left nothing of storagelab's on it."""
    yield shared
    assert shared.left() == []


@pytest.fixture
def login(server) -> Iterator[Callable[..., str]]:
    """Makes a login with just these rights; gives its DSN. Its password needs quoting everywhere."""
    made = []

    def make(*rights: str, name: str = "plain") -> str:
        made.append(name)
        return server.make_login(name, *rights)

    yield make
    for name in made:
        server.drop_login(name)


@pytest.fixture(scope="module")
def on_tcp() -> Iterator[str]:
    """The DSN of a PostgreSQL on a port of this machine that asks for a password."""
    port, password = free_port(), each_engine.TCP_PASSWORD
    with open_folder() as folder, running(folder, listen_addresses="127.0.0.1", port=port) as server:
        with connect(server) as connection:
            connection.execute(f"CREATE ROLE lab LOGIN SUPERUSER PASSWORD '{password}'")
            rules = "local all all trust\nhost all lab 127.0.0.1/32 scram-sha-256\n"
            (server.data_folder / "pg_hba.conf").write_text(rules)
            connection.execute("SELECT pg_reload_conf()")
        dsn = f"postgresql://lab:{password}@127.0.0.1:{port}/postgres"
        until(lambda: each_engine.opens(dsn))
        yield dsn


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """Headless Chromium."""
    from real_browser import started

    with started() as chromium:
        yield chromium


@pytest.fixture
def guest(tmp_path) -> Callable[..., Finished]:
    """Runs a script of the folder guest_scripts in an emulated machine with throw-away NVMe drives."""
    if reason := absent():
        pytest.skip(f"no guest: {reason}")

    def run_script(name: str, drives: Sequence[Drive], **options) -> Finished:
        return run(GUEST_SCRIPTS / f"{name}.py", drives, tmp_path / "guest", **options)

    return run_script


@pytest.fixture
def quick_guest(tmp_path) -> Callable[..., Finished]:
    """Runs such a script in a kernel that runs as a program, with this many throw-away SCSI drives of this many MiB."""
    if reason := user_mode.absent():
        pytest.skip(f"no quick guest: {reason}")

    def run_script(name: str, drives: int, drive_mib: int, **options) -> Finished:
        return user_mode.run(GUEST_SCRIPTS / f"{name}.py", drives, drive_mib, tmp_path / "guest", **options)

    return run_script


@pytest.fixture
def during(monkeypatch) -> Callable[[Callable[[OneRun], object]], None]:
    """Calls a function once, as soon as a run has inserted rows: `during(lambda target: ...)`."""
    on_poll = OneRun._on_poll

    def arrange(trouble: Callable[[OneRun], object]) -> None:
        done: list[int] = []

        def with_trouble(self: OneRun, progress: Progress, rows: int) -> None:
            if rows and not done:
                done.append(rows)
                trouble(self)
            on_poll(self, progress, rows)

        monkeypatch.setattr(OneRun, "_on_poll", with_trouble)

    return arrange


@pytest.fixture
def home(scratch, monkeypatch) -> Path:
    """The folder in which commands are typed."""
    monkeypatch.chdir(scratch)
    monkeypatch.delenv("STORAGELAB_RESULTS", raising=False)
    return scratch


@pytest.fixture
def typed(monkeypatch, capfd) -> Callable[..., tuple[int, str, str]]:
    """Runs a command in this process; returns its exit code, stdout and stderr."""

    def type_(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["storagelab", *map(str, words)])
        monkeypatch.setenv(cli.TRACEBACK, os.environ.get(cli.TRACEBACK, "1"))
        code = 0
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return type_


@pytest.fixture
def machine(tmp_path: Path) -> RecordedMachine:
    """A machine of which nothing is known but what a test writes."""
    return RecordedMachine(tmp_path / "machine")
