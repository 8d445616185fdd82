"""Cells by id or by levels. A name that fits no cell, or several cells, is refused with the possible names."""

from types import SimpleNamespace

import pytest

from storagelab.errors import SpecError
from storagelab.spec.naming import find_cell

LABELS = {"layout.data_files": "data files", "driver": "driver", "layout.log": "log volume"}
DRIVERS = ("1.2.7, 512 B", "2.2.3, 512 B", "2.2.3, 4 KB")
CELLS = [
    SimpleNamespace(cell_id=f"c{number:02d}", levels={"layout.data_files": files, "driver": driver, "on": flag})
    for number, (files, driver, flag) in enumerate(
        ((files, driver, flag) for files in (1, 8, 80) for driver in DRIVERS for flag in (True, False)), 1
    )
]


@pytest.mark.parametrize("asked", ["c03", "c3", "C003", " c03 "])
def test_an_id_is_found_however_wide_it_is_written(asked):
    assert find_cell(asked, CELLS, LABELS) == "c03"


@pytest.mark.parametrize("name", ["layout.data_files", "data_files", "data files", "Data-Files"])
def test_a_factor_is_named_by_its_path_the_last_part_or_its_label(name):
    assert find_cell(f"{name}=8,driver=2.2.3, 4 KB,on=off", CELLS, LABELS) == "c12"


@pytest.mark.parametrize("files", ["8", "8.0", "08"])
def test_a_level_that_is_a_number_is_named_by_its_value(files):
    assert find_cell(f"data_files={files},driver=1.2.7, 512 B,on=on", CELLS, LABELS) == "c07"


def test_factors_that_decide_nothing_may_be_left_out():
    some = [cell for cell in CELLS if cell.levels["on"]]
    assert find_cell("data_files=80,driver=1.2.7, 512 B", some, LABELS) == "c13"


@pytest.mark.parametrize(
    ("asked", "problem", "hint"),
    [
        ("c99", "there is no cell 'c99'", "cells: c01, c02"),
        ("x", "there is no cell 'x'", "data_files=1"),
        ("files=4", "no factor is called 'files'", "factors: layout.data_files, driver, on"),
        ("data_files=4", "no level of layout.data_files is '4'", "levels: 1, 8, 80"),
        ("data_files=3", "no level of layout.data_files is '3'", "levels: 1, 8, 80"),
        ("driver=2.2.3", "no level of driver is '2.2.3'", "levels: 1.2.7, 512 B, 2.2.3, 512 B, 2.2.3, 4 KB"),
        ("data_files=8,on=off", "fits 3 cells", "c08 (data_files=8,driver=1.2.7, 512 B,on=off)"),
        ("driver=2.2.3, 4 KB,data_files=1", "fits 2 cells", "c05"),
    ],
)
def test_what_fits_none_or_several_is_refused_with_what_would_fit(asked, problem, hint):
    with pytest.raises(SpecError) as refused:
        find_cell(asked, CELLS, LABELS)
    assert problem in refused.value.problem
    assert hint in refused.value.hint


def test_a_last_part_that_two_factors_share_is_refused():
    cells = [SimpleNamespace(cell_id="c01", levels={"drives.a.format": "basic", "drives.b.format": "basic"})]
    with pytest.raises(SpecError, match="several factors"):
        find_cell("format=basic", cells, {})
