"""The fit that anyone can run again: what it searches, and what it writes back."""

import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from storagelab import profiles

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools/fit_model.py"


@pytest.fixture(scope="module")
def fit_model():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOL.parent))
        yield importlib.import_module("fit_model")


@pytest.fixture(scope="module")
def writing(fit_model):
    return importlib.import_module("fit_writing")


@pytest.fixture(scope="module")
def small_spec(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("fit") / "multiple-data-files.toml"
    text = (ROOT / "experiments/multiple-data-files.toml").read_text()
    file.write_text(text.replace("2_500_000", "150_000").replace('"16GB"', '"2GB"'))
    return file


@pytest.fixture
def typed(fit_model, small_spec, capsys):
    def type_(*words: str) -> str:
        fit_model.main(["--spec", str(small_spec), "--scale", "256", "--jobs", "1", *words])
        return capsys.readouterr().out

    return type_


def test_each_block_runs_with_the_format_and_the_driver_of_its_own_cells(fit_model, small_spec):
    setup = fit_model.set_up(fit_model.arguments_of(["--spec", str(small_spec), "--scale", "256"]))
    made = [
        {(drive["format"], drive["driver"]) for drive in block.content["drives"].values()} for block in setup.blocks
    ]
    wanted = [
        {(drive.format, drive.driver) for drive in setup.cells[block.runs[0].cell_id].config.drives.values()}
        for block in setup.blocks
    ]
    assert made == wanted
    assert len({frozenset(one) for one in made}) > 1


def test_it_lowers_the_cost_and_says_every_candidates_ratios(typed):
    out = typed("--vary", "row_cpu_ns=40000:70000", "--figures", "A54", "--figures", "A1", "--minutes", "0.05")
    costs = [float(cost) for cost in re.findall(r"^#\d+ cost ([\d.]+)", out, re.MULTILINE)]
    assert len(costs) > 1
    assert f"cost {min(costs):.3f} after {len(costs)} candidates, fitted on A1" in out
    assert out.count("A1 ") > len(costs)
    assert "server.costs.row_cpu_ns = " in out


def test_without_anything_to_vary_it_shows_the_parameters_as_they_are_and_the_same_each_time(typed):
    words = ("--figures", "A1", "--figures", "A6", "--figures", "A51", "--set", "server.switches.pick_tries=2")
    first, second = typed(*words), typed(*words)
    assert first == second
    assert "after 1 candidates, fitted on A1 A6" in first
    assert re.search(r"^watched:\nA51 ", first, re.MULTILINE)


def test_candidates_side_by_side_come_to_the_same_as_one_after_the_other(typed, small_spec):
    words = ["--vary", "row_cpu_ns=40000:70000", "--figures", "A6", "--minutes", "0"]
    here = typed(*words)
    command = [sys.executable, str(TOOL), "--spec", str(small_spec), "--scale", "256", "--jobs", "2", *words]
    there = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert re.findall(r"A6 .*", there) == re.findall(r"A6 .*", here)


def test_runs_are_made_in_the_plans_order_up_to_the_last_that_a_calibration_figure_needs(fit_model, small_spec):
    setup = fit_model.set_up(fit_model.arguments_of(["--spec", str(small_spec), "--figures", "A1", "--figures", "A41"]))
    (block,) = setup.blocks
    assert [setup.cells[run.cell_id].levels["layout.data_files"] for run in block.runs] == [1, 2, 4, 8]
    assert [figure.id for figure, _ in setup.fitted] == ["A1"]
    assert setup.watched == ()  # A41 takes runs that are not made


def test_a_parameter_that_there_is_not_or_has_no_bounds_is_refused(fit_model, small_spec):
    known = fit_model.parameters_of(fit_model.set_up(fit_model.arguments_of(["--spec", str(small_spec)])))
    with pytest.raises(SystemExit, match="no parameter is called 'row_cpu'"):
        fit_model.varied(["row_cpu"], known)
    with pytest.raises(SystemExit, match="dies has no bounds"):
        fit_model.varied(["geometry.dies"], known)
    (searched,) = fit_model.varied(["geometry.dies=32:64"], known)
    assert (searched.low, searched.high) == (32, 64)


@pytest.mark.parametrize(
    ("file", "profile"),
    [("iodrive-320", profiles.load("iodrive-320", Path())), ("servers/sql-server-2008", profiles.server())],
)
def test_every_fitted_figure_of_a_profile_can_be_written_and_nothing_else_changes(writing, file, profile):
    text = before = (ROOT / f"src/storagelab/profiles/{file}.toml").read_text()
    fitted = [
        (name, one)
        for name, one in profile.figures()
        if one.label in ("fitted", "assumed") and not isinstance(one.value, str)
    ]
    for name, figure in fitted:
        for rows in (["A1"], ["A1", "A11-A25"]):  # a second fit replaces what the first has written
            pattern, replacement = writing.in_profile(name, int(figure.value), rows)
            text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
            assert count == 1, name
    assert text.count('fitted_on = ["A1", "A11-A25"]\n') == len(fitted) > 0
    unfitted = [re.sub(r"fitted_on = .*\n", "", each.replace('"assumed"', '"fitted"')) for each in (before, text)]
    assert tomllib.loads(unfitted[0]) == tomllib.loads(unfitted[1])


def test_the_best_values_are_written_where_the_parameters_stand(typed, writing, tmp_path, monkeypatch):
    shutil.copytree(writing.PROFILES, tmp_path / "profiles")
    monkeypatch.setattr(writing, "PROFILES", tmp_path / "profiles")
    monkeypatch.setattr(writing, "ROOT", tmp_path)
    cost = next(name for name, each in profiles.server().costs.items() if each.label == "fitted")
    chosen = ("--vary", cost, "--vary", "buffer_pages", "--vary", "read_command_ns=20000:30000", "--vary", "dies=32:64")
    out = typed(*chosen, "--figures", "A1", "--minutes", "0", "--write")
    assert "not written: drives.ssd.timing.read_command_ns" in out
    assert "geometry.dies is derived, neither fitted nor assumed" in out
    server = tomllib.loads((tmp_path / "profiles/servers/sql-server-2008.toml").read_text())
    assert server["costs"][cost]["fitted_on"] == ["A1"]
    profile = profiles.load(str(tmp_path / "profiles/iodrive-320.toml"), tmp_path)
    assert profile.timing.buffer_pages.fitted_on == ("A1",)
    assert profile.geometry.dies.fitted_on == ()


def test_shares_of_the_bounds_lead_to_values_and_back(fit_model):
    linear = fit_model.Parameter("x", (), {}, 10, 20)
    logarithmic = fit_model.Parameter("x", (), {}, 100, 10_000)
    assert [linear.value(share) for share in (-1, 0, 0.5, 1, 2)] == [10, 10, 15, 20, 20]
    assert logarithmic.value(0.5) == 1000
    assert logarithmic.share(1000) == pytest.approx(0.5)


def test_far_misses_count_less_than_squared_and_none_nothing(fit_model):
    assert fit_model.cost_of(np.array([0.0, 0.0])) == 0
    assert fit_model.cost_of(np.array([10.0])) < 100
