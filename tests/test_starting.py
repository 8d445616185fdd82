"""Settings are tried by starting a server with them, and of many levels the extreme ones are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_servers import left_behind, site_at, small

from storagelab.engines.postgres.server import Server
from storagelab.errors import PreflightError
from storagelab.model.plan import Cell, Plan
from storagelab.run.engine import try_starting as try_plan
from storagelab.servers.starting import standing_for


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


def test_of_many_kinds_that_differ_in_numbers_those_with_the_least_and_the_most_are_tried(scratch, started):
    try_starting(scratch, *(small(scratch, connections=number) for number in (4, 6, 1, 9, 2, 8, 3, 5, 7, 10)))
    assert [server.settings["max_connections"] for server in started] == [9, 18]


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


def chosen(*settings: dict[str, str]) -> list[dict[str, str]]:
    return standing_for(settings, lambda one: one)


def connections(*numbers: int) -> list[dict[str, str]]:
    return [{"max_connections": str(number)} for number in numbers]


def test_of_many_numbers_the_least_and_the_most_stand_for_all_in_their_order():
    assert chosen(*connections(20, 50, 10, 30)) == connections(50, 10)
    assert chosen(*connections(20)) == connections(20)
    assert chosen() == []


def test_numbers_in_different_units_and_words_are_not_ordered():
    mixed = [{"shared_buffers": text} for text in ("512MB", "1GB", "64MB", "256MB", "16GB", "8GB")]
    assert [one["shared_buffers"] for one in chosen(*mixed)] == ["512MB", "1GB", "64MB", "16GB"]
    words = [{"wal_compression": text} for text in ("off", "on", "lz4")]
    assert chosen(*words) == words


@given(
    st.lists(
        st.fixed_dictionaries({
            "word": st.sampled_from(["on", "off"]), "number": st.integers(-5, 99).map(str),
            "size": st.tuples(st.integers(0, 9), st.sampled_from(["kB", "MB"])).map(lambda one: f"{one[0]}{one[1]}"),
        })
    )
)  # fmt: skip
def test_whatever_is_drawn_no_number_lies_beyond_those_chosen_and_no_word_is_missing(drawn):
    found = chosen(*drawn)
    assert all(one in drawn for one in found)
    for one in drawn:
        alike = [other for other in found if other["word"] == one["word"] and other["size"][-2:] == one["size"][-2:]]
        for name, amount in (("number", int), ("size", lambda text: int(text[:-2]))):
            amounts = [amount(other[name]) for other in alike]
            assert min(amounts) <= amount(one[name]) <= max(amounts)
