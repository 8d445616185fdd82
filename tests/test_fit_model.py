"""The fit that anyone can repeat: the values that it searches, and the values that it writes."""

import importlib
import re
import shutil
import tomllib
from pathlib import Path

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


def test_it_lowers_the_cost_and_says_every_candidates_ratios(typed):
    out = typed("--vary", "row_cpu_ns=40000:70000", "--figures", "A54", "--figures", "A1", "--minutes", "0.05")
    costs = [float(cost) for cost in re.findall(r"^#\d+ cost ([\d.]+)", out, re.MULTILINE)]
    assert len(costs) > 1
    assert f"cost {min(costs):.3f} after {len(costs)} candidates, fitted on A1" in out
    assert out.count("A1 ") > len(costs)
    assert "server.costs.row_cpu_ns = " in out


def test_a_parameter_that_there_is_not_or_has_no_bounds_is_refused(fit_model, small_spec):
    known = fit_model.parameters_of(fit_model.set_up(fit_model.arguments_of(["--spec", str(small_spec)])))
    with pytest.raises(SystemExit, match="no parameter is called 'row_cpu'"):
        fit_model.varied(["row_cpu"], known)
    with pytest.raises(SystemExit, match="dies has no bounds"):
        fit_model.varied(["geometry.dies"], known)
    (searched,) = fit_model.varied(["geometry.dies=32:64"], known)
    assert (searched.low, searched.high) == (32, 64)


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
