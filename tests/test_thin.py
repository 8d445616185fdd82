"""Long series made short: nothing is left out, and no peak is lost."""

from hypothesis import given
from hypothesis import strategies as st

from storagelab.report.charts.over_time import stretches

SAMPLES = st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1, max_size=300)


@given(SAMPLES, st.integers(1, 80))
def test_the_least_and_the_most_of_all_samples_are_kept_in_at_most_so_many_stretches(values, limit):
    at_s = [float(place) for place in range(1, len(values) + 1)]
    found = list(stretches(at_s, values, limit))
    assert len(found) <= limit
    assert found[-1].at_s == at_s[-1]
    known = [value for value in values if value is not None]
    if known:
        assert min(part.least for part in found if part.least is not None) == min(known)
        assert max(part.most for part in found if part.most is not None) == max(known)
    assert all(
        part.mean is None or part.least - 1e-6 <= part.mean <= part.most + 1e-6
        for part in found
        if part.least is not None and part.most is not None
    )


def test_a_short_series_stays_as_it_is():
    assert [part[:2] for part in stretches((1.0, 2.0, 3.0), (5.0, None, 7.0), 10)] == [
        (1.0, 5.0),
        (2.0, None),
        (3.0, 7.0),
    ]
