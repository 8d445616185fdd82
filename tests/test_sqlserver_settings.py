import pytest

from storagelab.engines.sqlserver.meanings import ServerState
from storagelab.engines.sqlserver.meanings import check_settings as check
from storagelab.errors import PreflightError

STATE = ServerState({"max server memory (mb)": 4096, "max degree of parallelism": 8}, (1118, 3226), True)


def refused(settings, major=15, state=STATE) -> PreflightError:
    with pytest.raises(PreflightError) as error:
        check(settings, major, state)
    return error.value


def test_what_the_server_has_and_what_a_database_can_take_is_let_through():
    check(
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
    error = refused(settings)
    assert words in str(error)
    assert error.key == f"target.settings.{next(iter(settings))}"


def test_what_all_of_a_server_shares_is_left_to_its_operator_who_is_told_how():
    assert "DBCC TRACEON (1117, -1)" in refused({"trace_flags": 1117}).hint
    assert (
        "EXEC sp_configure N'max degree of parallelism', 1; RECONFIGURE"
        in refused({"max degree of parallelism": 1}).hint
    )


def test_options_of_a_later_version_are_refused_on_an_earlier_one():
    for name in ("accelerated_database_recovery", "optimize_for_sequential_key"):
        assert "it came with SQL Server 2019" in str(refused({name: True}, major=14))


def test_a_server_that_does_not_tell_of_file_initialisation_can_not_promise_it():
    error = refused({"instant_file_initialization": True}, state=STATE._replace(file_initialisation=None))
    assert "not reported by this server" in str(error)
