"""Every output formats one record of comparison: no figure of comparison stands anywhere that the record lacks."""

import io
import json
import random
import re
from itertools import chain

from builders import make_campaign
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console
from storagelab.report.page.brief import brief_page

from storagelab.findings.analysis import analyse
from storagelab.findings.basis import basis_of, ratio_of
from storagelab.report.export.as_json import to_json
from storagelab.report.text.markdown import markdown
from storagelab.report.text.terminal import print_findings
from storagelab.report.words.why import pair_paper

FILES = "layout.data_files"
OTHERS = re.compile(
    r"(?:joint )?95 % (?:CI ?|confidence|from|interval)|\(95 %\)|top 95 %|up to \S+ % may|\S+ % apart"
    r"|[\d.]+ %(?= *\|? +\d+ )"
)
"""Levels of confidence, shares of runs, what repetitions would tell, and the scatter of a layout's own runs."""
N = r"(<?\d[\d,]*(?:\.\d+)?)"
PERCENT = re.compile(rf"{N}(?: to [+-]?{N}| ± {N})? %|most likely {N}")
TIMES = re.compile(rf"(?:x|factor of) {N}(?: \({N} to {N}\))?|{N}(?: to {N})? times(?: as long)?(?: \({N} to {N}\))?")


def said_in(findings, experiment, plan, runs):
    """What each output says of comparisons, without cautions, waits and the facts of the machine."""
    with Console(file=io.StringIO(), width=400) as console:
        print_findings(console, findings)
    yield console.file.getvalue().partition("\nWaits of")[0].partition("\nCaveats")[0]
    report = markdown(experiment, plan, runs, findings)
    yield report.partition("\n## Caveats")[0].partition("\n## Waits")[0]
    yield report.partition("### What each factor does")[2].partition("\n### ")[0]
    yield re.sub(r"(?s)<style.*?</style>|<[^>]*>", " ", brief_page(experiment, runs, findings))
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
    for line in chain.from_iterable(text.splitlines() for text in said_in(findings, *campaign)):
        if re.search(r"Gains: | against 1\b", line):
            assert not unknown(line, findings.effects, ways=(lambda one: one, lambda one: one.inverse))
        elif not re.search(r"Doubt: | of \d+ runs (with|of|took) ", line):
            assert not unknown(line.replace("\u00a0", " "), findings.comparisons, bounds)
    ids = {cell.levels[FILES]: cell.cell_id for cell in findings.cells}
    rows = {(row.best_cell_id, row.cell_id): row.ratio for row in findings.comparisons}
    rows |= {pair[::-1]: ratio.inverse for pair, ratio in rows.items()}
    for one in findings.effects:  # of one factor: its levels are the cells
        assert one.ratio == rows.get((ids[one.baseline], ids[one.level]), one.ratio)
