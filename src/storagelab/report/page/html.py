"""Findings -> one HTML page that needs nothing else: no network, no server, and no script to be read.

Charts are drawn here, as SVG, and not by the browser: they are there on paper and without scripts too. The script only
adds tooltips and unpacks the raw data, which the page carries compressed unless they would make it too large to open or to
send. The page's own policy forbids every request.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from string import Template

from storagelab.findings.model import Findings
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.report.charts import all_charts as charts
from storagelab.report.charts.all_charts import Drawn
from storagelab.report.drawing.side_process import Drawing
from storagelab.report.export.as_json import to_json
from storagelab.report.page import cells as cell_sections
from storagelab.report.page import effects as effect_sections
from storagelab.report.page import figures
from storagelab.report.page import findings as page_sections
from storagelab.report.page import manifest as manifest_section
from storagelab.report.page import times as time_sections
from storagelab.report.page.markup import Markup, tag, text, trusted
from storagelab.report.words import compared, numbers

_GZIP_LEVEL = 5
"""6 takes half as long again for 1.5 % less."""
LARGEST_PAGE = 3_000_000
"""Letters of a page that carries its raw data, unless it is asked to carry them anyway."""
_PAYLOAD = "<!--raw data-->"
_DATA = "<!--all raw data-->"


def render(
    experiment: Experiment,
    plan: Plan,
    runs: Sequence[Run],
    findings: Findings,
    export_json: str | None = None,
    manifest: Mapping[str, object] | None = None,
    *,
    embed_data: bool = False,
) -> str:
    """The page as text, to be written in UTF-8.

    `export_json` is what `storagelab export --format json` gives, and is made here if it is not there yet: the page offers it
    as its download, byte for byte, as long as it stays below `LARGEST_PAGE` with it, or where `embed_data` asks for it.
    `manifest` holds facts of the campaign that no run carries (which version made the report); nested tables of
    scalars are fine. The same input gives the same page.
    """
    with Drawing() as drawing:
        drawn = {figure.name: figure for figure in charts.figures(findings, runs)}
        drawing.begin(figures.bare_specs(drawn.values()))
        if export_json is None:
            export_json = to_json(experiment, plan, runs, findings)
        page = _page(experiment, plan, runs, findings, drawn, manifest or {})
        packed = _packed(export_json)
        page = figures.with_drawings(page, drawing.svgs())
    carried = embed_data or len(page) + len(packed) <= LARGEST_PAGE
    words = _download(export_json, packed) if carried else _left_out(experiment.name, export_json)
    return page.replace(_DATA, words, 1).replace(_PAYLOAD, packed if carried else "", 1)


def _page(
    experiment: Experiment,
    plan: Plan,
    runs: Sequence[Run],
    findings: Findings,
    drawn: Mapping[str, Drawn],
    manifest: Mapping[str, object],
) -> str:
    """The page without its drawings and its raw data."""
    colours = drawn["waits"].data.colours if "waits" in drawn else {}
    raw_io = compared.of_raw_io(findings)
    parts = [
        ("findings", "Findings", page_sections.verdict(findings)),
        ("cautions", "Cautions", page_sections.cautions(findings)),
        ("completion-time", compared.title(findings), time_sections.completion_time(findings, drawn)),
        ("effects", "What each factor does", effect_sections.effects(findings, drawn)),
        ("waits", "Where the connections’ time goes", Markup("") if raw_io else page_sections.waits(findings, drawn)),
        (
            "cells",
            "Counters of each cell" if raw_io else "Waits of each cell",
            cell_sections.sections(findings, runs, colours),
        ),
        ("over-time", "Over time", page_sections.over_time(findings, drawn)),
        ("checkpoint", "Final checkpoint", time_sections.checkpoint(findings)),
        ("manifest", "How it was measured", manifest_section.section(experiment, plan, findings, runs, manifest)),
        ("data", "All raw data", trusted(_DATA)),
    ]
    present = [part for part in parts if part[2]]
    script = _asset("page.js")
    return Template(_asset("page.html")).substitute(
        title=text(f"{experiment.name} · storagelab"),
        style=_asset("page.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        masthead=page_sections.masthead(findings, _facts(findings, runs)),
        contents=tag("ol", [tag("li", tag("a", title, href=f"#{name}")) for name, title, _ in present]),
        body=Markup("".join(_section(name, title, content) for name, title, content in present)),
        payload_name=text(f"{_file_name(experiment.name)}.json"),
        payload=_PAYLOAD,
    )


def _section(name: str, title: str, content: Markup) -> Markup:
    return tag("section", tag("h2", title, id=f"{name}-title"), content, id=name, aria_labelledby=f"{name}-title")


def _facts(findings: Findings, runs: Sequence[Run]) -> list[str]:
    """Short facts for the masthead: how much was run, on which server, on how many CPUs."""
    measured = numbers.count(sum(cell.runs_ok + cell.runs_unverified for cell in findings.cells))
    planned = numbers.count(sum(cell.runs_planned for cell in findings.cells))
    facts = [f"{measured} runs" if measured == planned else f"{measured} of {planned} runs measured"]
    if burn_in := sum(run.burn_in for run in runs):
        facts.append(f"{numbers.count(burn_in)} burn-in run{'s' * (burn_in != 1)} beside them")
    environment = next((run.measurement.environment for run in runs if run.measurement is not None), {})
    server, host = environment.get("server"), environment.get("host")
    if isinstance(server, Mapping) and server.get("version"):
        facts.append(f"{server.get('engine') or 'server'} {server['version']}")
    if isinstance(server, Mapping) and server.get("scale"):
        facts.append(f"simulated at scale {server['scale']}")
    if isinstance(host, Mapping) and host.get("cpu_count"):
        facts.append(f"{host['cpu_count']} CPUs")
    if isinstance(host, Mapping) and isinstance(memory := host.get("memory_bytes"), int | float):
        facts.append(f"{numbers.bytes_(memory)} of memory")
    return facts


# ---------------------------------------------------------------------------------------------------------------------
# Raw data
# ---------------------------------------------------------------------------------------------------------------------


def _packed(export_json: str) -> Markup:
    """Compressed and in base64, whose letters can't close a script element."""
    return Markup(base64.b64encode(gzip.compress(export_json.encode(), _GZIP_LEVEL, mtime=0)).decode())


def _download(export_json: str, packed: str) -> Markup:
    size, packed_size = numbers.bytes_(len(export_json.encode())), numbers.bytes_(len(packed))
    return Markup(
        tag("p", "Every run with its uncut waits, counters, checks and environment, as storagelab export gives it: "
                 f"{size} of JSON, {packed_size} of this page.")
        + tag("p", tag("button", f"Download all raw data (JSON, {size})", type="button", id="download"),
              tag("span", "", id="download-state", role="status", class_="quiet"))
        + tag("noscript", tag("p", "The download needs JavaScript; storagelab export writes the same file without it."))
    )  # fmt: skip


def _left_out(name: str, export_json: str) -> Markup:
    """Where the raw data are and how to get them, of a page that would be too large with them."""
    size = numbers.bytes_(len(export_json.encode()))
    return Markup(
        tag("p", "Every run with its uncut waits, counters, checks and environment is stored in experiment.sqlite, which "
                 f"lies beside the report: {size} as JSON, too much for this page to carry.")
        + tag("p", tag("code", f"storagelab export {name} --output {_file_name(name)}.json"), " writes them as JSON; ",
              tag("code", f"storagelab report {name} --embed-data"), " makes this page again with them in it, as a download.")
    )  # fmt: skip


def _file_name(name: str) -> str:
    return "".join(char if char.isalnum() or char in "-_" else "-" for char in name) or "export"


@cache
def _asset(name: str) -> str:
    return resources.files("storagelab.report.page").joinpath(name).read_text(encoding="utf-8")
