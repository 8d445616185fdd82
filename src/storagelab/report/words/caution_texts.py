"""Writes cautions as sentences for reports, and in a few words for the answer. Writes the next step, too. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from storagelab.findings.answer_kinds import Next
from storagelab.findings.kinds import kinds
from storagelab.findings.kinds.ceiling import Ceiling
from storagelab.findings.kinds.race import RaceSummary
from storagelab.findings.model import Caution, Findings
from storagelab.report.words.compared import in_parts_of_cycles, of_both_kinds
from storagelab.words.names import noun
from storagelab.words.numbers import count, percent, plural


def caution_sentence(caution: Caution, findings: Findings) -> str:
    """Describes a caution in one to three sentences: the problem, its size, and what to do about it."""
    return re.sub(r"\s+", " ", caution.sentence(findings)).strip()


def cautions_told(findings: Findings) -> list[tuple[list[Caution], str]]:
    """Returns the texts on all cautions, the most serious first. Each text comes with the cautions that it covers: one
    caution, or all alike cautions of a kind if the kind defines a joint text.
    """
    told: list[tuple[list[Caution], str]] = []
    for one in sorted(findings.cautions, key=lambda caution: caution.severity != "caution"):
        alike = one.alike(findings)
        joined = one.joined(findings) if len(alike) > 1 else ""
        if not joined:
            told.append(([one], caution_sentence(one, findings)))
        elif one is alike[0]:
            told.append(([*alike], joined))
    return told


def caution_text(kind: str, findings: Findings, used: Collection[str] = ()) -> str:
    """Returns the short text of one caution of the kind, which stands for all of them. A caution about all cells or
    about one of the cells `used` is preferred.
    """
    alike = [one for one in findings.cautions if one.kind == kind]
    return min(alike, key=lambda one: bool(one.cells) and not {*used} & {*one.cells}).brief(findings)


def unable_text(fact: str, findings: Findings) -> str:
    """Says why the experiment can't answer its question, or can answer only a part of it."""
    if any(one.kind == fact for one in findings.cautions):
        return caution_text(fact, findings)
    match fact:
        case "too-few-runs":
            most = max((cell.runs_ok + cell.runs_unverified for cell in findings.cells), default=0)
            return f"too few runs to test ({most} of each {noun(findings.layout_factors)})"
        case "not-finished":
            return caution_text("missing-runs", findings)
        case "untested" if of_both_kinds(findings):
            return "not tested together"  # the line begins with both provenances
        case "untested" if in_parts_of_cycles(findings):
            return "runs count parts of checkpoint cycles"
        case "untested":
            return "nothing tested: the order was not random"
        case "not-compared":
            absent = sum(one.elapsed_s is None for one in findings.cells)
            number, of = absent or len(findings.not_compared), len(findings.cells)
            return f"{number} of {of} {findings.cell_noun(of)} {'without a result' if absent else 'not judged'}"
        case _:
            return fact.replace("-", " ")


def found_sentences(findings: Findings, about: str) -> list[str]:
    """Returns the sentences on the subject `about`, from all kinds of findings."""
    return [text for kind in kinds() if kind.about == about for text in kind.sentences(findings)]


def next_text(findings: Findings, step: Next) -> str:
    """Returns the next step, such as "make 23 repetitions in all, to tell differences of 5 % from chance". The demo has
    its own texts, because it has its own command and no spec that a user could change.
    """
    is_demo = findings.experiment == "demo" and bool(Ceiling.of(findings))
    if step.step == "runs":
        left = findings.runs_planned - findings.runs_stored
        again = "storagelab demo" if is_demo else "storagelab run SPEC"
        return f"make the {plural(left, 'run')} that {'is' if left == 1 else 'are'} missing: {again}"
    if is_demo:
        return "repeat it on an idle machine: storagelab demo --results NEW; or change it: storagelab init ceiling"
    if step.step == "race":
        within = "".join(f" --within {100 * one.within:g}%" for one in RaceSummary.of(findings) if one.within)
        return f"repeat the layouts that are left: storagelab run SPEC --find-best{within} --budget 2h"
    if step.step != "repetitions" or step.repetitions is None:
        rest = f", with {count(step.repetitions)} repetitions" if step.repetitions else ""
        return next(one.next_step for one in findings.cautions if one.kind == step.step) + rest
    if step.effect is None:
        return f"make {count(step.repetitions)} repetitions"
    return (
        f"make {count(step.repetitions)} repetitions in all, to tell differences of {percent(step.effect)} from chance"
    )
