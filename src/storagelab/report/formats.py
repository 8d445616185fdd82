"""A report as Markdown, and runs and waits as CSV. Pure."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.model.values import JsonValue
from storagelab.model.waits import conservation, normalise
from storagelab.report import wording as w
from storagelab.report.cell_sections import figure_text
from storagelab.report.names import repetition_text
from storagelab.report.secrets import masked
from storagelab.report.tables import cell_columns, cells_shown, wait_columns, waits_of

Fields = dict[str, str | float | bool | None]
_ALL = 1_000_000
_SPECIAL = re.compile(r"[\\`*<\[|]|(?<!\w)_|_(?!\w)")  # an underscore inside a word is no markup


# ---------------------------------------------------------------------------------------------------------------------
# Markdown
# ---------------------------------------------------------------------------------------------------------------------


def markdown(experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings) -> str:
    """The whole report: verdict, cells, waits of every cell, doubts, what went wrong, how it was measured, the spec."""
    parts = [
        _title(experiment, findings),
        [f"- {_escaped(sentence)}" for sentence in w.sentences(findings)],
        ["## Cells", "", *_cells(findings)],
        _doubts(findings),
        ["## Waits", "", *_waits(findings)],
        _troubles(runs),
        ["## How it was measured", "", *_method(experiment, plan, runs)],
        _spec(experiment),
    ]
    return "\n\n".join(masked("\n".join(part)) for part in parts if part) + "\n"


def _title(experiment: Experiment, findings: Findings) -> list[str]:
    question = [f"*{_escaped(experiment.question)}*", ""] if experiment.question else []
    return [f"# {_escaped(experiment.name)}", "", *question, f"**{_escaped(w.headline(findings))}**"]


def _escaped(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return _SPECIAL.sub(r"\\\g<0>", text).replace("\n", " ")


def _table(columns: Sequence[tuple[str, Sequence[str]]], left: Sequence[str]) -> list[str]:
    heads = [_escaped(name) for name, _ in columns]
    rules = ["---" if name in left else "---:" for name, _ in columns]
    rows = zip(*(texts for _, texts in columns), strict=True)
    lines = [heads, rules, *([_escaped(text) for text in row] for row in rows)]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _cells(findings: Findings) -> list[str]:
    cells, _ = cells_shown(findings, _ALL)
    left = ("verdict", "against the best (joint 95 % CI)")
    note = "sd: standard deviation over the runs of a cell, as a share of its mean."
    return [*_table(cell_columns(findings, cells), left), "", note]


def _doubts(findings: Findings) -> list[str]:
    if not findings.cautions:
        return []
    serious = sorted(findings.cautions, key=lambda caution: caution.severity != "caution")
    return ["## To bear in mind", "", *(f"- {_escaped(w.caution_sentence(item, findings))}" for item in serious)]


def _waits(findings: Findings) -> list[str]:
    ends = [*(() if findings.loads else findings.best[:1]), findings.fastest, findings.worst]
    cells, _ = cells_shown(findings, _ALL)
    ordered = sorted(cells, key=lambda cell: ends.index(cell.cell_id) if cell.cell_id in ends else len(ends))
    lines: list[str] = []
    for cell in ordered:
        lines += [*_waits_of(findings, cell), ""]
    return lines[:-1]


def _waits_of(findings: Findings, cell: CellSummary) -> list[str]:
    title = f"### {_escaped(w.waits_title(findings, cell, uncut=False))}"
    rows = waits_of(cell, uncut=False)
    audit = [f"- {_escaped(line)}" for line in w.audit_sentences(cell)]
    if not rows:
        return [title, "", w.no_waits_sentence(cell), "", *audit]
    columns = [*wait_columns(rows), ("Method", [w.method_text(row.method) for row in rows])]
    return [title, "", *_table(columns, ("WaitType", "In SQL Server", "Method")), "", *audit]


def _troubles(runs: Sequence[Run]) -> list[str]:
    lines = [
        f"- {run.status}: {_escaped(w.cell_text(run.levels))}, {repetition_text(run.repetition)}: "
        f"{_escaped(run.reason or _unmet(run) or 'no reason recorded')}"
        for run in runs
        if run.status != "ok"
    ]
    return ["## Runs that did not go as asked", "", *lines] if lines else []


def _unmet(run: Run) -> str:
    checks = run.measurement.unverified if run.measurement is not None else ()
    return "; ".join(f"{check.name}: asked {check.asked}, got {check.got or 'no answer'}" for check in checks)


def _method(experiment: Experiment, plan: Plan, runs: Sequence[Run]) -> list[str]:
    order = {
        "randomised": f"in random order (seed {experiment.seed})",
        "as-listed": "in the order listed",
        "cell-by-cell": "in the order listed, all repetitions of a cell before the next",
    }[experiment.order]
    burn_in = sum(run.burn_in for run in runs)
    lines = [
        f"- {len(plan.cells)} cells x {experiment.repetitions} repetitions, {order}; {len(runs)} runs stored"
        + (f", {burn_in} of them of the burn-in, which is not judged" if burn_in else ""),
    ]
    measured = [run.measurement for run in runs if run.measurement is not None]
    if measured:
        lines += [f"- {_escaped(name)}: {_escaped(text)}" for name, text in _flat(measured[0].environment)]
        lines.append("- as found at the first stored run; the export has every run's")
    return lines


def _flat(values: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines += _flat(value, f"{prefix}{name}.")
        elif value not in (None, "", [], {}):
            lines.append((f"{prefix}{name}", _figure(name, value)))
    return lines


def _figure(name: str, value: object) -> str:
    if name.endswith("_bytes") and isinstance(value, int | float) and not isinstance(value, bool):
        return figure_text(name, value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _spec(experiment: Experiment) -> list[str]:
    if not experiment.text:
        return []
    fence = "`" * max(3, 1 + max((len(run) for run in _backticks(experiment.text)), default=0))
    return ["## The spec", "", f"{fence}toml", experiment.text.rstrip("\n"), fence]


def _backticks(text: str) -> list[str]:
    return "".join(character if character == "`" else " " for character in text).split()


# ---------------------------------------------------------------------------------------------------------------------
# CSV
# ---------------------------------------------------------------------------------------------------------------------

RUN_COLUMNS = (
    "repetition", "attempt", "status", "provenance", "elapsed_s", "rows", "rows_per_s", "checkpoint_s", "cpu_s",
    "explained", "sequence", "block", "seed", "started_at", "reason", "burn_in",
)  # fmt: skip
WAIT_COLUMNS = (
    "repetition", "attempt", "status", "provenance", "wait_type", "wait_s", "resource_s", "signal_s", "wait_count",
    "is_wait", "method", "category", "analogue", "connections", "elapsed_s",
)  # fmt: skip


def csv_runs(experiment: Experiment, plan: Plan, runs: Sequence[Run]) -> str:
    """One row per stored run, failed ones too; a column per factor under its own name. Unknown = empty."""
    return _csv(experiment, RUN_COLUMNS, ((run, _run_fields(run)) for run in _in_order(plan, runs)))


def csv_waits(experiment: Experiment, plan: Plan, runs: Sequence[Run]) -> str:
    """One row per run and wait type, uncut, CPU and its queue included; runs without waits have no row."""
    rows = ((run, fields) for run in _in_order(plan, runs) for fields in _wait_fields(run))
    return _csv(experiment, WAIT_COLUMNS, rows)


def _in_order(plan: Plan, runs: Sequence[Run]) -> list[Run]:
    place = {cell.cell_id: number for number, cell in enumerate(plan.cells)}
    return sorted(runs, key=lambda run: (place.get(run.cell_id, len(place)), run.repetition, run.attempt))


def _csv(experiment: Experiment, columns: Sequence[str], rows: Iterable[tuple[Run, Fields]]) -> str:
    factors = [factor.name for factor in experiment.factors]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["cell_id", *factors, *columns])
    for run, fields in rows:
        levels = [_level(run.levels[name]) if name in run.levels else "" for name in factors]
        writer.writerow([run.cell_id, *levels, *(_field(fields.get(column)) for column in columns)])
    return text.getvalue()


def _level(value: JsonValue) -> str:
    return masked(value) if isinstance(value, str) else json.dumps(value)


def _field(value: str | float | bool | None) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return masked(value) if isinstance(value, str) else json.dumps(value)


def _key_fields(run: Run) -> Fields:
    provenance = run.measurement.provenance if run.measurement is not None else None
    return {"repetition": run.repetition, "attempt": run.attempt, "status": run.status, "provenance": provenance}


def _run_fields(run: Run) -> Fields:
    fields = _key_fields(run) | {
        "sequence": run.sequence, "block": run.block, "seed": run.seed, "started_at": run.started_at,
        "reason": run.reason or _unmet(run), "burn_in": run.burn_in,
    }  # fmt: skip
    measured = run.measurement
    if measured is None or run.status == "failed":
        return fields
    return fields | {
        "elapsed_s": measured.elapsed_s,
        "rows": measured.work.amount,
        "rows_per_s": measured.work_per_s,
        "checkpoint_s": measured.checkpoint_s,
        "cpu_s": measured.waits.cpu_s if measured.waits is not None else None,
        "explained": conservation(measured.waits).explained if measured.waits is not None else None,
    }


def _wait_fields(run: Run) -> list[Fields]:
    measured = run.measurement
    if measured is None or measured.waits is None or run.status == "failed":
        return []
    of_run = _key_fields(run) | {"connections": measured.waits.connections, "elapsed_s": measured.elapsed_s}
    return [
        of_run
        | {
            "wait_type": row.wait_type, "wait_s": row.wait_s, "resource_s": row.resource_s, "signal_s": row.signal_s,
            "wait_count": row.wait_count, "is_wait": row.is_wait, "method": row.method, "category": row.category,
            "analogue": row.analogue,
        }
        for row in normalise(measured.waits)
    ]  # fmt: skip
