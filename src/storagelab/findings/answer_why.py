"""Why the factors of an answer matter: for each the volume's limit, or the wait, that explains most of its change of time.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from storagelab.findings.answer_kinds import Cause, Limit
from storagelab.findings.limits import volume_at_limit
from storagelab.findings.model import Findings
from storagelab.findings.why import legs


def causes(findings: Findings, factors: Iterable[str]) -> Iterator[Cause]:
    """The causes along each factor, in the order of `factors`; none where nothing explains a change that is sure."""
    for factor in factors:
        for leg in legs(findings, factor):
            cells = [(findings.cell(one), findings.cell(other)) for one, other in leg.waterfall.pairs]
            limit = volume_at_limit(cells, leg.waterfall.change.value)
            if limit is not None:
                yield Cause(
                    factor=factor, before=(leg.baseline,), after=(leg.level,), wait=None,
                    limit=Limit(volume=limit.volume, rate=limit.rate, limit=limit.limit, share=limit.share),
                    from_s=limit.before_s, to_s=limit.after_s,
                    total_from_s=leg.waterfall.before_s, total_to_s=leg.waterfall.after_s,
                )  # fmt: skip
            elif leg.main is not None:
                yield Cause(
                    factor=factor, before=(leg.baseline,), after=(leg.level,), wait=leg.main.thing.name,
                    from_s=leg.main.before_s, to_s=leg.main.after_s,
                    total_from_s=leg.waterfall.before_s, total_to_s=leg.waterfall.after_s,
                )  # fmt: skip
