"""Describes where and how the runs were made: shared facts, the ranges of facts that vary, checks, and the spec."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from storagelab.findings.cautions.watching import watching_cost
from storagelab.findings.model import Findings
from storagelab.model.measurement import Check, Run
from storagelab.model.plan import Experiment, Plan
from storagelab.report.document import Code, Heading, Part, Table
from storagelab.report.words.campaigns import Fact, flat
from storagelab.words import numbers
from storagelab.words.names import Labels, cell_entry, cell_text, is_number, labels_of, repetition_text
from storagelab.words.numbers import quantity_text

MAX_VALUES = 4
MAX_FACTS_OPEN = 24
MAX_CHECKS = 120
MAX_RUNS_LISTED = 60
_FACTS = [Heading("fact", "prose"), Heading("value", "prose")]
_NUMERIC_UNITS = ("_bytes", "_s")
_CLIENT = "client (storagelab's machine)"
"""The heading of facts on this machine. If the server is on another machine, they say nothing about the server."""
Facts = dict[tuple[str, ...], Counter[Fact]]


def manifest_parts(
    experiment: Experiment, plan: Plan, findings: Findings, runs: Sequence[Run], extra: Mapping[str, object]
) -> list[Part]:
    """Returns the manifest in reading order: campaign, machine, checks, failed runs, and the spec. `extra` has facts on
    the campaign that are in no run.
    """
    return [
        Table(_FACTS, _campaign(experiment, plan, findings, runs, extra), "The campaign"),
        *_environment(runs),
        *filter(None, (_checks(runs), _runs_gone_wrong(runs, labels_of(experiment.factors)))),
        *([Code(experiment.text.rstrip(), "The spec, as it was run")] if experiment.text else []),
    ]


def _campaign(
    experiment: Experiment, plan: Plan, findings: Findings, runs: Sequence[Run], extra: Mapping[str, object]
) -> list[list[str]]:
    started, finished = sorted(run.started_at for run in runs), sorted(run.finished_at for run in runs)
    facts = [
        ["experiment", experiment.name],
        ["spec", experiment.source],
        ["spec's hash (SHA-256)", experiment.sha256],
        ["provenance", findings.provenance or ""],
        ["cells", numbers.count(len(plan.cells))],
        [
            "runs stored, out of runs planned",
            f"{numbers.count(findings.runs_stored)} of {numbers.count(findings.runs_planned)}",
        ],
        ["order", f"{experiment.order}, seed {experiment.seed}"],
        ["first run began", started[0] if started else ""],
        ["last run ended", finished[-1] if finished else ""],
        *_observer(runs),
        *_watching(runs),
    ]
    facts += [[_label(path), quantity_text(path[-1], value)] for path, value in flat(extra)]
    return [fact for fact in facts if fact[1]]


def _watching(runs: Sequence[Run]) -> list[list[str]]:
    """Returns the cost of sampling waits, if periods with and without sampling alternate in the runs; else []."""
    cost = watching_cost(run.measurement for run in runs if run.measurement is not None)
    if cost is None:
        return []
    return [
        [f"{name} with sampling, against without", numbers.times_estimate(ratio)]
        for name, ratio in (("throughput", cost.throughput), ("p99", cost.p99))
        if ratio is not None
    ]


def _observer(runs: Sequence[Run]) -> list[list[str]]:
    """Returns the CPU time of the sampler and of its session in the median run, as a fraction of one core."""
    shares = sorted(
        (cost.sampler_cpu_s + (cost.session_cpu_s or 0.0)) / run.measurement.elapsed_s
        for run in runs
        if run.measurement is not None
        and (cost := run.measurement.observer) is not None
        and run.measurement.elapsed_s > 0
    )
    if not shares:
        return []
    return [["CPU spent on observing, median run", f"{numbers.percent(shares[len(shares) // 2])} of one core"]]


# ---------------------------------------------------------------------------------------------------------------------
# Environments
# ---------------------------------------------------------------------------------------------------------------------


def _environment(runs: Sequence[Run]) -> Iterator[Table]:
    """Yields a table for each part of the environment: the host, each volume, the server, and its settings."""
    facts: Facts = defaultdict(Counter)
    usable = [run.measurement.environment for run in runs if run.measurement is not None]
    # Thousands of runs share a few servers and volumes. So equal parts are counted first, and flattened only once.
    met = Counter((name, json.dumps(part, default=str)) for environment in usable for name, part in environment.items())
    for (name, part), times in met.items():
        for path, value in flat({name: json.loads(part)}):
            facts[path][value] += times
    groups: dict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for path, values in facts.items():
        if set(values) != {""}:
            name = path[-1] if "settings" in path[:-1] else _label(path[-1:])
            groups[path[:-1]].append([name, _values(path[-1], values, len(usable))])
    for group, rows in groups.items():
        title = " · ".join(_CLIENT if part == "client" else part.replace("_", " ") for part in group) or "other facts"
        heading = title[0].upper() + title[1:]
        folded = f"{heading}: {len(rows)} facts" if len(rows) > MAX_FACTS_OPEN else ""
        yield Table(_FACTS, rows, f"{heading}, as read at each run", folded=folded)


def _label(path: Sequence[str]) -> str:
    name = path[-1]
    for unit in _NUMERIC_UNITS:
        name = name.removesuffix(unit)
    return " ".join([*path[:-1], name]).replace("_", " ")


def _values(name: str, values: Counter[Fact], runs: int) -> str:
    """Writes the values of a fact: a single value, several values with their counts, or the range of many numbers."""
    texts = Counter[str]()
    for value, number in values.items():
        texts[quantity_text(name, value)] += number
    if len(texts) == 1:
        (only,) = texts
        return only if texts[only] == runs else f"{only} ({numbers.plural(texts[only], 'run')})"
    if len(texts) > MAX_VALUES and (known := [value for value in values if is_number(value)]) == [*values]:
        return f"varies from run to run: {quantity_text(name, min(known))} to {quantity_text(name, max(known))}"
    common = texts.most_common(MAX_VALUES)
    rest = f"; {len(texts) - MAX_VALUES} other values" if len(texts) > MAX_VALUES else ""
    return "; ".join(f"{text or '(none)'} ({numbers.plural(number, 'run')})" for text, number in common) + rest


# ---------------------------------------------------------------------------------------------------------------------
# Checks, failures, spec
# ---------------------------------------------------------------------------------------------------------------------


def _checks(runs: Sequence[Run]) -> Table | None:
    """Returns a table of what was requested and what was read back. Equal checks of several runs share a row. Failed
    checks come first. None if there are no checks.
    """
    found: Counter[Check] = Counter(
        check for run in runs if run.measurement is not None for check in run.measurement.checks
    )
    if not found:
        return None
    verdicts = {True: "as asked", False: "DIFFERENT", None: "could not be read"}
    ranked = sorted(found.items(), key=lambda item: (item[0].ok is True, item[0].name, item[0].asked))
    headings = [Heading("asked for", "text"), Heading("asked", "prose"), Heading("got", "prose"),
                Heading("verdict", "text"), Heading("read from", "prose"), Heading("runs")]  # fmt: skip
    rows = [
        [check.name, check.asked, check.got, verdicts[check.ok], check.read_from, numbers.count(number)]
        for check, number in ranked[:MAX_CHECKS]
    ]
    wrong = sum(number for check, number in found.items() if check.ok is not True)
    caption = "Asked for and read back"
    caption += f", the first {MAX_CHECKS} of {len(ranked)}" if len(ranked) > MAX_CHECKS else ""
    state = f"{numbers.plural(wrong, 'check')} not as asked" if wrong else "all as asked"
    summary = f"Asked for and read back: {numbers.plural(sum(found.values()), 'check')}, {state}"
    return Table(headings, rows, caption, folded=summary, is_open=bool(wrong))


def _runs_gone_wrong(runs: Sequence[Run], labels: Labels) -> Table | None:
    wrong = [run for run in runs if run.status != "ok"]
    if not wrong:
        return None
    headings = [Heading("cell", "prose"), Heading("run", "text"), Heading("status", "text"), Heading("reason", "prose")]
    rows: list[list[str]] = []
    for run in wrong[:MAX_RUNS_LISTED]:
        unverified = ", ".join(check.name for check in run.measurement.unverified) if run.measurement else ""
        cell = cell_entry(run.cell_id, cell_text(run.levels, labels))
        rows.append([cell, repetition_text(run.repetition), run.status, run.reason or unverified])
    rest = f", the first {MAX_RUNS_LISTED} of {numbers.count(len(wrong))}" if len(wrong) > MAX_RUNS_LISTED else ""
    return Table(headings, rows, f"Runs that failed or could not be verified{rest}")


def facts(findings: Findings, runs: Sequence[Run]) -> list[str]:
    """Returns short facts on the measurement, such as the server's version and the number of CPUs."""
    found: list[str] = []
    if burn_in := sum(run.burn_in for run in runs):
        found.append(f"{numbers.count(burn_in)} burn-in run{'s' * (burn_in != 1)} in addition")
    environment = next((run.measurement.environment for run in runs if run.measurement is not None), {})
    server, host = environment.get("server"), environment.get("host")
    if isinstance(server, Mapping) and server.get("version"):
        found.append(f"{server.get('engine') or 'server'} {server['version']}")
    if isinstance(server, Mapping) and server.get("scale"):
        found.append(f"simulated at scale {server['scale']}")
    if findings.fleet is not None:
        return [*found, f"{len(findings.fleet.hosts)} hosts"]
    if isinstance(host, Mapping) and host.get("cpu_count"):
        found.append(f"{host['cpu_count']} CPUs")
    if isinstance(host, Mapping) and isinstance(memory := host.get("memory_bytes"), int | float):
        found.append(f"{numbers.bytes_(memory)} of memory")
    return found
