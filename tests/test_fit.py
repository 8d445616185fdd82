"""The fit is a plain least squares, and what its contrasts may be off by is the plain covariance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storagelab.stats import contrast
from storagelab.stats.fit import fit, prepared

drawings = st.tuples(
    st.integers(2, 6), st.integers(2, 6), st.integers(1, 2), st.integers(0, 2), st.floats(0, 0.4),
    st.integers(0, 2**32 - 1),
)  # fmt: skip


def campaign(cells, rounds, blocks, covariates, missing, rng):
    """Log times with runs missing, the block of each cell, and what else explains times."""
    log_s = rng.normal(2, 1, (cells, 1)) + rng.normal(0, 0.5, rounds) + rng.normal(0, 0.1, (cells, rounds))
    log_s[rng.random(log_s.shape) < missing] = np.nan
    others = [rng.integers(0, 2, log_s.shape).astype(float) for _ in range(covariates)]
    return log_s + sum(0.3 * one for one in others), rng.integers(0, blocks, cells), others


def dense(log_s, blocks, covariates):
    """Columns of zeros and ones for each cell and each round of a block, then the covariates; a row for each run."""
    cell, column = np.nonzero(~np.isnan(log_s))
    rounds = blocks[cell] * log_s.shape[1] + column
    return np.column_stack([
        cell[:, None] == np.arange(len(log_s)), rounds[:, None] == np.arange(2 * log_s.shape[1]),
        *(one[cell, column] for one in covariates),
    ]).astype(float)  # fmt: skip


@given(drawings)
def test_the_fit_is_that_of_a_dense_least_squares(drawn):
    *sizes, seed = drawn
    log_s, blocks, covariates = campaign(*sizes, np.random.default_rng(seed))
    fitted, there = fit(log_s, blocks, covariates=covariates), ~np.isnan(log_s)
    design = dense(log_s, blocks, covariates)
    if not len(design):
        return
    found, _, rank, _ = np.linalg.lstsq(design, log_s[there], rcond=1e-9)
    assert fitted.calm.residuals[there] == pytest.approx(log_s[there] - design @ found, abs=1e-7)
    assert fitted.free == len(design) - rank
    covariance = np.linalg.pinv(design.T @ design, rcond=1e-9, hermitian=True)
    for one in range(1, len(log_s)):
        pair = np.eye(design.shape[1])[one] - np.eye(design.shape[1])[0]
        sums = contrast._sums(fitted, np.array([[one, 0]]), np.array([[1.0, -1.0]]), fitted.every, fitted.every)
        told = bool(np.abs(pair @ covariance @ design.T @ design - pair).max() < 1e-6)
        enough = min(fitted.runs[[one, 0]]) >= 2 and fitted.df >= 1 and blocks[one] == blocks[0]
        assert bool(sums.tested[0]) == (told and enough)
        if sums.tested[0]:
            assert sums.value[0] == pytest.approx(pair @ found, abs=1e-7)
            if fitted.alike:
                assert sums.error[0] ** 2 == pytest.approx(fitted.pooled * (pair @ covariance @ pair), rel=1e-6)


def test_a_block_of_one_cell_says_nothing_of_noise():
    fitted = fit(np.random.default_rng(26).normal(0, 1, (2, 5)), [0, 1])
    assert (fitted.df, np.isnan(fitted.every.variance).all()) == (0, True)


def test_cells_share_one_variance_unless_one_is_surely_noisier():
    log_s = np.random.default_rng(14).normal(0, 0.03, (8, 5))
    alike = fit(log_s)
    assert alike.alike
    assert len(set(alike.every.variance)) == 1
    log_s[3] *= 5
    apart = fit(log_s)
    assert apart.noisier.tolist() == [number == 3 for number in range(8)]
    assert apart.every.variance.argmax() == 3


def test_a_single_lucky_run_does_not_make_a_cell_the_fastest_and_without_runs_none_is():
    assert fit(np.array([[1.0, np.nan, np.nan], [2.0, 2.01, 2.02], [3.0, 3.02, 3.01]])).fastest() == 1
    assert fit(np.array([[2.0], [9.0], [3.0]])).fastest() == 0
    assert fit(np.full((3, 0), np.nan)).fastest() is None


def test_levels_that_were_prepared_again_have_their_preparations_as_the_sample():
    """Of two levels, each prepared three times with two runs each, all runs of a preparation are off by the same."""
    luck = np.random.default_rng(27).normal(0, 0.1, (2, 3))
    log_s = np.repeat(luck, 2, axis=1) + np.tile([0.001, -0.001], 3)
    made_in = np.repeat(np.arange(6).reshape(2, 3), 2, axis=1)
    again = prepared(fit(log_s, [0, 1]), made_in).preparations
    assert again.counts.tolist() == [3, 3]
    assert (again.df, again.variance[0]) == (4, pytest.approx(luck.var(axis=1, ddof=1).mean()))
    assert prepared(fit(log_s, [0, 1]), np.repeat([[0], [1]], 6, axis=1)).preparations is None
