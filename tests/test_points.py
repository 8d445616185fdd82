"""Critical points are SciPy's, which takes a tenth of a second or more for each."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from storagelab.stats import points
from storagelab.stats.contrast import Family, named


@pytest.mark.parametrize(("count", "df"), [(3, 2.0), (4, 7.5), (8, 28.0), (64, 252.0), (1000, 4000.0)])
@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.001])
def test_the_studentized_range_is_scipys(count, df, alpha):
    q = math.sqrt(2) * points.range_point(count, df, alpha)
    assert scipy_stats.studentized_range.sf(q, count, df) == pytest.approx(alpha, rel=1e-3)


@pytest.mark.parametrize(("others", "df"), [(2, 2), (3, 20), (7, 12), (9, 30), (15, 64)])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_dunnetts_maximum_is_that_of_scipys_multivariate_t(others, df, alpha):
    """Differences from one mean that all share: each two of them correlate by one half."""
    at = np.full(others, points.maximum_point(others, df, alpha))
    shape = np.full((others, others), 0.5) + 0.5 * np.eye(others)
    below = scipy_stats.multivariate_t.cdf(at, shape=shape, df=df, maxpts=200_000, random_state=1)
    assert below == pytest.approx(1 - alpha, abs=5e-4)


def test_a_family_of_one_is_students_t():
    for family in (Family("range", 2), named(1)):
        assert family.point(9, 0.05) == pytest.approx(scipy_stats.t.isf(0.025, 9))
    assert Family("maximum", 2).point(9, 0.05) == pytest.approx(scipy_stats.t.isf(0.05, 9))
