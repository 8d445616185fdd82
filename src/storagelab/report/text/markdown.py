"""A report as Markdown. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from storagelab.findings.answer import answer
from storagelab.findings.answer_kinds import Answer
from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.report.charts import drawn_charts
from storagelab.report.text import tables
from storagelab.report.words.answer import answer_lines
from storagelab.report.words.caution_texts import caution_sentences
from storagelab.report.words.hosts import host_table
from storagelab.report.words.marks import legend_sentence
from storagelab.report.words.secrets import masked
from storagelab.report.words.sentences import sentences
from storagelab.report.words.table import Paper, Table
from storagelab.report.words.waiting import audit_sentences, method_text, no_waits_sentence, waits_title
from storagelab.words.names import Labels, cell_text, is_number, labels_of, repetition_text, unmet_text
from storagelab.words.numbers import quantity_text

_ALL = 1_000_000
_SPECIAL = re.compile(r"[\\`*<\[|]|(?<!\w)_|_(?!\w)")  # an underscore inside a word is no markup


def markdown(experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings) -> str:
    """The whole report: verdict, cells, waits of every cell, cautions, what went wrong, how it was measured, the
    spec.
    """
    found = answer(findings)
    parts = [
        _title(experiment, findings, found),
        _listed("## Evidence", sentences(findings, found)),
        ["## Cells", "", *_cells(findings)],
        _hosts(findings),
        _listed("## Caveats", [text for _, text in caution_sentences(findings)]),
        ["## Waits", "", *_waits(findings)],
        _charts(findings, runs),
        _troubles(runs, labels_of(experiment.factors)),
        ["## How it was measured", "", *_method(experiment, plan, runs)],
        _spec(experiment),
    ]
    return "\n\n".join(masked("\n".join(part)) for part in parts if part) + "\n"


def _title(experiment: Experiment, findings: Findings, found: Answer) -> list[str]:
    question = [f"*{escaped(experiment.question)}*", ""] if experiment.question else []
    head, *lines = (escaped(line.text) for line in answer_lines(findings, found))
    listed = ["", *(f"- {line}" for line in lines)] if lines else []
    return [f"# {escaped(experiment.name)}", "", *question, f"**{head}**", *listed]


def _listed(heading: str, texts: Sequence[str]) -> list[str]:
    return [heading, "", *(f"- {escaped(text)}" for text in texts)] if texts else []


def escaped(text: str) -> str:
    """Text escaped so that Markdown leaves it unchanged."""
    return _SPECIAL.sub(r"\\\g<0>", text).replace("\n", " ")


def markdown_table(columns: Sequence[tuple[str, Sequence[str]]], left: Sequence[str]) -> list[str]:
    heads = [escaped(name) for name, _ in columns]
    rules = ["---" if name in left else "---:" for name, _ in columns]
    rows = zip(*(texts for _, texts in columns), strict=True)
    lines = [heads, rules, *([escaped(text) for text in row] for row in rows)]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _table_lines(table: Table) -> list[str]:
    columns = [(heading.text, [row[place] for row in table.rows]) for place, heading in enumerate(table.headings)]
    return markdown_table(columns, [heading.text for heading in table.headings if heading.align != "number"])


def _cells(findings: Findings) -> list[str]:
    cells, _ = tables.cells_shown(findings, _ALL)
    left = (tables.CELL_ID, "verdict", tables.AGAINST)
    note = "sd: standard deviation over the runs of a cell, as a share of its mean."
    legend = legend_sentence(findings)
    before = [escaped(legend), ""] if legend else []
    return [*before, *markdown_table(tables.cell_columns(findings, cells), left), "", note]


def _hosts(findings: Findings) -> list[str]:
    table = host_table(findings)
    return ["## Hosts", "", *_table_lines(table)] if table.rows else []


def _waits(findings: Findings) -> list[str]:
    ends = [*(() if findings.loads else findings.best[:1]), findings.fastest, findings.worst]
    cells, _ = tables.cells_shown(findings, _ALL)
    ordered = sorted(cells, key=lambda cell: ends.index(cell.cell_id) if cell.cell_id in ends else len(ends))
    lines: list[str] = []
    for cell in ordered:
        lines += [*_waits_of(findings, cell), ""]
    return lines[:-1]


def _waits_of(findings: Findings, cell: CellSummary) -> list[str]:
    title = f"### {escaped(waits_title(findings, cell, uncut=False))}"
    rows = tables.waits_of(cell, uncut=False)
    audit = [f"- {escaped(line)}" for line in audit_sentences(cell)]
    if not rows:
        return [title, "", no_waits_sentence(cell), "", *audit]
    columns = [*tables.wait_columns(rows), ("Method", [method_text(row.method) for row in rows])]
    return [title, "", *markdown_table(columns, ("WaitType", tables.IN_SQL_SERVER, "Method")), "", *audit]


def _charts(findings: Findings, runs: Sequence[Run]) -> list[str]:
    """What each chart of the page shows, in words and figures."""
    lines: list[str] = []
    for drawn in drawn_charts(findings, runs).values():
        lines += [f"### {escaped(drawn.title)}", "", escaped(drawn.label), "", *_table_lines(drawn.table), ""]
    return ["## Charts in words", "", *lines[:-1]] if lines else []


def _troubles(runs: Sequence[Run], labels: Labels) -> list[str]:
    lines = [
        f"- {run.status}: {run.cell_id}, {escaped(cell_text(run.levels, labels))}, {repetition_text(run.repetition)}: "
        f"{escaped(run.reason or unmet_text(run) or 'no reason recorded')}"
        for run in runs
        if run.status != "ok"
    ]
    return ["## Runs that did not go as asked", "", *lines] if lines else []


def _method(experiment: Experiment, plan: Plan, runs: Sequence[Run]) -> list[str]:
    order = {
        "randomised": f"in random order (seed {experiment.seed})",
        "as-listed": "in the order listed",
        "cell-by-cell": "in the order listed, all repetitions of a cell before the next",
    }[experiment.order]
    burn_in = sum(run.burn_in for run in runs)
    lines = [
        f"- {len(plan.cells)} cells x {experiment.repetitions} repetitions, {order}; {len(runs)} runs stored"
        + (f", {burn_in} of them of the burn-in, which is not judged" if burn_in else "")
    ]
    measured = [run.measurement for run in runs if run.measurement is not None]
    if measured:
        lines += [f"- {escaped(name)}: {escaped(text)}" for name, text in _flat(measured[0].environment)]
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
    if name.endswith("_bytes") and is_number(value):
        return quantity_text(name, value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _spec(experiment: Experiment) -> list[str]:
    if not experiment.text:
        return []
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", experiment.text)), default=0))
    return ["## The spec", "", f"{fence}toml", experiment.text.rstrip("\n"), fence]


def markdown_of(paper: Paper) -> str:
    """A short report, complete."""
    lines = [f"# {escaped(paper.title)}", "", f"**{escaped(paper.verdict)}**", ""]
    lines += ["```", *paper.picture, "```", ""] if paper.picture else []
    lines += [f"- {escaped(note)}" for note in paper.notes]
    for part in paper.parts:
        if part.table.rows:
            lines += ["", f"## {escaped(part.caption)} ({paper.provenance})", "", *_table_lines(part.table)]
    return masked("\n".join(lines)) + "\n"
