"""The block in which a reader looks for herself: every cell in a table to sort and filter, a chart of them, two side by side.

Without scripts it is the table alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from markupsafe import Markup

from storagelab.findings.model import Findings
from storagelab.model.measurement import Run
from storagelab.model.plan import Plan
from storagelab.report.page.explore_plots import MAX_RUNS, plots
from storagelab.report.page.explore_record import record
from storagelab.report.page.pieces import View
from storagelab.report.page.results import cells_table


def explore_view(plan: Plan, runs: Sequence[Run], findings: Findings) -> View:
    """The table, and everything about its cells as JSON; no JSON for a single cell, which has nothing beside it."""
    found = cells_table(findings, runs)
    known = None
    if len(found.cells) > 1 and findings.factors:
        known = record(plan, runs, findings, found.cells)
        known |= {"keys": found.keys, "plots": plots(findings), "most_runs": MAX_RUNS}
    return {"table": found.table, "record": _script_text(known) if known else Markup("")}


def _script_text(value: object) -> Markup:
    """JSON in which nothing can end the script element that it stands in, or begin anything else."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704 - escaped here
