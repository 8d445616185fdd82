"""Doubts in a few words each, for the lines of an answer. `doubts` has them in full. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from storagelab.findings.answer import layout_factors
from storagelab.findings.answer_kinds import Answer, Unable
from storagelab.findings.model import Findings
from storagelab.report.words.compared import of_both_kinds
from storagelab.report.words.hosts import unlike_text
from storagelab.words.names import factor_text, noun
from storagelab.words.numbers import MANY_TIMES, percent, plural, seconds, significant

_Cautions = Sequence[Any]
"""Cautions of one kind, so each has the fields of that kind."""


def unable_text(fact: Unable, answer: Answer, findings: Findings) -> str:
    """Why the experiment can't answer, or not all of its question."""
    found = [one for one in findings.cautions if one.kind == fact]
    if found:
        return _CAUTIONS[fact](found, findings)
    match fact:
        case "too-few-runs":
            return f"too few runs to test ({_runs(findings)} of each {noun(layout_factors(findings))})"
        case "untested" if of_both_kinds(findings):
            return "not tested together"  # provenances, as the line begins with both
        case "untested":
            return "nothing tested, as the order was not random"
        case "not-finished":
            return "not finished"
        case "not-compared":
            absent = sum(one.elapsed_s is None for one in findings.cells)
            number = absent or len(findings.not_compared)
            return f"{number} of {answer.layouts if not findings.loads else len(findings.cells)} without a result"
        case _:
            return fact.replace("-", " ")


def _runs(findings: Findings) -> int:
    return max((cell.runs_ok + cell.runs_unverified for cell in findings.cells), default=0)


def doubt_text(kind: str, findings: Findings) -> str:
    """All cautions of one kind in a few words."""
    return _CAUTIONS[kind]([one for one in findings.cautions if one.kind == kind], findings)


def _where(found: _Cautions, findings: Findings) -> str:
    """ " in 3 of 20 layouts", if it is not all."""
    cells = {cell for one in found for cell in one.cells}
    return f" in {len(cells)} of {len(findings.cells)} {noun(layout_factors(findings), 2)}" if cells else ""


def _short_runs(found: _Cautions, findings: Findings) -> str:
    return f"runs as short as {seconds(min(one.shortest_s for one in found))}{_where(found, findings)}"


def _odd(found: _Cautions, findings: Findings) -> str:
    number = sum(one.runs for one in found)
    return "one odd run" if number == 1 else f"{number} odd runs{_where(found, findings)}"


def _order(found: _Cautions, findings: Findings) -> str:
    drives = ", on a drive that ages" if found[0].provenance == "simulated" else ""
    return f"{noun(layout_factors(findings), 2)} ran in order{drives}"


def _change(found: _Cautions, _findings: Findings) -> str:
    change = found[0].change
    if change is None:
        return "times changed steadily on the way"
    if change >= MANY_TIMES:
        return f"times became {significant(1 + change, 2)} times as long on the way"
    return f"times {'grew' if change > 0 else 'fell'} by {percent(abs(change))} on the way"


def _busy(found: _Cautions, _findings: Findings) -> str:
    share = max(one.others_share for one in found)
    return f"the machine was busy (others took up to {percent(share)} of it)"


def _unverified(found: _Cautions, _findings: Findings) -> str:
    return f"{factor_text(found[0].what) if found[0].what else 'something'} was not as asked"


def _shared(found: _Cautions, _findings: Findings) -> str:
    return f"volumes {', '.join(found[0].volumes)} are on one device"


_CAUTIONS: dict[str, Callable[[_Cautions, Findings], str]] = {
    "failed-runs": lambda found, _: f"{plural(sum(one.failed for one in found), 'run')} failed",
    "missing-runs": lambda found, _: f"{plural(found[0].missing, 'run')} still to make",
    "unverified": _unverified,
    "unsettled": lambda found, _: f"throughput had not settled in {plural(sum(one.runs for one in found), 'run')}",
    "behind-rate": lambda found, _: f"{plural(sum(one.runs for one in found), 'run')} fell behind the set rate",
    "single-repetition": lambda *_: "one run of each",
    "few-repetitions": lambda found, _: f"{found[0].repetitions} runs each",
    "short-runs": _short_runs,
    "outlier": _odd,
    "blocks": lambda *_: "blocks are not compared",
    "order": _order,
    "drift": _change,
    "step": _change,
    "observer-cost": lambda *_: "watching the waits cost CPU time",
    "few-wait-samples": lambda *_: "few samples of waits",
    "conservation": lambda *_: "waits don't add up to the time",
    "no-split": lambda *_: "waits without their signal part",
    "busy-machine": _busy,
    "throttled": lambda found, _: f"a CPU quota took up to {percent(max(one.share for one in found))} of a run",
    "cpu-saturated": lambda found, findings: (
        f"the CPUs were the limit ({percent(max(one.cpu_share for one in found))} busy){_where(found, findings)}"
    ),
    "virtual-disk": lambda *_: "a virtual or caching disk",
    "durability-off": lambda found, _: f"{found[0].setting} = {found[0].value} gives up safety",
    "shared-device": _shared,
    "allocation-latches": lambda found, _: f"more files gain little on {found[0].engine} {found[0].major}",
    "files-on-disks": lambda *_: "what more files cost on disks rests on one test",
    "two-provenances": lambda *_: "simulated and measured are not compared",
    "not-steady": lambda found, findings: (
        f"{'not in steady state' if found[0].judged else 'too short to show steady state'}{_where(found, findings)}"
    ),
    "others-on-drive": lambda found, _: f"others used the drive (up to {percent(found[0].share)} on top)",
    "too-fast": lambda *_: "a drive answered faster than drives can",
    "unlike-hosts": lambda found, _: unlike_text(found[0]),
    "different-loads": lambda found, _: f"{found[0].loads} different loads are compared",
}
