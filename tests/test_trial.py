"""A server that would not start is detected before anything is stored."""

import pytest
from real_servers import left_behind, site_at, small

from storagelab.errors import PreflightError
from storagelab.model.plan import Cell, Plan
from storagelab.targets import try_starting as try_plan
from storagelab.targets.postgres.server import Server


def try_starting(scratch, *configs) -> None:
    cells = tuple(Cell(cell_id=f"c{n:02d}", levels={}, config=config) for n, config in enumerate(configs))
    try_plan(Plan(cells=cells, runs=()), site_at(scratch))


@pytest.fixture(autouse=True)
def nothing_is_left(scratch):
    yield
    assert list((scratch / "tmp").iterdir()) == []
    assert left_behind(scratch) == []


@pytest.fixture
def started(monkeypatch) -> list[Server]:
    """The servers that were started, each as it is started."""
    servers: list[Server] = []
    start = Server.start

    def noted(server: Server) -> None:
        servers.append(server)
        start(server)

    monkeypatch.setattr(Server, "start", noted)
    return servers


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"shared_preload_libraries": "nothere"}, 'could not access file "nothere"'),
        ({"wal_level": "minimal", "max_wal_senders": 10}, "max_wal_senders"),
    ],
)
def test_settings_that_no_server_starts_with_are_refused_with_its_own_words(scratch, settings, words):
    with pytest.raises(PreflightError) as caught:
        try_starting(scratch, small(scratch), small(scratch, settings=settings))
    assert caught.value.key == "target.settings"
    assert words in caught.value.problem
    assert "its log ends with:" in caught.value.problem
    assert str(next(iter(settings.values()))) in caught.value.hint


def test_each_kind_of_server_is_tried_once(scratch, started):
    other = small(scratch, settings={"shared_buffers": "32MB"})
    try_starting(scratch, small(scratch), small(scratch, data_files=2), other, other)
    assert len(started) == 2


def test_of_many_kinds_that_differ_in_numbers_those_with_the_least_and_the_most_are_tried(scratch, started):
    try_starting(scratch, *(small(scratch, connections=number) for number in (4, 6, 1, 9, 2, 8, 3, 5, 7, 10)))
    assert [server.settings["max_connections"] for server in started] == [9, 18]


def test_the_last_of_many_kinds_is_refused_if_it_does_not_start(scratch):
    reserved = {"superuser_reserved_connections": 16}
    many = [small(scratch, connections=number, settings=reserved) for number in range(20, 6, -1)]
    with pytest.raises(PreflightError, match="superuser_reserved_connections"):
        try_starting(scratch, *many)


def test_an_attached_server_is_never_tried(scratch, started):
    try_starting(scratch, small(scratch, dsn="host=/nowhere"))
    assert started == []


def test_a_trial_that_is_interrupted_leaves_nothing(scratch, monkeypatch):
    def interrupted(server: Server) -> bool:
        assert server.pid is not None
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "_refusal", interrupted)
    with pytest.raises(KeyboardInterrupt):
        try_starting(scratch, small(scratch))
