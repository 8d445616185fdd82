"""What a running server shows of its layout: a start for a spec, read and never changed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from storagelab.model.values import Scalar


class Found(NamedTuple):
    """A running server. `places` are the folders of its data, its log and its tablespaces, by names for volumes."""

    title: str
    settings: dict[str, Scalar]
    """Settings that bear on storage and that its operator chose."""
    places: dict[str, Path]
    here: bool
    """It runs on this machine."""
    data_bytes: int
    bin_dir: Path | None = None
    """The folder of its programs, if it runs on this machine and they can be seen."""


def volume_name(name: str) -> str:
    """A name that a spec's volume can have, made of a tablespace's."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)[:31].lstrip("_-") or "tablespace"
