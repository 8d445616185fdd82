"""The vocabularies of waits: a line says all of a wait, a wait without a line follows a rule, and documents agree."""

import re
from pathlib import Path

import pytest

from storagelab.engines.mariadb import meanings as mariadb
from storagelab.engines.postgres import meanings as postgres
from storagelab.model.waits import NO_EVENT
from storagelab.watching import wait_events as v
from storagelab.watching.wait_events import UNKNOWN, Event, WaitEvents, io

DOCS = Path(__file__).parent.parent / "docs"
EVENT = re.compile(r"\b(?:IO|IPC|LWLock|Lock|BufferPin|Timeout|Client):\w+|\b(?:io|synch)/[\w/]+\w")


def test_a_new_wait_takes_one_line():
    meaning = WaitEvents({**postgres.LISTED, "IO:NewOf19": io(v.LOG_WRITE, "the log's new file")}, {}, str.casefold)
    assert (meaning("IO:newof19").category, meaning("IO:NewOf19").analogue) == ("commit", "WRITELOG")


def test_the_first_rule_that_fits_decides_on_a_wait_without_a_line():
    meaning = WaitEvents({}, {"^a": Event(v.LATCH, "first"), "a": Event(v.LOCK, "second")})
    assert [meaning(name).resource for name in ("ab", "ba", "ab")] == ["first", "second", "first"]
    assert meaning("nothing") == meaning(NO_EVENT) == UNKNOWN


@pytest.mark.parametrize(("document", "events"), [("waits-postgresql.md", postgres), ("waits-mariadb.md", mariadb)])
def test_the_documents_name_each_wait_in_its_category(document, events):
    (found,) = DOCS.rglob(document)
    rows = [line.split("|") for line in found.read_text().splitlines() if re.match(r"\| [a-z]+(-[a-z]+)? \| ", line)]
    named = {name: row[1].strip() for row in rows for name in EVENT.findall(row[2])}
    assert len(named) >= 2
    assert {name: events.event_of(name).category for name in named} == named
