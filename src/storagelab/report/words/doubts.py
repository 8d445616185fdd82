"""Words doubts about the measurement as sentences: what, how much, and what to do about it. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import singledispatch

from storagelab.findings import caution_kinds as kinds
from storagelab.findings.caution_kinds import Caution
from storagelab.findings.model import Findings
from storagelab.model.durability import Loss
from storagelab.model.measurement import HELD_BACK
from storagelab.report.words.hosts import unlike_sentence
from storagelab.targets.known import KNOWN
from storagelab.words.names import factor_text, group_text, listed, noun
from storagelab.words.numbers import MANY_TIMES, count, duration, percent, seconds, significant


def caution_sentence(caution: Caution, findings: Findings) -> str:
    """One doubt in one to three sentences: what, how much, and what to do about it."""
    return re.sub(r"\s+", " ", sentence(caution, _where(caution, findings), findings)).strip()


def caution_sentences(findings: Findings) -> list[tuple[kinds.Severity, str]]:
    """All doubts, the graver ones first; odd runs of several cells are one."""
    odd = [caution for caution in findings.cautions if isinstance(caution, kinds.OddRun)]
    told = {id(odd[0]): _odd_runs(odd, findings)} if len(odd) > 1 else {}
    ordered = sorted(findings.cautions, key=lambda caution: caution.severity != "caution")
    return [
        (caution.severity, told.get(id(caution)) or caution_sentence(caution, findings))
        for caution in ordered
        if caution not in odd[1:]
    ]


def _odd_runs(odd: Sequence[kinds.OddRun], findings: Findings) -> str:
    """One sentence for the odd runs of several cells: how many, the farthest, and what becomes of them."""
    farthest = max(odd, key=lambda one: abs(math.log(one.ratio)))
    number, left_out = sum(one.runs for one in odd), sum(one.left_out for one in odd)
    levels = [findings.cell(cell).levels for cell in farthest.cells]
    cell = f"with {group_text(levels, findings.factors)}, " if levels else ""
    out = (
        f"{count(left_out)} of them {'is' if left_out == 1 else 'are'} left out of means and verdicts (robust fit), as the "
        "other runs of the cell are as steady as any; `storagelab report NAME --fit least-squares` counts them. The rest are"
        if left_out
        else "They are"
    )
    return (
        f"{_runs(number)} in {len(odd)} cells stand apart from the others of their cell. The farthest: {cell}repetition "
        f"{count(farthest.repetition)} took {seconds(farthest.elapsed_s)} where {seconds(farthest.expected_s)} was expected. "
        f"{out} counted, and widen the intervals. Look at the time series; if something else was at work, run the experiment "
        "under a new name."
    )


@singledispatch
def sentence(caution: Caution, where: str, findings: Findings) -> str:
    """The words of one type of caution. `where` names the cells it concerns, in brackets after a space; "" = all of them."""
    raise TypeError(f"no words for {caution.kind}{where} of {findings.experiment}")


def _where(caution: Caution, findings: Findings) -> str:
    known = [cell for cell in findings.cells if cell.cell_id in caution.cells]
    if not known or len(known) == len(findings.cells):
        return ""
    return f" ({group_text([cell.levels for cell in known], findings.factors)})"


def _runs(number: int) -> str:
    return f"{count(number)} run{'' if number == 1 else 's'}"


def _bare(text: str) -> str:
    """A server's message without its final full stop."""
    return text.strip().rstrip(".")


def _in_brackets(*texts: str) -> str:
    known = ", ".join(text for text in texts if text)
    return f" ({known})" if known else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# ---------------------------------------------------------------------------------------------------------------------
# Runs that are missing, or not as asked
# ---------------------------------------------------------------------------------------------------------------------


@sentence.register
def _failed_runs(doubt: kinds.FailedRuns, where: str, _findings: Findings) -> str:
    what = f"{_runs(doubt.failed)} failed{where}, in a plan of {count(doubt.planned)}; no figure counts failed runs."
    # The first line says what failed; the log after it is in the store and in the report's raw data.
    reason = _bare(doubt.reason)
    why = f" The commonest reason: {reason.splitlines()[0].rstrip('.')}." if reason else ""
    if doubt.unrecovered == 0:
        return f"{what}{why} All have since been made again, so nothing is missing."
    return (
        f"{what}{why} Fix the cause, then repeat them with `storagelab run --again`. If the cause lies in the "
        "spec, change it and give it a new name (or delete the results folder if nothing in it is wanted)."
    )


@sentence.register
def _missing_runs(doubt: kinds.MissingRuns, where: str, _findings: Findings) -> str:
    missing = f"{count(doubt.missing)} of {count(doubt.planned)} planned runs {'is' if doubt.missing == 1 else 'are'}"
    return (
        f"{missing} not made yet{where}, so the findings may still change. `storagelab run` continues where it stopped."
    )


@sentence.register
def _unverified(doubt: kinds.Unverified, where: str, _findings: Findings) -> str:
    what, got = _bare(doubt.what), _bare(doubt.got)
    source = f", read from {_bare(doubt.read_from)}" if doubt.read_from else ""
    if not doubt.asked:
        thing = f"something could not be verified{_in_brackets(what or _bare(doubt.reason))}"
    elif not got:
        thing = (
            f"{factor_text(what)} was to be {_bare(doubt.asked)}, but its actual value could not be read back{source}"
        )
    else:
        thing = f"{factor_text(what)} was to be {_bare(doubt.asked)} but was {got}{source}"
    return (
        f"In {_runs(doubt.runs)}{where} {thing}. These times are counted, but they may belong to another layout than "
        "the one named: fix the setting or the volume, and run under a new name."
    )


@sentence.register
def _unsettled(doubt: kinds.Unsettled, where: str, _findings: Findings) -> str:
    which = "it was" if doubt.runs == 1 else "in one of them it was"
    return (
        f"{_runs(doubt.runs)}{where} began to count before throughput had {doubt.asked}: {which} {doubt.got}. "
        "The figures count, but part of them may be warm-up: raise workload.warm_up_at_most."
    )


@sentence.register
def _behind_rate(doubt: kinds.BehindRate, where: str, _findings: Findings) -> str:
    which = "it" if doubt.runs == 1 else "one of them"
    return (
        f"{_runs(doubt.runs)}{where} fell behind the set rate: {which} was to do {doubt.asked} and did {doubt.got}. "
        "Latencies then hold the wait in a growing queue, and say little of the server: lower workload.rate, or leave it out "
        "to measure the most that is possible."
    )


@sentence.register
def _single_repetition(doubt: kinds.SingleRepetition, where: str, _findings: Findings) -> str:
    return (
        f"There is 1 run per cell{where}: the scatter of times is unknown, so no difference can be shown. "
        f"Set repetitions to {count(doubt.sound)} or more."
    )


@sentence.register
def _few_repetitions(doubt: kinds.FewRepetitions, where: str, _findings: Findings) -> str:
    per = f"in some cells{where}" if where else "per cell"
    return (
        f"With {count(doubt.repetitions)} runs {per} intervals are wide and only large differences can be told apart. "
        f"{count(doubt.sound)} or more repetitions narrow them."
    )


# ---------------------------------------------------------------------------------------------------------------------
# Times that can't be trusted
# ---------------------------------------------------------------------------------------------------------------------


def _length_key(findings: Findings) -> str:
    """The key of a spec that makes runs longer."""
    if findings.compared in ("elapsed", "time-per-row") and findings.unit == "rows":
        return "workload.rows_per_connection"
    return "workload.duration"


@sentence.register
def _short_runs(doubt: kinds.ShortRuns, where: str, findings: Findings) -> str:
    return (
        f"Runs{where} are as short as {seconds(doubt.shortest_s)}: starting and stopping are a large part of them, and the "
        f"drive may behave differently in the long run. Raise {_length_key(findings)} until a run takes "
        f"{duration(doubt.limit_s)} or more."
    )


@sentence.register
def _odd_run(doubt: kinds.OddRun, where: str, _findings: Findings) -> str:
    more = f" (the farthest of {count(doubt.runs)} such runs)" if doubt.runs > 1 else ""
    cell = f"Of{where.replace('(', '').removesuffix(')')}, " if where else ""
    counted = (
        "The other runs of its cell are as steady as any, so it is left out of means and verdicts (robust fit); "
        "`storagelab report NAME --fit least-squares` counts it."
        if doubt.left_out
        else "It is counted, and widens the intervals."
    )
    return (
        f"{_capital(f'{cell}repetition {count(doubt.repetition)}')} took {seconds(doubt.elapsed_s)} where "
        f"{seconds(doubt.expected_s)} was expected{more}. {counted} Look at its time series; if something else was "
        "at work, run the experiment under a new name."
    )


@sentence.register
def _run_in_blocks(doubt: kinds.RunInBlocks, _where: str, _findings: Findings) -> str:
    changed = (
        f"{listed([factor_text(name) for name in doubt.factors])} changed" if doubt.factors else "The layout changed"
    )
    return (
        f"{_capital(changed)} only from block to block: all runs of a level were made in one stretch, so a drift of "
        "the drive or the machine would look like a difference between levels. Blocks are not compared; differences "
        "within each are tested. To compare levels, remove the factor from costly if the drives allow it."
    )


@sentence.register
def _drift(doubt: kinds.Drift, _where: str, findings: Findings) -> str:
    block = " of a block" if doubt.blocks > 1 else ""
    which = noun(findings.factors)
    if doubt.change is None:
        return (
            f"From run to run{block} times changed steadily, whatever the {which}; the runs made don't tell by how much in "
            f"all. {_so(doubt, findings)}"
        )
    moved = _grew(doubt.change) if doubt.change > 0 else f"fell by {percent(-doubt.change)}"
    return f"From the first run{block} to the last times {moved}, whatever the {which}. {_so(doubt, findings)}"


def _grew(change: float) -> str:
    return f"grew by {percent(change)}" if change < MANY_TIMES else f"became {significant(1 + change, 2)} times as long"


@sentence.register
def _step(doubt: kinds.Step, _where: str, findings: Findings) -> str:
    moved = f"{percent(abs(doubt.change))} {'longer' if doubt.change > 0 else 'shorter'}"
    if doubt.change >= MANY_TIMES:
        moved = f"{significant(1 + doubt.change, 2)} times as long"
    return (
        f"Times jumped on the way: from run {count(doubt.run)} of {count(doubt.runs)} on they are {moved}, whatever the "
        f"{noun(findings.factors)}. Check what happened to the machine then (run.log and the time series have the time "
        f"of each run). {_so(doubt, findings)}"
    )


def _so(doubt: kinds.Drift | kinds.Step, findings: Findings) -> str:
    """What a change during the experiment means for the verdict, and what to do."""
    if findings.provenance == "simulated" and doubt.order == "randomised":
        return "The drives' history caused it; the order was random, so on average it affects all alike."
    if findings.provenance == "simulated":
        return (
            "Late runs may owe their times to the drives' history as well as to their layouts: "
            'order = "randomised" and between_runs.burn_in separate the two.'
        )
    rest = "rest the drive between runs (between_runs.pause_s)"
    if doubt.blocks > 1:
        return f"A late block looks different for that reason alone, so blocks are not compared; {rest}."
    if doubt.order == "randomised":
        return (
            "The order was random and cells are compared within each repetition, so the verdict hardly suffers; for "
            f"steadier times, {rest}."
        )
    return f'Late cells look different for that reason alone. Use order = "randomised", and {rest}.'


@sentence.register
def _not_randomised(doubt: kinds.NotRandomised, _where: str, findings: Findings) -> str:
    if doubt.order == "as-listed":
        return (
            f"Each repetition ran the {noun(findings.factors, 2)} in the same order. A steady drift is removed from "
            "their times; any other change within a repetition looks like a difference between them. "
            'order = "randomised" rules that out.'
        )
    stretch = f'All runs of a {noun(findings.factors)} were made one after the other (order = "cell-by-cell")'
    if doubt.provenance == "simulated":
        return (
            f"{stretch}, and each found the drives as those before had left them: the verdict holds for this order "
            "only. The first runs after a formatting are the fastest of a flash drive's life, and they all went to the "
            "layouts listed first. To compare layouts regardless of what came before them, set "
            'order = "randomised" and between_runs.burn_in = 1.'
        )
    return (
        f"{stretch}, so a drift of the machine would look like a difference: times are shown, and nothing is tested. Set "
        'order = "randomised" for a verdict.'
    )


# ---------------------------------------------------------------------------------------------------------------------
# What observing costs, and what it can't see
# ---------------------------------------------------------------------------------------------------------------------


@sentence.register
def _observer_dear(doubt: kinds.ObserverDear, where: str, _findings: Findings) -> str:
    return (
        f"Watching the waits{where} took {percent(doubt.core_share)} of one core, above the {percent(doubt.limit)} limit "
        "for harmless: it may slow what it watches. Lower measure.sample_hz, or make measure.waits a factor to see what it "
        "costs."
    )


@sentence.register
def _unexplained(doubt: kinds.Unexplained, where: str, _findings: Findings) -> str:
    figure = " to ".join(dict.fromkeys(percent(share) for share in (doubt.lowest, doubt.highest)))
    if doubt.lowest < 1 < doubt.highest:
        sense = "Samples found the connections asleep too seldom in some cells and too often in others"
    elif doubt.lowest > 1:
        sense = "Samples found the connections asleep more often than the kernel's figures allow"
    else:
        sense = "The rest is unseen: no sample found a wait for it"
    return (
        f"Waits + CPU explain {figure} of connections x elapsed{where}, where about 100 % is right. {sense}: "
        "read the shares in wait tables with that much doubt; completion times are not affected. CPU and queueing are the "
        "kernel's exact figures, so the error lies in what was sampled: it shrinks with longer runs only where looks "
        "were few."
    )


@sentence.register
def _no_split(doubt: kinds.NoSplit, where: str, _findings: Findings) -> str:
    return (
        f"Waits are not split into resource and signal time in {_runs(doubt.runs)}{where}"
        f"{_in_brackets(_bare(doubt.reason))}; these columns are empty, not zero. Run storagelab on the server's own "
        "Linux host, where the kernel reports the split."
    )


@sentence.register
def _few_wait_samples(doubt: kinds.FewWaitSamples, where: str, findings: Findings) -> str:
    return (
        f"Wait shares{where} come from only {count(doubt.passes)} looks at the sessions per run: rare waits may be missing "
        f"and shares are rough. Make runs longer ({_length_key(findings)}) or raise measure.sample_hz until there are "
        f"{count(doubt.limit)} or more."
    )


# ---------------------------------------------------------------------------------------------------------------------
# The machine and the server
# ---------------------------------------------------------------------------------------------------------------------


@sentence.register
def _busy_machine(doubt: kinds.BusyMachine, _where: str, _findings: Findings) -> str:
    return (
        f"Other processes and the kernel took up to {percent(doubt.others_share)} of the machine's CPU time in "
        f"{count(doubt.runs)} of {count(doubt.checked)} runs: the measured server lost that time, and may share the disk "
        "too. Stop the other processes and use a new name, or raise repetitions so that it averages out."
    )


@sentence.register
def _throttled(doubt: kinds.Throttled, where: str, _findings: Findings) -> str:
    return (
        f"A control group's CPU quota held {HELD_BACK[doubt.who]} back in {_runs(doubt.runs)}{where}, in one of them for "
        f"{percent(doubt.share)} of its time ({seconds(doubt.throttled_s)} in all, over all CPUs): such a run measures the "
        "quota as well as the layout, and is unverified above 10 %. Raise the quota or remove it (cpu.max, or "
        "cpu.cfs_quota_us), and run the experiment under a new name."
    )


@sentence.register
def _cpu_saturated(doubt: kinds.CpuSaturated, where: str, _findings: Findings) -> str:
    return (
        f"The connections{where} kept up to {percent(doubt.cpu_share)} of the CPU time busy "
        f"({count(doubt.cpu_count)} CPU{'' if doubt.cpu_count == 1 else 's'}): the CPUs, not the storage, set the pace, and "
        "that can hide differences between layouts. Use more cores or a workload that writes more per row."
    )


@sentence.register
def _virtual_disk(doubt: kinds.VirtualDisk, _where: str, _findings: Findings) -> str:
    names = ", ".join(doubt.volumes)
    what = f"Volumes {names} are" if len(doubt.volumes) > 1 else f"Volume {names} is"
    reason = _in_brackets(_bare(doubt.device_model), _bare(doubt.reason))
    return (
        f"{what} on a virtual or caching disk{reason}: the storage below it is unknown and may be shared, so times "
        "hold for this machine now, not for a drive. To judge a drive, use a volume on a real one."
    )


@sentence.register
def _durability_off(doubt: kinds.DurabilityOff, where: str, _findings: Findings) -> str:
    way = "turn it on" if doubt.value == "off" else "choose a safe value"
    what = f"With {doubt.setting} = {doubt.value}{where} {_RISKS[doubt.loses]}."
    return f"{what} Compare such times only with each other, or {way}."


_RISKS: dict[Loss, str] = {
    "everything": "nothing is forced to the disk, commits and checkpoints included, and a crash of the machine can corrupt "
                  "the whole database",
    "last commits": "commits do not wait for the disk, and a crash can lose the last of them; the database stays sound",
    "last second of commits": "commits do not wait for the disk, and a crash can lose the last second of them; the database "
                              "stays sound",
    "commits not in the log": "commits do not wait for the log, and a crash can lose the last of them",
    "commits not in the binary log": "commits do not wait for the binary log, and a crash can lose the last of them, because "
                                     "the server drops those that the log lacks",
    "pages not in the log": "the log holds no whole pages, so less is written, and a crash in the middle of a page's "
                            "write can corrupt that page; commits wait for the disk as usual",
    "pages not written twice": "no page is written twice, so less is written, and a crash in the middle of a page's "
                               "write can corrupt that page; commits wait for the disk as usual",
}  # fmt: skip


@sentence.register
def _shared_device(doubt: kinds.SharedDevice, _where: str, _findings: Findings) -> str:
    return (
        f"Volumes {', '.join(doubt.volumes)} are on one device ({doubt.device}): moving data or log from one to another "
        "separates nothing. To learn about placement, give each volume a path on a drive of its own."
    )


@sentence.register
def _allocation_latches(doubt: kinds.AllocationLatches, _where: str, _findings: Findings) -> str:
    note = KNOWN[doubt.engine].note_on_files
    assert note is not None, doubt.engine
    return note(doubt.major)


@sentence.register
def _files_on_disks(doubt: kinds.FilesOnDisks, _where: str, _findings: Findings) -> str:
    return (
        f"On disks, what more data files than volumes cost (here up to {count(doubt.data_files)} on "
        f"{listed(doubt.volumes)}) rests on one published test, in which 4 to 16 files on two arrays took 45 to 90 % more "
        "time than 2. The model comes near that only if the files fill the arrays and the disks serve their queues in order "
        f'of arrival, drives.NAME.order = "fifo"; here the order is {doubt.order}. Simulate both orders before you choose a '
        "number of files."
    )


@sentence.register
def _different_loads(doubt: kinds.DifferentLoads, _where: str, _findings: Findings) -> str:
    names = [factor_text(name) for name in doubt.factors]
    both = f"{listed(names)} set{'s' * (len(names) == 1)}" if names else "A factor sets"
    return (
        f"{_capital(both)} layout and load at once, so the compared cells bore {count(doubt.loads)} different loads: the "
        "fastest may be the one with the least to do. Let one factor set the load and another the layout; each load then "
        "has its own verdict."
    )


@sentence.register
def _two_provenances(doubt: kinds.TwoProvenances, _where: str, _findings: Findings) -> str:
    return (
        f"{count(doubt.simulated)} of these cells are simulated and {count(doubt.measured)} are measured on drives. They "
        "stand side by side and are not tested against each other: an error of the model would look like a difference."
    )


@sentence.register
def _not_steady(doubt: kinds.NotSteady, where: str, _findings: Findings) -> str:
    rule = f"{count(doubt.rounds)} rounds within 20 % of their mean, and a slope within 10 % of it"
    if not doubt.judged:
        return (
            f"Whether the drive was in steady state is not shown{where}: that takes {rule}. Raise workload.duration to "
            f"{count(doubt.rounds)} s or more behind the warm-up, or repetitions to {count(doubt.rounds)}."
        )
    return (
        f"The drive was not in steady state at the end{where}: that takes {rule}. Rates may still change, as those of a "
        "flash drive do until it has been overwritten at random. Raise workload.warm_up and workload.duration."
    )


@sentence.register
def _others_on_drive(doubt: kinds.OthersOnDrive, where: str, _findings: Findings) -> str:
    return (
        f"Others used the drive in {count(doubt.runs)} of {_runs(doubt.checked)}{where}: the kernel counted up to "
        f"{percent(doubt.share)} more bytes at it than fio asked for. These runs show what was left over."
    )


@sentence.register
def _too_fast(doubt: kinds.TooFast, where: str, _findings: Findings) -> str:
    return (
        f"A drive answered faster than drives can{where}: half of the requests within {seconds(doubt.latency_s)}, up to "
        f"{significant(doubt.bytes_per_s / 1e6)} MB/s. Something before the medium answered: a cache, the memory of a host, "
        "or parts of a device that were never written. These are no figures of a drive."
    )


@sentence.register
def _unlike_hosts(doubt: kinds.UnlikeHosts, _where: str, _findings: Findings) -> str:
    return unlike_sentence(doubt)
