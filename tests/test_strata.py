"""Hosts that differ in what one factor does: its error has the degrees of freedom that these hosts show."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from bench import drawn_hosts
from bench.drawn import LOG, design
from storagelab.findings.strata import bases_of, strata_of

LEVELS = [cell.levels for cell in design(8, 5).plan.cells]
ONE_BLOCK = [0] * 8


def most(campaigns: int, rate: float) -> int:
    """The count that a true rate of `rate` exceeds once in a thousand."""
    return int(scipy_stats.binom.ppf(0.999, campaigns, rate))


def test_each_factor_has_a_stratum_and_so_has_the_rest():
    bases = bases_of(LEVELS, ONE_BLOCK)
    assert [basis.shape[1] for basis in bases] == [3, 1, 3]
    together = np.hstack(bases)
    assert together.T @ together == pytest.approx(np.eye(7), abs=1e-9)
    assert np.ones(8) @ together == pytest.approx(np.zeros(7), abs=1e-9)


def test_a_single_factor_has_one_stratum_and_blocks_are_taken_out():
    levels = [{"layout.data_files": number} for number in (1, 2, 4, 8)]
    assert [basis.shape[1] for basis in bases_of(levels, [0] * 4)] == [3]
    assert [basis.shape[1] for basis in bases_of(levels, [0, 0, 1, 1])] == [2]


def test_the_error_of_two_layouts_has_the_scatter_of_the_factors_in_which_they_differ():
    rng = np.random.default_rng(90)
    of_level = rng.normal(0, 0.1, (2, 5))
    log_a = np.array([of[LOG] == "a" for of in LEVELS])
    figures = np.where(log_a[:, None], of_level[0], of_level[1]) + rng.normal(0, 0.001, (8, 5))
    strata = strata_of(figures, LEVELS, ONE_BLOCK, 1e-14)
    errors, df = strata.errors(0)
    alike = [cell for cell in range(1, 8) if log_a[cell] == log_a[0]]
    other = [cell for cell in range(8) if log_a[cell] != log_a[0]]
    assert max(errors[alike]) < 0.002
    expected = np.std(of_level[0] - of_level[1], ddof=1) / np.sqrt(5)
    assert errors[other] == pytest.approx(np.full(4, expected), rel=0.05)
    assert df[other] == pytest.approx(np.full(4, 4.0), abs=0.1)


def test_without_two_complete_hosts_there_are_no_strata():
    figures = np.zeros((8, 3))
    figures[0, :2] = np.nan
    assert strata_of(figures, LEVELS, ONE_BLOCK, 1e-14) is None


def test_honest_hosts_that_differ_by_level_are_seldom_called_odd_and_make_no_difference():
    """Cells alone would call one of them odd in 60 of 100 campaigns."""
    rng = np.random.default_rng(91)
    said = [drawn_hosts._by_level(rng, (4, 8, 3), number, LOG, 0.10) for number in range(60)]
    assert sum(any(host.odd_ratios for host in one.fleet.hosts) for one in said) <= most(60, 0.05)
    assert sum(one.names_a_difference for one in said) <= most(60, 0.05)
