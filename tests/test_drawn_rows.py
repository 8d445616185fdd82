"""What is drawn for the records is kept row by row."""

from pathlib import Path

import numpy as np
import pytest

from bench import drawn_rows


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
