"""How hosts differ in what factors do: each factor by itself, and what is left. Pure.

Hosts may differ in what one factor's levels do to times, and agree in all else. Then the cells of a level are off
together, and the error of a comparison has only the degrees of freedom that hosts show of this factor: (hosts - 1) x
(levels - 1). So what cells deviate on each host is split into a stratum for each factor and one for the rest, as in a
split-plot analysis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Strata:
    """For each stratum its orthonormal basis, a row for each cell, the mean square of hosts, and its degrees of
    freedom.
    """

    bases: tuple[Matrix, ...]
    squares: tuple[float, ...]
    dfs: tuple[float, ...]
    hosts: int

    def only(self, rows: Sequence[int]) -> Strata:
        return Strata(tuple(basis[rows] for basis in self.bases), self.squares, self.dfs, self.hosts)

    def above(self, other: Strata) -> Strata:
        """With the rows of another below."""
        both = zip(self.bases, other.bases, strict=True)
        return Strata(tuple(np.concatenate(pair) for pair in both), self.squares, self.dfs, self.hosts)

    def errors(self, best: int) -> tuple[Matrix, Matrix]:
        """The standard error of each row's difference to the `best`, and its degrees of freedom (Satterthwaite
        1946).
        """
        parts = np.array([
            ((basis - basis[best]) ** 2).sum(axis=1) * square / self.hosts
            for basis, square in zip(self.bases, self.squares, strict=True)
        ])  # fmt: skip
        variance = np.maximum(parts.sum(axis=0), 1e-300)
        spread = np.maximum((parts**2 / np.array(self.dfs)[:, None]).sum(axis=0), 1e-300)
        return np.sqrt(variance), np.clip(variance**2 / spread, 1.0, sum(self.dfs))


def bases_of(levels: Sequence[Mapping[str, object]], blocks: Sequence[int]) -> list[Matrix]:
    """An orthonormal basis of each stratum that these cells have: one for each factor, and one of the rest.

    Each is orthogonal to the means of blocks and to those before it.
    """
    number = len(levels)
    taken = _dummies(blocks)
    taken = _new(np.zeros((number, 0)), taken)
    found = []
    for name in levels[0] if levels else ():
        basis = _new(taken, _dummies([repr(of[name]) for of in levels]))
        found.append(basis)
        taken = np.hstack([taken, basis])
    found.append(_new(taken, np.eye(number)))
    return [basis for basis in found if basis.shape[1]]


def _dummies(values: Sequence[object]) -> Matrix:
    different = list(dict.fromkeys(values))
    return np.array([[float(value == one) for one in different] for value in values])


def _new(taken: Matrix, columns: Matrix) -> Matrix:
    """An orthonormal basis of what `columns` have beside those `taken`."""
    rest = columns - taken @ (taken.T @ columns)
    left, sizes, _ = np.linalg.svd(rest, full_matrices=False)
    return np.asarray(left[:, sizes > 1e-6])


def strata_of(
    figures: Matrix, levels: Sequence[Mapping[str, object]], blocks: Sequence[int], least: float
) -> Strata | None:
    """The strata of `figures`, as cells x hosts; `least` = the least mean square. None if fewer than two hosts have
    all.
    """
    complete = figures[:, ~np.isnan(figures).any(axis=0)]
    hosts = complete.shape[1]
    if hosts < 2 or len(levels) < 2:
        return None
    apart = complete - complete.mean(axis=1, keepdims=True)
    bases = bases_of(levels, blocks)
    dfs = tuple(float((hosts - 1) * basis.shape[1]) for basis in bases)
    squares = tuple(
        max(float(((basis.T @ apart) ** 2).sum()) / df, least) for basis, df in zip(bases, dfs, strict=True)
    )
    return Strata(tuple(bases), squares, dfs, hosts) if bases else None
