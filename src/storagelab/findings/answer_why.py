"""Why the factors of an answer matter: for each the wait that explains most of its change of time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from storagelab.findings.answer_kinds import Cause
from storagelab.findings.model import Findings
from storagelab.findings.why import legs


def causes(findings: Findings, factors: Iterable[str]) -> Iterator[Cause]:
    """The causes along each factor, in the order of `factors`; none where no wait explains a change that is sure."""
    for factor in factors:
        for leg in legs(findings, factor):
            if leg.main is not None:
                yield Cause(
                    factor=factor, before=(leg.baseline,), after=(leg.level,), wait=leg.main.thing.name,
                    from_s=leg.main.before_s, to_s=leg.main.after_s,
                    total_from_s=leg.waterfall.before_s, total_to_s=leg.waterfall.after_s,
                )  # fmt: skip
