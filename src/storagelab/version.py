"""The version. Cargo.toml also has it, and a test compares the two."""

from __future__ import annotations

__version__ = "0.3.0"
