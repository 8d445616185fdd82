"""Words what share of its drives a database reached. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.findings.model import Findings
from storagelab.findings.reached import Reached
from storagelab.model.engines import ENGINES
from storagelab.report.words.short import fitting
from storagelab.words.numbers import percent, significant

NOT_THE_LIMIT = 0.5
THE_LIMIT = 0.8
"""From this share of what a drive takes, it is the limit; below the other one it is not."""


def reached_lines(findings: Findings) -> Iterator[str]:
    """The most used volume of the fastest cell, for the answer."""
    of = findings.cell(findings.fastest).reached if findings.fastest is not None else ()
    for one in of[:1]:
        takes = _number(one, one.takes_per_s)
        yield fitting(
            [
                f"{_did(one)} where volume {one.volume} takes {takes}: {_so(one)}.",
                f"{_did(one)} where its volume takes {takes}: {_so(one)}.",
            ]
        )


def reached_sentences(findings: Findings) -> list[str]:
    """Every volume of the fastest cell, for the evidence."""
    of = findings.cell(findings.fastest).reached if findings.fastest is not None else ()
    if not of:
        return []
    told = "; ".join(
        f"volume {one.volume} {percent(one.share)} ({_rate(one, one.did_per_s)} of {_rate(one, one.takes_per_s)})"
        for one in of
    )
    return [
        "Raw I/O beside the load, by fio with 16 requests in progress, shows what the volumes take. "
        f"{ENGINES[of[0].engine].title} used of that: {told}. This says nothing about waiting for single writes, which a "
        "drive may answer late without being busy."
    ]


def _did(one: Reached) -> str:
    did = "did" if one.unit == "ios" else "wrote" if one.operation == "write" else "read"
    return f"{ENGINES[one.engine].title} {did} {_rate(one, one.did_per_s)}"


def _rate(one: Reached, value: float) -> str:
    return f"{_number(one, value)} {'MB/s' if one.unit == 'bytes' else f'{one.operation}s/s'}"


def _number(one: Reached, value: float) -> str:
    return significant(value / 1e6 if one.unit == "bytes" else value)


def _so(one: Reached) -> str:
    if one.share < NOT_THE_LIMIT:
        return "the drive's rate was not the limit"
    if one.share < THE_LIMIT:
        return f"{percent(one.share)} of the drive was in use"
    return "the drive was the limit"
