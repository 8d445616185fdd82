"""The keys of a spec: the defaults documented in the models are those of the simulator."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from spec_texts import factor, planned

from storagelab import profiles
from storagelab.model.config import ServerConfig
from storagelab.model.plan import Factor, Level
from storagelab.model.values import LeftOut, LeftToCore
from storagelab.model.volume import CacheConfig, LinkConfig
from storagelab.profiles import constants, default_of
from storagelab.spec.factors import is_condition, is_load, sets_load
from storagelab.spec.reading import parse
from storagelab.spec.units import BYTES_PER_UNIT, SECONDS_PER_UNIT, parse_bytes, parse_price, parse_seconds


def said_of(model: type[BaseModel]) -> dict[str, str]:
    """Key -> its documented default."""
    return {
        name: one.words
        for name, field in model.model_fields.items()
        for one in field.metadata
        if isinstance(one, LeftOut)
    }


def test_the_models_name_the_switches_of_the_servers_profile() -> None:
    switches = profiles.server().switches
    said = said_of(ServerConfig)
    assert len(said) >= 7
    assert said == {name: str(switches[name].value).lower() for name in said}


@pytest.mark.parametrize("model", [CacheConfig, LinkConfig])
def test_each_key_of_caches_and_links_that_may_be_left_out_has_a_default_in_the_core(model) -> None:
    owners = {
        name: one.owner
        for name, field in model.model_fields.items()
        for one in field.metadata
        if isinstance(one, LeftToCore)
    }
    assert len(owners) >= 2
    assert all(default_of(owner, name) > 0 for name, owner in owners.items())
    (owner,) = set(owners.values())
    assert {one.name for one in constants() if one.owner == owner and one.is_default} == {*owners}


# --- what may be varied; `test_spec` has what may not -----------------------------------------------------------------


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


# --- sizes and durations as people write them -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0), ("512", 512), ("512b", 512), ("8kB", 8192), ("64MB", 67_108_864), ("64 MiB", 67_108_864),
        (" 1.5 GB ", 1_610_612_736), ("1TiB", 1_099_511_627_776),
    ],
)  # fmt: skip
def test_a_size_is_read_in_the_units_of_databases(text: str, size_bytes: int) -> None:
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "duration_s"),
    [("250us", 0.00025), ("500ms", 0.5), ("2 s", 2), ("5min", 300), ("1.5h", 5400), ("1d", 86400)],
)
def test_a_duration_is_read_in_seconds(text: str, duration_s: float) -> None:
    assert parse_seconds(text) == pytest.approx(duration_s)


@given(st.integers(0, 10**6), st.sampled_from(sorted(BYTES_PER_UNIT)))
def test_a_whole_number_of_any_unit_of_size_is_exact_in_any_case(number: int, unit: str) -> None:
    assert parse_bytes(f"{number}{unit}") == parse_bytes(f"{number} {unit.upper()}") == number * BYTES_PER_UNIT[unit]


@given(st.integers(0, 10**6), st.sampled_from(sorted(SECONDS_PER_UNIT)))
def test_a_longer_duration_is_never_read_as_a_shorter_one(number: int, unit: str) -> None:
    assert parse_seconds(f"{number + 1}{unit}") > parse_seconds(f"{number}{unit}") >= 0


SIZES = ["", "MB", "-5MB", "5 parsecs", "5 M", "1e3MB", "1,5GB", "64MB 3", "0x10", "nan", "inf", "\uff16\uff14MB"]


@pytest.mark.parametrize(
    ("read", "texts", "said"),
    [(parse_bytes, SIZES, "a number and one of b, kb, mb, gb, tb, kib, mib, gib, tib, such as 64GB"),
     (parse_seconds, ["", "5", "-5s", "5 parsecs", "5MB", "1m", "s"], "one of us, ms, s, min, h, d, such as 5min"),
     (parse_price, ["", "cheap", "-1", "nan", "inf"], "a number of at least 0, such as 120")],
)  # fmt: skip
def test_a_quantity_that_can_t_be_read_is_refused_with_what_can(read, texts, said) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=said):
            read(text)


def test_a_quantity_beyond_all_bounds_is_refused() -> None:
    for read in (parse_bytes, parse_seconds):
        with pytest.raises(ValueError, match="out of range"):
            read("9" * 400 + ("TB" if read is parse_bytes else "d"))


@given(st.text(max_size=20))
def test_any_text_is_either_read_or_refused(text: str) -> None:
    for read in (parse_bytes, parse_seconds):
        with contextlib.suppress(ValueError):
            assert read(text) >= 0
