"""The version, once; Cargo.toml has it too, and a test holds them together."""

from __future__ import annotations

__version__ = "0.1.0"
