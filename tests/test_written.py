"""Specs whose workload's kind is a factor: they may have the keys of every kind, each cell only those of its own."""

from spec_texts import factor, planned

KINDS = """kind = [
  { label = "random" },
  { label = "ascending", "workload.kind" = "sequential-insert" },
  { label = "half reads", "workload.kind" = "mixed", "workload.read_fraction" = 0.5 },
]"""


def test_each_level_may_bring_its_own_kind_and_keys() -> None:
    loads = [cell.config.workload for cell in planned(factor(KINDS)).cells]
    assert [load.kind for load in loads] == ["random-insert", "sequential-insert", "mixed"]
    assert [load.reads_per_row for load in loads] == [0.0, 0.0, 1.0]


def test_the_kind_of_raw_io_follows_from_its_engine() -> None:
    raw_io = """[target]\nengine = "raw-io"\n[drives.d]\nprofile = "scsi-15k-300"\n[volumes.a]\ndrives = ["d"]
        [workload]\noperation = "read"\npattern = "random"\nblock = "8KiB"\n"""
    for text in (raw_io, raw_io + 'kind = "raw-io"\n'):
        assert planned(text).cells[0].config.workload.kind == "raw-io"
