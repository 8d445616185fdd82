"""The sections of the page, in reading order. A section with its own layout has a template in `templates/parts`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from storagelab.findings.model import Dependence, Findings
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.report.charts.effects import effect_table
from storagelab.report.charts.over_time import steps_text
from storagelab.report.drawing import arrange, palette
from storagelab.report.drawing.chart import Drawn
from storagelab.report.page.cells import cells_view, cells_with_parts
from storagelab.report.page.explore_plots import MAX_RUNS, plots
from storagelab.report.page.explore_record import record
from storagelab.report.page.explore_series import packed, series
from storagelab.report.page.manifest import manifest_view
from storagelab.report.page.opening import cautions_view, verdict_view
from storagelab.report.page.pieces import Content, PageChart, PageTable, Swatch, View, page_chart, view
from storagelab.report.page.results import cells_table, checkpoint_view, picture_view
from storagelab.report.text.tables import IN_SQL_SERVER
from storagelab.report.words import compared
from storagelab.report.words.glossary import GLOSSARY
from storagelab.report.words.hosts import host_sentences, host_table
from storagelab.report.words.marks import legend_sentence
from storagelab.report.words.table import Heading
from storagelab.report.words.waiting import no_waits_anywhere_sentence
from storagelab.words import numbers
from storagelab.words.names import factor_noun, factor_text, listed, value_text

MAX_EFFECT_ROWS = 200
MAX_CHANGES = 10
_NAMES_SHOWN = 4


class Section(NamedTuple):
    """One section; `view` is what its template lays out. `holds`: what it is folded under beside its title; "" if it is
    open.
    """

    name: str
    title: str
    view: View | None
    holds: str = ""


def sections(
    experiment: Experiment,
    plan: Plan,
    runs: Sequence[Run],
    findings: Findings,
    drawn: Mapping[str, Drawn],
    extra: Mapping[str, object],
) -> list[Section]:
    """Every section with content. `extra` are facts of the campaign that no run carries."""
    charts: dict[str, list[PageChart]] = {}
    for one in drawn.values():
        charts.setdefault(one.chart.part, []).append(page_chart(one))
    colours = drawn["waits"].data.colours if "waits" in drawn else {}
    raw_io = compared.of_raw_io(findings)
    of_cells = [*charts.get("cells", []), *charts.get("drives", [])]
    first, more = next(iter(of_cells), None), of_cells[1:]
    over = charts.get("over-time", [])
    verdict = verdict_view(findings)
    each = "counters" if raw_io else "waits, who waited for what, and counters"
    every = (
        Section("findings", "Findings", verdict),
        Section("completion-time", first.title if first else "", picture_view(first, drawn, verdict)),
        Section("explore", "Every cell: sort, filter, compare", _explore(plan, runs, findings)),
        Section("cautions", "Cautions", cautions_view(findings)),
        Section("more-charts", "More charts of all cells", view(charts=more) if more else None, _titles(more)),
        Section("hosts", "Hosts", _hosts(findings), "each host’s place and times"),
        Section(
            "effects",
            "What each factor does",
            _effects(findings, charts.get("effects", [])),
            f"{listed([factor_text(factor.name) for factor in findings.factors])}: each level against the baseline",
        ),
        Section(
            "waits",
            "Where the sessions’ time goes",
            None if raw_io else _waits(findings, charts.get("waits", []), colours),
            "the waits of the cells in one chart, and which of them differ most",
        ),
        Section(
            "cells",
            f"{'Counters' if raw_io else 'Waits'} of each cell",
            cells_view(findings, runs, colours),
            f"{numbers.plural(len(cells_with_parts(findings)), 'cell')}: {each}",
        ),
        Section("over-time", "Over time", _over_time(findings, drawn, over), _titles(over)),
        Section(
            "checkpoint", "Final checkpoint", checkpoint_view(findings), "what the load left to write, timed apart"
        ),
        Section(
            "manifest",
            "How it was measured",
            manifest_view(experiment, plan, findings, runs, extra),
            "the spec, the order of the runs, machine, server, and what was read back",
        ),
        Section("glossary", "Glossary", _glossary(), numbers.plural(len(GLOSSARY), "term")),
    )
    return [section for section in every if section.view is not None]


def _titles(charts: Sequence[PageChart]) -> str:
    return "; ".join(chart.title for chart in charts)


def _glossary() -> View:
    headings = [Heading("term", "text"), Heading("meaning", "prose")]
    return view(tables=[PageTable("The terms of this report", headings, list(GLOSSARY.items()))])


def _explore(plan: Plan, runs: Sequence[Run], findings: Findings) -> View:
    """Every cell in a table to sort and filter, a chart of them, and any two side by side; without scripts only the
    table. The script reads the cells as JSON. There is none for a single cell.
    """
    found = cells_table(findings, runs)
    known = None
    if len(found.cells) > 1 and findings.factors:
        known = record(plan, runs, findings, found.cells)
        known |= {"keys": found.keys, "plots": plots(findings), "most_runs": MAX_RUNS}
    over_time = packed(series(findings, runs, found.cells)) if known else ""
    return {
        "legend": legend_sentence(findings),
        "table": found.table,
        "record": _script_text(known) if known else Markup(""),
        "series": over_time,
    }


def _script_text(value: object) -> Markup:
    """JSON in which nothing can end the script element around it, or begin another one."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704


def _hosts(findings: Findings) -> View | None:
    """Every host, if there are several."""
    table = host_table(findings)
    tables = [PageTable(f"The hosts ({findings.provenance})", *table)]
    return view(" ".join(host_sentences(findings)), tables=tables) if table.rows else None


def _effects(findings: Findings, charts: list[PageChart]) -> View | None:
    """What each level does against its factor's baseline: first with all else the same, then at single levels of
    other factors.
    """
    tables = [*_best_levels(findings), *_effects_at_levels(findings)]
    return view(charts=charts, tables=tables) if charts or tables else None


def _best_levels(findings: Findings) -> Iterator[PageTable]:
    """The best level of a factor at each level of another."""
    for found in findings.dependences:
        if not found.best:
            continue
        noun, within = factor_noun(found.factor), factor_text(found.within)
        headings = [Heading(within, "text"), Heading(f"best {noun}", "text"), Heading("not told apart from it", "text")]
        rows = [
            [value_text(row.at), value_text(row.levels[0]), ", ".join(map(value_text, row.levels[1:]))]
            for row in found.best
        ]
        caption = f"The best {noun} at each level of {within} ({findings.provenance}){_averaged(found)}"
        yield PageTable(caption, headings, rows, folded=f"The best {noun} by {within}")


def _averaged(found: Dependence) -> str:
    return f"; averaged over {listed(list(map(factor_text, found.averaged)))}" if found.averaged else ""


def _effects_at_levels(findings: Findings) -> Iterator[PageTable]:
    at = [effect for effect in findings.effects if effect.at]
    if at:
        rest = f", the first {MAX_EFFECT_ROWS} of {numbers.count(len(at))}" if len(at) > MAX_EFFECT_ROWS else ""
        caption = f"Each level against the first, at single levels of the other factors ({findings.provenance}){rest}"
        folded = f"At single levels of the other factors: {numbers.plural(len(at), 'comparison')}"
        yield PageTable(caption, *effect_table(at[:MAX_EFFECT_ROWS]), folded=folded)


def _waits(findings: Findings, charts: list[PageChart], colours: Mapping[str, str]) -> View:
    """The stacked chart, and the waits that differ between the best and the worst cell."""
    if not charts:
        return view(no_waits_anywhere_sentence(findings) or "The connections waited for nothing.")
    return view(charts=charts, tables=_wait_changes(findings, colours))


def _wait_changes(findings: Findings, colours: Mapping[str, str]) -> Iterator[PageTable]:
    fastest, slowest = (findings.cell(cell_id) if cell_id else None for cell_id in compared.ends(findings))
    if not findings.wait_changes or fastest is None or slowest is None:
        return
    # Waits of several engines are joined by what is waited for, so the engines' own names explain each class.
    names = findings.wait_names
    others = [", ".join(names[item.wait_type][:_NAMES_SHOWN]) if item.wait_type in names else item.analogue
              for item in findings.wait_changes[:MAX_CHANGES]]  # fmt: skip
    headings = [Heading("Waiting for" if names else "WaitType", "text"),
                *([Heading("The engines' names" if names else IN_SQL_SERVER, "text")] if any(others) else []),
                Heading("fastest"), Heading("share"), Heading("slowest"), Heading("share"),
                Heading("more in the slowest")]  # fmt: skip
    rows: list[list[Content]] = [
        [
            Swatch(item.wait_type, colours.get(item.wait_type, palette.CATEGORY[item.category])),
            *([other] if any(others) else []),
            numbers.seconds(item.best_s), numbers.percent(item.best_share),
            numbers.seconds(item.worst_s), numbers.percent(item.worst_share),
            numbers.seconds(item.worst_s - item.best_s),
        ]
        for item, other in zip(findings.wait_changes[:MAX_CHANGES], others, strict=True)
    ]  # fmt: skip
    under = (
        f" under the {compared.load_noun(findings)} where layouts differ most" if findings.verdict == "by-load" else ""
    )
    yield PageTable(
        f"The waits that differ most: {fastest.name}, of the shortest mean time{under}, against "
        f"{slowest.name}, of the longest; seconds over all connections of the mean run",
        headings,
        rows,
    )


def _over_time(findings: Findings, drawn: Mapping[str, Drawn], charts: list[PageChart]) -> View | None:
    """Small multiples of the chosen cells, one chart for each quantity that the runs have."""
    if not charts:
        return None
    data = drawn[charts[0].name].data
    shared = arrange.shared_levels(arrange.chosen_cells(findings))
    words = [
        "One panel for each cell, with the same axes unless the chart says otherwise.",
        f"The thick line is the median run, with a point about every {steps_text(data)};",
        "the thin ones are the other repetitions.",
        f"All cells shown have {shared}." if shared else "",
        data.hidden,
    ]
    return view(" ".join(word for word in words if word), charts)
