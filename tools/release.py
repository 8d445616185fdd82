"""Checks the files that `make wheel` built, and writes the notes of the release: tools/release.py FOLDER

It checks that CHANGELOG.md has a section for the version, that package indexes will accept the files, that the licence
of each bundled crate is included, and that a wheel can be installed in a new environment without compilers and can plan
an experiment there. It uploads nothing.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from storagelab import __version__

ROOT = Path(__file__).resolve().parent.parent
ASK_NOTHING = ("Apache-2.0", "Unlicense")
"""Licences whose text is in the file LICENSE, or that require no text. If a crate offers a choice of licences, one of
these suffices."""
ONLY_WHILE_BUILDING = {"unicode-ident", "target-lexicon"}
"""Crates of macros and build scripts. They leave no code in the wheel."""
INSTALLED = "init wal-volume --output my.toml", "plan my.toml", "--version"


def main(folder: Path) -> None:
    wheels, sources = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if not wheels or not sources:
        sys.exit(f"{folder} has no wheel or no source distribution: make wheel")
    notes = notes_of(__version__, (ROOT / "CHANGELOG.md").read_text("utf-8"))
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *wheels, *sources], check=True)
    for wheel in wheels:
        missing = list(without_licence(wheel))
        if missing:
            sys.exit(f"{wheel.name}: put the licences of these crates into licenses/: {', '.join(missing)}")
        print(f"{wheel.name}: the licence of each bundled crate is kept")
    (here,) = (wheel for wheel in wheels if wheel.name.endswith(f"_{platform.machine()}.whl"))
    try_installing(here)
    file = folder / f"notes-{__version__}.md"
    file.write_text(notes, "utf-8")
    print(f"notes of the release: {file}")


def notes_of(version: str, changes: str) -> str:
    """Returns the section of a version in CHANGELOG.md, as the notes of the release."""
    found = re.search(rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)", changes, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        sys.exit(f"CHANGELOG.md: has no section ## {version}; write what changed, for users")
    return f"# storagelab {version}\n\n{found[1].strip()}\n"


def without_licence(wheel: Path) -> Iterator[str]:
    """Yields the bundled crates whose licence requires a text that the wheel does not contain."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (bill,) = (name for name in names if name.endswith("storagelab-py.cyclonedx.json"))
        crates = json.loads(archive.read(bill))["components"]
    for crate in crates:
        name, licences = crate["name"], " ".join(one["expression"] for one in crate["licenses"])
        kept = any(f"/licenses/licenses/{name}-" in held for held in names)
        if not kept and name not in ONLY_WHILE_BUILDING and not any(word in licences for word in ASK_NOTHING):
            yield f"{name} ({licences})"


def try_installing(wheel: Path) -> None:
    """Installs a wheel into a new environment without a compiler, and plans a ready-made spec there."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)  # as root, servers run as another user, who must be able to read the installed files
        subprocess.run([sys.executable, "-m", "venv", f"{place}/lab"], check=True)
        alone = {"PATH": f"{place}/lab/bin", "HOME": place, **from_pip()}
        pip = [f"{place}/lab/bin/python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", str(wheel)]
        subprocess.run(pip, env=alone, check=True)
        for words in INSTALLED:
            command = [f"{place}/lab/bin/storagelab", *words.split()]
            subprocess.run(command, cwd=place, env={**alone, "PATH": f"{alone['PATH']}:/usr/bin"}, check=True)
    print(f"{wheel.name}: can be installed and can plan without a compiler")


def from_pip() -> dict[str, str]:
    """Returns the settings with which pip connects to its index on this machine."""
    return {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTPS_"))}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
