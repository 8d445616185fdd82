"""What the repetitions of a plan can tell, in words."""

from __future__ import annotations

from storagelab.findings.power import Tells
from storagelab.words.numbers import percent, plural, significant


def tells_text(tells: Tells) -> str:
    """How small a difference the plan can tell, and how many repetitions a smaller one takes."""
    basis = f"{plural(tells.scatter.runs, 'run')} that scatter by {_percent(tells.scatter.sd)}"
    times = plural(tells.repetitions, "repetition")
    if tells.smallest is None:
        can = f"{times} tell nothing apart"
    else:
        can = f"{times} tell differences of {_percent(tells.smallest)} or more in 4 of 5 experiments"
    takes = [
        f"{percent(effect)} takes {'more than 1,000' if needed is None else needed}" for effect, needed in tells.takes
    ]
    return "; ".join([can, *takes]) + f" (computed from {basis})"


def _percent(share: float) -> str:
    return f"{significant(100 * share, 2)} %"
