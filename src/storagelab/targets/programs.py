"""Programs of servers on this machine: where a cell wants them from, and what they say they are."""

from __future__ import annotations

import subprocess
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.model import Config
from storagelab.targets.folders import Site
from storagelab.targets.unprivileged import unprivileged

BIN_DIR = "target.bin_dir"


def asked_folder(config: Config, site: Site) -> str | None:
    """The folder that a cell names; a relative one starts at the spec's. None if it names none."""
    asked = config.target.bin_dir
    return None if asked is None else str(site.place(asked, BIN_DIR))


def version_said(program: Path, *options: str) -> str:
    """What `program --version` says, run as it will be run later: a folder that only root may enter is no use to a server
    without root's rights. Raises PreflightError if it does not run."""
    command = [*unprivileged().prefix, str(program), *options, "--version"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        words = getattr(error, "stderr", None) or str(error)
        raise PreflightError(
            f"{program} does not run {unprivileged().how}: {words.strip()}",
            key=BIN_DIR,
            hint="try it by hand with --version",
        ) from error
