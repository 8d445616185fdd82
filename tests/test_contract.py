"""The contract suite on real PostgreSQL servers and a recorded SQL Server: some must pass, and some must fail."""

import contextlib
import os
from pathlib import Path

import pytest
from each_engine import TCP_PASSWORD
from hypothesis import given
from hypothesis import strategies as st
from recorded_sqlserver import PASSWORD as SQL_PASSWORD
from recorded_sqlserver import recorded
from tds_server import ServerError

from storagelab.engines.postgres import connect as of_postgres
from storagelab.engines.postgres.connect import client_environment
from storagelab.engines.postgres.loads.inserts import Tables
from storagelab.errors import PreflightError, SpecError
from storagelab.model import promises
from storagelab.model.config import TargetConfig
from storagelab.model.measurement import Check
from storagelab.model.promises import Outcome, judged
from storagelab.model.volume import VolumeConfig
from storagelab.model.waits import SampledWaits
from storagelab.run import contract
from storagelab.run import contract as suite
from storagelab.run.contract import _engine_of, target_of, verify
from storagelab.run.engine import engine_in
from storagelab.servers.attached import HIDDEN
from storagelab.servers.server import AttachedServer

ROWS = 400
MYSQL = "STORAGELAB_TEST_MYSQL"


def tried(target, **changes) -> dict[str, contract.Promise]:
    return {promise.name: promise for promise in verify(target, rows_per_connection=ROWS, **changes)}


def broken(found: dict[str, contract.Promise]) -> dict[str, str]:
    return {name: promise.detail for name, promise in found.items() if promise.state == "fail"}


# --- kept ------------------------------------------------------------------------------------------------------------


def kept(target, **changes) -> dict[str, contract.Promise]:
    """What a server is tried for, once it has kept all its promises."""
    found = tried(target, **changes)
    passed = {name for name, promise in found.items() if promise.state == "pass"}
    # Samples of so short runs may be too few for a share of the time, on a busy machine.
    assert set(promises.ALL) - passed <= {promises.CONSERVATION, promises.WAITS}, broken(found)
    return found


def test_a_server_of_each_engine_keeps_every_promise_by_the_same_code(server):
    told: list[str] = []
    assert list(kept(target_of(server.dsn), say=told.append)) == list(promises.ALL)
    assert told[0] == "looking at the server"
    assert told[-1] == "cleaning up"
    assert sum(line.startswith("running layout.data_files") for line in told) == 4


def test_a_sql_server_on_record_keeps_every_promise_by_the_same_code(monkeypatch):
    with recorded() as answers:
        monkeypatch.setenv("LAB", answers.dsn())
        found = tried(target_of("LAB"))
        assert broken(found) == {}
        assert {promise.state for promise in found.values()} == {"pass"}
        assert answers.server.names == {"master", "somebody"}


def test_a_load_that_works_on_tables_of_others_breaks_a_promise(attached, scratch, monkeypatch):
    """Nothing reads back where its names lead, and something drops what the client asks for, once the tables are
    made.
    """
    monkeypatch.setattr(of_postgres, "refuse_elsewhere", lambda *_: None)
    found = client_environment

    def dropping(conninfo, options, **more):
        return {
            name: text for name, text in found(conninfo, options, **more).items()
            if name != "PGOPTIONS" or "row_security" in options
        }  # fmt: skip

    monkeypatch.setattr(of_postgres, "client_environment", dropping)
    promise = suite._Suite(target_of(attached.conninfo), {}, lambda _: None, ROWS, Path())._beside()
    assert (promise.state, promise.detail) == ("fail", "it changed tables that are not storagelab's")


@pytest.mark.skipif(
    MYSQL not in os.environ, reason=f"no MySQL is given (Debian stable has none): {MYSQL}=mysql://user:password@host/"
)
def test_a_mysql_keeps_every_promise_by_the_same_code():
    kept(target_of(MYSQL))


def test_volumes_of_a_spec_are_tried_as_well(monkeypatch):
    with recorded() as answers:
        monkeypatch.setenv("LAB", answers.dsn())
        assert broken(tried(target_of("LAB"), volumes={"a": VolumeConfig(path="/data/a", remote=True)})) == {}
        assert [batch for batch in answers.server.batches if "/data/a/storagelab_" in batch]
        answers.server.mount_points = None
        found = tried(target_of("LAB"), volumes={"a": VolumeConfig(path="/data/a", remote=True)})
        assert broken(found) == {}
        assert found[promises.OTHER_CHECKS].state == "open"


def test_relative_volumes_of_a_spec_stand_beside_it(attached, scratch, monkeypatch):
    """Data files of PostgreSQL go to a folder of this machine."""
    (scratch / "lab" / "drive").mkdir(parents=True, mode=0o755)
    (scratch / "lab").chmod(0o755)
    found = tried(target_of(attached.conninfo), volumes={"a": VolumeConfig(path="drive")}, spec_folder=scratch / "lab")
    assert found[promises.REACHED].state == "pass", found[promises.REACHED].detail
    assert found[promises.PLACEMENT].state == "pass"
    assert list((scratch / "lab" / "drive").iterdir()) == []


# --- broken: rights and passwords ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", ["postgres"], indirect=True)
def test_a_missing_right_is_named_and_nothing_else_is_tried(server, login, scratch):
    found = tried(target_of(login()))
    assert "lacks the right CREATE on the database" in broken(found)[promises.REACHED]
    assert [promise.state for promise in found.values()] == ["fail"] + ["open"] * (len(promises.ALL) - 1)


def test_a_wrong_password_fails_in_the_servers_words_and_is_not_shown(on_tcp, monkeypatch, typed):
    monkeypatch.setenv("LAB", on_tcp.replace(TCP_PASSWORD, "not-this-one"))
    code, out, err = typed("doctor", "--target", "LAB")
    assert code == 1
    assert 'password authentication failed for user "lab"' in " ".join(out.split())
    assert "not-this-one" not in out + err
    assert f"0 kept, 1 broken, {len(promises.ALL) - 1} open" in out


def test_the_right_password_is_never_shown_whatever_the_server_repeats(monkeypatch, typed):
    with recorded() as answers:
        monkeypatch.setenv("LAB", answers.dsn())
        answers.server.refuse["EXEC dbo.insert_rows"] = ServerError(50000, f"it said {SQL_PASSWORD}")
        code, out, err = typed("doctor", "--target", "LAB")
    assert code == 1
    assert HIDDEN in " ".join(out.split())
    assert SQL_PASSWORD not in out + err


# --- what the suite asks of an engine -------------------------------------------------------------------------------

NAME = 'storagelab_"`%s'


def test_what_is_there_is_listed_and_what_is_put_in_the_way_is_cleared_while_it_is_empty(server):
    """Each table is listed so that it differs once it is made anew."""
    target, probe = TargetConfig(engine=server.engine, dsn=server.dsn), engine_in(server.engine).probe()
    server.said("CREATE SCHEMA theirs", "CREATE TABLE theirs.table1 (x INT)")
    before = probe.inventory(target)
    assert any("theirs.table1 (" in name for name in before)
    probe.obstruct(target, NAME)
    (made,) = probe.inventory(target) - before
    assert NAME in made
    with pytest.raises(PreflightError, match="the server says: "):
        probe.obstruct(target, NAME)
    quoted = {"postgres": '"storagelab_""`%s"', "mariadb": '`storagelab_"``%s`'}[server.engine]
    server.said(f"CREATE TABLE {quoted}.theirs (x INT)")
    with contextlib.suppress(PreflightError):
        probe.clear(target, NAME)
    assert made in probe.inventory(target)
    server.said(f"DROP TABLE {quoted}.theirs")
    probe.clear(target, NAME)
    assert probe.inventory(target) == before
    server.said("DROP TABLE theirs.table1", "DROP SCHEMA theirs")


# --- broken: what an engine does -------------------------------------------------------------------------------------


def test_an_engine_that_drops_what_is_not_its_own_is_found_out(attached, scratch, monkeypatch):
    def made(self, own):
        return {"database": [], "schema": [self.prefix] if _has(own, self.prefix) else [], "tablespace": []}

    monkeypatch.setattr(Tables, "_made_before", made)
    assert "did not refuse it" in broken(tried(target_of(attached.conninfo)))[promises.FOREIGN_REFUSED]


def _has(connection, name: str) -> bool:
    return connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [name]).fetchone() is not None


def test_an_engine_that_leaves_something_behind_is_found_out_and_cleaned_up_after(attached, scratch, monkeypatch):
    close = AttachedServer.close

    def forget(self) -> None:
        self.system.layout.drop = lambda *_, **__: []
        close(self)

    monkeypatch.setattr(AttachedServer, "close", forget)
    found = broken(tried(target_of(attached.conninfo)))
    assert "left: " in found[promises.INTERRUPTION]
    assert "dropped schema storagelab_" in found[promises.LEFT_BEHIND]
    assert promises.UNTOUCHED not in found


@pytest.fixture(scope="module")
def outcome(shared_server) -> Outcome:
    """The outcome of one real run."""
    suite_ = suite._Suite(target_of(shared_server.conninfo), {}, lambda _: None, ROWS, Path())
    return suite_._run(suite_.plan.cells[1])


WAITS = SampledWaits(connections=4, elapsed_s=1, busy_s=4, passes=10, events=(), cpu_s=0.1, runqueue_s=0.1)
SECRET = "in the open"


@pytest.mark.parametrize(
    ("promise", "changes", "words"),
    [
        (promises.ROWS, {"rows": lambda m: m.rows - 1}, f"{4 * ROWS - 1} of {4 * ROWS} rows"),
        (promises.TIMES, {"connection_s": lambda m: m.connection_s[:3]}, "3 connections have a time, 4 were asked for"),
        (promises.TIMES, {"elapsed_s": lambda m: max(m.connection_s) / 2}, "a connection took"),
        (promises.TIMES, {"connection_s": lambda m: (0.0, *m.connection_s[1:])}, "a time is not above 0"),
        (
            promises.SETTINGS,
            {"checks": lambda m: tuple(c for c in m.checks if "work_mem" not in c.name)},
            "not read back",
        ),
        (
            promises.SETTINGS,
            {"checks": lambda m: tuple(c.model_copy(update={"ok": False}) for c in m.checks)},
            "asked 5MB",
        ),
        (promises.PLACEMENT, {"checks": lambda m: ()}, "was not read back"),
        (promises.WAITS, {"waits": lambda m: None}, "there are none"),
        (promises.CONSERVATION, {"waits": lambda m: WAITS}, "they explain 5% of it"),
        (promises.WAITS, {"waits": lambda m: WAITS.model_copy(update={"busy_s": 40.0})}, "UNSAMPLED lasted"),
    ],
)
def test_each_promise_can_be_broken(outcome, promise, changes, words):
    changed = outcome.measurement.model_copy(update={name: new(outcome.measurement) for name, new in changes.items()})
    found = {p.name: p for p in judged([outcome.model_copy(update={"measurement": changed})], SECRET)}
    assert words in broken(found)[promise]
    assert "layout.data_files 1, workload.rows_per_transaction" in broken(found)[promise]


@pytest.mark.parametrize(
    ("promise", "changes", "words"),
    [
        (promises.ROWS, {"measurement": None, "reason": "the server went away"}, "the server went away"),
        (promises.PROGRESS, {"progress": ()}, "never reported"),
        (promises.PROGRESS, {"progress": (5, 3)}, "3 of "),
        (promises.PROGRESS, {"progress": (4 * ROWS + 1,)}, f"{4 * ROWS + 1} of {4 * ROWS} rows were reported"),
        (promises.SECRETS, {"stored": f"dsn {SECRET}"}, "it contains the password"),
    ],
)
def test_what_comes_beside_a_measurement_is_judged_as_well(outcome, promise, changes, words):
    found = {p.name: p for p in judged([outcome, outcome.model_copy(update=changes)], SECRET)}
    assert words in broken(found)[promise]


@pytest.mark.parametrize(("name", "state"), [("volume a", "open"), ("point reads", "fail")])
def test_only_where_a_volume_of_another_machine_lies_may_stay_unknown(outcome, name, state):
    unknown = Check(name=name, asked="/data", got="the server does not tell", ok=None, read_from="nowhere")
    changed = outcome.measurement.model_copy(update={"checks": (*outcome.measurement.checks, unknown)})
    found = {p.name: p for p in judged([outcome.model_copy(update={"measurement": changed})], SECRET)}
    assert found[promises.OTHER_CHECKS].state == state


def test_a_server_that_can_not_tell_leaves_a_promise_open(outcome):
    no_cpu = outcome.measurement.model_copy(
        update={"waits": WAITS.model_copy(update={"cpu_s": None, "runqueue_s": None})}
    )
    found = {p.name: p for p in judged([outcome.model_copy(update={"measurement": no_cpu})], "")}
    assert found[promises.CONSERVATION].state == "open"


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_doctor_prints_a_line_a_promise_and_ends_with_0_when_all_are_kept(monkeypatch, typed):
    with recorded() as answers:
        monkeypatch.setenv("LAB", answers.dsn())
        monkeypatch.setattr(suite, "ROWS_PER_CONNECTION", ROWS)
        code, out, err = typed("doctor", "--target", "LAB")
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("pass  ")] == [
        f"pass  {name}" for name in promises.ALL
    ]
    assert f"{len(promises.ALL)} kept, 0 broken, 0 open" in out
    assert "cleaning up" in err


@pytest.mark.parametrize(
    "wrong", ["s3cret", "oracle://me:s3cret@host", "://", "NOT_SET_ANYWHERE", "mssql:me:s3cret@host"]
)
def test_a_target_that_is_none_is_refused_and_not_shown(typed, wrong):
    code, out, err = typed("doctor", "--target", wrong)
    assert code == 2
    assert "--target" in err
    if "NOT_SET" not in wrong and wrong != "s3cret":
        assert "s3cret" not in out + err


@given(st.text(max_size=30))
def test_whatever_is_given_as_a_target_is_an_engine_or_refused(text):
    refused = False
    try:
        engine = _engine_of(text)
    except SpecError:
        refused = True
    assert refused or engine in ("postgres", "sqlserver", "mariadb")
