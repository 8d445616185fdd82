"""Doubts about the measurement become sentences: what, how much, and what to do about it. Pure.

Which figures a caution holds stands in `cautions.py`, check by check; one that is absent leaves its part of the
sentence out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from storagelab.findings.model import Caution, CautionKind, Findings
from storagelab.report.words.names import factor_text, group_text, listed, noun
from storagelab.report.words.numbers import count, duration, percent, seconds
from storagelab.targets.sqlserver.facts import latch_note


@dataclass(frozen=True)
class _Doubt:
    """One caution with its figures at hand."""

    caution: Caution
    findings: Findings

    def number(self, name: str) -> float | None:
        value = self.caution.figures.get(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def text(self, name: str) -> str:
        """A figure as text, without the full stop that a server's message may end in."""
        return str(self.caution.figures.get(name, "")).strip().rstrip(".")

    def runs(self, name: str = "runs") -> str:
        """A number of runs in words: "1 run", "3 runs", "some runs"."""
        number = self.number(name)
        return "some runs" if number is None else f"{count(number)} run{'' if number == 1 else 's'}"

    @property
    def where(self) -> str:
        """The cells it concerns, in brackets after a space; "" if it is all of them."""
        known = [cell for cell in self.findings.cells if cell.cell_id in self.caution.cells]
        if not known or len(known) == len(self.findings.cells):
            return ""
        return f" ({group_text([cell.levels for cell in known], self.findings.factors)})"


def caution_sentence(caution: Caution, findings: Findings) -> str:
    """One doubt in a sentence or three: what, how much, and what to do about it."""
    return re.sub(r"\s+", " ", _SENTENCES[caution.kind](_Doubt(caution, findings))).strip()


def _in_brackets(*texts: str) -> str:
    known = ", ".join(text for text in texts if text)
    return f" ({known})" if known else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# ---------------------------------------------------------------------------------------------------------------------
# Runs that are not there, or not as asked
# ---------------------------------------------------------------------------------------------------------------------


def _failed_runs(doubt: _Doubt) -> str:
    planned, lost, reason = doubt.number("planned"), doubt.number("unrecovered"), doubt.text("reason")
    of = f", in a plan of {count(planned)}" if planned is not None else ""
    what = f"{_capital(doubt.runs('failed'))} failed{doubt.where}{of}; no figure counts failed runs."
    # Its first line says what; the log that follows it is in the store and in the report's raw data.
    why = f" The commonest reason: {reason.splitlines()[0].rstrip('.')}." if reason else ""
    if lost == 0:
        return f"{what}{why} All were made again since, so nothing is missing."
    return (
        f"{what}{why} Mend the cause, then make them once more with `storagelab run --again`. If the cause lies in the "
        "spec, change it and give it a new name (or delete the results folder if nothing in it is wanted)."
    )


def _missing_runs(doubt: _Doubt) -> str:
    planned = doubt.number("planned")
    of = f" of {count(planned)} planned" if planned is not None else ""
    number = doubt.number("missing")
    missing = f"Some{of} runs are" if number is None else f"{count(number)}{of} runs {'is' if number == 1 else 'are'}"
    still = "so the findings may still change"
    return f"{missing} not made yet{doubt.where}, {still}. `storagelab run` goes on where it stopped."


def _unverified(doubt: _Doubt) -> str:
    what, asked, got = doubt.text("what"), doubt.text("asked"), doubt.text("got")
    source = f", read from {doubt.text('read_from')}" if doubt.text("read_from") else ""
    if not asked:
        thing = f"something could not be verified{_in_brackets(what or doubt.text('reason'))}"
    elif not got:
        thing = f"{factor_text(what)} was asked to be {asked}, and what it was could not be read back{source}"
    else:
        thing = f"{factor_text(what)} was asked to be {asked} but was {got}{source}"
    return (
        f"In {doubt.runs()}{doubt.where} {thing}. These times are counted, but may be of another layout than the one "
        "named: mend the setting or the volume, and run under a new name."
    )


def _single_repetition(doubt: _Doubt) -> str:
    sound = doubt.number("sound") or 5
    return (
        f"There is 1 run per cell{doubt.where}: how much times scatter is unknown, and nothing can be told apart. "
        f"Set repetitions to {count(sound)} or more."
    )


def _few_repetitions(doubt: _Doubt) -> str:
    number, sound = doubt.number("repetitions"), doubt.number("sound") or 5
    have = f"{count(number)} runs" if number is not None else "few runs"
    per = f"in some cells{doubt.where}" if doubt.where else "per cell"
    return (
        f"With {have} {per} intervals are wide and only large differences can be told apart. "
        f"{count(sound)} or more repetitions narrow them."
    )


# ---------------------------------------------------------------------------------------------------------------------
# Times that can't be trusted as they stand
# ---------------------------------------------------------------------------------------------------------------------


def _short_runs(doubt: _Doubt) -> str:
    shortest, limit = doubt.number("shortest_s"), doubt.number("limit_s")
    took = f"are as short as {seconds(shortest)}" if shortest is not None else "are short"
    aim = f" until a run takes {duration(limit)} or more" if limit is not None else ""
    return (
        f"Runs{doubt.where} {took}: starting and stopping weigh in them, and the drive may not show what it does in "
        f"the long run. Raise workload.rows_per_connection{aim}."
    )


def _outlier(doubt: _Doubt) -> str:
    repetition, elapsed, expected = doubt.number("repetition"), doubt.number("elapsed_s"), doubt.number("expected_s")
    which = f"repetition {count(repetition)}" if repetition is not None else "a run"
    took = f"took {seconds(elapsed)}" if elapsed is not None else "stands apart"
    where_expected = f" where {seconds(expected)} was to be expected" if expected is not None else ""
    others = doubt.number("runs") or 1
    more = f" (the farthest of {count(others)} such runs)" if others > 1 else ""
    cell = f"Of{doubt.where.replace('(', '').removesuffix(')')}, " if doubt.where else ""
    counted = (
        "The other runs of its cell are as steady as any, so it is left out of means and verdicts (robust fit); "
        "`storagelab report NAME --fit least-squares` counts it."
        if doubt.number("left_out")
        else "It is counted, and widens the intervals."
    )
    return (
        f"{_capital(cell + which)} {took}{where_expected}{more}. {counted} Look at its time series; if something else was at "
        "work, run the experiment under a new name."
    )


def _blocks(doubt: _Doubt) -> str:
    names = [factor_text(name) for name in doubt.text("factors").split(", ") if name]
    changed = f"{listed(names)} changed" if names else "The layout changed"
    return (
        f"{_capital(changed)} only from block to block: all runs of a level were made in one stretch, so a drift of "
        "the drive or the machine would look like a difference between levels. No verdict is given between blocks; "
        "within each, differences are tested. To compare across, take the factor out of costly if the drives allow it."
    )


def _drift(doubt: _Doubt) -> str:
    change = doubt.number("change")
    moved = "moved" if change is None else f"grew by {percent(change)}" if change > 0 else f"fell by {percent(-change)}"
    block = " of a block" if (doubt.number("blocks") or 1) > 1 else ""
    which = noun(doubt.findings.factors)
    return f"From the first run{block} to the last times {moved}, whatever the {which}. {_so(doubt)}"


def _step(doubt: _Doubt) -> str:
    change, run, runs = doubt.number("change") or 0.0, doubt.number("run"), doubt.number("runs")
    moved = f"{percent(abs(change))} {'longer' if change > 0 else 'shorter'}"
    return (
        f"Times jumped on the way: from run {count(run)} of {count(runs)} on they are {moved}, whatever the "
        f"{noun(doubt.findings.factors)}. Look what happened to the machine then (run.log and the time series have the time "
        f"of each run). {_so(doubt)}"
    )


def _so(doubt: _Doubt) -> str:
    """What a change along the way means for the verdict, and what to do."""
    if doubt.findings.provenance == "simulated" and doubt.text("order") == "randomised":
        return "That is what the drives had been through; the order was random, so that on average it hits all alike."
    if doubt.findings.provenance == "simulated":
        return (
            "What ran late may owe its time to what the drives had been through as well as to itself: "
            'order = "randomised" and between_runs.burn_in take that apart.'
        )
    rest = "rest the drive between runs (between_runs.pause_s)"
    if (doubt.number("blocks") or 1) > 1:
        return f"A block that ran late looks different for that alone, which is why blocks are not compared; {rest}."
    if doubt.text("order") == "randomised":
        return (
            "The order was random and cells are compared within each repetition, so the verdict hardly suffers; for "
            f"steadier times, {rest}."
        )
    return f'Cells that ran late look different for that alone. Use order = "randomised", and {rest}.'


def _order(doubt: _Doubt) -> str:
    order = doubt.text("order")
    if order == "as-listed":
        return (
            f"Each repetition ran the {noun(doubt.findings.factors, 2)} in the same order. A steady drift is taken out of "
            "their times; whatever else changes within a repetition looks like a difference between them. "
            'order = "randomised" rules that out.'
        )
    stretch = f'All runs of a {noun(doubt.findings.factors)} were made one after the other (order = "cell-by-cell")'
    if doubt.text("provenance") == "simulated":
        return (
            f"{stretch}, and each found the drives as those before had left them: the verdict is one on this order. The "
            "first runs after a formatting are the fastest of a flash drive's life, and they all went to the layouts listed "
            'first. To compare layouts whatever came before them, set order = "randomised" and between_runs.burn_in = 1.'
        )
    return (
        f"{stretch}, so a drift of the machine would look like a difference: times are shown, and nothing is tested. Set "
        'order = "randomised" for a verdict.'
    )


# ---------------------------------------------------------------------------------------------------------------------
# What observing costs, and what it can't see
# ---------------------------------------------------------------------------------------------------------------------


def _observer_cost(doubt: _Doubt) -> str:
    share, limit = doubt.number("core_share"), doubt.number("limit")
    cost = f"took {percent(share)} of one core" if share is not None else "took CPU time of its own"
    above = f", above the {percent(limit)} that pass as harmless" if limit is not None else ""
    return (
        f"Watching the waits{doubt.where} {cost}{above}: it may slow what it watches. Lower measure.sample_hz, or make "
        "measure.waits a factor to see what it costs."
    )


def _conservation(doubt: _Doubt) -> str:
    low, high = doubt.number("lowest"), doubt.number("highest")
    shares = list(dict.fromkeys(percent(share) for share in (low, high) if share is not None))
    figure = " to ".join(shares) or "not all"
    if low is not None and high is not None and low < 1 < high:
        sense = "Samples found the connections asleep too seldom in some cells and too often in others"
    elif low is not None and low > 1:
        sense = "Samples found the connections asleep more often than the kernel leaves room for"
    else:
        sense = "The rest went by unseen: no sample found a wait for it"
    return (
        f"Waits + CPU explain {figure} of connections x elapsed{doubt.where}, where about 100 % is right. {sense}: "
        "read the shares in wait tables with that much doubt; completion times are not touched. CPU and queueing are the "
        "kernel's exact figures, so the error lies in what was sampled: it shrinks with longer runs only where looks "
        "were few."
    )


def _no_split(doubt: _Doubt) -> str:
    return (
        f"Waits are not split into resource and signal time in {doubt.runs()}{doubt.where}"
        f"{_in_brackets(doubt.text('reason'))}; these columns are empty, not zero. Run storagelab on the server's own "
        "Linux host, where the kernel tells."
    )


def _few_wait_samples(doubt: _Doubt) -> str:
    passes, limit = doubt.number("passes"), doubt.number("limit")
    have = f"from only {count(passes)} looks at the sessions per run" if passes is not None else "from few samples"
    wanted = f" until there are {count(limit)} or more" if limit is not None else ""
    return (
        f"Wait shares{doubt.where} come {have}: rare waits may be missing and shares are rough. Make runs longer "
        f"(workload.rows_per_connection) or raise measure.sample_hz{wanted}."
    )


# ---------------------------------------------------------------------------------------------------------------------
# The machine and the server
# ---------------------------------------------------------------------------------------------------------------------


def _busy_machine(doubt: _Doubt) -> str:
    share, runs, checked = (doubt.number(name) for name in ("others_share", "runs", "checked"))
    how = f"up to {percent(share)} of the machine's CPU time" if share is not None else "CPU time"
    when = f" in {count(runs)} of {count(checked)} runs" if runs is not None and checked is not None else ""
    return (
        f"Other processes and the kernel took {how}{when}: that is lost to what is measured, and the disk may be shared "
        "too. Stop what else runs and use a new name, or raise repetitions so that it averages out."
    )


def _cpu_saturated(doubt: _Doubt) -> str:
    share, cpus = doubt.number("cpu_share"), doubt.number("cpu_count")
    busy = f"kept up to {percent(share)} of the CPU time busy" if share is not None else "kept the CPUs busy"
    many = f"{count(cpus)} CPU{'' if cpus == 1 else 's'}" if cpus is not None else ""
    return (
        f"The connections{doubt.where} {busy}{_in_brackets(many)}: the CPUs, not the storage, set the pace, and "
        "differences between layouts can hide behind that. Use more cores or a workload that writes more per row."
    )


def _virtual_disk(doubt: _Doubt) -> str:
    names = doubt.text("volumes")
    several = "," in names
    what = f"Volumes {names} are" if several else f"Volume {names} is" if names else "A volume is"
    reason = _in_brackets(doubt.text("device_model"), doubt.text("reason"))
    return (
        f"{what} on a virtual or caching disk{reason}: what lies below it is unknown and may be shared, so times hold "
        "for this machine now, not for a drive. To judge a drive, use a volume on a real one."
    )


def _durability_off(doubt: _Doubt) -> str:
    setting, value = doubt.text("setting"), doubt.text("value")
    what = f"{setting} = {value or 'off'}" if setting else "durability off"
    risk = _DURABILITY_RISKS.get(setting, "the server does less for safety than it should, and a crash can lose data")
    way = "turn it on" if value in ("", "off") else "choose a safe value"
    return f"With {what}{doubt.where} {risk}. Compare such times only with each other, or {way}."


_DURABILITY_RISKS = {
    "fsync": "nothing is forced to the disk, commits and checkpoints included, and a crash of the machine can corrupt "
             "the whole database",
    "synchronous_commit": "commits do not wait for the disk, and a crash can lose the last of them; the database stays "
                          "sound",
    "delayed_durability": "commits do not wait for the log, and a crash can lose the last of them",
    "full_page_writes": "the log holds no whole pages, so that less is written, and a crash in the middle of a page's "
                        "write can corrupt that page; commits wait for the disk as ever",
    "innodb_flush_log_at_trx_commit": "commits do not wait for the disk, and a crash can lose the last second of them; "
                                      "the database stays sound",
    "innodb_flush_method": "nothing is forced to the disk, commits and checkpoints included, and a crash of the machine can "
                           "corrupt the whole database",
    "sync_binlog": "commits do not wait for the binary log, and a crash can lose the last of them, as the server drops those "
                   "that the log lacks",
    "innodb_doublewrite": "no page is written twice, so that less is written, and a crash in the middle of a page's "
                          "write can corrupt that page; commits wait for the disk as ever",
}  # fmt: skip


def _shared_device(doubt: _Doubt) -> str:
    volumes, device = doubt.text("volumes"), doubt.text("device")
    which = f"Volumes {volumes}" if volumes else "Some volumes"
    return (
        f"{which} are on one device{_in_brackets(device)}: moving data or log from one to another separates nothing. "
        "To learn about placement, give each volume a path on a drive of its own."
    )


def _different_loads(doubt: _Doubt) -> str:
    loads = doubt.number("loads")
    names = [factor_text(name) for name in doubt.text("factors").split(", ") if name]
    both = f"{listed(names)} set{'s' * (len(names) == 1)}" if names else "A factor sets"
    several = "different loads" if loads is None else f"{count(loads)} different loads"
    return (
        f"{_capital(both)} layout and load at once, so that what is compared bore {several}: the fastest may be the one "
        "that had the least to do. Let one factor set the load and another the layout; each load then has its own verdict."
    )


_SENTENCES: dict[CautionKind, Callable[[_Doubt], str]] = {
    "failed-runs": _failed_runs,
    "missing-runs": _missing_runs,
    "unverified": _unverified,
    "single-repetition": _single_repetition,
    "few-repetitions": _few_repetitions,
    "short-runs": _short_runs,
    "outlier": _outlier,
    "blocks": _blocks,
    "drift": _drift,
    "step": _step,
    "order": _order,
    "observer-cost": _observer_cost,
    "conservation": _conservation,
    "no-split": _no_split,
    "few-wait-samples": _few_wait_samples,
    "busy-machine": _busy_machine,
    "cpu-saturated": _cpu_saturated,
    "virtual-disk": _virtual_disk,
    "durability-off": _durability_off,
    "shared-device": _shared_device,
    "different-loads": _different_loads,
    "allocation-latches": lambda doubt: latch_note(int(doubt.number("major") or 0)),
}
