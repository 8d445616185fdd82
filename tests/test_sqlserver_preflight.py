from pathlib import Path

import pytest
from recorded_sqlserver import recorded
from sqlserver_specs import config, plan_of, site
from tds_server import Answer, ServerError

from storagelab.engines.sqlserver.meanings import ServerState, check_settings, latch_note
from storagelab.engines.sqlserver.preflight import check
from storagelab.errors import PreflightError, SpecError
from storagelab.spec import matrix, reading
from storagelab.spec.rules import config_of


@pytest.fixture
def running(monkeypatch):
    with recorded() as running:
        monkeypatch.setenv("STORAGELAB_TESTED", running.dsn())
        yield running


@pytest.fixture
def server(running):
    return running.server


def refused(*configs) -> PreflightError:
    with pytest.raises(PreflightError) as error:
        check(plan_of(*configs), site())
    return error.value


def test_a_server_that_can_run_all_is_described_and_nothing_is_touched(server):
    found = check(plan_of(config(), config(layout={"data_files": 4})), site())
    assert found.server == "SQL Server 2019 (15.0.4153.1), Developer Edition (64-bit), attached"
    assert [(need.name, need.path, need.free_bytes) for need in found.volumes] == [
        ("a", "/data/a", 100 * 2**30), ("b", "/data/b", 100 * 2**30),
    ]  # fmt: skip
    assert server.names == {"master", "somebody"}
    assert not [batch for batch in server.batches if batch.split()[0] in ("CREATE", "ALTER", "DROP", "BACKUP")]


@pytest.mark.parametrize(
    ("changes", "words", "hint"),
    [
        ({"version": "12.0.6024.0"}, "which is too old", "2016 and later"),
        ({"engine_edition": 5}, "Azure SQL Database", "a SQL Server of your own"),
        ({"may_create": 0}, "lacks the right CREATE ANY DATABASE", "GRANT CREATE ANY DATABASE"),
        ({"may_view_state": 0}, "lacks the right VIEW SERVER STATE", "GRANT VIEW SERVER STATE"),
        (
            {"version": "16.0.4085.2", "may_view_state": 0, "may_view_performance": 0},
            "lacks the right VIEW SERVER PERFORMANCE STATE",
            "GRANT VIEW SERVER PERFORMANCE STATE",
        ),
        ({"max_connections": 15}, "room for 6 more connections, 7 are needed", "user connections"),
    ],
)
def test_what_is_missing_is_named_with_the_way_out(server, changes, words, hint):
    server.facts |= changes
    error = refused(config())
    assert words in str(error)
    assert hint in error.hint
    assert error.key == "target.dsn_env"


def test_a_server_with_too_few_worker_threads_for_a_common_start_is_refused(server):
    error = refused(config(workload={"connections": 449}))
    assert (error.key, "needs a worker thread, but the server has 512" in str(error)) == (
        "workload.connections",
        True,
    )
    assert "at most 448" in error.hint
    check(plan_of(config(workload={"connections": 448})), site())


def test_transactions_that_may_lock_the_whole_table_are_told_of(server):
    load = {"rows_per_connection": 5000, "rows_per_transaction": 5000}
    assert any("lock the whole table" in note for note in check(plan_of(config(workload=load)), site()).notes)
    assert not any("lock the whole table" in note for note in check(plan_of(config()), site()).notes)


def test_the_spec_in_the_documentation_is_one():
    text = (Path(__file__).resolve().parent.parent / "docs" / "how-to" / "sql-server.md").read_text()
    found = text.split("```toml\n")[1].split("```")[0]
    assert len(matrix.expand(reading.parse(found, "lab.toml")).cells) == 5 * 2 * 2


def test_a_volume_that_the_server_does_not_see_is_refused(running):
    def blind(login, text):
        return Answer([""], [(False,)]) if "dm_os_file_exists" in text else running.server.answer(login, text)

    running.wire._answer = blind
    error = refused(config(volumes={"a": {"path": "D:\\data", "remote": True}}))
    check(plan_of(config()), site())
    assert (error.key, "not a folder that the server sees" in str(error)) == ("volumes.a.path", True)


def test_a_server_that_does_not_tell_of_its_drives_is_believed(server):
    server.refuse["dm_os_enumerate_fixed_drives|dm_os_file_exists"] = ServerError(300, "VIEW SERVER STATE was denied")
    found = check(plan_of(config()), site())
    assert [need.free_bytes for need in found.volumes] == [None, None]
    assert found.volumes[0].needed_bytes


def test_lack_of_space_is_told_of_all_volumes_on_the_drive(server):
    error = refused(config(workload={"rows_per_connection": 10**9}))
    assert "/ on the server lacks space" in str(error)
    assert error.key == "volumes.a.path and volumes.b.path"


def test_what_can_not_be_done_on_another_machine_is_refused(server):
    assert refused(config(between_runs={"drop_page_cache": True})).key == "between_runs.drop_page_cache"


def test_a_path_with_a_line_break_is_refused_by_name(server):
    error = refused(config(volumes={"a": {"path": "/data\n", "remote": True}}))
    assert (error.key, "control character" in str(error)) == ("volumes.a.path", True)


def test_where_numbers_of_files_are_compared_the_versions_latches_are_told(server):
    notes = check(plan_of(config(), config(layout={"data_files": 8})), site()).notes
    assert [note for note in notes if "PFS" in note] == [latch_note(15)]
    assert not [note for note in check(plan_of(config()), site()).notes if "PFS" in note]
    assert "does neither" in latch_note(14)
    assert "may gain less here" in latch_note(15)
    assert "may gain little here" in latch_note(16)
    assert all("2022-07-21" in latch_note(major) for major in (13, 14, 15, 16, 17, 18))


def test_what_a_spec_of_sql_server_must_say_is_asked_for_by_key():
    base = {"target": {"engine": "sqlserver"}, "volumes": {"a": {"path": "D:\\data"}}}
    with pytest.raises(SpecError, match="starts no SQL Server"):
        config_of(base)
    base["target"]["dsn_env"] = "X"
    with pytest.raises(SpecError, match=r"volumes\.a\.remote: is missing"):
        config_of(base)
    base["volumes"]["a"]["remote"] = True
    assert config_of({**base, "layout": {"log": "a"}}).log_volume == "a"


def test_a_server_that_storagelab_starts_has_no_remote_volumes():
    with pytest.raises(SpecError, match="starts this server itself"):
        config_of({"target": {"engine": "postgres"}, "volumes": {"a": {"path": "/data", "remote": True}}})


@pytest.mark.parametrize(("path", "whole"), [("/data", True), ("D:/data", True), ("data", False), ("./data", False)])
def test_a_remote_path_does_not_depend_on_a_folder_of_this_machine(path, whole):
    tables = {"target": {"engine": "mariadb", "dsn_env": "LAB"}, "volumes": {"a": {"path": path, "remote": True}}}
    if whole:
        assert config_of(tables).volumes["a"].remote
        return
    with pytest.raises(SpecError, match=r"volumes\.a\.path: must be an absolute path"):
        config_of(tables)


# --- settings ---------------------------------------------------------------------------------------------------------


STATE = ServerState({"max server memory (mb)": 4096, "max degree of parallelism": 8}, (1118, 3226), True)


def settings_refused(settings, major=15, state=STATE) -> PreflightError:
    with pytest.raises(PreflightError) as error:
        check_settings(settings, major, state)
    return error.value


def test_what_the_server_has_and_what_a_database_can_take_is_let_through():
    check_settings(
        {
            "recovery": "full", "delayed_durability": "forced", "query_store": False, "target_recovery_time_s": 0,
            "data_compression": "page", "optimize_for_sequential_key": True, "accelerated_database_recovery": "off",
            "trace_flags": "1118", "instant_file_initialization": True, "max degree of parallelism": 8,
            "data_file_mb": 512,
        },
        15, STATE,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"recovery": "none"}, "must be one of SIMPLE, FULL, BULK_LOGGED"),
        ({"recovery": "SIMPLE; DROP DATABASE master"}, "must be one of"),
        ({"target_recovery_time_s": "60 SECONDS"}, "must be a whole number"),
        ({"data_file_mb": True}, "must be a whole number"), ({"data_file_mb": -1}, "must be a whole number"),
        ({"recvoery": "full"}, "did you mean recovery?"),
        ({"max server memory": 4096}, "did you mean max server memory (mb)?"),
        ({"trace_flags": "1117"}, "trace flag 1117 is off"), ({"trace_flags": "all"}, "not a list of trace flags"),
        ({"instant_file_initialization": False}, "instant file initialisation is on"),
        ({"max degree of parallelism": 1}, "it is 8"),
    ],
)  # fmt: skip
def test_what_can_not_be_had_is_refused_by_key(settings, words):
    error = settings_refused(settings)
    assert words in str(error)
    assert error.key == f"target.settings.{next(iter(settings))}"


def test_what_all_of_a_server_shares_is_left_to_its_operator_who_is_told_how():
    assert "DBCC TRACEON (1117, -1)" in settings_refused({"trace_flags": 1117}).hint
    assert (
        "EXEC sp_configure N'max degree of parallelism', 1; RECONFIGURE"
        in settings_refused({"max degree of parallelism": 1}).hint
    )


def test_options_of_a_later_version_are_refused_on_an_earlier_one():
    for name in ("accelerated_database_recovery", "optimize_for_sequential_key"):
        assert "SQL Server 2019 introduced it" in str(settings_refused({name: True}, major=14))


def test_a_server_that_does_not_tell_of_file_initialisation_can_not_promise_it():
    error = settings_refused({"instant_file_initialization": True}, state=STATE._replace(file_initialisation=None))
    assert "not reported by this server" in str(error)
