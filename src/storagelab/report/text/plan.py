"""Prints a plan: the facts on this machine that `plan` finds before it changes anything. Also warns of runs that are
too short for the checkpoint cycles of their servers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console

from storagelab.findings.comparable import ENOUGH
from storagelab.findings.power import Tells
from storagelab.model.loads.base import GeneratedLoad
from storagelab.model.plan import Cell, Experiment, Plan
from storagelab.model.target import CheckpointCycle, VolumeNeed
from storagelab.report.text.columns import Column, are_numbers, blank, narrow, print_paragraph, print_table
from storagelab.words.names import factor_text, level_text, listed, title_of, value_text
from storagelab.words.numbers import bytes_, count, duration, percent, plural, significant

_LEVELS_SHOWN = 12


@dataclass(frozen=True)
class PlanFacts:
    """The facts that a plan shows.

    `server`: the server that would be used, as text. `estimate_s`: the seconds that the missing runs will take, None
    if unknown. `estimate_basis`: the source of this estimate. `runs_stored`: the number of stored runs, which will be
    skipped. `durability`: what survives a crash, a line for each compared engine. `warnings`: what to decide before
    the runs. The second line of a warning, if any, has the reason and how to solve it. `steps`: what is done to volumes
    before each run. `objects`: the volume of each table and index. `tells`: the smallest difference that the runs can
    show, "" if unknown.
    """

    server: str
    volumes: tuple[VolumeNeed, ...] = ()
    estimate_s: float | None = None
    estimate_basis: str = ""
    runs_stored: int = 0
    warnings: tuple[str, ...] = ()
    durability: tuple[str, ...] = ()
    tells: str = ""
    steps: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()


def print_plan(console: Console, experiment: Experiment, plan: Plan, facts: PlanFacts, whole: bool = False) -> None:
    """Print what `run` would do: first the open decisions, then runs and time, then everything else.

    With `whole`, also print the reasons for all warnings, what is done to volumes, all cells, and every run in order.
    """
    print_paragraph(console, ": ".join(filter(None, (experiment.name, experiment.question))), style="bold")
    for warning in facts.warnings:
        claim, _, reason = warning.partition("\n")
        print_paragraph(console, claim, first="! ", style="yellow")
        if whole and reason:
            print_paragraph(console, reason, first="  ")
    pairs = [
        ("Runs", _runs_text(experiment, plan, facts)),
        ("Time", _time_text(plan, facts)),
        ("Tells", facts.tells),
        ("Order", _order_text(experiment, plan)),
        ("Prepare", listed([f"volume {name} {plural(len(of), 'time')}" for (name, _), of in _kept(plan).items()])),
        *(("" if number else "Cells", text) for number, text in enumerate(_factor_texts(experiment, plan))),
        ("Server", facts.server),
        *(("Durable", line) for line in facts.durability),
    ]
    for name, text in pairs:
        if text:
            print_paragraph(console, text, first=f"{name:<8}")
    _print_volumes(console, facts.volumes)
    if not whole:
        blank(console)
        print_paragraph(console, "--all adds reasons and solutions, what is done to volumes, each cell and run")
        return
    for title, lines in (("Objects:", facts.objects), ("Before each run:", facts.steps)):
        if lines:
            blank(console)
            print_paragraph(console, title)
        for line in lines:
            print_paragraph(console, line, first="- ")
    identity = Column("cell", [cell.cell_id for cell in plan.cells], right=False, style="dim")
    blank(console)
    _print_levels(console, experiment, [identity], plan.cells)
    _print_planned_runs(console, experiment, plan)


def _runs_text(experiment: Experiment, plan: Plan, facts: PlanFacts) -> str:
    text = (
        f"{plural(len(plan.cells), 'cell')} x {plural(experiment.repetitions, 'repetition')} "
        + (f"+ {plural(burn_in, 'burn-in run')} " if (burn_in := sum(run.burn_in for run in plan.runs)) else "")
        + f"= {plural(len(plan.runs), 'run')}"
    )
    if not facts.runs_stored:
        return text
    return f"{text}; {count(facts.runs_stored)} stored already, {count(len(plan.runs) - facts.runs_stored)} to go"


def _order_text(experiment: Experiment, plan: Plan) -> str:
    blocks = len({run.block for run in plan.runs})
    text = {
        "randomised": f"randomised with seed {experiment.seed}",
        "as-listed": "as listed in the spec",
        "cell-by-cell": "as listed in the spec, all repetitions of a cell in a row",
    }[experiment.order]
    if blocks > 1:
        costly = listed([factor_text(name) for name in _constant_in_blocks(plan)])
        each = "one" if experiment.blocks == 1 else str(experiment.blocks)
        text += f", in {blocks} blocks" + (f", {each} for each {costly}" if costly else "")
    return text


VARY = 'let something vary, such as [factors] with "layout.data_files" = [1, 4] below it'


def of_preparing(experiment: Experiment, plan: Plan, vary: str = VARY) -> Iterator[str]:
    """Yields a warning if nothing is compared, with `vary` as the solution. Also yields warnings on volumes that are
    prepared only once for each block of runs.
    """
    if len(plan.cells) == 1:
        yield f"nothing is compared: there is one cell\n{vary}"
    kept = _kept(plan)
    for (name, by_hand), blocks in kept.items():
        if by_hand:
            yield f"you prepare volume {name} {plural(len(blocks), 'time')} by hand, which Time does not include"
    if kept and experiment.blocks == 1 and len({run.block for run in plan.runs}) > 1:
        yield "levels that are prepared only once are not compared: set blocks = 3"


def _kept(plan: Plan) -> dict[tuple[str, bool], set[int]]:
    """Maps (name of a volume, whether a person prepares it) to the blocks for which it is prepared."""
    made: dict[tuple[str, bool], set[int]] = {}
    for run in plan.runs:
        config = plan.cells_by_id[run.cell_id].config
        for name in config.volumes_used:
            if name in config.volumes and config.volumes[name].kept_for_block:
                made.setdefault((name, config.volumes[name].by_hand), set()).add(run.block)
    return made


def _factor_texts(experiment: Experiment, plan: Plan) -> Iterator[str]:
    """Yields a text on each factor, with its levels."""
    for factor in experiment.factors:
        levels = list(dict.fromkeys(value_text(cell.levels.get(factor.name, "")) for cell in plan.cells))
        more = f" and {count(len(levels) - _LEVELS_SHOWN)} more" if len(levels) > _LEVELS_SHOWN else ""
        between = "; " if any(", " in level for level in levels) else ", "
        yield f"{title_of(factor)}: {between.join(filter(None, levels[:_LEVELS_SHOWN]))}{more}"


def _constant_in_blocks(plan: Plan) -> list[str]:
    """Returns the factors that have only one level within each block."""
    seen: dict[tuple[str, int], set[str]] = {}
    for run in plan.runs:
        for name, level in plan.cells_by_id[run.cell_id].levels.items():
            seen.setdefault((name, run.block), set()).add(str(level))
    return [name for name in plan.cells[0].levels if all(len(one) == 1 for (at, _), one in seen.items() if at == name)]


def _time_text(plan: Plan, facts: PlanFacts) -> str:
    if facts.runs_stored >= len(plan.runs):
        return "none: every run is stored"
    basis = f" ({facts.estimate_basis})" if facts.estimate_basis else ""
    if facts.estimate_s is None:
        return f"no estimate{basis or ' until a run has finished'}"
    return f"about {duration(facts.estimate_s)}{basis}"


def _print_planned_runs(console: Console, experiment: Experiment, plan: Plan) -> None:
    """Print every run in order, with its block if there are several blocks."""
    columns = [
        Column("run", [count(number) for number in range(1, len(plan.runs) + 1)]),
        Column("block", [count(run.block + 1) for run in plan.runs]),
        Column("repetition", ["burn-in" if run.burn_in else count(run.repetition) for run in plan.runs]),
        Column("cell", [run.cell_id for run in plan.runs], right=False, style="dim"),
    ]
    if len({run.block for run in plan.runs}) == 1:
        del columns[1]
    blank(console)
    _print_levels(console, experiment, columns, [plan.cells_by_id[run.cell_id] for run in plan.runs])


def _print_levels(console: Console, experiment: Experiment, before: Sequence[Column], cells: Sequence[Cell]) -> None:
    """Print a row for each of `cells`: the columns `before`, then the cell's levels. Wide levels are wrapped."""
    factors = [
        Column(title_of(factor), texts, right=are_numbers(texts))
        for factor in experiment.factors
        if (texts := [(value_text(cell.levels[factor.name]) if factor.name in cell.levels else "") for cell in cells])
    ]
    columns = [*before, *factors]
    if sum(column.width + 2 for column in columns) > console.width:
        levels = Column("levels", [level_text(cell.levels) for cell in cells], right=False, wraps=True)
        columns = [*before, *narrow(factors, levels)]
    print_table(console, columns)


def _print_volumes(console: Console, volumes: Sequence[VolumeNeed]) -> None:
    if not volumes:
        return
    blank(console)
    short = [one.free_bytes is not None and (one.needed_bytes or 0) > one.free_bytes for one in volumes]
    columns = [
        Column("volume", [volume.name for volume in volumes], right=False),
        Column("needs", [bytes_(volume.needed_bytes) for volume in volumes]),
        Column("free", [bytes_(volume.free_bytes) for volume in volumes]),
        *([Column("", ["not enough" if one else "" for one in short], right=False)] if any(short) else ()),
        Column("path", [volume.path for volume in volumes], right=False, wraps=True),
        Column("device", [volume.device for volume in volumes], right=False, wraps=True, rank=1),
    ]
    print_table(console, columns, rows_styled=["red" if one else "" for one in short])


def tells_text(tells: Tells) -> str:
    """Describes the smallest difference that the plan can show, and the repetitions that other differences take."""
    scatter = _two_digits(tells.scatter.sd)
    runs = tells.scatter.runs
    basis = f"{plural(runs, 'run')} that scatter by {scatter}" if runs else f"an assumed scatter of {scatter}"
    times = plural(tells.repetitions, "repetition")
    can = f"{times} find no difference"
    if tells.smallest is not None:
        can = f"{times} find differences of {_two_digits(tells.smallest)} or more in 4 of 5 experiments"
    takes = [
        f"{percent(effect)} takes {'more than 1,000' if needed is None else needed}" for effect, needed in tells.takes
    ]
    return "; ".join([can, *takes]) + f" (computed from {basis})"


def _two_digits(share: float) -> str:
    return f"{significant(100 * share, 2)} %"


def too_short(plan: Plan, cycles: Mapping[str, CheckpointCycle], log_rates: Mapping[str, float]) -> Iterator[str]:
    """Yields a sentence for each kind of run that is too short for its server's checkpoint cycle. `log_rates` maps
    cells to the bytes of log per second that their stored runs wrote.
    """
    yield from _of_each(plan, cycles, log_rates, _too_short)


def before_full(plan: Plan, rooms: Mapping[str, float], log_rates: Mapping[str, float]) -> Iterator[str]:
    """Yields a sentence for each kind of run that may be measured before its server's redo log is full. `rooms` maps
    cells to the bytes that fill the log.
    """
    yield from _of_each(plan, rooms, log_rates, _until_full)


_About = TypeVar("_About")


def _of_each(
    plan: Plan,
    of: Mapping[str, _About],
    log_rates: Mapping[str, float],
    sentence: Callable[[GeneratedLoad, _About, float | None], str],
) -> Iterator[str]:
    """Yields the sentences on all cells that are keys of `of`, without duplicates."""
    known = [cell for cell in plan.cells if cell.cell_id in of]
    texts = (sentence(cell.config.generated_load, of[cell.cell_id], log_rates.get(cell.cell_id)) for cell in known)
    yield from dict.fromkeys(filter(None, texts))


def _until_full(load: GeneratedLoad, room: float, log_rate: float | None) -> str:
    warm_up_s = load.longest_warm_up_s
    if log_rate is not None and room / log_rate <= warm_up_s:
        return ""
    start = (
        "runs may be measured before the redo log is full, while times are still too short\n"
        f"it has room for {bytes_(room)} (innodb_log_file_size); the server need not write changed pages until it is "
        "full"
    )
    if log_rate is None:
        least = f"writes {bytes_(room / warm_up_s)} of log in a second" if warm_up_s else "fills it at once"
        return f"{start}, unless a load {least}"
    full_s = room / log_rate
    return (
        f"{start}. At the {bytes_(log_rate)} of log that stored runs wrote in a second that takes "
        f'{duration(full_s)}, longer than the warm-up: set workload.warm_up = "{math.ceil(full_s)}s", or choose a '
        "smaller log"
    )


def _too_short(load: GeneratedLoad, cycle: CheckpointCycle, log_rate: float | None) -> str:
    """Describes a run that is too short; "" if it is long enough. A run needs two cycles: storagelab's own checkpoint
    comes at the start, so the first whole cycle may end only after two.
    """
    assert load.longest_s is not None
    fits_s = load.longest_s / 2 if load.warm_up_is_found else load.duration_s / ENOUGH
    by_log_s = cycle.log_bytes / log_rate if log_rate else None
    cycle_s = min(cycle.longest_s, by_log_s) if by_log_s else cycle.longest_s
    if cycle_s <= fits_s:
        return ""
    if log_rate is None:
        least = bytes_(cycle.log_bytes / fits_s)
        far = (
            f"up to {duration(cycle_s)} apart ({cycle.time_setting}), unless runs write {least} of log in a second or "
            f"more ({cycle.log_setting})"
        )
    else:
        far = f"about {duration(cycle_s)} apart, at the {bytes_(log_rate)} of log that stored runs wrote in a second"
    if load.warm_up_is_found:
        least_s = 2.2 * cycle_s - load.duration_s
        return (
            f"runs of {duration(load.longest_s)} may measure no whole checkpoint cycle\ncheckpoints come {far}; such a "
            f'run is not compared with others: set workload.warm_up_at_most = "{least_s:.0f}s"'
        )
    return (
        f"runs that measure {duration(load.duration_s)} are too short: each has only part of a checkpoint cycle\n"
        f"checkpoints come {far}, so layouts whose checkpoints come at different moments may seem to differ; set "
        'workload.warm_up = "auto", which counts whole cycles, or, with sysbench, '
        f'workload.duration = "{math.ceil(ENOUGH * cycle_s)}s"'
    )
