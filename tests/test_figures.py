"""The arithmetic of the bench: comparisons are measured side by side, and the order alternates."""

import pytest

from bench.figures import paired_ratios, ratio_figure, rounds


def test_in_rounds_everyone_goes_first_as_often_and_keeps_its_place():
    order: list[str] = []

    def way(name: str, value: float):
        def measured() -> float:
            order.append(name)
            return value

        return measured

    found = rounds(4, [way("a", 1.0), way("b", 2.0), way("c", 3.0)])
    assert found == [(1.0, 2.0, 3.0)] * 4
    assert "".join(order) == "abc" + "bca" + "cab" + "abc"


def test_a_ratio_stands_with_the_interval_of_its_median():
    values = iter([2.0, 1.0, 1.0, 2.1, 1.9, 1.0])
    ratios = paired_ratios(3, lambda: next(values), lambda: next(values))
    assert ratios == pytest.approx([2.0, 2.1, 1.9])
    figure = ratio_figure("x", ratios, "at least 0.97", lambda r: r >= 0.97, "")
    assert (figure.value, figure.met) == (2.0, True)
    assert 1.9 <= figure.low <= 2.0 <= figure.high <= 2.1
