"""Profiles of drives: every figure with its label and its source."""

from __future__ import annotations

import io
from importlib import resources
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from storagelab import profiles
from storagelab.cli import app
from storagelab.errors import PreflightError
from storagelab.report.profile_text import print_profile

TEXT = resources.files("storagelab.profiles").joinpath("iodrive-320.toml").read_text()


@pytest.mark.parametrize("name", profiles.ready_made())
def test_every_ready_made_profile_loads_under_its_own_name(name):
    profile = profiles.load(name, Path())
    assert profile.name == name
    assert profile.sectors == tuple(sorted(profile.sectors))
    assert all(figure.source for _, figure in profile.figures())


def test_a_file_of_ones_own_works_too_and_is_found_beside_the_spec(tmp_path):
    (tmp_path / "mine.toml").write_text(TEXT.replace('name = "iodrive-320"', 'name = "mine"'))
    assert profiles.load("mine.toml", tmp_path).name == "mine"


def test_a_profile_that_there_is_not_is_refused_with_the_nearest_one(tmp_path):
    with pytest.raises(PreflightError, match=r"drives.ssd.profile: no profile is named 'iodrive-321'\n.*iodrive-320"):
        profiles.load("iodrive-321", tmp_path, "drives.ssd.profile")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('label = "fitted"', 'label = "guessed"', "geometry.raw_bytes.label: must be derived, published or fitted"),
        ("[geometry.dies]", "[geometry.dice]", "geometry.dies: is missing"),
        ("source = ", 'note = "x"\nsource = ', "geometry.raw_bytes.note: is not a figure"),
        ("[mapping.worst_case_bytes.512]", "[mapping.worst_case_bytes.small]", "small: is no size of a sector"),
        ("bounds = [64, 8192]", "bounds = [65, 8192]", "pages_per_block.bounds: the value 64 is not within 65 to 8192"),
        ("bounds = [64, 8192]", "bounds = [64, 64]", "pages_per_block.bounds: 64 must be less than 64"),
        ('= "derived"', '= "derived"\nbounds = [1, 9]', "flash_page_bytes.bounds: are for fitted figures"),
        ("bounds = [64, 8192]", "bounds = [64]", "geometry.pages_per_block.bounds[2]: is missing"),
        ("name = ", "name ", "can't be used"),
    ],
)
def test_what_is_wrong_in_a_profile_is_named_by_its_place(tmp_path, old, new, words):
    assert old in TEXT
    (tmp_path / "mine.toml").write_text(TEXT.replace(old, new, 1))
    with pytest.raises(PreflightError) as caught:
        profiles.load("mine.toml", tmp_path, "drives.ssd.profile")
    assert words in str(caught.value)


def test_a_file_that_is_not_there_is_refused_in_plain_words(tmp_path):
    with pytest.raises(PreflightError, match="No such file"):
        profiles.load("none.toml", tmp_path)


def test_show_prints_every_figure_with_label_and_source():
    text = io.StringIO()
    profile = profiles.load("iodrive-320", Path())
    print_profile(Console(file=text, width=250), profile)
    lines = text.getvalue().splitlines()
    for name, figure in profile.figures():
        (line,) = [line for line in lines if line.startswith(f"{name} ")]
        assert figure.label in line
        assert figure.source[:60] in line


def test_the_verb_lists_all_profiles():
    listed = CliRunner().invoke(app, ["profiles"])
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in profiles.ready_made())
    shown = CliRunner().invoke(app, ["profiles", "show", "iodrive-320"])
    assert "geometry.raw_bytes" in shown.stdout
