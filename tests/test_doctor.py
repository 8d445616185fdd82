"""What a machine can and can't measure: real probes on this machine, and probes on recorded machines."""

import io
import os
from pathlib import Path

import pytest
from recorded_machine import RecordedMachine
from rich.console import Console

from storagelab.machine import doctor
from storagelab.machine.disks import Kernel
from storagelab.machine.doctor import Ability, abilities
from storagelab.report.text.terminal import print_abilities

ROOT = "21 1 4000:1 / / rw,relatime - ext4 /dev/sda1 rw"


@pytest.fixture
def machine(tmp_path) -> RecordedMachine:
    return RecordedMachine(tmp_path / "machine").mounts(ROOT)


def by_name(found: tuple[Ability, ...] | list[Ability]) -> dict[str, Ability]:
    return {ability.name: ability for ability in found}


def test_this_machine_is_examined_in_one_go_and_nothing_is_left_behind(tmp_path):
    volumes = {"a": tmp_path / "a", "b": tmp_path}
    volumes["a"].mkdir()
    found = by_name(abilities(volumes, tmp_path / "results"))
    assert {"waits: resource and signal", "volume a", "volume b", "results folder"} <= found.keys()
    assert [ability for ability in found.values() if "could not be checked" in ability.detail] == []
    assert os.listdir(tmp_path) == ["a"]


def test_everything_that_is_not_well_says_how_to_mend_it(tmp_path):
    found = abilities({"gone": tmp_path / "gone"}, tmp_path)
    assert [ability.name for ability in found if ability.state != "yes" and not ability.mend] == []


def test_a_probe_that_breaks_costs_only_its_own_row():
    def broken() -> Ability:
        raise ValueError("no such luck")

    (row,) = doctor.attempt("something", broken)
    assert (row.name, row.state) == ("something", "partly")
    assert row.detail == "could not be checked: ValueError: no such luck"


def test_a_machine_that_shows_nothing_breaks_no_probe(tmp_path):
    found = by_name(abilities({"a": tmp_path}, tmp_path, Kernel(tmp_path / "proc", tmp_path / "sys")))
    assert [ability for ability in found.values() if "could not be checked" in ability.detail] == []
    assert found["waits: resource and signal"].state == "no"
    assert found["device counters"].state == "no"
    assert found["page cache drop"].state == "no"


def test_a_hidden_proc_is_told_to_all_but_root(machine):
    machine.mounts(ROOT, "22 21 0:4021 / /proc rw,nosuid - proc proc rw,hidepid=invisible")
    found = doctor.hidden_processes(machine.kernel)
    if os.geteuid() == 0:
        assert found.state == "yes"
    else:
        assert found.state == "partly"
        assert "hidepid=invisible" in found.detail


def test_a_volume_that_does_not_exist_is_a_no_and_a_results_folder_yet_to_be_made_is_not(tmp_path):
    gone = doctor.place("volume a", tmp_path / "gone")
    assert (gone.state, gone.mend) == ("no", f"mkdir -p {tmp_path / 'gone'}")
    assert doctor.place("results folder", tmp_path / "gone").state != "no"


def test_places_on_one_drive_share_a_row_and_a_virtual_drive_is_named(machine):
    machine.disk("vda", "4000:1")
    (row,) = doctor.drives({"volume a": Path("/"), "results folder": Path("/srv")}, machine.kernel)
    assert (row.name, row.state) == ("drive vda", "partly")
    assert "volume a, results folder" in row.detail
    assert "before they are durable" in row.detail


@pytest.mark.parametrize(
    ("load", "cpus", "state"),
    [(0.1, 2, "yes"), (0.5, 1, "yes"), (1.2, 2, "partly"), (2.3, 2, "no"), (3.0, 64, "yes"), (None, 2, "partly")],
)
def test_a_busy_machine_is_told_by_load_and_cpus(load, cpus, state):
    assert doctor.quiet(load, cpus).state == state


@pytest.mark.parametrize(("source", "state"), [("tsc", "yes"), ("hpet", "partly"), ("acpi_pm", "partly")])
def test_a_slow_clock_is_told(machine, source, state):
    machine.write("sys/devices/system/clocksource/clocksource0/current_clocksource", f"{source}\n")
    found = doctor.clock(machine.kernel)
    assert found.state == state
    assert found.detail.startswith(f"{source}, ")


def test_a_governor_that_follows_the_load_is_told(machine):
    assert doctor.cpu_frequency(machine.kernel).state == "yes"
    for cpu, governor in (("cpu0", "performance"), ("cpu1", "powersave")):
        machine.write(f"sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor", f"{governor}\n")
    assert doctor.cpu_frequency(machine.kernel).state == "partly"
    machine.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n")
    assert doctor.cpu_frequency(machine.kernel).state == "yes"


def test_a_low_limit_of_open_files_is_told_with_the_command_that_lifts_it():
    resource = pytest.importorskip("resource", reason="limits of a process need a POSIX system")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        found = doctor.open_files()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert found.state == "partly"
    assert "about 48 connections" in found.detail
    assert found.mend.startswith("ulimit -n ")


def test_what_is_missing_comes_first_with_its_way_out_and_the_last_line_counts():
    def shown(states: dict[str, str], **how) -> list[str]:
        found = [
            Ability(name=one, state=state, detail=f"({one})", mend="m" * (state != "yes"))
            for one, state in states.items()
        ]
        out = io.StringIO()
        print_abilities(Console(file=out, width=80), found, **how)
        return [line.strip() for line in out.getvalue().splitlines()]

    states = {"clock": "yes", "quiet": "partly", "waits": "no", "drive": "yes"}
    first = ["no      waits", "(waits)", "to fix it: m", "partly  quiet", "(quiet)", "to fix it: m"]
    last = "2 work, 1 partly, 1 missing: only what needs none of the missing can be measured"
    assert shown(states) == [*first, "yes     clock; drive", last]
    assert shown(states, whole=True) == [*first, "yes     clock", "(clock)", "yes     drive", "(drive)", last]
    assert shown({"clock": "yes"})[-1] == "1 work, 0 partly, 0 missing: everything can be measured"
