"""The version; Cargo.toml has it, too, and a test compares them."""

from __future__ import annotations

__version__ = "0.3.0"
