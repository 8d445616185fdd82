"""Of settings that differ in numbers alone, the least and the most stand for all."""

from hypothesis import given
from hypothesis import strategies as st

from storagelab.targets.starting import standing_for


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


def test_what_two_numbers_take_together_counts_as_well():
    grid = [{"a": str(a), "b": str(b)} for a in (1, 2, 3) for b in (7, 8, 9)]
    assert chosen(*grid) == [{"a": "1", "b": "7"}, {"a": "3", "b": "9"}]


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
