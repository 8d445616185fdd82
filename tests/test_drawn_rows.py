"""Simulated results for the records are stored row by row, and contain the promised figures."""

from pathlib import Path

import numpy as np
import pytest

from bench import drawn, drawn_orders, drawn_rows, statistics


def test_a_drawing_that_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def one(rng: np.random.Generator, number: int) -> tuple[float, float]:
        drawn.append(number)
        if len(drawn) == 200:
            raise KeyboardInterrupt
        return rng.random(), float(number)

    def counted(experiments: int) -> list[float]:
        return drawn_rows.counted("5x5, heavy tails", 1, experiments, one)

    at_once = counted(130)
    monkeypatch.setenv("STORAGELAB_BENCH_KEPT", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        counted(130)
    drawn.clear()
    assert counted(130) == pytest.approx(at_once)
    assert drawn == list(range(50, 130))
    few = counted(10)  # as --quick does: what was kept stays
    drawn.clear()
    assert counted(130) == pytest.approx(at_once)
    assert few != at_once
    assert not drawn


@pytest.mark.parametrize("order", drawn_orders.ALL)
@pytest.mark.parametrize("kind", ["normal", pytest.param("a layout that stalls", marks=pytest.mark.campaign)])
def test_every_order_is_drawn_and_a_much_slower_layout_is_found(order: str, kind: str) -> None:
    one = drawn_orders.ALL[order]
    campaign = one.order(np.random.default_rng(1), 0, (*one.everywhere, *one.normal)[0], kind)
    counts = statistics.count(campaign, kind, 10)
    assert all(0 <= share <= 1 for share in counts[:9] if share == share)
    much = np.zeros(len(campaign.truth))
    much[campaign.slow] = 3.0
    assert campaign.slow in campaign.said(campaign.truth + much).slower


def test_of_two_layouts_the_one_that_does_not_stall_is_rightly_the_winner():
    for winner, false in ((0, True), (1, False), (None, False)):
        assert statistics._false(drawn_orders.Said(False, {}, winner=winner), np.array([0.08, 0.0]), 0.0) == false


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_fit_that_is_shifted_is_the_fit_of_shifted_times(blocks: int) -> None:
    rng, of, levels = np.random.default_rng(2), drawn.design(4, 9, blocks=blocks), np.array([0.0, 0.1, 0.0, -0.2])
    log_s = drawn.KINDS["5 % of runs 30 % too long"](of, rng)
    moved, fitted = drawn.shifted(drawn.fit(of, log_s), levels), drawn.fit(of, log_s + levels[:, None])
    assert moved.cells == pytest.approx(fitted.cells)
    assert moved.calm.log_s == pytest.approx(fitted.calm.log_s)
    assert moved.pooled == pytest.approx(fitted.pooled)
    if blocks > 1:
        assert moved.preparations.calm == pytest.approx(fitted.preparations.calm, nan_ok=True)
