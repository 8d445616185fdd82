"""The page of a campaign that is still running, with simulated runs; and processes that stand in for the making of a
page, where it matters how long that takes.
"""

import contextlib
import io
import os
import pty
import re
import select
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from builders import make_experiment, make_plan
from rich.console import Console
from simulated_specs import SMALL, planned

from storagelab.machine import host
from storagelab.run.progress import RunProgress
from storagelab.verbs import _so_far as so_far

MOST_S = 120
SIMULATED, MEASURED = planned(), make_plan(make_experiment({"layout.data_files": [1, 2]}, repetitions=2))


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Keeps the page of a plan, by a process that takes half a second."""
    monkeypatch.setattr(so_far, "EVERY_S", 0.0)
    monkeypatch.setattr(so_far, "PROGRAM", [sys.executable, "-c", "import time; time.sleep(0.5)"])

    @contextlib.contextmanager
    def kept(plan):
        with RunProgress(plan, plan.runs, [], Console(file=io.StringIO()), tmp_path) as progress:
            yield so_far.SoFar(tmp_path, progress, 0)

    return kept


def test_while_runs_are_made_the_page_says_how_far_they_are(typed, home, monkeypatch):
    """The page after the first run is kept; there is no time for another soon, except beside the runs."""
    (home / "small.toml").write_text(SMALL)
    report, seen = home / "results/small/report.html", []
    end = so_far.SoFar.end

    def end_and_keep(self, within_s):
        making = self._process is not None
        end(self, within_s)
        if making:
            seen.append(report.read_text())

    monkeypatch.setattr(so_far.SoFar, "end", end_and_keep)
    monkeypatch.setattr(so_far, "EVERY_S", 0.0)
    monkeypatch.setattr(so_far, "_EMPTY_COST_S", 1e9)
    monkeypatch.setattr(RunProgress, "left_s", lambda _: 10_000.0)
    monkeypatch.setattr(host, "usable_cpus", lambda *_: 1)
    assert typed("run", "small.toml", "--jobs", 1)[0] == 0
    assert re.search(
        r'id="so-far"[^>]*>Running, as of \d\d:\d\d:\d\d: 1 of 8 runs made, [^<;]* left\. Next: .*, repetition \d\. '
        r"This page shows 1 of 8 runs. <",
        seen[0],
    )
    assert 'id="so-far"' not in report.read_text()
    assert "the page so far: renewed within " in (home / "results/small/run.log").read_text()


def test_beside_simulated_runs_nothing_waits_where_a_cpu_is_free_and_their_end_gives_the_page_up(page, monkeypatch):
    monkeypatch.setattr(host, "usable_cpus", lambda *_: 2)
    with page(SIMULATED) as made:
        for given_up in (False, True):
            began = time.monotonic()
            made.renew()
            made.renew()
            assert time.monotonic() - began < 0.4
            assert made._process.args[-1] == "beside"
            made.end(0 if given_up else 10)
            assert made.is_made != given_up


@pytest.mark.parametrize("cost_s", [0.0, 1e9])
def test_before_the_first_run_there_is_a_page_if_the_runs_take_long_enough(page, monkeypatch, cost_s):
    monkeypatch.setattr(so_far, "_EMPTY_COST_S", cost_s)
    with page(MEASURED) as made:
        made.first()
        assert made.is_made == (not cost_s)


@pytest.mark.parametrize("left_s", [3_600.0, 300.0, 100.0])
@pytest.mark.parametrize(("plan", "cpus"), [(SIMULATED, 1), (MEASURED, 64)])
def test_where_a_page_would_take_from_the_runs_they_wait_but_for_no_more_than_its_share(
    page, monkeypatch, plan, cpus, left_s
):  # fmt: skip
    monkeypatch.setattr(host, "usable_cpus", lambda *_: cpus)
    clock = time.monotonic
    passed = SimpleNamespace(s=0)
    monkeypatch.setattr(so_far, "time", SimpleNamespace(monotonic=lambda: clock() + passed.s, strftime=time.strftime))
    with page(plan) as made:
        monkeypatch.setattr(made._progress, "left_s", lambda: left_s - passed.s)
        waits = list[float]()
        for passed.s in range(0, min(400, round(left_s)), 20):  # a run of 20 seconds, and then perhaps the page
            began = clock()
            made.renew()
            waits.append(clock() - began)
            assert sum(waits[:-1]) <= so_far.LARGEST_SHARE * passed.s + 0.2 or waits[-1] < 0.2
            assert sum(waits) <= so_far.LARGEST_SHARE * left_s + 0.2
        assert (waits[0] > 0.4) == (left_s > 200)
        made.end(10)
        late = re.search(r"the first one comes in \d.* s, because pages", made._progress.console.file.getvalue())
        assert (late is not None) == (plan is MEASURED and left_s > 200)


def test_an_earlier_page_says_that_the_runs_go_on_and_then_that_they_stopped_and_what_it_shows(tmp_path):
    said = '<p class="so-far" id="so-far" data-reload-s="{}">{} This page shows 80 of 93 runs. <button>'
    page, plan = tmp_path / "report.html", SIMULATED
    page.write_text(said.format(0, "Stopped at run 84 of 93."))
    with (
        pytest.raises(KeyboardInterrupt) as stop,
        RunProgress(plan, plan.runs, [], Console(file=io.StringIO()), tmp_path) as progress,
        so_far.kept(tmp_path, progress, 85),
    ):
        raise KeyboardInterrupt(page.read_text())
    assert re.fullmatch(
        said.format(15, r"Running, as of .*: 85 of 93 runs made, .* left, a guess\. Next: .*"), str(stop.value)
    )
    verb = f"storagelab report {tmp_path} makes the report of what is stored"
    assert page.read_text() == said.format(
        0, f"Stopped at run 85 of 93: 8 runs are still to make. Run the spec again to continue; {verb}."
    )


def test_a_page_that_is_not_made_is_told_on_the_terminal_with_the_reason(page, monkeypatch):
    monkeypatch.setattr(host, "usable_cpus", lambda *_: 2)
    with page(SIMULATED) as made:
        made.renew()
        made.end(0.1)
        assert "the page so far: could not be made: it took more than 0.100 s" in made._progress.console.file.getvalue()


def test_beside_the_runs_the_page_has_a_low_weight_and_still_gets_some_of_a_busy_cpu():
    asked = "import os; from storagelab.verbs._so_far import *; give_way(); print(os.nice(0), os.sched_getscheduler(0))"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert said.stdout.split() == [str(min(19, os.nice(0) + so_far.GIVES_WAY)), str(os.SCHED_OTHER)]


def test_ctrl_c_gives_the_prompt_back_and_the_page_of_what_is_stored(home):
    (home / "small.toml").write_text(SMALL.replace("repetitions = 2", "repetitions = 200"))
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["COLUMNS"] = "200"
        os.execv(sys.executable, [sys.executable, "-m", "storagelab", "run", "small.toml", "--jobs", "1"])
    said, pressed, until_s = b"", False, time.monotonic() + MOST_S
    while time.monotonic() < until_s and select.select([terminal], [], [], MOST_S)[0]:
        try:
            said += os.read(terminal, 65536)
        except OSError:  # it has ended
            break
        if not pressed and b"[  3/800]" in said:
            pressed = True
            os.write(terminal, b"\x03")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert "report: results/small/report.html" in said.decode()
    told = r'"0">Stopped at run \d+ of 800: \d+ runs are still to make\. .* This page shows \d+ of 800 runs\.'
    assert re.search(told, (home / "results/small/report.html").read_text())
