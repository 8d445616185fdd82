"""What a run leaves behind, and what earlier versions left behind."""

from __future__ import annotations

import pytest

from storagelab.model.measurement import Page, Resource, WaitingTask

TASK = {"at_s": 1.5, "wait_type": "PAGELATCH_UP", "sessions": 3}


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("5:1:1520544, a PFS page", Resource(kind="a PFS page", page=Page(5, 1, 1520544))),
        ("end of transaction 7291", Resource(kind="end of transaction", name="7291")),
        ("index level 1 no. 87", Resource(kind="index level 1", name="no. 87")),
        ("data file 3", Resource(kind="data file", name="3")),
        ("row 3/4 of my_big_table_p1 (data file 1)", Resource(kind="row 3/4 of my_big_table_p1 (data file 1)")),
        ("page 8088 of data file 1 (PFS)", Resource(kind="page 8088 of data file 1 (PFS)")),
        ("", Resource(kind="")),
    ],
)
def test_a_thing_that_was_stored_as_text_is_read_and_has_that_text(text, resource):
    task = WaitingTask(**TASK, resource=text)
    assert task.resource == resource
    assert task.resource.text == text
    assert WaitingTask.model_validate_json(task.model_dump_json()) == task


@pytest.mark.parametrize("resource", [7, None, {"page": [1, 2, 3]}, {"kind": "x", "page": [1, 2]}])
def test_what_names_no_thing_is_refused(resource):
    with pytest.raises(ValueError, match="resource"):
        WaitingTask(**TASK, resource=resource)
