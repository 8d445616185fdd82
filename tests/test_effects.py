"""What levels of a factor do: found over all cells that match, with what disturbs them together as noise."""

import math

import numpy as np
import pytest
from builders import make_planned

from storagelab.findings.effects import main_effects
from storagelab.stats.fit import fit
from storagelab.stats.intervals import ALPHA

FILES, LOG = "layout.data_files", "layout.log"


def effects_of(log_s):
    experiment, plan = make_planned({FILES: [1, 4], LOG: ["a", "b", "c"]}, repetitions=5)
    found = main_effects(experiment.factors, plan.cells, fit(log_s), [0] * len(plan.cells), ALPHA)
    return {(one.factor, one.level): one for one in found}


def test_a_level_that_takes_a_tenth_more_time_everywhere_is_found_and_no_other():
    log_s = np.random.default_rng(1).normal(0, 0.01, (6, 5))
    log_s[3:] += math.log(1.1)
    found = effects_of(log_s)
    assert [key for key, one in found.items() if one.distinguishable] == [(FILES, 4)]
    assert found[FILES, 4].ratio.value == pytest.approx(1.1, abs=0.02)
    assert (found[FILES, 4].pairs, found[LOG, "b"].pairs) == (15, 10)


def test_what_disturbs_all_cells_of_a_level_in_one_round_is_noise():
    log_s = np.random.default_rng(2).normal(0, 0.003, (6, 5))
    log_s[3:, 2] += math.log(1.5)
    assert not effects_of(log_s)[FILES, 4].distinguishable
