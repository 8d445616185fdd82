"""The consequences of an order that is not random, and of runs in blocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from storagelab.findings.basis import Evidence, Names
from storagelab.findings.model import Caution, Findings
from storagelab.findings.times import blocks_of
from storagelab.model.engines import Provenances
from storagelab.model.plan import Order, Plan
from storagelab.words.names import capital, factor_text, listed, noun


class RunInBlocks(Caution):
    """The `factors` changed only from block to block, so their levels ran at different times."""

    kind, group = "blocks", "design"
    short = "blocks are not compared"
    factors: Names
    blocks: int

    def sentence(self, findings: Findings) -> str:
        changed = (
            f"{listed([factor_text(name) for name in self.factors])} changed" if self.factors else "The layout changed"
        )
        return (
            f"{capital(changed)} only from block to block: all runs of a level were made in one stretch, so a drift of "
            "the drive or the machine would look like a difference between levels. Blocks are not compared; "
            "differences within each are tested. To compare levels, prepare each again: blocks = 3, and repetitions to "
            "match, under a new name; or remove the factor from costly if the drives allow it."
        )


class NotRandomised(Caution):
    """The order of the runs was not random."""

    kind, group = "order", "design"
    next_step = 'rerun it in the randomised order (order = "randomised") under a new name'
    order: Order
    provenance: Provenances

    def sentence(self, findings: Findings) -> str:
        if self.order == "as-listed" and self.provenance == "simulated":
            return (
                f"Each repetition ran the {noun(findings.factors, 2)} in the same order: the verdict holds for this "
                'order only. order = "randomised" compares them whatever came before.'
            )
        if self.order == "as-listed":
            return (
                f"Each repetition ran the {noun(findings.factors, 2)} in the same order, so what the run before leaves "
                "behind, or a disturbance that comes back, would look like a difference between them: times are shown, "
                'and nothing is tested. Set order = "randomised" for a verdict.'
            )
        stretch = f'All runs of a {noun(findings.factors)} were made one after the other (order = "cell-by-cell")'
        if self.provenance == "simulated":
            return (
                f"{stretch}, and each found the drives as those before had left them: the verdict holds for this order "
                "only. The first runs after a formatting are the fastest of a flash drive's life, and they all went to "
                "the layouts listed first. To compare layouts regardless of what came before them, set "
                'order = "randomised" and between_runs.burn_in = 1.'
            )
        return (
            f"{stretch}, so a drift of the machine would look like a difference: times are shown, and nothing is "
            'tested. Set order = "randomised" for a verdict.'
        )

    def brief(self, findings: Findings) -> str:
        drives = ", on a drive that ages" if self.provenance == "simulated" else ""
        return f"{noun(findings.layout_factors, 2)} ran in order{drives}"


def check_run_in_blocks(evidence: Evidence) -> Iterator[RunInBlocks]:
    """Not for simulated blocks, which don't affect each other; see also `TwoProvenances`."""
    plan = evidence.plan
    measured = [place for place, cell in enumerate(plan.cells) if not cell.config.simulated]
    fitted = evidence.basis.fitted
    blocks = blocks_of(plan) if fitted.preparations is None else tuple(fitted.compared.tolist())
    if len({blocks[place] for place in measured}) > 1 and evidence.provenance != "simulated":
        held = [factor.name for factor in evidence.experiment.factors if _held(evidence.plan, blocks, factor.name)]
        yield RunInBlocks(factors=tuple(held), blocks=len(set(blocks)))


def _held(plan: Plan, blocks: tuple[int, ...], factor: str) -> bool:
    """Whether a factor changes only from block to block."""
    levels: dict[int, set[str]] = defaultdict(set)
    for block, cell in zip(blocks, plan.cells, strict=True):
        levels[block].add(repr(cell.levels.get(factor)))
    return all(len(values) == 1 for values in levels.values()) and len(set().union(*levels.values())) > 1


def check_not_randomised(evidence: Evidence) -> Iterator[NotRandomised]:
    """Not if the drives start anew before every run: then runs don't affect each other."""
    order, provenance = evidence.experiment.order, evidence.provenance
    fresh = all(cell.config.between_runs.format_drives or not cell.config.drives for cell in evidence.plan.cells)
    if order == "randomised" or len(evidence.plan.cells) < 2 or (provenance == "simulated" and fresh):
        return
    shown = order == "as-listed" and provenance == "simulated"
    yield NotRandomised(severity="note" if shown else "caution", order=order, provenance=provenance)
