"""The border between Rust and Python: `storagelab._sim`."""

import ast
import inspect
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import storagelab
from storagelab import _sim

SEEDS = st.integers(0, 2**64 - 1)


def test_the_extension_and_the_package_are_of_one_version():
    assert _sim.version() == storagelab.__version__


@given(SEEDS, st.text(max_size=40), st.integers(0, 500))
def test_a_permutation_holds_each_number_once_and_is_the_same_for_the_same_seed_and_stream(seed, stream, n):
    order = _sim.permutation(seed, stream, n)
    assert sorted(order) == list(range(n))
    assert order == _sim.permutation(seed, stream, n)


def test_an_order_stays_what_it_is_from_version_to_version():
    assert _sim.permutation(1, "order", 10) == [4, 1, 8, 7, 3, 6, 2, 9, 0, 5]


def test_the_type_stub_and_the_extension_offer_the_same_functions_with_the_same_arguments():
    stub = ast.parse((Path(storagelab.__file__).parent / "_sim.pyi").read_text(encoding="utf-8"))
    promised = {
        node.name: [arg.arg for arg in node.args.args] for node in stub.body if isinstance(node, ast.FunctionDef)
    }
    offered = {
        name: list(inspect.signature(function).parameters)
        for name, function in inspect.getmembers(_sim, callable)
        if not name.startswith("_") and not inspect.isclass(function)
    }
    assert promised == offered


def test_the_type_stub_and_the_extension_offer_the_same_classes_with_the_same_members():
    stub = ast.parse((Path(storagelab.__file__).parent / "_sim.pyi").read_text(encoding="utf-8"))
    promised = {
        node.name: {member.name for member in node.body if isinstance(member, ast.FunctionDef)} - {"__init__"}
        for node in stub.body
        if isinstance(node, ast.ClassDef)
    }
    offered = {
        name: {member for member in vars(found) if not member.startswith("_")}
        for name, found in inspect.getmembers(_sim, inspect.isclass)
    }
    assert promised == offered


AGES_A_LARGE_DRIVE = """
import json, sys
from pathlib import Path
from simulated_specs import small
from storagelab import _sim
from dataclasses import replace
from storagelab.spec.matrix import expand
from storagelab.engines.simulated.scenario import scenario

plan = expand(small(
    ('profile = "iodrive-320"\\nformat = "basic"\\ndriver = "2.2.3"\\nsector_bytes = 512',
     'profile = "sata-870-evo-1tb"\\nformat = "operating-system"\\nsector_bytes = 4096'),
    ('"drives.ssd.format" = ["basic", "maximum-write"]\\n', ""), ("scale = 256", "scale = 2"),
))
content = json.dumps(scenario(replace(plan.blocks[0], runs=plan.runs[:1]), Path()))
print("ageing", flush=True)
_sim.Block(content)
"""


def cpu_s_of_children() -> float:
    """The CPU time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_ctrl_c_ends_the_ageing_of_a_large_drive_within_two_seconds():
    """Of CPU time, which other work on the machine doesn't lengthen."""
    before_s = cpu_s_of_children()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", AGES_A_LARGE_DRIVE], env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ageing\n"
    time.sleep(0.5)
    ticks = (Path("/proc") / str(process.pid) / "stat").read_text().rpartition(")")[2].split()
    until_asked_s = (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert cpu_s_of_children() - before_s - until_asked_s < 2
    assert "KeyboardInterrupt" in said
