"""Explains in text and tables why one layout takes longer than another. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from storagelab.findings.cell import CLASS_NAMES
from storagelab.findings.limits import AtLimit
from storagelab.findings.model import Estimate, Findings
from storagelab.findings.reasons import Case, DeviceChange, Quantity, Reason, Rule, reasons
from storagelab.findings.why import NEGLIGIBLE, WORK, Step, Thing, Waterfall, adds_up, by_cause
from storagelab.report.document import Document, Heading, Table, paper
from storagelab.report.words import compared
from storagelab.report.words.waiting import no_waits_sentence, on_text
from storagelab.words import numbers
from storagelab.words.names import cell_entry, listed

_OF_DEVICES: dict[Quantity, str] = {
    "write_amplification": "write amplification", "read_bytes_per_s": "read, MB/s",
    "write_bytes_per_s": "written, MB/s",
    "read_latency_s": "time of a read", "write_latency_s": "time of a write", "queue": "requests under way",
}  # fmt: skip
MAX_STEPS = 14
MAX_CROWDS = 3
SMALLER = "smaller changes"


# ---------------------------------------------------------------------------------------------------------------------
# One sentence
# ---------------------------------------------------------------------------------------------------------------------


def why_sentence(case: Case, after: str, before: str, ratio: Estimate | None, per: str = "") -> str:
    """Explains why the time of `after` differs from that of `before`: "c08 against c01: 9 % less time (...). Waits for
    page latches take 736 s less of each session's time, ...".
    """
    waterfall = case.waterfall
    plain_change = numbers.change(waterfall.after_s / waterfall.before_s)
    shown = plain_change if ratio is None else numbers.change_estimate(ratio, per)
    if not waterfall.differs:
        tested = "" if ratio is not None else " (not tested: not run in one random order)"
        return f"{after} and {before} can't be told apart: {shown}{tested}. These runs show no difference to explain."
    found = reasons(case)
    start = f"{after} against {before}: {shown}"
    if not found:
        return f"{start}. No kind of wait surely explains a quarter of it."
    text = "; ".join(_reason_text(one, f" of each {waterfall.of}'s time" * (one is found[0])) for one in found)
    return f"{start}. {text[0].upper()}{text[1:]}.{_against(case, found)}"


def _reason_text(reason: Reason, of_what: str) -> str:
    if reason.limit is not None:
        return _limit_text(reason, reason.limit)
    step = reason.step
    moved = f"{numbers.seconds(abs(step.change.value))} {'more' if step.change.value > 0 else 'less'}"
    share = f"{numbers.percent(reason.share)} of the change" if reason.share < 1 else "more than the whole change"
    return f"{_subject(reason)} {moved}{of_what} ({share}){_along(reason)}"


def _limit_text(reason: Reason, limit: AtLimit) -> str:
    """Describes the volume that is at its limit in the slower cell: the least time of the requests at the limits of
    each cell, and the waits that this queue causes.
    """
    slower, faster = max(limit.before_s, limit.after_s), min(limit.before_s, limit.after_s)
    least = f"its requests alone take {numbers.seconds(slower)} at that limit"
    if faster > 0:
        least += f", and at least {numbers.seconds(faster)} at the limits of the faster one"
    queue = f"; its queue causes {listed(reason.types)}" if reason.types else ""
    share, of_change = numbers.percent(limit.share), numbers.percent(reason.share)
    return (
        f"volume {limit.volume} was at its limit, {numbers.limit_text(limit.rate, limit.limit)}, for {share} of the "
        f"slower one's time: {least} ({of_change} of the change){queue}"
    )


def _subject(reason: Reason) -> str:
    """Returns subject and verb, such as "waits for page latches (PAGELATCH_UP) take". The wait types are left out if
    they are only the name of the kind of wait.
    """
    name, types = reason.step.thing.name, listed([one for one in reason.types if one not in CLASS_NAMES.values()])
    named = f" ({types})" if types else ""
    return {
        Rule.MORE_WORK: "the work of a run takes",
        Rule.LOCKS: f"waits for locks{named} take",
        Rule.LOG: f"waits for the log{named} take",
        Rule.LATCHES: f"waits for {name if name.endswith('s') else f'{name}es'}{named} take",
        Rule.CPU_LIMIT: "the CPU is the limit: queueing for it takes",
        Rule.SCHEDULER: "queueing for a CPU takes",
        Rule.CPU_WORK: "work on a CPU takes",
    }.get(reason.rule, f"waits for {name}s{named} take")


def _along(reason: Reason) -> str:
    """Describes what accompanies a step: a change of the device's figures, or the object that most sessions wait for.
    "" if neither is known.
    """
    if reason.device is not None:
        one = reason.device
        before, after = (figure_text(one.figure.quantity, value) for value in (one.before, one.after))
        return {
            "write_amplification": f", because {one.figure.device} writes {after} times its input instead of {before}",
            "queue": f", with {after} requests under way at {one.figure.device} instead of {before}",
            "read_latency_s": f", a read takes {after} instead of {before}",
        }.get(one.figure.quantity, f", a write takes {after} instead of {before}")
    if reason.crowd is not None:
        crowd = reason.crowd
        return (
            f", most often {crowd.wait_type}{on_text(crowd.kind)} ({numbers.percent(crowd.share)} of waiting sessions)"
        )
    return ""


def _against(case: Case, found: Sequence[Reason]) -> str:
    """Names the large changes in the opposite direction; "" if there are none."""
    total = case.change_s
    back = [
        step for step in case.waterfall.steps
        if step.sure and step.change.value * total < 0 and abs(step.change.value) >= 0.25 * abs(total)
    ]  # fmt: skip
    parts = [f"{step.thing.name} {signed_seconds(step.change.value)}" for step in back]
    return f" Against that: {listed(parts)}." if parts and found else ""


# ---------------------------------------------------------------------------------------------------------------------
# Tables
# ---------------------------------------------------------------------------------------------------------------------


def signed_seconds(value_s: float) -> str:
    return f"{'+' if value_s > 0 else ''}{numbers.seconds(value_s)}"


def thing_text(thing: Thing) -> str:
    """Returns the name of a step. The signal part of a wait is "PAGEIOLATCH_EX, signal"; the resource part has only the
    wait's name.
    """
    return f"{thing.name}, signal" if thing.part == "signal" else thing.name


def folded(waterfall: Waterfall, most: int = MAX_STEPS) -> list[Step]:
    """Returns the steps to show, the largest first. One last step is the sum of all others, so that a table adds up."""
    least = NEGLIGIBLE * max(waterfall.before_s, waterfall.after_s)
    shown = [step for step in waterfall.steps if abs(step.change.value) >= least][:most]
    rest = [step for step in waterfall.steps if step not in shown]
    if not rest:
        return shown
    before_s, after_s = sum(step.before_s for step in rest), sum(step.after_s for step in rest)
    value = sum(step.change.value for step in rest)
    return [*shown, Step(Thing(SMALLER, "", "other", None), before_s, after_s, Estimate(value=value))]


def waterfall_table(
    waterfall: Waterfall, before: str, after: str, ratio: Estimate | None = None, parts: Waterfall | None = None
) -> Table:
    """Returns a table of each step's seconds in the mean connection, before and after, and of the whole time. If a step
    has several `parts`, they are below it. With `ratio`, the whole change has the interval of that comparison.
    """
    rows = []
    for step in folded(waterfall):
        own = [one for one in parts.steps if one.thing != WORK and by_cause(one.thing) == step.thing] if parts else []
        within = folded(replace(waterfall, steps=tuple(own))) if len(own) > 1 else []
        rows.append([thing_text(own[0].thing if len(own) == 1 else step.thing), *_figures(step, waterfall)])
        rows += [[f"- {thing_text(one.thing)}", *_figures(one, waterfall)] for one in within]
    change, before_s = waterfall.change, waterfall.before_s
    of = {} if ratio is None else {"low": ratio.low, "high": ratio.high}
    ends = {name: None if end is None else (end - 1) * before_s for name, end in of.items()}
    total = Step(Thing("elapsed time", "", "other", None), before_s, waterfall.after_s, change.model_copy(update=ends))
    headings = [Heading(f"each {waterfall.of}'s time", "text"), Heading(f"{before}, s"), Heading(f"{after}, s"),
                Heading("change, s"), Heading("95 % interval, s", meaning="joint over all steps")]  # fmt: skip
    return Table(headings, [*rows, [total.thing.name, *_figures(total, waterfall)]])


def _figures(step: Step, waterfall: Waterfall) -> list[str]:
    decimals = numbers.decimals_for([max(waterfall.before_s, waterfall.after_s)], None, 4)
    change, low, high = step.change.value, step.change.low, step.change.high
    interval = "" if low is None or high is None else f"{low:+,.{decimals}f} to {high:+,.{decimals}f}"
    return [f"{step.before_s:,.{decimals}f}", f"{step.after_s:,.{decimals}f}", f"{change:+,.{decimals}f}", interval]


def figure_text(quantity: Quantity, value: float) -> str:
    if quantity in ("read_latency_s", "write_latency_s"):
        return numbers.seconds(value)
    return numbers.significant(value / numbers.MB if quantity.endswith("bytes_per_s") else value)


def device_table(devices: Sequence[DeviceChange], before: str, after: str) -> Table:
    """Returns a table of the devices' figures before and after. If a change may be chance, its row says so."""
    headings = [Heading("devices", "text"), Heading("of", "text"), Heading(before), Heading(after),
                Heading("change", "text")]  # fmt: skip
    rows = [
        [
            _OF_DEVICES[one.figure.quantity], one.figure.device, figure_text(one.figure.quantity, one.before),
            figure_text(one.figure.quantity, one.after), "differs" if one.sure else "can't be told apart",
        ]
        for one in devices
    ]  # fmt: skip
    return Table(headings, rows)


def crowd_sentence(case: Case, slower: str) -> list[str]:
    """Names the objects that most waiting sessions of the slower cell waited for; [] if none is known."""
    parts = [
        f"{one.wait_type}{on_text(one.kind)} ({numbers.percent(one.share)}, up to "
        f"{numbers.plural(one.most, 'session')} at once)"
        for one in list(case.crowds)[:MAX_CROWDS]
    ]
    return [f"Of waiting sessions at {slower}, most waited for {listed(parts)}."] if parts else []


# ---------------------------------------------------------------------------------------------------------------------
# Two cells as a short report
# ---------------------------------------------------------------------------------------------------------------------


def pair_paper(findings: Findings, before: str, after: str, ratio: Estimate | None, case: Case | None) -> Document:
    """Returns the report that compares the cells `before` and `after`. `case` is None if a cell has no waits."""
    cells = findings.cell(before), findings.cell(after)
    notes = [
        f"{cell_entry(cell.cell_id, cell.text)}: {compared.judged_text(findings, cell) or 'no time measured'}"
        for cell in cells
    ]
    title, provenance = (
        f"{findings.experiment}: {before} against {after}",
        findings.provenance or "no result yet",
    )
    per = compared.per(findings)
    change = "" if ratio is None else f"{after} against {before}: {numbers.change_estimate(ratio, per)}. "
    if case is None:
        missing = next((cell for cell in cells if not cell.spent), cells[0])
        return paper(title, provenance, f"{change}No waterfall: {no_waits_sentence(missing)}", notes, ())
    devices = device_table(case.devices, before, after).called("What the devices did", ranks={"change": 1})
    if not adds_up(findings):
        verdict = f"{change}No waterfall: waits add up to the mean transaction's time, which is not compared here."
        return paper(title, provenance, verdict, notes, (devices,))
    table = waterfall_table(case.waterfall, before, after, ratio, case.parts)
    spent = table.called("How a connection spent its time (-: a part of the row above)", ranks={"95 % interval, s": 1})
    notes += crowd_sentence(case, after if case.change_s > 0 else before)
    return paper(title, provenance, why_sentence(case, after, before, ratio, per), notes, (spent, devices))
