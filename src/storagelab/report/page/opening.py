"""The beginning of a page: what was run, the verdict with the main figures, and the cautions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from storagelab.findings.answer import answer
from storagelab.findings.cautions.odd_runs import OddRun
from storagelab.findings.model import Caution, CellSummary, Findings, Sample
from storagelab.model.measurement import Run
from storagelab.report.page.explore_series import run_anchor
from storagelab.report.page.pieces import Link, View
from storagelab.report.words import compared
from storagelab.report.words.answer import answer_lines
from storagelab.report.words.caution_texts import cautions_told
from storagelab.report.words.sentences import evidence
from storagelab.words import numbers
from storagelab.words.numbers import keep_together

_MOST_LINKS = 12
_FAR = 0.1
"""A mean that differs from the median by more than this share is marked."""


def badges(findings: Findings, runs: Sequence[Run]) -> list[str]:
    """Short facts for the head of the page: how much was run, on which server, on how many CPUs."""
    measured = numbers.count(sum(cell.runs_ok + cell.runs_unverified for cell in findings.cells))
    planned = numbers.count(sum(cell.runs_planned for cell in findings.cells))
    facts = [f"{measured} runs" if measured == planned else f"{measured} of {planned} runs made"]
    if burn_in := sum(run.burn_in for run in runs):
        facts.append(f"{numbers.count(burn_in)} burn-in run{'s' * (burn_in != 1)} beside them")
    environment = next((run.measurement.environment for run in runs if run.measurement is not None), {})
    server, host = environment.get("server"), environment.get("host")
    if isinstance(server, Mapping) and server.get("version"):
        facts.append(f"{server.get('engine') or 'server'} {server['version']}")
    if isinstance(server, Mapping) and server.get("scale"):
        facts.append(f"simulated at scale {server['scale']}")
    if findings.fleet is not None:
        return [*facts, f"{len(findings.fleet.hosts)} hosts"]
    if isinstance(host, Mapping) and host.get("cpu_count"):
        facts.append(f"{host['cpu_count']} CPUs")
    if isinstance(host, Mapping) and isinstance(memory := host.get("memory_bytes"), int | float):
        facts.append(f"{numbers.bytes_(memory)} of memory")
    return facts


def verdict_view(findings: Findings) -> View:
    """The answer, each line with its evidence folded under it, the badge that says what it is based on, and the main
    figures.
    """
    of = answer(findings)
    head, *lines = answer_lines(findings, of)
    based = [line for line in lines if line.about == "basis"]
    lines = [line for line in lines if line.about != "basis"]
    found = evidence(findings, of)
    # The first line about a subject has its evidence.
    folded = [found.pop(line.about, []) for line in lines]
    # Evidence that belongs to no line.
    rest = [text for about, texts in found.items() if about != "caution" for text in texts]
    return {
        "headline": keep_together(head.text),
        "provenance": of.provenance or "none",
        "based": [keep_together(line.text) for line in based],
        "answer": [
            (line.about, keep_together(line.text), list(map(keep_together, texts)))
            for line, texts in zip(lines, folded, strict=True)
        ],
        "tiles": _tiles(findings),
        "sentences": list(map(keep_together, rest)),
    }


def _tiles(findings: Findings) -> list[View]:
    """The fastest and the slowest cell side by side; none if each load has its own fastest and no verdict picks one."""
    if findings.loads and findings.verdict in ("untested", "too-few-runs"):
        return []
    fastest, slowest = compared.ends(findings)
    distinguished = {
        item.cell_id for item in findings.comparisons if item.best_cell_id == fastest and item.distinguishable
    }
    judged = findings.load_of(fastest or "") or findings
    where, there = (", where layouts differ most", " there") if findings.verdict == "by-load" else ("", "")
    per_row, unit = compared.by_rate(findings), compared.rate_unit(findings)
    shortest, longest = ("lowest", "highest") if compared.by_latency(findings) else ("shortest", "longest")
    of = compared.quantity(findings) if compared.by_latency(findings) else "mean time"
    tiles = []
    if fastest is not None:
        title = "fastest" if judged.verdict == "winner" else f"most {unit}" if per_row else f"{shortest} {of}"
        kind = "best" if judged.verdict in ("winner", "best-set") else ""
        tiles.append(_tile(title + where, findings, findings.cell(fastest), kind))
    if slowest is not None:
        title = "slowest" if slowest in distinguished else f"fewest {unit}" if per_row else f"{longest} {of}"
        kind = "worst" if slowest in distinguished else ""
        tiles.append(_tile(title + there, findings, findings.cell(slowest), kind))
    return tiles


def _tile(title: str, findings: Findings, cell: CellSummary, kind: str) -> View:
    rate = numbers.rows_per_s(cell.work_per_s.mean.value, compared.rate_unit(findings)) if cell.work_per_s else ""
    wait = top_wait(cell)
    mean = cell.elapsed_s.mean if cell.elapsed_s else None
    waited = f"top wait {wait[0]}, {numbers.percent(wait[1])} of session time" if wait else ""
    time = numbers.seconds(mean.value if mean else None)
    facts = [numbers.seconds_interval(mean), rate, waited]
    if compared.of_raw_io(findings):
        latency = compared.raw_io_text(cell, "latency_mean_s")
        time, facts = rate, [f"{compared.raw_io_text(cell, 'bytes_per_s')} MB/s", f"{latency} ms a request"]
    elif findings.unit == "transactions":
        names = [name for name in ("p50", "p99") if name in cell.latency]
        latencies = [f"{name} {compared.latency_text(cell, name)} ms" for name in names]
        if latencies:
            latencies[-1] += f" from {numbers.plural(cell.runs_ok + cell.runs_unverified, 'run')}"
        judged = compared.figure_text(findings, cell).partition(" (")[::2] if compared.by_latency(findings) else None
        if judged is not None:
            time, facts = judged[0], [judged[1].removesuffix(")"), rate, *latencies, waited]
        else:
            time = time if findings.compared == "elapsed" else rate
            facts = [*([facts[0], rate] if findings.compared == "elapsed" else []), *latencies, waited]
    return {
        "title": title,
        "kind": kind,
        "figure": keep_together(time),
        "what": cell.name,
        "odd": _odd_runs(findings, cell),
        "facts": [keep_together(fact) for fact in facts if fact],
    }


def _odd_runs(findings: Findings, cell: CellSummary) -> str:
    """A note beside a mean that odd runs affected; "" if there are none."""
    found = (one for one in findings.cautions if isinstance(one, OddRun))
    odd = next((one for one in found if cell.cell_id in (one.cells or (cell.cell_id,))), None)
    if cell.elapsed_s is None or compared.figure(findings, cell) is not cell.elapsed_s:
        return ""
    if odd is None:
        return _far_from_the_median(cell.elapsed_s)
    took, median = numbers.seconds(odd.elapsed_s), numbers.seconds(cell.elapsed_s.median)
    which = f"{numbers.plural(odd.runs, 'run')} of {len(cell.elapsed_s.points)} stand{'s' * (odd.runs == 1)} apart"
    return f"{which}: repetition {odd.repetition} took {took}; median {median}"


def _far_from_the_median(sample: Sample) -> str:
    """A note beside a mean that is far from the median: one or two runs shifted it, though no run stands apart by
    the test.
    """
    if abs(sample.mean.value / sample.median - 1) < _FAR:
        return ""
    farthest = max(sample.points, key=lambda point: abs(point.value - sample.median))
    took, median = numbers.seconds(farthest.value), numbers.seconds(sample.median)
    return f"mean far from the median, {median}: repetition {farthest.repetition} took {took}"


def cautions_view(findings: Findings) -> View:
    """Reasons to trust the measurement less, the most serious first, with links to the runs that they are about."""
    told = [(of[0].severity, keep_together(text), _links(findings, of)) for of, text in cautions_told(findings)]
    return {"cautions": told}


def _links(findings: Findings, cautions: Sequence[Caution]) -> list[Link]:
    """To the time series of the odd runs, those that deviate most first."""
    odd = sorted((one for one in cautions if isinstance(one, OddRun)), key=lambda one: -abs(one.deviation_sd))
    runs = [run for one in odd for run in one.runs_meant(findings)][:_MOST_LINKS]
    if len(findings.cells) < 2:
        return [Link(f"repetition {repetition}", "over-time") for _, repetition in runs]
    return [Link(f"{cell_id}, repetition {number}", run_anchor(cell_id, number)) for cell_id, number in runs]


def top_wait(cell: CellSummary) -> tuple[str, float] | None:
    """The cell's largest wait and its share of connections x elapsed."""
    largest = next((row for row in cell.waits if row.is_wait and row.wait_s > 0), None)
    return None if largest is None or not cell.available_s else (largest.wait_type, largest.wait_s / cell.available_s)
