"""What `plan` says of a load's data against the memory that may hold it."""

import pytest

from storagelab.model.loads.pgbench import Pgbench
from storagelab.model.loads.sql import Sql
from storagelab.model.loads.sysbench import Sysbench
from storagelab.servers.space import Memory, memory_note

GIB = 2**30
UNIT_BYTES = {Pgbench: 17 * 2**20, Sysbench: 300, Sql: 0}
PGBENCH = Pgbench(scale=100)  # 1.7 GiB


def said(load, buffers: float | None, machine: float | None, *, cached: bool = True) -> str:
    sizes = [None if one is None else round(one * GIB) for one in (buffers, machine)]
    return memory_note(load, UNIT_BYTES[type(load)], Memory("shared_buffers", *sizes, cached=cached))


@pytest.mark.parametrize(
    ("buffers", "machine", "cached", "says"),
    [
        (2, 8, True, "takes about 1.7 GiB, 0.83 of shared_buffers and 0.21 of the machine's memory: it fits"),
        (1, 8, True, "the kernel's page cache can hold it"),
        (1, None, True, "how much memory the server's machine has for its page cache is not known"),
        (None, 8, True, "how large shared_buffers is on the server is not known"),
    ],
)
def test_what_fits_and_what_is_not_known_is_said(buffers, machine, cached, says):
    assert says in said(PGBENCH, buffers, machine, cached=cached)


def test_direct_io_and_more_data_than_memory_leave_nothing_to_warn_of():
    for text in (said(PGBENCH, 1, 8, cached=False), said(PGBENCH, 0.5, 1)):
        assert text.endswith("the machine's memory")


def test_sysbenchs_tables_are_counted_by_their_rows():
    text = said(Sysbench(tables=2, table_size=1_000_000), 1, 8)
    assert text.startswith(
        "the data of sysbench in 2 tables of 1,000,000 rows takes about 572 MiB, 0.56 of shared_buffers"
    )


@pytest.mark.parametrize(
    "load", [Sysbench(script="mine.lua"), Sql.model_validate({"transactions": ({"file": "x.sql"},)})]
)
def test_of_what_the_users_own_files_make_nothing_is_claimed(load):
    text = said(load, 1, 8)
    assert "is not known before a run" in text
    assert "shared_buffers (1 GiB)" in text


def test_many_times_the_buffers_are_written_as_a_number():
    assert ", 130 times shared_buffers and " in said(Pgbench(scale=1000), 0.128, 64)


def test_a_page_cache_that_is_dropped_before_each_run_holds_nothing_at_first():
    memory = Memory("shared_buffers", 2**28, 8 * 2**30, cached=True)
    assert memory_note(PGBENCH, 17 * 2**20, memory).endswith("so few reads reach the drive")
    assert memory_note(PGBENCH, 17 * 2**20, memory, dropped=True).endswith("so only first reads reach the drive")
