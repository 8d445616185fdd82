"""The output for people: complete at 80 columns, with more detail if wider, plain in a pipe."""

import io
import itertools

import pytest
from builders import make_campaign, make_planned, on_a_terminal
from fabricated_findings import FILES, LOG, extension_trend, golden, make_effect, make_findings
from rich.console import Console

from storagelab.findings.analysis import analyse
from storagelab.findings.cautions.durability_off import DurabilityOff
from storagelab.findings.cautions.odd_runs import OddRun
from storagelab.findings.cautions.short_runs import ShortRuns
from storagelab.model.target import VolumeNeed
from storagelab.report.document import Ladder, Mark, Rung
from storagelab.report.sections.contents import document, opened
from storagelab.report.sections.waits import wait_parts
from storagelab.report.text.plan import PlanFacts, print_plan
from storagelab.report.text.terminal import print_part

FIVE = {1: 2.5, 2: 2.48, 4: 2.41, 8: 2.42, 16: 2.43}
GB = 2**30


def answered(findings, width=80, **of_console):
    return on_a_terminal(opened(findings), width, full=False, **of_console)


def reported(width=80, **of_console):
    """A whole report, of real runs through real analysis."""
    campaign = make_campaign(
        {FILES: [1, 2, 4, 8, 16], LOG: ["a", "b"]}, failed=lambda run: "the disk is full" if run.sequence == 3 else ""
    )
    return on_a_terminal(document(*campaign, analyse(*campaign)), width, **of_console)


def planned_as(*args):
    out = io.StringIO()
    print_plan(Console(file=out, width=80), *args)
    return out.getvalue()


def waits_of(findings, *, uncut):
    out = io.StringIO()
    for part in wait_parts(findings, findings.cells[0], uncut=uncut):
        print_part(Console(file=out, width=80), part)
    return out.getvalue()


def the_story():
    """Lock:extend falls with the number of data files while times can't be told apart."""
    return make_findings(
        {FILES: list(FIVE)},
        FIVE,
        verdict="indistinguishable",
        trends=[extension_trend(list(FIVE), [0.25, 0.2, 0.12, 0.03, 0.02])],
        effects=[make_effect(FILES, 16, 1, (0.96, 0.98, 1.02))],
        cautions=[
            DurabilityOff(setting="fsync", value="off", loses="everything"),
            ShortRuns(shortest_s=0.41, limit_s=2.0),
        ],
    )


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_no_line_is_wider_than_the_terminal(width):
    for text in (reported(width), answered(the_story(), width)):
        assert max(map(len, text.splitlines())) <= width


def test_numbers_stay_with_their_units_at_every_width():
    for width in range(40, 121, 7):
        for line in reported(width).splitlines():
            assert not line.lstrip().startswith(("% ", "s ", "s,", "rows/s ")), (width, line)


def test_colour_and_rules_are_for_terminals_and_no_color_is_honoured(monkeypatch):
    assert not set("\x1b─│┌┐└┘━┃\u00a0") & set(reported())
    assert {"\x1b", "─"} <= set(reported(force_terminal=True, color_system="truecolor"))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in reported(force_terminal=True).replace("\x1b[3m", "")


def test_a_whole_report_ends_with_the_answer_which_comes_once():
    campaign = make_campaign({FILES: [1, 4]})
    of, findings = document(*campaign, analyse(*campaign)), analyse(*campaign)
    assert on_a_terminal(of).endswith(f"\n\n{answered(findings)}")
    assert on_a_terminal(of).count(of.based) == 1


def volume(name, device, needed, free) -> VolumeNeed:
    return VolumeNeed(name=name, path=f"./volumes/{name}", device=device, needed_bytes=needed, free_bytes=free)


VOLUMES = (volume("a", "nvme0n1, ext4", 3 * GB, 200 * GB), volume("b", "sda, xfs", 5 * GB, 1 * GB))


def planned(levels, **facts):
    known = {"server": "PostgreSQL 18.4, private", "volumes": VOLUMES, "estimate_s": 433.0, "estimate_basis": "a guess"}
    return *make_planned(levels), PlanFacts(**(known | facts))


def test_a_whole_plan_shows_every_cell_and_every_run_in_its_order():
    experiment, plan, facts = planned({FILES: list(range(1, 51))})
    out = io.StringIO()
    print_plan(Console(file=out, width=80), experiment, plan, facts, whole=True)
    lines = [line.split() for line in out.getvalue().splitlines()]
    start = lines.index(["run", "repetition", "cell", "data", "files"])
    listed = lines[start + 1 : start + 1 + len(plan.runs)]
    files = {cell.cell_id: str(cell.levels[FILES]) for cell in plan.cells}
    assert listed == [
        [str(number), str(run.repetition), run.cell_id, files[run.cell_id]]
        for number, run in enumerate(plan.runs, start=1)
    ]
    assert ["cell-050", "50"] in lines
    assert "... and" not in out.getvalue()


def of_labels(factors, mean, **more):
    """Findings in which each level has a long label; `mean` gives the time of each combination."""
    means = {levels: mean(*levels) for levels in itertools.product(*factors.values())}
    return make_findings(factors, means, **({"verdict": "indistinguishable"} | more))


DRIVERS = [f"driver {n}, 4 KB sectors, formatted for improved writes, firmware {n}.{n}" for n in (1, 2)]
STORAGE = ["two SCSI RAID-10, log on SATA RAID-10", "data round robin over two SSDs, log on the first, basic"]
ACCESS = {
    "access": ["8 KB sequential write", "64 KB random read"],
    "storage": ["70 disks in RAID-100", "two 640 GB cards"],
}
MANY = {
    FILES: [1, 128], "drives.ssd.format": ["basic", "improved-write", "maximum-write"],
    "driver": ["1.2.7, 512 B", "2.2.3, 4 KB"],
}  # fmt: skip
SIXTY = {FILES: list(range(1, 61))}


def without_a_split():
    cell = the_story().cells[0]
    waits = tuple(row.model_copy(update={"resource_s": None, "signal_s": None}) for row in cell.waits)
    return the_story().model_copy(update={"cells": (cell.model_copy(update={"waits": waits, "explained": None}),)})


def with_odd_runs():
    odd = [
        OddRun(cells=(cell,), repetition=2, elapsed_s=2.4 * ratio, expected_s=2.4, ratio=ratio, deviation_sd=9, runs=1,
               left_out=0)
        for cell, ratio in (("c1", 1.2), ("c3", 1.9), ("c5", 1.1))
    ]  # fmt: skip
    return make_findings({FILES: list(FIVE)}, FIVE, verdict="indistinguishable", cautions=odd)


SCREENS = {
    "the whole story": lambda: answered(the_story()),
    "the whole story at 140 columns": lambda: answered(the_story(), width=140),
    "on a narrow terminal columns go before numbers break": lambda: answered(the_story(), width=60),
    "long labels are wrapped and their numbers kept": lambda: answered(
        of_labels({"driver": DRIVERS, LOG: ["a", "b"]}, lambda _, log: 3.0 if log == "a" else 2.0)
    ),
    "one factor of long labels is wrapped": lambda: answered(
        of_labels({"storage": STORAGE, FILES: [1, 16]}, lambda _, files: 1300.0 + files)
    ),
    "two factors of long labels are wrapped": lambda: answered(of_labels(ACCESS, lambda *_: 3.0)),
    "brackets in a label are no markup": lambda: answered(
        make_findings({"driver": ["[red]x[/red]", "[/]"]}, {"[red]x[/red]": 3.0, "[/]": 2.0}, verdict="winner")
    ),
    "of very many cells the fastest are shown": lambda: answered(
        make_findings(SIXTY, {n: 2 + n / 100 for n in SIXTY[FILES]}, verdict="winner")
    ),
    "a verdict stays on one line": lambda: answered(
        of_labels(MANY, lambda *of: 3000 * (1 + 0.09 * [*itertools.product(*MANY.values())].index(of)),
                  verdict="winner")
    ),
    "no run at all": lambda: answered(make_findings({FILES: [1, 4]}, {1: None, 4: None}, verdict="too-few-runs")),
    "all waits": lambda: waits_of(the_story(), uncut=True),
    "waits without a split": lambda: waits_of(without_a_split(), uncut=False),
    "real runs through real analysis": reported,
    "odd runs of several cells are one doubt": lambda: answered(with_odd_runs()),
    "a plan": lambda: planned_as(*planned({FILES: [1, 4], LOG: ["a", "b"]}, runs_stored=4)),
    "a long plan": lambda: planned_as(*planned({FILES: list(range(1, 51))})),
    "a plan that is all stored": lambda: planned_as(*planned({FILES: [1, 4]}, runs_stored=10)),
    "space and time that can't be told": lambda: planned_as(
        *planned({FILES: [1, 4]}, volumes=(volume("a", "", None, None),), estimate_s=None, estimate_basis="")
    ),
    "a warning": lambda: planned_as(*planned({FILES: [1, 4]}, warnings=("Volumes a and b are one device.",))),
}  # fmt: skip


def test_layouts_that_share_a_row_stand_where_their_first_would_and_have_their_verdicts():
    said = ["not told apart"] * 10 + ["not fastest", "slower, at least 2 %", "not fastest", "slower, at least 5 %"]
    marks = [Mark("not-told-apart" if text.endswith("apart") else "slower", text) for text in said]
    rungs = [Rung((str(at),), None, f"{at} s", mark, recommended=at == 8) for at, mark in enumerate(marks)]
    rungs += [Rung(("14",), None, "", Mark("not-judged", "not run yet"))] * 2
    assert [(rung.name[0], rung.verdict.text) for rung in Ladder("", "", 2, tuple(rungs), 9).shown()][4:] == [
        ("4", said[4]), ("4 more, too few runs to tell, 5 to 9 s", said[5]), ("8", said[8]),
        ("3 more, 10 to 12 s", "not fastest or slower"), ("13", said[13]), ("2 more", "not run yet"),
    ]  # fmt: skip


def test_a_ratio_without_an_interval_is_an_o_and_the_one_that_others_are_compared_with_a_star():
    lines = answered(analyse(*make_campaign({FILES: [1, 4]}, 1))).splitlines()
    assert [(" * " in line, " o " in line) for line in lines[2:4]] == [(True, False), (False, True)]
    assert lines[4].strip() == "o no interval"


def screens() -> str:
    return "\n".join(f"== {name}\n{screen()}" for name, screen in SCREENS.items())


def test_screens_are_what_they_were():
    assert screens() == golden("screens").read_text("utf-8")


def test_at_80_columns_no_line_of_any_screen_is_longer():
    for name, screen in SCREENS.items():
        assert "140" in name or max(map(len, screen().splitlines())) <= 80, name
