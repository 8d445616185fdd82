"""Vega-Lite's own runtime for a page, so that its charts work interactively without a network.

vl-convert contains it and takes seconds to build it. So the result is kept beside this module's bytecode, as long as
the versions stay the same. If that folder can't be written, it is built each time.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import importlib.util
import os
import sys
import zlib
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from storagelab.report.drawing.vega import VEGA_LITE, drawer

_SNIPPET = "window.vegaEmbed = vegaEmbed;"


class Runtime(NamedTuple):
    """The script, compressed and in base64, and the hash by which a page's policy allows it."""

    packed: str
    sha256: str


def runtime() -> Runtime:
    """Vega, Vega-Lite and vega-embed as one script that sets `vegaEmbed`."""
    kept = _kept_in()
    with contextlib.suppress(OSError, EOFError, zlib.error):
        return _of(kept.read_bytes())
    packed = gzip.compress(_made(), 9, mtime=0)
    with contextlib.suppress(OSError):
        _keep(kept, packed)
    return _of(packed)


def _made() -> bytes:
    return str(drawer().javascript_bundle(_SNIPPET, vl_version=VEGA_LITE)).encode()


def _of(packed: bytes) -> Runtime:
    """Raises OSError, EOFError or zlib.error if `packed` is damaged."""
    script = gzip.decompress(packed)
    return Runtime(base64.b64encode(packed).decode(), base64.b64encode(hashlib.sha256(script).digest()).decode())


def _kept_in() -> Path:
    key = hashlib.sha256(f"{metadata.version('vl-convert-python')} {VEGA_LITE} {_SNIPPET}".encode()).hexdigest()[:16]
    return Path(importlib.util.cache_from_source(__file__)).with_name(f"runtime-{key}.js.gz")


def _keep(file: Path, packed: bytes) -> None:
    """Writes the runtime whole or not at all, as several reports may write it at once."""
    if sys.dont_write_bytecode:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    half = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        half.write_bytes(packed)
        half.replace(file)
    finally:
        half.unlink(missing_ok=True)
