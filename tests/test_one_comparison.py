"""Every output formats one record of comparison: no figure of comparison stands anywhere that the record lacks, and
each quantity of a cell reads the same in all outputs.
"""

import json
import math
import random
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from itertools import chain, pairwise, product, zip_longest
from typing import NamedTuple

import pytest
from builders import make_campaign, on_a_terminal
from drawn_campaigns import Campaign, Shape, shapes
from drawn_campaigns import drawn as drawn_campaign
from hypothesis import example, given, settings
from hypothesis import strategies as st

from storagelab.findings.analysis import analyse
from storagelab.findings.answer import answer, figure_of
from storagelab.findings.answer_kinds import Answer, Choice
from storagelab.findings.basis import basis_of, ratio_of
from storagelab.findings.model import CellSummary, Findings
from storagelab.report.document import Document
from storagelab.report.export.as_json import to_json
from storagelab.report.page.html import page, page_of
from storagelab.report.sections.cells import RATIO
from storagelab.report.sections.contents import brief, document, opened
from storagelab.report.text.markdown import markdown
from storagelab.report.words import compared
from storagelab.report.words.answer import headline
from storagelab.report.words.sentences import sentences
from storagelab.report.words.why import pair_paper
from storagelab.stats.contrast import KNOWN
from storagelab.words.numbers import significant

FILES = "layout.data_files"
OTHERS = re.compile(
    r"(?:joint )?95 % (?:CI ?|confidence|from|interval)|\(95 %\)|top 95 %|up to \S+ % may|than \S+ % more or less time"
    r"|of \S+ % from chance|those within \S+ %|[\d.]+ %(?= *\|? +\d+ )"
)
"""Levels of confidence, shares of runs, what repetitions would tell, and the scatter of a layout's own runs."""
N = r"(<?\d[\d,]*(?:\.\d+)?)"
PERCENT = re.compile(rf"{N}(?: to [+-]?{N}| ± {N})? %|most likely {N}")
TIMES = re.compile(rf"(?:x|factor of) {N}(?: \({N} to {N}\))?|{N}(?: to {N})? times(?: as long)?(?: \({N} to {N}\))?")


def said_in(findings, experiment, plan, runs):
    """What each output says of comparisons, without cautions, waits and the facts of the machine."""
    of = document(experiment, plan, runs, findings)
    yield on_a_terminal(opened(findings), 400, full=False)
    report = markdown(of)
    yield report.partition("\n## Caveats")[0]
    yield report.partition("## What each factor does")[2].partition("\n## ")[0]
    yield re.sub(r"(?s)<style.*?</style>|<[^>]*>", " ", page_of(brief(findings, runs)))
    exported = json.loads(to_json(experiment, plan, runs, findings))["findings"]
    yield "\n".join((exported["headline"], *exported["sentences"], *exported["answer"]["lines"]))
    basis = basis_of(experiment, plan, runs)
    for row in findings.comparisons:
        ratio = ratio_of(basis, plan, row.best_cell_id, row.cell_id)
        yield pair_paper(findings, row.best_cell_id, row.cell_id, ratio, None).verdict
        assert ratio == (row.ratio if row.tested else None)


def near(text, figures):
    number = float(text.replace(",", "").removeprefix("<"))
    if text.startswith("<"):
        return any(figure < number for figure in figures)
    half = 0.5 * 10.0 ** -len(text.partition(".")[2]) if len(text) < 3 or "." in text else 0.005 * number
    return any(abs(figure - number) <= half + 1e-6 for figure in figures)


def unknown(text, rows, bounds=(), ways=(lambda one: one,)):
    """The figures of comparison in `text` that are not the ratios of these rows, or the bounds."""
    estimates = [way(row.ratio) for row in rows for way in ways]
    ratios = {end for one in estimates for end in (one.value, one.low, one.high) if end} | {*bounds}
    changes, halves = {100 * abs(one - 1) for one in ratios}, {100 * (one.half_width or 0) for one in estimates}
    said = OTHERS.sub("", text)
    figures = [(one, ratios) for found in TIMES.finditer(said) for one in found.groups()]
    for found in PERCENT.finditer(said):
        figures += zip(found.groups(), (changes, changes, halves, changes), strict=True)
    return [(one, text) for one, those in figures if one and not near(one, those)]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 6), st.integers(2, 6), st.sampled_from((0.0, 0.05, 0.3, 2.0)), st.sampled_from((0.003, 0.03)),
    st.integers(0, 2**32),
)  # fmt: skip
@example(6, 5, 0.05, 0.003, 237)  # the least that the next takes more is below a tenth of a percent
@example(2, 5, 0.0, 0.03, 31)  # the report states no difference, though the pair's own interval leaves 1 out
def test_no_output_holds_a_figure_of_comparison_that_the_record_lacks(cells, repetitions, spread, noise, seed):
    drawn = random.Random(seed)
    mean_s = {2**place: 10 * (1 + drawn.uniform(0, spread)) for place in range(cells)}
    campaign = make_campaign(
        {FILES: list(mean_s)}, repetitions, waits=None,
        elapsed=lambda levels, _: mean_s[levels[FILES]] * drawn.lognormvariate(0, noise),
    )  # fmt: skip
    findings = analyse(*campaign)
    bounds = {max(1.001, row.at_most_slower) for row in (findings, *findings.comparisons) if row.at_most_slower}
    for line in chain.from_iterable(text.replace("\u00a0", " ").splitlines() for text in said_in(findings, *campaign)):
        if re.search(r" against 1\b", line):
            assert not unknown(line, findings.effects, ways=(lambda one: one, lambda one: one.inverse))
        elif not re.search(r"Doubt: | of \d+ runs (with|of|took) ", line):
            assert not unknown(line, findings.comparisons, bounds)
    ids = {cell.levels[FILES]: cell.cell_id for cell in findings.cells}
    rows = {(row.best_cell_id, row.cell_id): row.ratio for row in findings.comparisons}
    rows |= {pair[::-1]: ratio.inverse for pair, ratio in rows.items()}
    for one in findings.effects:  # of one factor: its levels are the cells
        assert one.ratio == rows.get((ids[one.baseline], ids[one.level]), one.ratio)


# --- the same of each cell in all outputs ----------------------------------------------------------------------------


class Row(NamedTuple):
    """A row of a ladder as it is shown."""

    name: str
    ratio: str
    figure: str
    verdict: str
    taken: bool


class Tables(HTMLParser):
    """The rows of a page's tables, by the table's class or id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[tuple[str, list[tuple[str, list[str]]]]] = []
        self._cell = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        if tag == "table":
            self.tables.append((known.get("id") or known.get("class", ""), []))
        elif tag == "tr" and self.tables:
            self.tables[-1][1].append((known.get("class", ""), []))
        elif tag in ("td", "th") and self.tables:
            self.tables[-1][1][-1][1].append("")
            self._cell = True

    def handle_endtag(self, tag):
        self._cell = self._cell and tag not in ("td", "th")

    def handle_data(self, data):
        if self._cell:
            self.tables[-1][1][-1][1][-1] += data.replace("\u00a0", " ")

    def named(self, name):
        return [rows for found, rows in self.tables if found == name]


def ladders_of_page(text: str) -> list[list[Row]]:
    return [
        [
            Row(
                cells[0].removeprefix("take ").removeprefix("default ").replace(" · ", " "),
                "".join(cells[1:-3]),
                *cells[-2:],
                "recommended" in kind,
            )
            for kind, cells in rows[1:]
            if cells[0]  # the axis is the last row
        ]
        for rows in Tables(text).named("ladder")
    ]


def markdown_tables(text: str) -> Iterator[list[list[str]]]:
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        lines = [re.sub(r"\\(.)", r"\1", line) for line in table.splitlines()]
        yield [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:])]


def ladders_of_markdown(text: str) -> list[list[Row]]:
    return [
        [
            Row(" ".join(filter(None, row[1:-3])), row[-3].partition(" (")[0], row[-2], row[-1], row[0] != "")
            for row in rows
        ]
        for head, *rows in markdown_tables(text) if head[-1] == "verdict" and head[0] == ""
    ]  # fmt: skip


def ladders_of_terminal(text: str, of: Document) -> list[list[Row]]:
    """The names are known, as nothing but a space separates them from the figures."""
    lines = iter(text.splitlines())
    return [[_row(lines, rung) for rung in ladder.shown()] for ladder in of.ladders]


def _row(lines, rung) -> Row:
    name = r"\s{2,}".join(map(re.escape, filter(None, rung.name)))
    found = next(found for line in lines if (found := re.fullmatch(rf"([> ])\s{{2}}\s*{name}(\s{{2,}}.*)?", line)))
    words = [word for word in (found[2] or "").split() if not re.fullmatch(r"[|<>*o:-]+", word)]
    ratio = [words.pop(0)] if len(words) > 1 and re.match(r"<?\d", words[1]) else [""]
    if not rung.figure and words and re.match(r"\d", words[0]):
        ratio = [words.pop(0)]
    figure = [words.pop(0) for _ in rung.figure.split()]
    return Row(" ".join(filter(None, rung.name)), ratio[0], " ".join(figure), " ".join(words), found[1] == ">")


def cells_of_terminal(text: str) -> list[list[str]]:
    """The table of cells, cut where all of its lines have two spaces."""
    lines = text.partition("\nEvery cell, in the order of the ladder")[2].split("\n\n")[0].splitlines()[1:]
    blank = [not "".join(of_column).strip() for of_column in zip_longest(*lines, fillvalue=" ")]
    cuts = [place for place in range(2, len(blank)) if blank[place - 2 : place + 1] == [True, True, False]]
    return [[line[start:end].strip() for start, end in pairwise([*cuts, None])] for line in lines]


def check(campaign: Campaign) -> None:
    findings = analyse(campaign.experiment, campaign.plan, campaign.runs)
    check_the_values(findings, answer(findings))
    parts = campaign.experiment, campaign.plan, campaign.runs, findings
    of, web, exported = document(*parts), page(*parts), json.loads(to_json(*parts))
    text, in_markdown = on_a_terminal(of, 1000), markdown(of)
    ladders = ladders_of_page(web)
    assert ladders == ladders_of_page(page_of(opened(findings)))
    assert ladders == ladders_of_markdown(in_markdown)
    assert ladders == ladders_of_terminal(text[text.rindex(of.based) :], of)
    head, *rows = [cells for _, cells in Tables(web).named("cells-table")[0]]
    told = [[text for name, text in zip(head, row, strict=True) if name != "mean, drawn"] for row in (head, *rows)]
    assert told == next(table for table in markdown_tables(in_markdown) if table[0][0] == "cell")
    assert told == cells_of_terminal(text)
    # The table leaves out columns without an entry.
    table = {row[0]: {"verdict": "", RATIO: ""} | dict(zip(head, row, strict=True)) for row in rows}
    ids = [{" ".join(filter(None, rung.name)): rung.cell_id for rung in ladder.rungs} for ladder in of.ladders]
    assert [len(names) for names in ids] == [len(ladder.rungs) for ladder in of.ladders], "two layouts have one name"
    shown = [
        [(names[row.name], row) for row in ladder if row.name in names]
        for names, ladder in zip(ids, ladders, strict=True)
    ]
    check_the_figures(findings, exported, table, [pair for ladder in shown for pair in ladder])
    check_the_verdicts(exported["findings"], table, shown)


def truth(findings: Findings, of_cell) -> tuple[float | None, list[float]]:
    """A cell's mean and the ends of its interval in the export, which lacks the means of latencies."""
    if not compared.by_latency(findings):
        sample = of_cell["summary"]["work_per_s" if compared.by_rate(findings) else "elapsed_s"]
        return (None, []) if sample is None else (sample["mean"]["value"], ends_of(sample["mean"]))
    sample = compared.judged(findings, findings.cell(of_cell["cell_id"]))
    return (None, []) if sample is None else (sample.mean.value, [*filter(None, (sample.mean.low, sample.mean.high))])


def ends_of(estimate) -> list[float]:
    return [end for end in (estimate["low"], estimate["high"]) if end is not None]


def rounds(said: str, values: Sequence[float | None]) -> bool:
    """Whether the figures of a text are these, rounded."""
    figures, known = re.findall(N, said), [value for value in values if value is not None]
    return len(figures) == len(known) and all(map(near, figures, zip(known, strict=True)))


def rounds_ratio(said: str, values: Sequence[float]) -> bool:
    """The same of ratios of times, of which large ones have two digits."""
    return rounds(said, values) or all(
        one > 9.9 and significant(one, 2) == text for text, one in zip(re.findall(N, said), values, strict=True)
    )


SCALES = {"ms": 1e-3, "µs": 1e-6}


def check_the_figures(findings: Findings, exported, table, shown) -> None:
    """What the table and the ladders show is what the export has, rounded."""
    ratios = {one["cell_id"]: one for one in exported["findings"]["comparisons"]}
    for of_cell in exported["cells"]:
        row, (mean, ends) = table[of_cell["cell_id"]], truth(findings, of_cell)
        place = [*row].index("cell") + 1 if "mean, drawn" in row else None
        heading, said = ("", "") if place is None else [*row.items()][place]
        scale = SCALES.get(heading.rpartition(", ")[2], 1)
        assert rounds(said, [mean and mean / scale])
        assert rounds(row.get("95 % CI", ""), [end / scale for end in ends])
    the_fastest = {"ratio": {"value": 1.0, "low": None, "high": None}, "tested": True, "across_blocks": False}
    means = {of_cell["cell_id"]: truth(findings, of_cell)[0] for of_cell in exported["cells"]}
    for cell_id, row in shown:
        number, _, unit = row.figure.partition(" ")
        assert rounds(number, [means[cell_id] and means[cell_id] / SCALES.get(unit, 1)])
        assert row.verdict == table[cell_id]["verdict"]
        found = ratios.get(cell_id, the_fastest)
        found = the_fastest if found["across_blocks"] and findings.order == "randomised" else found
        assert not row.ratio or rounds_ratio(row.ratio, [found["ratio"]["value"]])
        said, tested, _ = table[cell_id][RATIO].partition(" (not tested)")
        assert not said or (not tested) == found["tested"]
        assert said.partition(" (")[0] in ("", row.ratio)
        assert rounds_ratio(said.partition(" (")[2], ends_of(found["ratio"]) if "(" in said else [])


def check_the_verdicts(found, table, shown) -> None:
    """The words of a verdict agree with the interval, with the answer, and with the order of the rows."""
    ratios = {one["cell_id"]: one for one in found["comparisons"]}
    judged = found["loads"] or [found]
    may_be = {cell_id for one in judged for cell_id in (*one["best"], *one["tied"])}
    for cell_id, row in table.items():
        least = re.fullmatch(rf"slower(?:, at least {N} (%|times as long))?", row["verdict"])
        assert (least is not None) == (
            cell_id in ratios and ratios[cell_id]["distinguishable"] and row["verdict"] != "not judged"
        )
        assert least is None or cell_id not in may_be
        if least is not None and least[1]:
            low = ratios[cell_id]["ratio"]["low"]
            assert near(least[1], [100 * (low - 1)]) if least[2] == "%" else rounds_ratio(least[1], [low])
    chosen = [] if found["answer"]["no_verdict"] else found["answer"]["choices"]
    picks = [choice["pick"] for choice in chosen if choice["pick"]]
    meant = {cell_id for choice in found["answer"]["choices"] for cell_id in choice["meant"]}
    taken = {cell_id for ladder in shown for cell_id, row in ladder if row.taken}
    assert {pick["cell_id"] for pick in picks} <= taken <= meant
    for ladder in shown:
        assert sum(row.taken for _, row in ladder) <= 1
        verdicts = [row.verdict for _, row in ladder]
        for name in ("fastest", "best of block"):
            assert name not in verdicts or verdicts[0] == name
        for name in ("may be", "not told", "slower"):
            of = [
                ratios[one]["ratio"]["value"] for one, row in ladder if one in ratios and row.verdict.startswith(name)
            ]
            assert of == sorted(of)


# --- the values that the words are made of ---------------------------------------------------------------------------

NEARLY = {"rel_tol": 1e-9}


def check_the_values(findings: Findings, found: Answer) -> None:
    for cell in findings.cells:
        check_the_means_of(findings, cell)
    for choice in found.choices:
        check_what_is_chosen(findings, choice)
    check_the_bounds(findings, found)
    check_who_is_faster(findings, found)


def check_the_means_of(findings: Findings, cell: CellSummary) -> None:
    """Each cell has one mean, within its interval; time, rate and work agree."""
    for sample in (cell.elapsed_s, cell.work_per_s, cell.judged):
        if sample is not None:
            assert sample.adjusted in (None, sample.mean)
            assert sample.mean.low is None or sample.mean.low <= sample.mean.value <= sample.mean.high
    if compared.set_time(findings) and cell.each_s is not None and cell.work_per_s is not None:
        assert math.isclose(cell.each_s, cell.connections / cell.work_per_s.mean.value, **NEARLY)
    if findings.compared in ("elapsed", "time-per-row") and cell.elapsed_s is not None and cell.elapsed_s.adjusted:
        assert math.isclose(cell.work or 1.0, cell.elapsed_s.mean.value * cell.work_per_s.mean.value, **NEARLY)


def check_what_is_chosen(findings: Findings, choice: Choice) -> None:
    """The answer's figures are those of the cells' rows, by their levels."""
    figures = {cell_id: figure_of(findings, findings.cell(cell_id)) for cell_id in choice.meant}
    if choice.lowest is not None and choice.highest is not None:
        values = [one.value for one in figures.values() if one is not None]
        assert (choice.lowest.value, choice.highest.value) == (min(values), max(values))
    assert {*choice.meant} <= {*choice.tied}
    assert {*choice.but_not}.isdisjoint(choice.tied)
    first = {load.best[0] for load in findings.by_load if load.best}
    assert first.isdisjoint(choice.tied) or not first.isdisjoint(choice.meant), "the ladder's first row is left out"
    for cell_id, good in product((*choice.meant, *choice.but_not), choice.pattern.needed):
        assert repr(findings.cell(cell_id).levels[good.factor]) in map(repr, good.levels)
    if (pick := choice.pick) is None:
        assert findings.runs_stored < findings.runs_planned
        return
    assert pick.cell_id in choice.meant
    assert {*pick.levels} == {factor.name for factor in findings.layout_factors if factor.name in pick.levels}


def bounds(findings: Findings) -> dict[str, float | None]:
    """How much slower than the truly fastest each tied cell may be: of its row, or as far as its interval reaches."""
    own = {load.best[0]: load.at_most_slower for load in findings.by_load if load.tied and load.best}
    tied = {cell_id for load in findings.by_load for cell_id in load.tied}
    rows = [row for row in findings.comparisons if row.cell_id in tied]
    reach = {row.cell_id: row.at_most_slower and max(row.at_most_slower, row.ratio.high or 1) for row in rows}
    return own | {cell_id: most if (most or 1) <= KNOWN else None for cell_id, most in reach.items()}


def check_the_bounds(findings: Findings, found: Answer) -> None:
    """One risk has one bound: in the answer, in the table and in the evidence."""
    table = bounds(findings)
    assert all(1 <= (row.at_most_slower or 1) <= KNOWN for row in (*findings.by_load, *findings.comparisons))
    for choice in found.choices:
        if choice.verdict != "winner":
            # A layout that nothing ties with has no bound in the table, but one in the answer if others are not
            # compared.
            alone = {
                one.best[0]: one.at_most_slower for one in findings.by_load if one.verdict == "best-set" and one.best
            }
            of_choice = [(alone | table)[cell_id] for cell_id in choice.meant if cell_id in alone | table]
            assert choice.at_most_slower == (None if None in of_choice else max(of_choice, default=1.0))
            assert choice.pick is None or choice.pick.at_most_slower in (None, 1.0, *of_choice)


def check_who_is_faster(findings: Findings, found: Answer) -> None:
    """No cell to use is called slower, and gains are effects."""
    meant = {cell_id for choice in found.choices for cell_id in choice.meant}
    for row in findings.comparisons:
        assert not (row.distinguishable and row.cell_id in meant), "a layout to use is slower"
    assert findings.verdict != "winner" or (len(findings.best) == 1 and not findings.not_compared)
    assert findings.verdict != "too-few-runs" or not findings.best
    slower = {row.cell_id for row in findings.comparisons if row.distinguishable}
    for load in findings.loads:
        wins = len(load.cells) > 1 and len(load.best) == 1 and {*load.cells} - {*load.best} <= slower
        assert (load.verdict == "winner") == wins
        assert slower.isdisjoint(load.best)
        assert {*load.not_compared}.isdisjoint(load.best)
        assert {*load.best} <= {*load.cells}
    assert all(line.endswith(".") for line in (headline(findings), *sentences(findings)))
    for gain in found.gains:
        rows = {repr(one.level): one.ratio for one in findings.effects if one.factor == gain.factor and not one.at}
        known = {value for ratio in rows.values() for value in (ratio.value, 1 / ratio.value)}
        assert any(math.isclose(gain.best.value, one, **NEARLY) for one in known)
        assert any(math.isclose(gain.worst.value, one, **NEARLY) for one in known)


@pytest.mark.usefixtures("without_the_charts_runtime")
@settings(max_examples=15, deadline=None)
@given(shapes(most_runs=60))
@example(
    Shape(
        of="inserts on MariaDB", factors=3, repetitions=3, order="randomised", costly=False, made=26,
        times="a little noise", troubles=0.0, hosts=2, race=None, waits=False, seed=0,
    )
)  # fmt: skip
@example(  # each layout alone in its block: none has a level of its own
    Shape(
        of="transactions in a set number", factors=3, repetitions=3, order="randomised", costly=True, made=47,
        times="odd runs", troubles=0.0, hosts=3, race=None, waits=True, seed=48_889,
    )
)  # fmt: skip
def test_no_figure_of_a_drawn_campaign_contradicts_another(shape: Shape) -> None:
    check(drawn_campaign(shape))


@pytest.mark.campaign
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("without_the_charts_runtime")
@settings(max_examples=300, deadline=None)
@given(shapes(most_runs=120))
def test_nor_does_any_of_many_more(shape: Shape) -> None:
    check(drawn_campaign(shape))
