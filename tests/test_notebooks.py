"""`storagelab.load`: what is stored, as frames of the library that is there, or as plain lists."""

import subprocess
import sys

import pandas
import polars
import pytest
from builders import make_experiment, make_runs

import storagelab
from storagelab import notebooks
from storagelab.errors import StoragelabError
from storagelab.run.store import Store
from storagelab.spec.matrix import expand

FILES = "layout.data_files"


@pytest.fixture
def stored(tmp_path):
    """A results folder with a small experiment; its factor has levels of two types."""
    experiment = make_experiment({FILES: [1, 4], "target.settings.wal_buffers": [16, "4MB"]}, repetitions=3)
    folder = tmp_path / "results" / experiment.name
    with Store.writing(folder, experiment) as store:
        for run in make_runs(experiment, expand(experiment)):
            store.append(run)
    return folder


def test_a_folder_of_results_becomes_frames_of_pandas(stored):
    results = storagelab.load(stored)
    assert isinstance(results.runs, pandas.DataFrame)
    assert len(results.runs) == 12
    assert list(results.runs.groupby(FILES)["elapsed_s"].count()) == [6, 6]
    assert set(results.cells["verdict"]) <= {"fastest", "may-be-fastest", "not-told-apart", "not-fastest", "slower"}
    assert results.waits["wait_s"].gt(0).any()
    assert set(results.series["quantity"]) == {"rows_per_s", "volume.a.write_bytes_per_s"}


def test_polars_gives_the_same_figures(stored):
    results = storagelab.load(str(stored), frames="polars")
    assert isinstance(results.cells, polars.DataFrame)
    assert results.runs["elapsed_s"].to_list() == results.columns("runs")["elapsed_s"]
    assert results.waits.height == len(storagelab.load(stored).waits)


def test_levels_of_several_types_become_text(stored):
    assert set(storagelab.load(stored).columns("runs")["target.settings.wal_buffers"]) == {"16", "4MB"}


def test_without_a_library_there_are_plain_lists_and_a_way_out(stored, monkeypatch):
    monkeypatch.setattr(notebooks, "_LIBRARIES", ())
    results = storagelab.load(stored)
    assert len(results.columns("cells")["mean_s"]) == 4
    with pytest.raises(StoragelabError, match=r"pip install .storagelab\[notebook\]"):
        _ = results.runs


def test_a_table_that_is_not_there_is_refused_with_those_that_are(stored):
    with pytest.raises(StoragelabError, match="tables: runs, waits, series, cells"):
        storagelab.load(stored).columns("run")


def test_a_folder_without_results_is_refused_in_words(tmp_path):
    with pytest.raises(StoragelabError, match="does not exist"):
        storagelab.load(tmp_path / "results" / "nothing")


def test_loading_the_package_loads_no_statistics():
    text = "import sys, storagelab; print('numpy' in sys.modules, callable(storagelab.load))"
    said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    assert said == "False True\n"
