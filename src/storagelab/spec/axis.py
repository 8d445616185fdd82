"""Finds the factor along which reports show all others (the axis of charts and trends), and orders its levels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from storagelab.model.plan import Factor
from storagelab.model.values import JsonValue

FILES_FACTOR = "layout.data_files"


def axis_factor(factors: Sequence[Factor]) -> Factor | None:
    """The number of data files if it varies, else the numeric factor with the most levels, else None."""
    varied = [factor for factor in factors if len(factor.levels) > 1]
    files = [factor for factor in varied if sets_data_files(factor)]
    numeric = [factor for factor in varied if is_numeric(factor)]
    return next(iter(files), None) or max(numeric, key=lambda factor: len(factor.levels), default=None)


def sets_data_files(factor: Factor) -> bool:
    """Whether the factor sets the number of data files: by its path, or by labels that all set it."""
    return factor.name == FILES_FACTOR or all(FILES_FACTOR in level.sets for level in factor.levels)


def is_numeric(factor: Factor) -> bool:
    return all(isinstance(level.value, int | float) and not isinstance(level.value, bool) for level in factor.levels)


def in_order(factor: Factor) -> list[JsonValue]:
    """The factor's levels, with numbers sorted from small to large."""
    values = [level.value for level in factor.levels]
    return sorted(values, key=_number) if is_numeric(factor) else values


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
