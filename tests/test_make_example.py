"""README's example: the demo's output goes between the marks, with where and when it was measured."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RUN = {
    "started_at": "2026-11-22T17:53:36.358+00:00",
    "measurement": {
        "environment": {
            "host": {"cpu_count": 2, "cpu_model": "AMD EPYC", "load_1min": 0.31},
            "volumes": {"disk": {"filesystem": "ext4", "virtual": True, "device": "vda", "device_model": None}},
            "server": {"version": "18.4"},
            "storagelab": {"version": "0.1.0"},
        },
    },
}


@pytest.fixture(scope="module")
def make_example():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        yield importlib.import_module("make_example")


def test_the_example_is_what_the_demo_said(make_example):
    found = make_example.example("No faster volume can gain more.\nMore.\n", RUN)
    assert found == (
        "```\n$ storagelab demo\nNo faster volume can gain more.\nMore.\n```\n"
        "Measured on 2026-11-22 by storagelab 0.1.0 on 2 CPUs (AMD EPYC), ext4 on a virtual disk, PostgreSQL 18.4. "
        "Load of the machine before the first run: 0.3.\n"
    )


def test_it_goes_between_the_marks_of_the_readme_and_nowhere_else(make_example):
    before = make_example.README.read_text("utf-8")
    after = make_example.put_into(before, "here\n")
    assert after.count("<!-- example: begin -->\nhere\n<!-- example: end -->") == 1
    assert after.partition("<!-- example")[0] == before.partition("<!-- example")[0]
    assert after.rpartition("example: end -->")[2] == before.rpartition("example: end -->")[2]
