"""The ways to fit the means of cells."""

from __future__ import annotations

from typing import Literal

FitKind = Literal["robust", "least-squares"]
