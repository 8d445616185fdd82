"""Drives of other kinds than flash and disk, from a spec to its report's figures: an SLC cache and I/O credits."""

from importlib import resources
from pathlib import Path

import pytest
from simulated_specs import run_once, small

from storagelab import profiles
from storagelab.engines.simulated.preflight import check
from storagelab.errors import PreflightError
from storagelab.profiles import figures_of, kinds
from storagelab.spec.matrix import expand

ONE_FORMAT = ('"drives.ssd.format" = ["basic", "maximum-write"]\n', "")
FLASH = 'profile = "iodrive-320"\nformat = "basic"\ndriver = "2.2.3"\nsector_bytes = 512'
OTHERS = ("nvme3-970-evo-plus-1tb", "cloud-gp2-500")


def text_of(name: str) -> str:
    return resources.files("storagelab.profiles").joinpath(f"{name}.toml").read_text()


@pytest.mark.parametrize("name", OTHERS)
def test_a_drive_of_another_kind_stands_in_a_spec_as_any_other_and_tells_what_it_did(name, tmp_path):
    runs = run_once(tmp_path, (FLASH, f'profile = "{name}"'), ONE_FORMAT)
    assert [run.status for run in runs] == ["ok"] * len(runs)
    measurement = runs[0].measurement
    own = measurement.counters["drive ssd"]
    assert own.get("slc_written_bytes", own.get("ios", 0)) > 0
    assert measurement.environment["drives"]["ssd"]["profile"] == name


def test_every_kind_has_a_ready_made_profile_whose_figures_are_those_that_its_core_declares():
    shipped = {profiles.load(name, Path()).kind for name in profiles.ready_made()}
    assert shipped == set(kinds()) - {"measured"}  # `drives fit` writes those
    for name in OTHERS:
        profile = profiles.load(name, Path())
        assert [path for path, _ in profile.figures()] == [one.path for one in figures_of(profile.kind)]
        assert all(one.meaning for one in figures_of(profile.kind))


@pytest.mark.parametrize(("key", "words"), [("trim = true", "is for flash drives"), ('order = "fifo"', "is for disks")])
def test_a_choice_that_such_a_drive_has_not_is_refused(key, words, tmp_path):
    experiment = small((FLASH, f'profile = "cloud-gp2-500"\n{key}'), ONE_FORMAT, folder=tmp_path)
    from real_servers import site_at

    with pytest.raises(PreflightError, match=words):
        check(expand(experiment), site_at(tmp_path))


def test_a_volume_of_ones_own_with_fewer_credits_is_slower(tmp_path):
    text = text_of("cloud-gp2-500")
    for number, first in enumerate(("5_400_000", "0")):
        text_here = text.replace("value = 1_500", "value = 100").replace(
            "[credits.first_ios]\nvalue = 5_400_000", f"[credits.first_ios]\nvalue = {first}"
        )
        (tmp_path / f"cloud{number}.toml").write_text(text_here)
    elapsed = []
    for number in (0, 1):
        profile = tmp_path / f"cloud{number}.toml"
        runs = run_once(tmp_path, (FLASH, f'profile = "{profile}"'), ONE_FORMAT)
        elapsed.append(runs[0].measurement.elapsed_s)
    assert elapsed[1] > 1.2 * elapsed[0]


def test_only_figures_that_name_what_they_were_fitted_on_are_called_fitted():
    figures = [*profiles.server().figures()]
    for name in profiles.ready_made():
        figures += profiles.load(name, Path()).figures()
    for name, figure in figures:
        assert (figure.label == "fitted") == bool(figure.fitted_on), name
        assert figure.label == "assumed" or not figure.source.startswith("An assumption"), name
