"""How skewed noise is, by the residuals of a fit: a row for each cell, NaN where a run is missing. Pure."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from storagelab.findings.studentized import t_point

Matrix = NDArray[np.float64]

SKEWED_P_VALUE = 0.1
"""Residuals whose third moments differ from 0 by chance no more often than this are skewed."""


def skewness_of(left: Matrix, floor: float) -> float:
    """The skewness of all residuals; 0 if their variance is below `floor`."""
    variance = float(np.nanmean(left**2))
    return 0.0 if variance < floor else float(np.nanmean(left**3)) / variance**1.5


def sure_skewness_of(left: Matrix, floor: float) -> float:
    """The same; 0 also where chance or a single cell may explain it: a t test over cells, 5 % a side."""
    of_cells = np.nansum(left**3, axis=1)
    if len(of_cells) < 2:
        return 0.0
    least = t_point(len(of_cells) - 1, SKEWED_P_VALUE) * of_cells.std(ddof=1) / math.sqrt(len(of_cells))
    return skewness_of(left, floor) if abs(of_cells.mean()) > least else 0.0
