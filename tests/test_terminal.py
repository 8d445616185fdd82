"""What a person sees: whole at 80 columns, richer when wider, plain in a pipe."""

import io
import itertools

import pytest
from builders import analysed, make_planned
from fabricated_findings import FILES, LOG, extension_trend, golden, make_effect, make_findings
from rich.console import Console

from storagelab.findings.cautions.durability_off import DurabilityOff
from storagelab.findings.cautions.odd_runs import OddRun
from storagelab.findings.cautions.short_runs import ShortRuns
from storagelab.model.target import VolumeNeed
from storagelab.report.text.plan import PlanFacts, print_plan
from storagelab.report.text.terminal import print_findings, print_waits
from storagelab.report.words.answer import answer_lines

FIVE = {1: 2.5, 2: 2.48, 4: 2.41, 8: 2.42, 16: 2.43}
GB = 2**30


def shown(print_it, *args, width=80, terminal=False):
    out = io.StringIO()
    print_it(
        Console(file=out, width=width, force_terminal=terminal, color_system="truecolor" if terminal else None), *args
    )
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
    means = {(files, log): 3 - 0.1 * files for files in (1, 2, 4) for log in ("a", "b")}
    findings = make_findings({FILES: [1, 2, 4], LOG: ["a", "b"]}, means, verdict="winner")
    for text in (shown(print_findings, the_story(), width=width), shown(print_findings, findings, width=width)):
        assert max(len(line) for line in text.splitlines()) <= width


def test_numbers_stay_with_their_units_at_every_width():
    for width in range(40, 121, 7):
        for line in shown(print_findings, the_story(), width=width).splitlines():
            assert not line.lstrip().startswith(("% ", "s ", "s,", "rows/s ")), (width, line)


def test_in_a_pipe_there_is_no_colour_and_no_box():
    text = shown(print_findings, the_story())
    assert "\x1b" not in text
    assert not set("─│┌┐└┘━┃\u00a0") & set(text)


def test_on_a_terminal_there_is_colour_and_a_rule():
    text = shown(print_findings, the_story(), terminal=True)
    assert "\x1b[" in text
    assert "─" in text


def test_no_color_is_honoured_on_a_terminal(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    print_findings(Console(file=out, width=80, force_terminal=True), the_story())
    assert "\x1b[3" not in out.getvalue().replace("\x1b[3m", "")


def volume(name, device, needed, free) -> VolumeNeed:
    return VolumeNeed(name=name, path=f"./volumes/{name}", device=device, needed_bytes=needed, free_bytes=free)


VOLUMES = (
    volume("a", "nvme0n1, ext4", 3 * GB, 200 * GB),
    volume("b", "sda, xfs", 5 * GB, 1 * GB),
)


def planned(levels, **facts):
    known = {"server": "PostgreSQL 18.4, private", "volumes": VOLUMES, "estimate_s": 433.0, "estimate_basis": "a guess"}
    return *make_planned(levels), PlanFacts(**(known | facts))


def test_a_screen_of_80_by_24_ends_with_the_whole_answer():
    out = io.StringIO()
    console = Console(file=out, width=80, height=24, force_terminal=True, color_system=None)
    print_findings(console, the_story())
    screen = out.getvalue().splitlines()[-24:]
    first = screen.index("The answer again")
    answer = " ".join(line.strip() for line in screen[first:])
    assert [line.text for line in answer_lines(the_story()) if line.text not in answer] == []


def test_in_a_pipe_and_where_all_fits_the_answer_comes_once():
    assert shown(print_findings, the_story()).count("MEASURED, 25 runs") == 1
    out = io.StringIO()
    print_findings(Console(file=out, width=80, height=500, force_terminal=True, color_system=None), the_story())
    assert out.getvalue().count("MEASURED, 25 runs") == 1


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


def one_run_failed():
    failed = lambda planned: "the disk is full" if planned.sequence == 3 else ""  # noqa: E731
    return analysed({FILES: [1, 2, 4, 8, 16], LOG: ["a", "b"]}, failed=failed)


def with_odd_runs():
    odd = [
        OddRun(cells=(cell,), repetition=2, elapsed_s=2.4 * ratio, expected_s=2.4, ratio=ratio, deviation_sd=9, runs=1,
               left_out=0)
        for cell, ratio in (("c1", 1.2), ("c3", 1.9), ("c5", 1.1))
    ]  # fmt: skip
    return make_findings({FILES: list(FIVE)}, FIVE, verdict="indistinguishable", cautions=odd)


SCREENS = {
    "the whole story": lambda: shown(print_findings, the_story()),
    "the whole story at 140 columns": lambda: shown(print_findings, the_story(), width=140),
    "on a narrow terminal columns go before numbers break": lambda: shown(print_findings, the_story(), width=60),
    "long labels are wrapped and their numbers kept": lambda: shown(
        print_findings, of_labels({"driver": DRIVERS, LOG: ["a", "b"]}, lambda _, log: 3.0 if log == "a" else 2.0)
    ),
    "one factor of long labels is wrapped": lambda: shown(
        print_findings, of_labels({"storage": STORAGE, FILES: [1, 16]}, lambda _, files: 1300.0 + files)
    ),
    "two factors of long labels are wrapped each in its column": lambda: shown(
        print_findings, of_labels(ACCESS, lambda *_: 3.0)
    ),
    "brackets in a label are no markup": lambda: shown(
        print_findings,
        make_findings({"driver": ["[red]x[/red]", "[/]"]}, {"[red]x[/red]": 3.0, "[/]": 2.0}, verdict="winner"),
    ),
    "of very many cells the fastest are shown": lambda: shown(
        print_findings, make_findings(SIXTY, {n: 2 + n / 100 for n in SIXTY[FILES]}, verdict="winner")
    ),
    "a verdict stays on one line": lambda: shown(
        print_findings, of_labels(MANY, lambda *of: 3000 * (1 + 0.09 * [*itertools.product(*MANY.values())].index(of)),
                                  verdict="winner")
    ),
    "no run at all": lambda: shown(
        print_findings, make_findings({FILES: [1, 4]}, {1: None, 4: None}, verdict="too-few-runs")
    ),
    "all waits": lambda: shown(print_waits, the_story(), ["c1"], True),
    "waits without a split": lambda: shown(print_waits, without_a_split(), ["c1"], False),
    "real runs through real analysis": lambda: shown(print_findings, one_run_failed()),
    "odd runs of several cells are one doubt": lambda: shown(print_findings, with_odd_runs()),
    "a plan": lambda: shown(print_plan, *planned({FILES: [1, 4], LOG: ["a", "b"]}, runs_stored=4)),
    "a long plan": lambda: shown(print_plan, *planned({FILES: list(range(1, 51))})),
    "a plan that is all stored": lambda: shown(print_plan, *planned({FILES: [1, 4]}, runs_stored=10)),
    "space and time that can't be told": lambda: shown(
        print_plan,
        *planned(
            {FILES: [1, 4]},
            volumes=(volume("a", "", None, None),), estimate_s=None, estimate_basis=""
        ),
    ),
    "a warning": lambda: shown(print_plan, *planned({FILES: [1, 4]}, warnings=("Volumes a and b are one device.",))),
}  # fmt: skip


def screens() -> str:
    return "\n".join(f"== {name}\n{screen()}" for name, screen in SCREENS.items())


def test_screens_are_what_they_were():
    assert screens() == golden("screens").read_text("utf-8")


def test_at_80_columns_no_line_of_any_screen_is_longer():
    for name, screen in SCREENS.items():
        assert "140" in name or max(map(len, screen().splitlines())) <= 80, name
