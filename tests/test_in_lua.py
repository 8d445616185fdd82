"""Transactions of the user's own, written in Lua for sysbench."""

import pytest

from storagelab.errors import PreflightError
from storagelab.loads import sysbench
from storagelab.loads.own_files import Source
from storagelab.model.loads.pgbench import Script

ORDER = r"""\set who random(1, 100)
-- a note; with a semicolon
INSERT INTO orders (who) VALUES (:who); SELECT 'a;b', "c",
  nope # another; note
FROM t WHERE x = ':who' AND at > '12:30:00';
\set n 7
SELECT :n /* one; more */ + :unknown
"""


def order(text: str = ORDER) -> sysbench.LuaScript:
    return sysbench.written([Source(Script("order.sql", 3), text.encode()), Source(Script("x.sql", 1), b"SELECT 2")])


def queries(script: sysbench.LuaScript) -> dict[str, tuple[str, int] | None]:
    return {
        line.strip(): origin
        for line, origin in zip(script.text.splitlines(), script.origins, strict=True)
        if "con:query" in line and "ROLLBACK" not in line
    }


def test_statements_end_at_semicolons_outside_of_quotes_and_notes_and_name_their_lines():
    assert queries(order()) == {
        r'con:query("INSERT INTO orders (who) VALUES (" .. v.who .. ")")': ("order.sql", 3),
        r'con:query("SELECT '
        r"'a;b', \034c\034,\010  nope  \010FROM t WHERE x = '"
        r'" .. v.who .. "'
        r"' AND at > '12:30:00'"
        r'")': ("order.sql", 3),
        'con:query("SELECT " .. v.n .. "   + :unknown")': ("order.sql", 7),
        'con:query("SELECT 2")': ("x.sql", 1),
    }


def test_a_failure_is_told_by_the_users_file_and_line():
    script = order()
    place = 1 + list(script.origins).index(("x.sql", 1))
    said = (
        "FATAL: mysql_drv_query() returned error 1054 (Unknown column 'nope') for query 'SELECT nope'\n"
        f"FATAL: `thread_run' function failed: ./storagelab-script.lua:{place}: SQL error, errno = 1054, "
        "state = '42S22': Unknown\n"
    )
    assert script.words(said) == "x.sql, line 1: Unknown"
    assert script.words("FATAL: unable to connect to MySQL server\n") == "unable to connect to MySQL server"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT 1;\n\\sleep 1 ms\n", r"order.sql, line 2: .* does not know \\sleep 1 ms"),
        ("\\set n random_gaussian(1, 9, 2)\nSELECT :n", "line 1"),
        ("\\set n random(9, 1)\nSELECT :n", "nothing can be drawn from 9 to 1"),
        ("-- nothing;\n\\set n 1\n", "holds no statement"),
    ],
)
def test_what_sysbench_does_not_know_is_refused_with_its_line(text, problem):
    with pytest.raises(PreflightError, match=problem) as caught:
        order(text)
    assert caught.value.key == "workload.transactions[1].file"
