"""storagelab: which storage layout is fastest for this database, by how much, and why?

In a notebook, `storagelab.load("results/NAME")` gives what is stored as tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from storagelab.version import __version__

if TYPE_CHECKING:
    from storagelab.notebooks import load as load

__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:
    """Loads `load` when it is asked for, so that the command line does not wait for it."""
    if name == "load":
        from storagelab.notebooks import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
