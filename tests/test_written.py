"""Specs whose workload's kind is a factor: they may have the keys of every kind, each cell only those of its own."""

from __future__ import annotations

import pytest
from spec_texts import MINIMAL, factor, planned, refusal

KINDS = """kind = [
  { label = "random" },
  { label = "ascending", "workload.kind" = "sequential-insert" },
  { label = "half reads", "workload.kind" = "mixed", "workload.read_fraction" = 0.5 },
]"""


def test_each_level_may_bring_its_own_kind_and_keys() -> None:
    loads = [cell.config.workload for cell in planned(factor(KINDS)).cells]
    assert [load.kind for load in loads] == ["random-insert", "sequential-insert", "mixed"]
    assert [load.reads_per_row for load in loads] == [0.0, 0.0, 1.0]


def test_a_key_of_another_kind_is_refused_naming_the_cell_that_it_does_not_fit() -> None:
    text = f'{MINIMAL}[workload]\nread_fraction = 0.5\n[factors]\n"workload.kind" = ["mixed", "random-insert"]\n'
    error = refusal(text)
    assert error.key == "workload.read_fraction"
    assert error.problem == (
        'is for mixed workloads, and workload.kind is random-insert (in the cell workload.kind = "random-insert")'
    )
    assert error.hint == 'Set kind = "mixed", or leave it out.'


def test_a_key_that_a_kind_needs_is_asked_for_with_the_lines_to_add() -> None:
    error = refusal(factor('"workload.kind" = ["random-insert", "mixed"]'))
    assert error.key == "workload.read_fraction"
    assert error.problem == 'is missing; it must be a number from 0 to 0.99 (in the cell workload.kind = "mixed")'
    assert error.hint == "Add to the spec:\n    [workload]\n    read_fraction = 0.5"


@pytest.mark.parametrize("kind", ["random-insert", "mixed", "raw-io"])
def test_a_wrong_value_is_refused_by_its_place_whatever_the_kind(kind: str) -> None:
    error = refusal(factor(f'mix = [{{ label = "y", "workload.kind" = "{kind}", "workload.read_fraction" = 2 }}]'))
    assert (error.key, error.problem) == (
        'factors.mix[1]."workload.read_fraction"', "must be a number from 0 to 0.99, not 2",
    )  # fmt: skip
    assert refusal(f'{MINIMAL}[workload]\nkind = "{kind}"\nblock_bytes = 0\n').key == "workload.block_bytes"


def test_the_kind_of_raw_io_follows_from_its_engine() -> None:
    raw_io = """[target]\nengine = "raw-io"\n[drives.d]\nprofile = "scsi-15k-300"\n[volumes.a]\ndrives = ["d"]
        [workload]\noperation = "read"\npattern = "random"\nblock = "8KiB"\n"""
    for text in (raw_io, raw_io + 'kind = "raw-io"\n'):
        assert planned(text).cells[0].config.workload.kind == "raw-io"
    error = refusal(raw_io + 'kind = "mixed"\n')
    assert (error.key, error.problem) == ("workload.kind", "is for databases, and target.engine is raw-io")
    error = refusal(f'{MINIMAL}[workload]\nkind = "raw-io"\n')
    assert (error.key, error.problem) == ("workload.kind", "is for raw I/O, and target.engine is postgres")
