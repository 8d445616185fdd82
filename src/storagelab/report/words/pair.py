"""Two cells of one experiment, as a short report: what takes longer, where the seconds went, what the devices did. Pure."""

from __future__ import annotations

from storagelab.findings.model import Estimate, Findings
from storagelab.findings.reasons import Case
from storagelab.report.words import compared
from storagelab.report.words.paper import Paper, Part
from storagelab.report.words.waiting import no_waits_sentence
from storagelab.report.words.why import crowd_sentence, device_table, waterfall_table, why_sentence
from storagelab.words.names import cell_entry, cell_text
from storagelab.words.numbers import change_estimate


def pair_paper(findings: Findings, before: str, after: str, ratio: Estimate | None, case: Case | None) -> Paper:
    """The comparison of the cells `before` and `after`; `case` is None where a cell has no waits."""
    cells = findings.cell(before), findings.cell(after)
    notes = [
        f"{cell_entry(cell.cell_id, cell_text(cell.levels))}: {compared.figure_text(findings, cell) or 'no time measured'}"
        for cell in cells
    ]
    title, provenance = (
        f"{findings.experiment}: {before} against {after}",
        findings.provenance or "nothing measured yet",
    )
    if case is None:
        missing = next((cell for cell in cells if not cell.spent), cells[0])
        change = (
            "" if ratio is None else f"{after} against {before}: {change_estimate(ratio, compared.per(findings))}. "
        )
        return Paper(title, provenance, f"{change}No waterfall: {no_waits_sentence(missing)}", notes, ())
    parts = [
        Part(
            "Where each second of a connection went",
            waterfall_table(case.parts, before, after),
            {"95 % interval, s": 1},
        ),
        Part("What the devices did", device_table(case.devices, before, after), {"change": 1}),
    ]
    notes += crowd_sentence(case, after if case.change_s > 0 else before)
    return Paper(title, provenance, why_sentence(case, after, before, ratio, compared.per(findings)), notes, parts)
