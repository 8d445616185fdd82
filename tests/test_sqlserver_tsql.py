"""Whatever a user can write stays what it is: read back by Microsoft's own parser."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tsql_parser import TsqlParser, needs_parser

from storagelab.targets.sqlserver import connecting

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60) | st.sampled_from(
    [
        "]",
        "]]",
        "a]; DROP DATABASE master; --",
        "'",
        "''",
        "';--",
        "N'x'",
        "\\",
        "/*",
        "--",
        "\u02bc",
        "\uff07",
        "%s",
        "[x]",
    ]
)


@pytest.fixture(scope="module")
def parser():
    with TsqlParser() as parser:
        yield parser


@needs_parser
@settings(max_examples=300, deadline=None)
@given(name=TEXTS)
def test_a_name_is_read_back_as_it_was_and_nothing_follows_it(parser, name):
    try:
        quoted = connecting.identifier(name)
    except ValueError:
        assert not 0 < len(name.encode("utf-16-le")) // 2 <= connecting.LONGEST_IDENTIFIER
        return
    parsed = parser.parse(f"DROP DATABASE {quoted}")
    assert parsed.errors == []
    assert parsed.statements == [{"kind": "DropDatabaseStatement", "names": [name]}]


@needs_parser
@settings(max_examples=300, deadline=None)
@given(value=TEXTS)
def test_a_text_is_read_back_as_it_was_and_nothing_follows_it(parser, value):
    parsed = parser.parse(f"SELECT {connecting.text(value)}")
    assert parsed.errors == []
    assert parsed.statements == [{"kind": "SelectStatement", "literal": value}]


@needs_parser
def test_the_parser_would_see_an_injection(parser):
    parsed = parser.parse("DROP DATABASE [" + "a]; DROP DATABASE [master" + "]")
    assert [statement["kind"] for statement in parsed.statements] == ["DropDatabaseStatement"] * 2
    assert parser.parse("SELECT 'it's'").errors != []


@pytest.mark.parametrize("value", ["a\nb", "a\\\nb", "\0", "tab\t", "\x7f", "half a pair \ud800"])
def test_what_t_sql_would_change_is_refused(value):
    for write in (connecting.identifier, connecting.text):
        with pytest.raises(ValueError, match=r"control character|Unicode"):
            write(value)


def test_a_name_of_no_or_too_many_characters_is_refused():
    for name in ("", "x" * 129, "\U0001f600" * 65):
        with pytest.raises(ValueError, match="1 to 128"):
            connecting.identifier(name)
    assert connecting.identifier("x" * 128) == f"[{'x' * 128}]"


def test_numbers_are_listed_and_no_number_is_no_session():
    assert connecting.integers([51, 52]) == "51, 52"
    assert connecting.integers([]) == "-1"
