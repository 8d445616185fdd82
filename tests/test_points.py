"""Critical points are those of the textbooks: SciPy's where it has them, drawn ones where not."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from storagelab.findings import studentized


@pytest.mark.parametrize(("cells", "df"), [(3, 2.0), (4, 7.5), (8, 28.0), (64, 252.0), (1000, 4000.0)])
@pytest.mark.parametrize("tail", [0.5, 0.05, 0.001])
def test_the_studentized_range_is_scipys(cells, df, tail):
    q = scipy_stats.studentized_range.isf(tail, cells, df)
    assert studentized.range_tail(q, cells, df) == pytest.approx(tail, rel=1e-4)


@pytest.mark.parametrize(("others", "df", "point"), [(1, 10, 1.812), (3, 20, 2.192), (9, 30, 2.543), (5, 1e6, 2.234)])
def test_dunnetts_maximum_is_that_of_his_table(others, df, point):
    """Dunnett 1955, table 1a (one-sided, 5 %); the last with infinitely many degrees of freedom."""
    assert studentized.maximum_point(others, df, 0.05) == pytest.approx(point, abs=0.01)


def test_dunnetts_maximum_is_exceeded_as_often_as_it_says():
    rng = np.random.default_rng(1)
    means, sd = rng.normal(0, 1, (40_000, 8)), np.sqrt(rng.chisquare(12, 40_000) / 12)
    largest = (means[:, :1] - means[:, 1:]).max(axis=1) / np.sqrt(2) / sd
    assert np.mean(largest > studentized.maximum_point(7, 12, 0.05)) == pytest.approx(0.05, abs=0.005)


def test_a_family_of_one_is_students_t():
    for family in (studentized.tukey(2), studentized.bonferroni(1)):
        assert family.point(9, 0.05) == pytest.approx(scipy_stats.t.isf(0.025, 9))
        assert family.tail(2.5, 9) == pytest.approx(2 * scipy_stats.t.sf(2.5, 9))
