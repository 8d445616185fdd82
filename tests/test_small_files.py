"""Specs and profiles are files, and small: what has no end is not read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storagelab import profiles
from storagelab.errors import PreflightError, SpecError
from storagelab.spec import reading, small_files


def test_a_device_and_a_fifo_are_refused_before_they_are_read(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.toml"
    os.mkfifo(fifo)
    for place in (Path("/dev/zero"), fifo):
        with pytest.raises(SpecError, match="it is not a regular file"):
            reading.load(place)
        with pytest.raises(PreflightError, match="it is not a regular file"):
            profiles.load(str(place), Path())


def test_a_file_of_a_mebibyte_is_read_and_a_larger_one_is_not(tmp_path: Path) -> None:
    file = tmp_path / "large.toml"
    file.write_text("#" * small_files.MOST_BYTES)
    assert len(small_files.text_of(file)) == small_files.MOST_BYTES
    file.write_text("#" * (small_files.MOST_BYTES + 1))
    with pytest.raises(SpecError, match="it is larger than 1 MiB"):
        reading.load(file)


def test_a_spec_in_a_folder_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    file = folder / "x.toml"
    file.write_text('[target]\nengine = "postgres"\n[volumes.a]\npath = "."\n')
    with pytest.raises(SpecError, match="its path is not UTF-8"):
        reading.load(file)
