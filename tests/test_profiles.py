"""Profiles of drives: every figure with its label and its source."""

import io
import json
from importlib import resources
from pathlib import Path

import pytest
from fabricated_findings import golden
from rich.console import Console
from typer.testing import CliRunner

from storagelab import profiles
from storagelab.cli import app
from storagelab.errors import PreflightError
from storagelab.report.text.profiles import print_figures

TEXT = resources.files("storagelab.profiles").joinpath("iodrive-320.toml").read_text()
WRONG = json.loads(golden("refused-profiles", "json").read_text("utf-8"))


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


def said_of(case: dict[str, str], folder: Path) -> str:
    """What is said of a ready-made profile in which something was replaced."""
    text = resources.files("storagelab.profiles").joinpath(f"{case['of']}.toml").read_text()
    assert case["old"] in text
    (folder / "mine.toml").write_text(text.replace(case["old"], case["new"], 1))
    with pytest.raises(PreflightError) as caught:
        profiles.load("mine.toml", folder)
    return str(caught.value)


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case["new"])
def test_what_is_wrong_in_a_profile_is_named_by_its_place(tmp_path, case):
    assert said_of(case, tmp_path) == case["says"]


@pytest.mark.parametrize("width", [80, 250])
def test_show_prints_every_figure_with_its_label_and_on_request_its_source(width):
    profile = profiles.load("iodrive-320", Path())
    short, long = io.StringIO(), io.StringIO()
    print_figures(Console(file=short, width=width), profile, sources=False)
    print_figures(Console(file=long, width=width), profile, sources=True)
    lines = long.getvalue().splitlines()
    for name, figure in profile.figures():
        (number,) = [number for number, line in enumerate(lines) if line.startswith(f"{name} ")]
        assert figure.label in lines[number]
        assert lines[number + 1].strip() in figure.source
    assert len(short.getvalue().splitlines()) < len(list(profile.figures())) + 6
    assert "--sources" in short.getvalue()


def test_what_a_drive_costs_is_told_where_its_profile_has_a_price(tmp_path, monkeypatch):
    price = '\n[price_usd]\nvalue = 3000.0\nlabel = "published"\nsource = "a list"\n'
    (tmp_path / "mine.toml").write_text(TEXT + price)
    out = CliRunner().invoke(app, ["drives", "show", str(tmp_path / "mine.toml")], env={"COLUMNS": "150"}).output
    assert "USD a GB" in out
    room = next(line.split() for line in out.splitlines() if line.startswith("basic"))
    usable_gb, reads_per_s, a_gb = float(room[1]), float(room[3].replace(",", "")), float(room[5])
    assert usable_gb == 300
    assert a_gb == pytest.approx(10)
    assert float(room[6]) == pytest.approx(3000 / reads_per_s, rel=0.01)
    assert "Host memory for the map of a full drive" in out


def test_a_ready_made_profile_is_printed_to_begin_ones_own_with_and_that_is_one(tmp_path):
    printed = CliRunner().invoke(app, ["drives", "show", "iodrive-320", "--toml"])
    assert printed.stdout == TEXT
    (tmp_path / "mine.toml").write_text(printed.stdout)
    assert profiles.load("mine.toml", tmp_path) == profiles.load("iodrive-320", Path())


def test_what_can_not_be_together_is_said_before_a_line_is_printed(tmp_path, monkeypatch):
    file = tmp_path / "mine.toml"
    file.write_text(TEXT.replace("value = 300_000_000_000", "value = 400_000_000_000", 1))
    shown = CliRunner().invoke(app, ["drives", "show", str(file)])
    assert shown.stdout == ""
    assert isinstance(shown.exception, PreflightError)
    assert "make the usable capacity smaller" in str(shown.exception)


def test_what_the_card_has_of_its_half_is_what_the_half_has():
    """A fit changes iodrive-320: its card follows, or its sources would be wrong."""
    half, card = (profiles.load(name, Path()) for name in ("iodrive-320", "iodrive-duo-640"))
    of_half = dict(half.figures())
    followers = {
        name: figure.value for name, figure in card.figures() if figure.source.startswith("The figure of iodrive-320")
    }
    assert len(followers) > 10
    assert followers == {name: of_half[name].value for name in followers}
    assert card.timing.buffer_pages.value == 2 * int(half.timing.buffer_pages.value)
    assert card.geometry.raw_bytes.value == 2 * int(half.geometry.raw_bytes.value)
