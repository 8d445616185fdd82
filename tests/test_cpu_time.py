"""Where CPU time goes, on this very machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from real_servers import until

from storagelab.machine.processes import cpu_time_between, read_cpu_time

pytestmark = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="this system has no /proc/stat")
SPIN = "import time, sys\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\nsys.stdin.read()"


def test_the_cpu_time_of_the_server_s_children_is_the_server_s():
    before = read_cpu_time(os.getpid())
    with subprocess.Popen([sys.executable, "-c", SPIN], stdin=subprocess.PIPE) as child:
        until(lambda: cpu_time_between(before, read_cpu_time(os.getpid()))["server_s"] >= 0.35)
        spent = cpu_time_between(before, read_cpu_time(os.getpid()))
        child.stdin.close()
    tick_s = 0.01  # the kernel counts in these, and the sums of the machine and of a process are not of one moment
    assert spent["busy_s"] > 0.35 - tick_s
    assert spent["server_s"] > 0.35 - tick_s


def test_the_cpu_time_of_a_load_s_program_is_the_load_s_and_stays_so_when_the_program_has_ended():
    with subprocess.Popen(["sleep", "60"]) as server:
        before = read_cpu_time(server.pid)
        program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPIN!r}], input=b'')"
        subprocess.run([sys.executable, "-c", program], check=True)
        spent = cpu_time_between(before, read_cpu_time(server.pid))
        server.kill()
    assert 0.39 < spent["load_s"] < 1.5, "the spinning, and the start of two interpreters"


def test_what_neither_server_nor_load_nor_storagelab_used_is_the_others():
    spent = cpu_time_between(
        {"busy_s": 1.0, "server_s": 0.5, "load_s": 0.0, "storagelab_s": 0.1, "kernel_s": 0.1, "idle_s": 5.0},
        {"busy_s": 4.0, "server_s": 2.0, "load_s": 0.3, "storagelab_s": 0.2, "kernel_s": 0.5, "idle_s": 6.0},
    )
    assert spent["others_s"] == pytest.approx(3.0 - 1.5 - 0.3 - 0.1 - 0.4)


def test_the_kernel_s_threads_are_told_by_their_flag_and_not_by_their_parent(tmp_path):
    """Lines of a real /proc, and a server whose parent has the number 2, as in a container."""
    (tmp_path / "stat").write_text("cpu  3304579 2223126 1563871 794142 98767 0 30556 142133 0 0\n")
    for pid, of_process in {
        2: "(kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 1 28 0 0 20 0 1 0 14 0 0",
        10: "(kworker/0:0H-kblockd) I 2 0 0 0 -1 69238880 0 0 0 0 0 3350 0 0 0 -20 1 0 14 0 0",
        41: "(postgres) S 2 41 41 0 -1 4194624 1290 0 0 0 500 100 0 0 20 0 1 0 90 0 0",
    }.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} {of_process}\n")
    spent, tick_s = read_cpu_time(41, tmp_path), 1 / os.sysconf("SC_CLK_TCK")
    assert spent["kernel_s"] == pytest.approx(tick_s * (1 + 28 + 3350 + 30556)), "the two threads, and interrupts"
    assert spent["server_s"] == pytest.approx(tick_s * 600)


def test_a_machine_that_can_t_tell_tells_nothing(tmp_path):
    assert read_cpu_time(None, tmp_path) == {}
    assert cpu_time_between({}, {}) == {}
