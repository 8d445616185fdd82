"""The way to SQL Server; whatever a user can write stays what it is: read back by Microsoft's own parser."""

import contextlib
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_sqlserver import PASSWORD, recorded
from sqlserver_specs import config, plan_of, site
from tds_server import Answer, ServerError
from tsql_parser import TsqlParser, needs_parser

from storagelab.engines.sqlserver import connect as connecting
from storagelab.engines.sqlserver import engine
from storagelab.engines.sqlserver.connect import Session, address_of, connect, parse_dsn
from storagelab.errors import PreflightError
from storagelab.model.config import TargetConfig
from storagelab.run.engine import try_starting
from storagelab.servers.attached import HIDDEN

VARIABLE = "STORAGELAB_TESTED"


def target(**keys) -> TargetConfig:
    return TargetConfig(engine="sqlserver", **keys)


def test_a_dsn_is_read_part_by_part():
    dsn = parse_dsn("mssql://la%40b:p%2Fw@db.example:1444/orders?instance=LAB&encrypt=require", "target.dsn")
    assert (dsn.host, dsn.port, dsn.user, dsn.password) == ("db.example", 1444, "la@b", "p/w")
    assert (dsn.database, dsn.server, dsn.encryption) == ("orders", "db.example\\LAB", "require")


def test_a_password_may_stand_where_the_servers_own_tool_looks(monkeypatch):
    monkeypatch.setenv(connecting.PASSWORD_VARIABLE, "of sqlcmd")
    assert address_of(target(dsn="mssql://me@host")).password == "of sqlcmd"
    assert parse_dsn("mssql://me:mine@host", "target.dsn").password == "mine"


@pytest.mark.parametrize(
    ("dsn", "problem"),
    [
        ("postgresql://me@host", "does not begin with mssql://"),
        ("mssql://host/database", "names no host or no user"),
        ("mssql://me:secret@", "names no host or no user"),
        ("mssql://me:secret@host:port", "not a readable connection string"),
        ("mssql://me:secret@[host", "not a readable connection string"),
        ("mssql://me:secret@host?timeout=3", "unknown option"),
        ("mssql://me:secret@host?encrypt=yes", "must be one of off, request, require"),
    ],
)
def test_a_dsn_that_can_not_be_used_is_refused_and_not_shown(dsn, problem):
    with pytest.raises(PreflightError) as refused:
        parse_dsn(dsn, "target.dsn_env")
    assert problem in str(refused.value)
    assert "secret" not in str(refused.value)
    assert refused.value.key == "target.dsn_env"


@given(st.text(max_size=40))
def test_no_text_breaks_the_reading_of_a_dsn(text):
    with contextlib.suppress(PreflightError):
        assert parse_dsn(f"mssql://{text}", "target.dsn").host


def test_a_variable_that_is_not_set_is_named(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(PreflightError, match=f"{VARIABLE} is not set"):
        address_of(config().target)


def test_a_password_is_never_part_of_how_a_dsn_is_shown():
    assert "secret" not in repr(parse_dsn("mssql://me:secret@host", "target.dsn"))


def test_each_refused_login_is_told_in_its_own_words_however_many_there_were(monkeypatch):
    with recorded() as running:
        monkeypatch.setenv(VARIABLE, running.dsn(password="not this one"))
        for _ in range(2):
            with pytest.raises(PreflightError, match="Msg 18456: Login failed for user 'lab'\\.") as refused:
                connect(config().target)
            assert "not this one" not in str(refused.value)
        monkeypatch.setenv(VARIABLE, running.dsn())
        with pytest.raises(PreflightError, match='Msg 4060: Cannot open database "absent"'):
            connect(config().target, database="absent")


def test_a_server_that_repeats_the_password_does_not_get_it_through(monkeypatch):
    with recorded() as running:
        monkeypatch.setenv(VARIABLE, running.dsn())

        def chatty(login):
            raise ServerError(18456, f"You said {login.password}", severity=14)

        running.wire._log_in = chatty
        with pytest.raises(PreflightError) as refused:
            connect(config().target)
    assert PASSWORD not in str(refused.value)
    assert HIDDEN in str(refused.value)


def test_every_kind_of_value_comes_over_the_wire_as_it_was(monkeypatch):
    row = (2**60, "Ünï'cødé \U0001f600", b"\0\x01", None, True, 0.5, -1)
    with recorded() as running:
        running.wire._answer = lambda login, text: (
            Answer([""], [(login.spid,)])
            if "@@SPID" in text
            else Answer(["A", "b", "c", "d", "e", "f", "g"], [row, row])
        )
        monkeypatch.setenv(VARIABLE, running.dsn())
        session = connect(config().target)
        names, rows = session.table("SELECT 1")
        assert names == ["a", "b", "c", "d", "e", "f", "g"]
        assert rows == [row, row]
        assert session.records("SELECT 1")[0]["b"] == row[1]
        session.close()
        session.close()


def test_more_sessions_than_the_driver_allows_by_itself_can_be_had(monkeypatch):
    with recorded() as running:
        monkeypatch.setenv(VARIABLE, running.dsn())
        connecting.allow_sessions(40)
        sessions = [Session(address_of(config().target), "storagelab") for _ in range(40)]
        assert len({session.spid for session in sessions}) == 40
        for session in sessions:
            session.close()


def test_without_the_driver_the_way_to_get_it_is_told():
    program = (
        "import sys; sys.modules['pymssql'] = None\n"
        "from storagelab.errors import PreflightError\n"
        "try:\n    import storagelab.engines.sqlserver.connect\n"
        "except PreflightError as error:\n    sys.stdout.write(str(error))\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "pymssql, is not installed" in told
    assert "pip install 'storagelab[sqlserver]'" in told


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60) | st.sampled_from(
    [
        "]", "]]", "a]; DROP DATABASE master; --", "'", "''", "';--", "N'x'", "\\", "/*", "--", "\u02bc", "\uff07",
        "%s", "[x]",
    ]
)  # fmt: skip


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


def test_a_driver_that_is_absent_is_no_fault_of_the_machines_other_servers(monkeypatch):
    monkeypatch.setattr(engine, "DRIVER", "no-such-driver")
    (found,) = engine.abilities()
    assert (found.state, "storagelab[sqlserver]" in found.mend) == ("no", True)


def test_nothing_is_started_so_nothing_is_tried_or_left_running(tmp_path):
    assert list(engine.ENGINE.kinds(plan_of(config()), site())) == []
    assert not engine.ENGINE.stop_orphan(tmp_path)
    try_starting(plan_of(config()), site())
