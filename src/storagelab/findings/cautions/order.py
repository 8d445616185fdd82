"""Cautions about an order that is not random, and about runs in blocks."""

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
            f"{capital(changed)} only from block to block. All runs of a level were made one after the other, so a "
            "drift of the drive or the machine would look like a difference between levels. So blocks are not "
            "compared; only differences within a block are tested. To compare levels, prepare each several times "
            "(blocks = 3, repetitions to match, a new name), or remove the factor from costly if the drives allow it."
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
                f"Each repetition ran the {noun(findings.factors, 2)} in the same order, so the verdict holds for this "
                'order only. To compare them regardless of the runs before, set order = "randomised".'
            )
        if self.order == "as-listed":
            return (
                f"Each repetition ran the {noun(findings.factors, 2)} in the same order. So an effect of the previous "
                "run, or a repeated disturbance, would look like a difference between them. Times are shown, but "
                'nothing is tested. Set order = "randomised" for a verdict.'
            )
        stretch = f'All runs of a {noun(findings.factors)} were made one after the other (order = "cell-by-cell")'
        if self.provenance == "simulated":
            return (
                f"{stretch}, and each began with the drives as the runs before had left them. So the verdict holds for "
                "this order only. A flash drive is fastest in the first runs after a formatting, and all of these were "
                "runs of the layouts listed first. To compare layouts regardless of the runs before, set "
                'order = "randomised" and between_runs.burn_in = 1.'
            )
        return (
            f"{stretch}, so a drift of the machine would look like a difference. Times are shown, but nothing is "
            'tested. Set order = "randomised" for a verdict.'
        )

    def brief(self, findings: Findings) -> str:
        drives = ", on a drive that ages" if self.provenance == "simulated" else ""
        return f"{noun(findings.layout_factors, 2)} ran in order{drives}"


def check_run_in_blocks(evidence: Evidence) -> Iterator[RunInBlocks]:
    """Finds factors that changed only from block to block. Simulated blocks give no caution, because they don't affect
    each other; see also `TwoProvenances`."""
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
    """Finds an order that is not random. If simulated drives start anew before each run, there is no caution, because
    runs don't affect each other."""
    order, provenance = evidence.experiment.order, evidence.provenance
    fresh = all(cell.config.between_runs.format_drives or not cell.config.drives for cell in evidence.plan.cells)
    if order == "randomised" or len(evidence.plan.cells) < 2 or (provenance == "simulated" and fresh):
        return
    shown = order == "as-listed" and provenance == "simulated"
    yield NotRandomised(severity="note" if shown else "caution", order=order, provenance=provenance)
