"""storagelab: which storage layout is fastest for this database, by how much, and why?

In a notebook, `storagelab.load("results/NAME")` returns the stored data as tables.
"""

from __future__ import annotations

__version__ = "0.3.0"
"""Cargo.toml has the same version, and a test compares the two."""

# TYPE_CHECKING is not imported from typing, because that import takes time: Ctrl-C before the command line is ready
# would end in Python's own traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from storagelab.notebooks import load as load

__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:
    """Imports `load` when it is first used, so that the command line starts faster."""
    if name == "load":
        from storagelab.notebooks import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
