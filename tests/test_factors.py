"""What may be varied; `test_spec` has what may not."""

import pytest
from spec_texts import factor, planned

from storagelab.model.plan import Factor, Level
from storagelab.spec.factors import is_condition, is_load, sets_load
from storagelab.spec.reading import parse


@pytest.mark.parametrize("name", ["connections", "read_fraction", "rows_per_transaction", "kind", "block_bytes"])
def test_all_that_the_connections_do_is_the_load(name):
    assert is_load(Factor(name=f"workload.{name}", levels=(Level(value=1, sets={f"workload.{name}": 1}),)))


@pytest.mark.parametrize(
    "path", ["between_runs.pause_s", "between_runs.format_drives", "measure.sample_hz", "workload.connections"]
)
def test_what_layouts_are_tried_under_is_a_condition_and_nothing_to_choose(path):
    factor = Factor(name=path, levels=(Level(value=1, sets={path: 1}),))
    assert is_condition(factor)
    assert is_load(factor) == path.startswith("workload.")


@pytest.mark.parametrize("path", ["layout.data_files", "drives.ssd.format", "server.cores", "target.settings.x"])
def test_whatever_else_a_spec_has_can_be_chosen(path):
    assert not is_condition(Factor(name=path, levels=(Level(value=1, sets={path: 1}),)))


def test_labels_are_a_load_if_they_set_nothing_else():
    idle = Level(value="as it stands", sets={})
    reads = Level(value="half reads", sets={"workload.kind": "mixed", "workload.read_fraction": 0.5})
    both = Level(value="reads and files", sets={"workload.read_fraction": 0.5, "layout.data_files": 4})
    assert is_load(Factor(name="mix", levels=(idle, reads)))
    assert not is_load(Factor(name="mix", levels=(reads, both)))
    assert sets_load(Factor(name="mix", levels=(idle, both)))
    assert not is_condition(Factor(name="twin", levels=(idle,)))
    rested = Level(value="rested, half reads", sets={"between_runs.pause_s": 60, "workload.read_fraction": 0.5})
    assert is_condition(Factor(name="mix", levels=(idle, rested)))
    assert not is_load(Factor(name="mix", levels=(idle, rested)))


def test_one_and_true_are_two_levels() -> None:
    assert len(planned(factor('"target.settings.x" = [1, true]')).cells) == 2


def test_a_labelled_factor_may_be_named_after_a_key_that_it_sets() -> None:
    assert planned(factor('"layout.log" = [{ label = "near", "layout.log" = "a" }]')).cells


LABELLED = factor('"layout.data_files" = [1, 2]') + '[labels]\n"layout.data_files" = "partitions"\n'


def test_a_factor_keeps_the_short_name_that_the_spec_gives_it() -> None:
    assert parse(LABELLED, "lab/files.toml").factors[0].labels == {"layout.data_files": "partitions"}
