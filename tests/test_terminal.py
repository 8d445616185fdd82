"""What a person sees: whole at 80 columns, richer when wider, plain in a pipe."""

import io
import itertools
import re

import pytest
from builders import make_campaign, make_experiment, make_plan
from fabricated_findings import FILES, LOG, extension_trend, make_effect, make_findings
from rich.console import Console

from storagelab.findings.analysis import analyse
from storagelab.findings.cautions.durability_off import DurabilityOff
from storagelab.findings.cautions.odd_runs import OddRun
from storagelab.findings.cautions.short_runs import ShortRuns
from storagelab.report.text.plan import PlanFacts, VolumeFacts, print_plan
from storagelab.report.text.tables import NINE_COLUMNS
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


EIGHTY = """\
No storage verdict: runs as short as 0.410 s.
MEASURED, 25 runs, 5 layouts.
Those 5 layouts take 2.41 to 2.50 s, not proven equal: each at most 10 % slower
  than the best (95 %).
Default pick (fewest files): 1 file (2.50 s).
Gains: files: no measurable difference (4 % faster to 2 % slower).
Doubt: fsync = off gives up safety.
Next: longer runs: more rows per connection, or a longer duration.

Evidence
- Nominally fastest: 4 data files, 2.41 s (95 % CI 2.36 to 2.46 s), or
  133,000 rows/s (95 % CI 130,000 to 135,000), over 5 runs.
- Layouts that are not told apart need not be equal: 1 data file is at most 10 %
  slower than the truly fastest (95 %). More repetitions narrow this.
- Lock:extend (PAGELATCH_* on PFS/GAM/SGAM in SQL Server's words) falls from
  25 % of session time at 1 data file to 2 % at 16, while the completion time
  can't be told apart (joint 95 % CI 4 % less to 2 % more): the wait changed, at
  no cost in time that shows.

  cell  data files  median s     mean s (95 % CI)   rows/s   sd  runs  verdict
  c1             1      2.50  2.50 (2.45 to 2.55)  128,000  1 %     5  tied
  c2             2      2.48  2.48 (2.43 to 2.53)  129,000  1 %     5  tied
  c3             4      2.41  2.41 (2.36 to 2.46)  133,000  1 %     5  tied
  c4             8      2.42  2.42 (2.37 to 2.47)  132,000  1 %     5  tied
  c5            16      2.43  2.43 (2.38 to 2.48)  132,000  1 %     5  tied

Waits of c3, 4 data files (nominally fastest), mean of 5 runs: the top 95 %
  WaitType              Wait_S  Resource_S  Signal_S  WaitCount  Percentage
  LWLock:WALWrite    ~   19.28       17.35      1.93     23,792       79.81
  Lock:extend        ~    2.41        2.17      0.24      2,974        9.98
  RUNNABLE_NO_EVENT  *    2.31        0.00      2.31      2,855        9.58
  ON_CPU: 7.71 s, 20 % of session time (derived; no wait)
  Waits + CPU explain 98.7 % of connections x elapsed (38.6 s in all).

Waits of c1, 1 data file (nominally slowest), mean of 5 runs: the top 95 %
  WaitType              Wait_S  Resource_S  Signal_S  WaitCount  Percentage
  LWLock:WALWrite    ~   20.00       18.00      2.00     24,680       61.43
  Lock:extend        ~   10.00        9.00      1.00     12,340       30.71
  RUNNABLE_NO_EVENT  *    2.40        0.00      2.40      2,962        7.37
  ON_CPU: 8.00 s, 20 % of session time (derived; no wait)
  Waits + CPU explain 98.7 % of connections x elapsed (40.0 s in all).

  ~ sampled: estimated shares, rough counts; * derived from the kernel's totals
  In SQL Server's words: LWLock:WALWrite = WRITELOG; Lock:extend = PAGELATCH_*
  on PFS/GAM/SGAM; RUNNABLE_NO_EVENT = SOS_SCHEDULER_YIELD.

Caveats
! Runs are as short as 0.410 s: starting and stopping are a large part of them,
  and the drive may behave differently in the long run. Raise
  workload.rows_per_connection until a run takes 2 s or more.
- With fsync = off nothing is forced to the disk, commits and checkpoints
  included, and a crash of the machine can corrupt the whole database. Compare
  such times only with each other, or turn it on.
"""


def test_the_whole_story_at_80_columns():
    assert shown(print_findings, the_story()) == EIGHTY


def test_at_140_columns_all_nine_columns_and_the_sql_server_names_are_there():
    text = shown(print_findings, the_story(), width=140)
    heads = [line for line in text.splitlines() if line.lstrip().startswith("WaitType")]
    assert [tuple(head.split()[:9]) for head in heads] == [NINE_COLUMNS, NINE_COLUMNS]
    row = next(line for line in text.splitlines() if line.lstrip().startswith("Lock:extend "))
    assert row.endswith("PAGELATCH_* on PFS/GAM/SGAM")
    assert "the best against it (joint 95 % CI)" in text
    assert "In SQL Server's words:" not in text.split("Waits of")[-1]


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_no_line_is_wider_than_the_terminal(width):
    means = {(files, log): 3 - 0.1 * files for files in (1, 2, 4) for log in ("a", "b")}
    findings = make_findings({FILES: [1, 2, 4], LOG: ["a", "b"]}, means, verdict="winner")
    for text in (shown(print_findings, the_story(), width=width), shown(print_findings, findings, width=width)):
        assert max(len(line) for line in text.splitlines()) <= width


def test_on_a_narrow_terminal_columns_go_before_numbers_break():
    text = shown(print_findings, the_story(), width=60)
    head = next(line for line in text.splitlines() if "data files  " in line)
    assert "mean s (95 % CI)" in head
    assert "verdict" in head
    assert "median s" not in head
    assert "2.41 (2.36 to 2.46)" in text
    waits = next(line for line in text.splitlines() if line.lstrip().startswith("WaitType"))
    assert waits.split()[:2] == ["WaitType", "Wait_S"]
    assert waits.split()[-1] == "Percentage"


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


def test_levels_that_are_long_labels_are_wrapped_and_their_numbers_kept():
    labels = [f"driver {n}, 4 KB sectors, formatted for improved writes, firmware {n}.{n}" for n in (1, 2)]
    findings = make_findings(
        {"driver": labels, LOG: ["a", "b"]},
        {(d, x): 3.0 if x == "a" else 2.0 for d in labels for x in "ab"},
        verdict="best-set",
        tied=[(labels[1], "b")],
    )
    text = shown(print_findings, findings)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert text.count("2.00 (1.96 to 2.04)") == 2
    assert "firmware 2.2" in text


def test_one_factor_of_long_labels_is_wrapped_and_the_others_keep_their_columns():
    labels = ["two SCSI RAID-10, log on SATA RAID-10", "data round robin over two SSDs, log on the first, basic"]
    findings = make_findings(
        {"storage": labels, FILES: [1, 16]},
        {(d, x): 1300.0 + x for d in labels for x in (1, 16)},
        verdict="best-set",
        tied=[(labels[1], 1)],
    )
    lines = shown(print_findings, findings).splitlines()
    assert any(line.split()[:3] == ["cell", "data", "files"] and "storage" in line for line in lines)
    assert any(line.strip().startswith("c2            16  two SCSI RAID-10,") for line in lines)
    assert max(map(len, lines)) <= 80


def test_two_factors_of_long_labels_are_wrapped_each_in_its_column():
    access, storage = ["8 KB sequential write", "64 KB random read"], ["70 disks in RAID-100", "two 640 GB flash cards"]
    findings = make_findings(
        {"access": access, "storage": storage},
        {(a, b): 3.0 for a in access for b in storage},
        verdict="indistinguishable",
    )
    lines = shown(print_findings, findings).splitlines()
    assert any(line.split()[:3] == ["cell", "access", "storage"] for line in lines)
    assert any("64 KB random" in line and "two 640 GB" in line and line.endswith("tied") for line in lines), lines


def test_brackets_in_a_label_are_no_markup():
    findings = make_findings({"driver": ["[red]x[/red]", "[/]"]}, {"[red]x[/red]": 3.0, "[/]": 2.0}, verdict="winner")
    assert "[red]x[/red]" in shown(print_findings, findings, terminal=True)


def test_of_very_many_cells_the_fastest_are_shown_and_the_rest_counted():
    numbers = list(range(1, 61))
    findings = make_findings({FILES: numbers}, {n: 2 + n / 100 for n in numbers}, verdict="winner")
    text = shown(print_findings, findings)
    assert "... and 20 slower cells" in text


def test_without_any_run_there_is_a_headline_and_no_verdict():
    text = shown(print_findings, make_findings({FILES: [1, 4]}, {1: None, 4: None}, verdict="too-few-runs"))
    assert text.startswith("NOTHING MEASURED: no run has given a time yet (10 runs planned).")
    assert "tied" not in text
    assert "nan" not in text.lower()


def test_uncut_waits_show_every_wait_and_cut_ones_the_top_95_percent():
    findings = the_story()
    assert "IO:SLRURead" not in shown(print_waits, findings, ["c1"], False)
    assert "IO:SLRURead" in shown(print_waits, findings, ["c1"], True)


def test_waits_without_a_split_have_empty_columns_and_a_reason():
    findings = the_story()
    cell = findings.cells[0]
    waits = tuple(row.model_copy(update={"resource_s": None, "signal_s": None}) for row in cell.waits)
    unsplit = findings.model_copy(update={"cells": (cell.model_copy(update={"waits": waits, "explained": None}),)})
    text = shown(print_waits, unsplit, ["c1"], False)
    assert "Resource_S and Signal_S are empty where the split could not be measured." in text
    assert "CPU time could not be read" in " ".join(text.split())
    row = next(line.split() for line in text.splitlines() if line.lstrip().startswith("Lock:extend "))
    assert row == ["Lock:extend", "~", "10.00", "12,340", "30.71"]


def test_real_runs_through_real_analysis_read_well_to_the_end():
    experiment, plan, runs = make_campaign(
        {FILES: [1, 2, 4, 8, 16], LOG: ["a", "b"]},
        failed=lambda planned: "the disk is full" if planned.sequence == 3 else "",
    )
    text = shown(print_findings, analyse(experiment, plan, runs))
    assert text.startswith(
        "Use any of the 10 layouts: none can be told apart from the fastest.\nMEASURED, 49 of 50 runs"
    )
    assert "\n- Nominally fastest: " in text
    assert "Lock:extend" in text
    assert "! 1 run failed" in text
    assert "4/5 (1 failed)" in text
    assert "None" not in text


# --- Plan ------------------------------------------------------------------------------------------------------------

VOLUMES = (
    VolumeFacts("a", "./volumes/a", "nvme0n1, ext4", 3 * GB, 200 * GB),
    VolumeFacts("b", "./volumes/b", "sda, xfs", 5 * GB, 1 * GB),
)


def planned(levels, **facts):
    experiment = make_experiment(levels)
    known = {"server": "PostgreSQL 18.4, private", "volumes": VOLUMES, "estimate_s": 433.0, "estimate_basis": "a guess"}
    return experiment, make_plan(experiment), PlanFacts(**(known | facts))


def test_a_plan_shows_cells_runs_order_space_and_time():
    text = shown(print_plan, *planned({FILES: [1, 4], LOG: ["a", "b"]}, runs_stored=4))
    for part in (
        "files-and-log-place: How many data files",
        "Runs    4 cells x 5 repetitions = 20 runs; 4 stored already, 16 to go",
        "Order   randomised with seed 7",
        "Server  PostgreSQL 18.4, private",
        "Time    about 7 min 13 s (a guess)",
        "  cell-004           4  b",
        "  a       3 GiB  200 GiB              ./volumes/a  nvme0n1, ext4",
        "  b       5 GiB    1 GiB  not enough  ./volumes/b  sda, xfs",
    ):
        assert part in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_a_long_plan_shows_forty_cells_and_counts_the_rest():
    text = shown(print_plan, *planned({FILES: list(range(1, 51))}))
    assert "cell-040" in text
    assert "cell-041" not in text
    assert "... and 10 more; --all lists them" in text


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


def test_a_plan_that_is_all_stored_needs_no_time():
    assert "Time    none: every run is stored" in shown(print_plan, *planned({FILES: [1, 4]}, runs_stored=10))


def test_space_that_can_not_be_told_is_left_empty():
    volumes = (VolumeFacts("a", "./volumes/a", "", None, None),)
    text = shown(print_plan, *planned({FILES: [1, 4]}, volumes=volumes, estimate_s=None, estimate_basis=""))
    assert "0 bytes" not in text
    assert "not enough" not in text
    assert "Time    no estimate until a run has finished" in text


def test_warnings_of_a_plan_stand_out():
    assert "! Volumes a and b are one device." in shown(
        print_plan, *planned({FILES: [1, 4]}, warnings=("Volumes a and b are one device.",))
    )


# --- A screen --------------------------------------------------------------------------------------------------------


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


def test_odd_runs_of_several_cells_are_one_doubt():
    def odd(cell, ratio):
        return OddRun(
            cells=(cell,),
            repetition=2,
            elapsed_s=2.4 * ratio,
            expected_s=2.4,
            ratio=ratio,
            deviation_sd=9,
            runs=1,
            left_out=0,
        )

    findings = make_findings(
        {FILES: list(FIVE)},
        FIVE,
        verdict="indistinguishable",
        cautions=[odd("c1", 1.2), odd("c3", 1.9), odd("c5", 1.1)],
    )
    text = " ".join(shown(print_findings, findings).split())
    assert text.count("was expected") == 1
    assert (
        "! 3 runs in 3 cells stand apart from the others of their cell. The farthest: with 4 data files, repetition 2"
        in text
    )


def test_a_verdict_stays_on_one_line_at_80_columns():
    levels = {
        "drives.ssd.format": ["basic", "improved-write", "maximum-write"],
        "driver": ["1.2.7, 512 B", "2.2.3, 4 KB"],
    }
    factors = {FILES: [1, 128], **levels}
    names = list(itertools.product(*factors.values()))
    means = {name: 3000.0 * (1 + 0.09 * place) for place, name in enumerate(names)}
    text = shown(print_findings, make_findings(factors, means, verdict="winner"))
    assert re.search(r"slower \(8 %\)$", text, re.MULTILINE)
    assert [line for line in text.splitlines() if len(line) > 80] == []
