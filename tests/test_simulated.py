"""The simulated target: refusals before anything runs, and the data of a run."""

import json
import re
from importlib import resources
from pathlib import Path

import pytest
from real_servers import site_at
from simulated_specs import ONE_BLOCK, planned, run_once, small

from storagelab import profiles
from storagelab.engines.simulated.preflight import check
from storagelab.errors import PreflightError
from storagelab.findings.analysis import analyse
from storagelab.model.measurement import Run
from storagelab.model.waits import conservation
from storagelab.profiles import figures_of, kinds
from storagelab.report.export.as_json import to_json
from storagelab.report.words.answer import headline
from storagelab.report.writing import render
from storagelab.run.engine import preflight
from storagelab.run.loop import batches, make_batch
from storagelab.spec.matrix import expand


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    return run_once(tmp_path_factory.mktemp("run"), ONE_BLOCK)[0]


def test_a_run_is_simulated_and_life_size(run):
    measured = run.measurement
    assert (run.status, measured.provenance) == ("ok", "simulated")
    assert measured.rows == 8 * (500_000 // 256) * 256
    assert 1 < measured.elapsed_s < 10_000


def test_waits_and_cpu_are_connections_times_elapsed(run):
    waits = run.measurement.waits
    audit = conservation(waits)
    assert waits.form == "counted"
    assert audit.explained == pytest.approx(1.0, abs=1e-9)
    assert audit.available_s == pytest.approx(8 * run.measurement.elapsed_s)
    assert all(row.signal_ns <= row.wait_ns and row.wait_count % 256 == 0 for row in waits.rows)


def test_its_time_series_ends_with_the_run_and_adds_up_to_its_rows(run):
    series = run.measurement.series
    assert series.at_s[-1] == pytest.approx(run.measurement.elapsed_s, rel=1e-3)
    widths = [b - a for a, b in zip((0.0, *series.at_s), series.at_s, strict=False)]
    rows = sum(rate * width for rate, width in zip(series.columns["rows_per_s"], widths, strict=True))
    assert rows == pytest.approx(run.measurement.rows, rel=1e-6)
    assert {len(values) for values in series.columns.values()} == {len(series.at_s)}
    assert "volume.a.write_bytes_per_s" in series.columns


def test_its_environment_is_the_simulated_servers_and_not_this_machines(run):
    environment = run.measurement.environment
    assert environment["server"]["cores"] == 4
    assert environment["drives"]["ssd"]["usable_bytes"] == 300_000_000_000
    assert "host" not in environment


def test_a_switch_and_a_cost_of_the_spec_reach_the_engine(tmp_path, run):
    slow = ("cores = 4", "cores = 4\ncosts = { row_cpu_ns = 110_000 }")
    shared = ("cores = 4", 'cores = 4\npfs_latch = "shared"')
    assert run_once(tmp_path, ONE_BLOCK, slow)[0].measurement.waits.cpu_s > 1.5 * run.measurement.waits.cpu_s
    server = run_once(tmp_path, ONE_BLOCK, shared)[0].measurement.environment["server"]
    assert server["switches"] == {"pfs_latch": "shared"}


def test_a_drive_keeps_its_history_unless_it_is_formatted(tmp_path):
    def used(*changes: tuple[str, str]) -> list[float]:
        runs = run_once(tmp_path / str(len(changes)), ONE_BLOCK, *changes, repetitions=3)
        return [run.measurement.counters["drive ssd"]["utilisation"] for run in runs[:3]]

    move = ("[factors]", "[between_runs]\nmove_files = true\n[factors]")
    first, second, third = used(move)
    assert first < second < third
    fresh = used(move, ("move_files = true", "move_files = true\nformat_drives = true"))
    assert max(fresh) < 1.05 * min(fresh)


def test_a_drive_that_runs_out_of_host_memory_fails_the_run_in_the_cores_words(tmp_path):
    starved = ("sector_bytes = 512", "sector_bytes = 512\nhost_ram_bytes = 500_000")
    failed = run_once(tmp_path, ONE_BLOCK, starved)[0]
    assert failed.status == "failed"
    assert "off-line" in failed.reason


def test_a_report_of_simulated_runs_says_so_and_holds_together(tmp_path):
    experiment = small()
    plan = expand(experiment)
    runs = run_once(tmp_path, repetitions=2)
    findings = analyse(experiment, plan, runs)
    assert findings.provenance == "simulated"
    assert headline(findings).startswith("In simulation, ")
    for form in ("html", "md", "csv", "json"):
        text = render(form, experiment, plan, runs, findings).replace("\u00a0", " ")
        assert "simulated" in text
        assert "PostgreSQL" not in text.partition('id="glossary"')[0]
        room = re.search(r"usable(?:_bytes)?\W.{0,40}?([\d.]+ [GT]B)", text)
        assert room is None or room[1] in ("300 GB", "151 GB"), "as `drives show` and the drive's maker have it"
        assert room or form not in ("html", "md")
    assert any(run.measurement.waiting_tasks for run in runs)


@pytest.mark.parametrize("file", sorted(Path("experiments").glob("*.toml")), ids=lambda file: file.stem)
def test_every_ready_made_spec_that_is_simulated_passes_its_checks(file):
    from storagelab.spec.reading import load

    plan = expand(load(file))
    if all(cell.config.simulated for cell in plan.cells):
        assert preflight(plan, site_at(file.parent)).server.startswith("simulated")


def test_what_progress_raises_breaks_the_run_off(tmp_path):
    (whole,) = batches(planned(ONE_BLOCK, ("500_000", "60_000_000")), {}, site_at(tmp_path), tmp_path)
    heard: list[object] = []

    def stop(item: object) -> None:
        heard.append(item)
        if len(heard) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_batch(whole, stop)
    assert heard[1].amount < heard[2].amount


def test_a_burn_in_is_made_first_on_each_formatting_and_stored_and_what_follows_is_as_if_it_were_any_run(tmp_path):
    runs = run_once(tmp_path, ("[workload]", "[between_runs]\nburn_in = 1\n[workload]"), repetitions=2)
    by_block = {block: [run for run in runs if run.block == block] for block in (0, 1)}
    for of_block in by_block.values():
        first, *judged = sorted(of_block, key=lambda run: run.sequence)
        assert first.burn_in
        assert first.usable
        assert not any(run.burn_in for run in judged)
        assert len(judged) == 4
    document = json.loads(to_json(small(), planned(), runs, analyse(small(), planned(), runs)))
    assert [len(cell["runs"]) for cell in document["cells"]] == [2] * 4
    assert sum(len(cell["burn_in"]) for cell in document["cells"]) == 2


# --- an SLC cache and I/O credits: drives of other kinds than flash and disk ------------------------------------------


FLASH = 'profile = "iodrive-320"\nformat = "basic"\ndriver = "2.2.3"\nsector_bytes = 512'
OTHERS = ("nvme3-970-evo-plus-1tb", "cloud-gp2-500")


def text_of(name: str) -> str:
    return resources.files("storagelab.profiles").joinpath(f"{name}.toml").read_text()


@pytest.mark.parametrize("name", OTHERS)
def test_a_drive_of_another_kind_stands_in_a_spec_as_any_other_and_tells_what_it_did(name, tmp_path):
    runs = run_once(tmp_path, (FLASH, f'profile = "{name}"'), ONE_BLOCK)
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
    experiment = small((FLASH, f'profile = "cloud-gp2-500"\n{key}'), ONE_BLOCK, folder=tmp_path)
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
        runs = run_once(tmp_path, (FLASH, f'profile = "{profile}"'), ONE_BLOCK)
        elapsed.append(runs[0].measurement.elapsed_s)
    assert elapsed[1] > 1.2 * elapsed[0]


def test_only_figures_that_name_what_they_were_fitted_on_are_called_fitted():
    figures = [*profiles.server().figures()]
    for name in profiles.ready_made():
        figures += profiles.load(name, Path()).figures()
    for name, figure in figures:
        assert (figure.label == "fitted") == bool(figure.fitted_on), name
        assert figure.label == "assumed" or not figure.source.startswith("An assumption"), name
