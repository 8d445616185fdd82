"""Arrays, caches, links and raw I/O as a spec declares them: the core's input, and the refusals before it."""

from pathlib import Path

import pytest
from real_servers import site_at
from simulated_specs import changed

from storagelab.engines.simulated.scenario import hardware
from storagelab.errors import PreflightError
from storagelab.run.engine import preflight
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse

ARRAYS = (Path(__file__).parent / "given" / "arrays.toml").read_text("utf-8")


def configs(*changes: tuple[str, str]):
    return [cell.config for cell in expand(parse(changed(ARRAYS, *changes), "lab/arrays.toml")).cells]


def looked_at(*changes: tuple[str, str]):
    return preflight(expand(parse(changed(ARRAYS, *changes), "lab/arrays.toml")), site_at(Path("lab")))


def test_drives_are_declared_by_the_dozen_and_only_those_of_volumes_in_use_are_there():
    content = hardware(configs(), Path("lab"))
    assert list(content["drives"]) == [f"disk-{number}" for number in range(1, 9)]
    assert content["volumes"] == {
        "array": {
            "drives": [f"disk-{number}" for number in range(1, 9)],
            "raid": "10",
            "stripe_bytes": 65_536,
            "offset_bytes": 64_512,
            "cache": {"bytes": 256 * 2**20, "destaging": "elevator"},
            "link": {},
        }
    }
    assert looked_at().server == "simulated, at scale 512: 4 cores, 8 GB, 15k SCSI 300 GB"


def test_every_key_of_a_volume_can_be_a_factor_and_nothing_of_a_cache_or_link_is_none_at_all():
    factors = """
[factors]
"volumes.array.raid" = ["10", "5"]
"volumes.array.stripe" = ["64KiB", "128KiB"]
"volumes.array.offset" = ["63KiB", "1MiB"]
"volumes.array.cache.size" = ["512MB", "0"]
"volumes.array.link.bytes_per_s" = [0, 104_000_000]
"drives.disk.count" = [4, 8]
"layout.data_size" = ["60GB", "160GB"]
"""
    cells = configs((ARRAYS, ARRAYS + factors))
    assert len(cells) == 128
    volumes = [hardware([cell], Path("lab"))["volumes"]["array"] for cell in cells]
    assert {("cache" in volume, "link" in volume) for volume in volumes} == {(a, b) for a in (0, 1) for b in (0, 1)}
    assert {len(volume["drives"]) for volume in volumes} == {4, 8}
    assert {volume["raid"] for volume in volumes} == {"10", "5"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([('raid = "10"\nstripe', "stripe")], "has 8 drives: say how they make one volume, with raid"),
        ([("count = 8", "count = 7")], "RAID-10"),
        ([('raid = "10"', 'raid = "10"\narrays = 2')], "arrays"),
        ([('data = ["array"]\nlog = "array"', 'data = ["mirror"]\nlog = "one"')], 'costly = ["storage"]'),
    ],
)
def test_an_array_that_can_not_be_is_refused_before_anything_runs(changes, words):
    with pytest.raises(PreflightError) as caught:
        looked_at(*changes)
    assert str(caught.value.key).startswith("volumes.")
    assert words in str(caught.value)


ON_FLASH = ('data = ["array"]\nlog = "array"', 'data = ["one"]\nlog = "one"')


def formatted(*lines: str):
    """The single flash drive of a spec with these lines instead of format = "basic"."""
    change = ('format = "basic"', "\n".join(lines))
    return hardware(configs(ON_FLASH, change), Path("lab"))["drives"]["ssd-1"]


def test_a_drive_that_only_the_operating_system_formatted_is_as_it_was_made_and_keeps_what_it_has_been_through():
    drive = formatted('format = "operating-system"')
    assert (drive["format"], drive["history"]) == ("basic", "aged")
    new = formatted('format = "operating-system"', 'history = "new"')
    assert (new["format"], new["history"]) == ("basic", "formatted")
    assert "history" not in formatted('format = "basic"')


@pytest.mark.parametrize(("key", "value"), [("format", '"operating-system"'), ("log_delay_ns", "200_000")])
def test_a_disk_is_refused_what_only_flash_has(key, value):
    with pytest.raises(PreflightError, match=rf"drives.disk.{key}: is for flash drives"):
        looked_at(('profile = "scsi-15k-300"', f'profile = "scsi-15k-300"\n{key} = {value}'))
