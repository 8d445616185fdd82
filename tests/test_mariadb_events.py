"""What MariaDB's instruments mean, and which of them make up the sum."""

import pytest

from storagelab.engines.mariadb.meanings import COMMIT, GATE, counts_waits, event_of, is_counted
from storagelab.engines.mariadb.sampler import Sighting, waiting_tasks
from storagelab.model.waits import NO_EVENT, UNINSTRUMENTED

DATA_FILE = "wait/io/file/innodb/innodb_data_file"


@pytest.mark.parametrize(
    ("name", "category", "analogue"),
    [
        (DATA_FILE, "data-read", "PAGEIOLATCH_*"),
        ("wait/synch/sxlock/innodb/index_tree_rw_lock", "page-latch", "PAGELATCH_*"),
        ("wait/synch/rwlock/innodb/fil_space_latch", "allocation", "PAGELATCH_UP on PFS/GAM/SGAM"),
        ("wait/synch/mutex/innodb/buf_pool_mutex", "latch", "LATCH_EX"), (COMMIT, "commit", "WRITELOG"),
        ("wait/io/file/innodb/innodb_log_file", "commit", "WRITELOG"),
        ("wait/synch/mutex/innodb/log_writer_mutex", "log-buffer", "LOGBUFFER"),
        ("wait/synch/cond/sql/MYSQL_BIN_LOG::COND_done", "commit", "WRITELOG"),
        ("wait/synch/cond/of/a/later/release", "latch", "LATCH_EX"),
        ("wait/io/file/of/a/later/release", "other", "IO_COMPLETION"), (NO_EVENT, "other", ""),
    ],
)  # fmt: skip
def test_every_instrument_has_its_class_and_the_name_a_dba_knows(name, category, analogue):
    assert (event_of(name).category, event_of(name).analogue) == (category, analogue)


@pytest.mark.parametrize("name", ["wait/io/table/sql/handler", "wait/lock/table/sql/handler", GATE, "idle"])
def test_what_contains_other_waits_or_is_storagelabs_own_is_not_summed(name):
    assert not is_counted(name)


def test_only_calls_into_the_kernel_are_counted_as_waits():
    assert counts_waits(DATA_FILE)
    assert not counts_waits("wait/synch/mutex/sql/LOCK_table_cache")


def test_sessions_that_wait_for_one_thing_are_told_together_with_the_data_file():
    seen = [
        Sighting(DATA_FILE, "Update", "/x/p2.ibd", asleep=True),
        Sighting(DATA_FILE, "Update", "/x/p2.ibd", asleep=False),
        Sighting(NO_EVENT, "Update", None, asleep=True),
        Sighting(NO_EVENT, "Update", None, asleep=False),  # on a CPU: it waits for nothing
    ]
    tasks = waiting_tasks(1.5, seen, {"/x/p2.ibd": 2})
    assert [(task.wait_type, task.resource.text, task.sessions, task.data_file) for task in tasks] == [
        (DATA_FILE, "data file 2", 2, 2),
        (UNINSTRUMENTED, 'something without a timer, in the state "Update"', 1, None),
    ]
