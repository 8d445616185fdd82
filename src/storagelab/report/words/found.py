"""The text of kinds of findings, among the lines of the answer and the sentences of the evidence. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from storagelab.findings.kinds import kinds
from storagelab.findings.model import Findings
from storagelab.report.words.short import fitting


def lines_among(findings: Findings, about: str, own: Iterable[Callable[[int], str]]) -> Iterator[Callable[[int], str]]:
    """The lines of one part of the answer: its `own`, and those of each kind of finding that belongs to it; each is written
    in so many rows.
    """
    lines = [
        (kind.weight, partial(fitting, list(texts)))
        for kind in kinds()
        if kind.about == about and (texts := kind.line(findings))
    ]
    yield from (text for weight, text in lines if weight < 0)
    yield from own
    yield from (text for weight, text in lines if weight >= 0)


def found_sentences(findings: Findings, about: str) -> list[str]:
    """The sentences of the kinds that belong to this part of the answer."""
    return [text for kind in kinds() if kind.about == about for text in kind.sentences(findings)]
