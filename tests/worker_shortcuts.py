"""A worker of Dask's that loads this module takes the shortcuts of tests, unless it was given no folder for them."""

from __future__ import annotations

import os
from pathlib import Path

import shortcuts

if folder := os.environ["SHORTCUTS"]:
    shortcuts.take(Path(folder))
