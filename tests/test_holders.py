"""Who holds a lock is said by number and name, and by nothing that may be secret."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from storagelab.machine import processes

LOCKS = {
    "flock": "import fcntl; file = open(sys.argv[1], 'a+'); fcntl.flock(file, fcntl.LOCK_EX)",
    "record": "import fcntl; file = open(sys.argv[1], 'a+'); fcntl.lockf(file, fcntl.LOCK_EX)",
}


@pytest.mark.parametrize("kind", LOCKS)
def test_the_process_that_holds_a_lock_is_named_without_its_words(tmp_path, kind):
    code = f"import sys, time; {LOCKS[kind]}; print('holding', flush=True); time.sleep(600)"
    command = [sys.executable, "-c", code, str(tmp_path / "held"), "password=secret"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        name = Path(f"/proc/{holder.pid}/comm").read_text().strip()
        assert processes.holders_text(tmp_path / "held") == f"process {holder.pid} ({name})"
        holder.kill()
    assert processes.holders_text(tmp_path / "held") == ""


def test_a_lock_that_outlives_its_holder_is_laid_to_the_process_that_has_the_file(tmp_path):
    code = "import sys, os, time; file = open(sys.argv[1], 'a+'); import fcntl; fcntl.flock(file, fcntl.LOCK_EX)\n"
    code += "child = os.fork()\nif child: print(child, flush=True); os._exit(0)\ntime.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "held")], stdout=subprocess.PIPE) as holder:
        child = int(holder.stdout.readline())
        try:
            assert holder.wait() == 0
            assert processes.holders_text(tmp_path / "held").startswith(f"process {child} (")
        finally:
            os.kill(child, 9)


def test_our_own_lock_and_a_file_that_is_not_there_have_no_holder(tmp_path):
    with (tmp_path / "held").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert processes.holders_text(tmp_path / "held") == ""
    assert processes.holders_text(tmp_path / "gone") == ""
