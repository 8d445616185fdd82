"""The page of a campaign that is still running, with simulated runs."""

import os
import pty
import re
import select
import sys
import time
from pathlib import Path

from simulated_specs import SMALL

from storagelab.verbs import so_far

MOST_S = 120


def test_while_runs_are_made_the_page_says_how_far_they_are(typed, home, monkeypatch):
    """The page after the first run is kept; with so few runs there is no time for another."""
    (home / "small.toml").write_text(SMALL)
    page, seen = home / "results/small/report.html", []
    make = so_far.SoFar._make

    def make_and_keep(self, text, reload_s):
        make(self, text, reload_s)
        seen.append(page.read_text())

    monkeypatch.setattr(so_far.SoFar, "_make", make_and_keep)
    monkeypatch.setattr(so_far, "EVERY_S", 0.0)
    assert typed("run", "small.toml", "--jobs", 1)[0] == 0
    (text,) = seen
    assert re.search(
        r'id="so-far"[^>]*>Running: 1 of 8 runs are stored; .* left\. Running now: .*, repetition \d\. <', text
    )
    assert 'id="so-far"' not in page.read_text()
    assert "the page so far: renewed in " in (home / "results/small/run.log").read_text()


def test_ctrl_c_leaves_a_page_of_what_is_stored_and_names_it(home):
    spec = SMALL.replace("repetitions = 2", "repetitions = 200")
    (home / "small.toml").write_text(spec)
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
    (named,) = re.findall(r"report so far: (\S+)", said.decode())
    assert re.search(
        r'id="so-far" data-reload-s="0">Interrupted: \d+ of 800 runs are stored\.', Path(home / named).read_text()
    )
