"""storagelab: which storage layout is fastest for this database, by how much, and why?

In a notebook, `storagelab.load("results/NAME")` returns the stored data as tables.
"""

from __future__ import annotations

__version__ = "0.3.0"
"""Cargo.toml also has it, and a test compares the two."""

# Not imported from typing: a Ctrl-C before the command line is ready would end in Python's own traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from storagelab.notebooks import load as load

__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:
    """Imports `load` on first access, so that the command line does not pay for the import."""
    if name == "load":
        from storagelab.notebooks import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
