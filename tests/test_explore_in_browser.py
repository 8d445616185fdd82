"""The block of all cells in a browser: sorting, filtering, pinning, the address, charts as files, accessibility."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from builders import make_campaign
from real_browser import playwright, watched
from shortcuts import drawn

from storagelab.findings.analysis import analyse
from storagelab.report.drawing.palette import SLOWER
from storagelab.report.page import html

FILES, LOG = "layout.data_files", "layout.log"
NASTY = "</script><script>document.title='broken into'</script><img src=x onerror=alert(1)>"
READY, DRAWN = "html[data-explore]", "html[data-explore=drawn]"
OTHER_WAYS = [(1280, "dark"), (390, "light")]
MEANS = ".mark-symbol.role-mark path[aria-label]:not([aria-label*=', repetition '])"
PAPER_WIDTH = 688
"""A4 less the margins of the page's style, in CSS pixels."""


def elapsed(levels, repetition: int) -> float:
    """FABRICATED: 8 files take half the time of 1, whatever the log's place."""
    return {1: 20.0, 2: 16.0, 4: 12.0, 8: 10.0}[levels[FILES]] * (1 + 0.002 * repetition)


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    """FABRICATED: a report of 8 cells, one of whose levels tries to break out."""
    experiment, plan, runs = make_campaign({FILES: [1, 2, 4, 8], LOG: ["a", NASTY]}, 3, elapsed=elapsed)
    found = tmp_path_factory.mktemp("explore") / "report.html"
    with drawn():
        found.write_text(html.page(experiment, plan, runs, analyse(experiment, plan, runs)), encoding="utf-8")
    return found


@pytest.fixture
def opened(browser, file) -> Iterator:
    """Opens the report: `opened(hash, width, **context)`. Whatever a test does, nothing may fail or be asked for."""
    tabs: dict[playwright.Page, list[str]] = {}

    def open_page(address: str = "", width: int = 1280, **context: object) -> playwright.Page:
        within = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce", **context)
        tab = within.new_page()
        tabs[tab] = watched(tab, file.as_uri())
        tab.goto(file.as_uri() + address)
        tab.wait_for_selector(READY)
        tab.evaluate("document.querySelectorAll('details.part').forEach(part => { part.open = true; })")
        tab.wait_for_selector(DRAWN)
        return tab

    yield open_page
    for tab, wrong in tabs.items():
        tab.context.close()
        assert wrong == []


def column(tab: playwright.Page, heading: str) -> list[str]:
    """The texts of a column of the rows that can be seen."""
    number = tab.locator("#cells-table thead th").all_inner_texts().index(heading)
    rows = tab.locator("#cells-table tbody tr:visible")
    return rows.evaluate_all("(rows, n) => rows.map(row => row.cells[n].textContent.trim())", number)


def said(tab: playwright.Page) -> dict[str, list[str]]:
    """What stands in the address after `#explore&`."""
    return parse_qs(tab.evaluate("location.hash").removeprefix("#explore&"))


def tick(tab: playwright.Page, factor: str, level: str, *, chosen: bool = True) -> None:
    tab.get_by_role("group", name=factor, exact=True).get_by_label(level, exact=True).set_checked(chosen)


def pin(tab: playwright.Page, name: str) -> str:
    return tab.locator("#explore-pins select").nth("AB".index(name)).evaluate("list => list.selectedOptions[0].text")


COUNTING = """window.clicks = 0;
addEventListener("click", event => { window.clicks += event.isTrusted ? 1 : 0; }, true);"""
FOLDED = "details.part:not([open])"
FRESH = """document.querySelectorAll("details.part").forEach(part => { part.open = false; });
window.clicks = 0; scrollTo(0, 0);"""
TASKS = {  # what a reader wants -> the clicks that it takes, and what is seen then
    "choose": ([], "#answer .head"),
    "one picture": ([], "#answer .ladder"),
    "how sure": ([], "#answer :text('95 %') >> nth=0"),
    "why": (["#explore-two > summary"], "#figure-pair-waits svg"),
    "waits over layouts": (["nav a[href='#waits']"], "#figure-waits svg:visible"),
    "over time": (["nav a[href='#over-time']"], "#over-time svg:visible >> nth=0"),
    "slide": (["nav a[href='#pictures']", "button[aria-label^='Save the chart']:visible >> nth=0"],
    "#figure-cells svg:visible"),
    "two cells": (["button[aria-label^='Pin A'] >> nth=2", "button[aria-label^='Pin B'] >> nth=5"],
    "#explore-pair table"),
    "one level": (["#explore-filters [type=checkbox] >> nth=1", "#explore-chart > summary"], "#figure-all-cells svg"),
    "odd run": (["nav a[href='#pictures']", "#figure-cells svg:visible .mark-symbol path >> nth=4"],
    "#figure-pair-series svg"),
}  # fmt: skip
CHOOSING = ("two cells", "one level", "odd run")
"""Tasks that change what the page shows; others leave it as it was, but for what is folded."""


def test_a_reader_has_what_they_want_after_two_clicks_at_most(browser, file):
    """The tasks of docs/records/page.md that this page has; all evidence is folded at first."""
    within = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab = within.new_page()
    tab.add_init_script(COUNTING)
    for task, (clicks, seen) in TASKS.items():
        if task in CHOOSING or tab.url == "about:blank":
            tab.goto("about:blank")
            tab.goto(file.as_uri())
            tab.wait_for_selector(READY)
        tab.evaluate(FRESH)
        assert tab.locator(FOLDED).count() > 5
        for where in clicks:
            tab.locator(where).click(force=" path " in where)  # dots of runs lie on each other
        tab.locator(seen).wait_for(state="visible")
        assert tab.evaluate("window.clicks") == len(clicks) <= 2, task
        if not clicks:
            assert tab.locator(seen).evaluate("found => found.getBoundingClientRect().top") < 700, f"{task}: below"
    within.close()


def test_a_heading_sorts_the_table_and_turns_its_order_at_the_second_click(opened):
    tab = opened()
    heading = tab.locator("#cells-table th button", has_text="mean time, s")
    heading.click()
    up = [float(text) for text in column(tab, "mean time, s")]
    assert up == sorted(up)
    assert tab.locator("#cells-table th[aria-sort]").get_attribute("aria-sort") == "ascending"
    heading.click()
    assert [float(text) for text in column(tab, "mean time, s")] == sorted(up, reverse=True)
    assert tab.locator("#cells-table caption").inner_text() == "Every cell, by mean time, s (measured)"
    assert tab.locator("#cells-table th[aria-sort]").get_attribute("aria-sort") == "descending"


def test_what_names_a_layout_stays_in_view_beside_the_figure_and_beside_the_column_that_sorts(opened):
    tab = opened(width=390)
    first, around = tab.locator("#cells-table tbody th").first, tab.locator(".tall .scroll")
    shown = "th => getComputedStyle(th, '::after').content"
    figure, frame = tab.locator("#cells-table tbody td.n").first.bounding_box(), around.bounding_box()
    assert figure["x"] + figure["width"] <= frame["x"] + frame["width"]
    assert tab.locator("#cells-table thead th").nth(2).inner_text() == "mean time, s"
    tab.locator("#cells-table th button", has_text="runs").evaluate("button => button.click()")
    sorted_by = tab.locator("#cells-table th[aria-sort]").bounding_box()
    assert sorted_by["x"] + sorted_by["width"] == pytest.approx(frame["x"] + frame["width"], abs=2)
    around.evaluate("of => { of.scrollLeft = 220; }")
    assert "8 files" in first.evaluate(shown)
    assert "8 files" in first.get_attribute("title")
    colours = "row => [...row.cells].map(cell => getComputedStyle(cell).color)"
    assert tab.locator("#cells-table tbody tr").first.evaluate(colours).count("rgba(0, 0, 0, 0)") == 1, "the cut column"
    assert first.bounding_box()["x"] == pytest.approx(frame["x"], abs=2)


def test_filters_leave_the_same_cells_in_the_table_and_in_the_chart(opened):
    tab = opened()
    points = tab.locator(f"#figure-all-cells {MEANS}")
    assert points.count() == 8
    tick(tab, "data files", "2")
    tick(tab, "data files", "4")
    assert {*column(tab, "data files")} == {"2", "4"}
    tick(tab, "data files", "2", chosen=False)
    assert {*column(tab, "data files")} == {"4"}
    assert tab.locator("#explore-filters output").inner_text() == "2 of 8 cells"
    assert re.fullmatch("2 of 8 cells, .*: only data files = 4", tab.locator("#cells-table caption").inner_text())
    assert tab.locator("#cell-list option:not([hidden])").count() == 2
    for figure in ("waits", "cells", "rows-over-time"):
        marks = tab.locator(f"#figure-{figure} .wide :is(path, line, rect)[aria-label]:visible")
        labels = marks.evaluate_all("all => all.map(one => one.ariaLabel)")
        assert {re.search(r"\((\d files)", label)[1] for label in labels} <= {"4 files"}, figure
        texts = f"#figure-{figure} .wide :is(.role-axis-label, .role-title) text:visible"
        names = tab.locator(texts).all_text_contents()
        assert not [name for name in names if re.search(r"\b[128] files?,", name)], figure
        caption = tab.locator(f".chart:has(#figure-{figure}) .caption").inner_text()
        assert re.match(r"(Drawn: only data files = 4\. Of all layouts: |This chart has only 2 of 8 cells).", caption)
    assert tab.locator("#figure-cells .wide .mark-line path:visible").count() == 0, "they join cells that are gone"
    assert tab.locator("#figure-effects + .save + .caption").inner_text().startswith("Of all layouts: ")
    low = "text => Math.max(...text.map(one => one.getBoundingClientRect().bottom))"
    tops = tab.locator("#figure-waits .wide .mark-rect.role-mark path:visible").evaluate_all(low)
    axis = tab.locator("#figure-waits .wide .role-axis-tick").first.evaluate("one => one.getBoundingClientRect().top")
    assert 0 < axis - tops < 20, "the rows that are left have moved together"
    tab.wait_for_function("means => document.querySelectorAll(`#figure-all-cells ${means}`).length === 2", arg=MEANS)
    tab.get_by_role("button", name="Show all").click()
    assert tab.locator(".left-out").count() == 0
    assert tab.locator(".caption:has-text('Of all layouts')").count() == 0
    tick(tab, "log volume", "a")
    assert tab.locator("#figure-cells .wide .role-legend-label text:visible").all_text_contents() == ["a"]
    tab.get_by_role("button", name="Show all").click()
    tab.get_by_label("only what may be the fastest").check()
    assert {*column(tab, "data files")} == {"8"}


def test_two_pins_put_any_two_cells_side_by_side_and_their_waits_add_up(opened):
    tab = opened()
    tab.locator("#cells-table button[aria-label$='(1 file, log on a)'][aria-label^='Pin A']").click()
    tab.locator("#cells-table button[aria-label$='(4 files, log on a)'][aria-label^='Pin B']").click()
    assert pin(tab, "A").endswith(" (1 file, log on a)")
    pair = tab.locator("#explore-pair table")
    assert "20.0" in pair.inner_text()
    assert "0.60 × A" in pair.inner_text()
    texts = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    rows = tab.locator("#explore-waits-table tbody tr").evaluate_all(texts)
    waits = {name: [float(text.replace(",", "") or 0) for text in figures] for name, *figures in rows}
    assert waits["Lock:extend"][2] == pytest.approx(0.25 * 20.04, rel=0.02)
    split = [waits[name] for name in waits if name not in ("all", "ON_CPU")]
    for a_resource, a_signal, a, b_resource, b_signal, b, more in split:
        assert a_resource + a_signal == pytest.approx(a, rel=0.02, abs=0.3)
        assert b_resource + b_signal == pytest.approx(b, rel=0.02, abs=0.3)
        assert b - a == pytest.approx(more, rel=0.03, abs=0.05)
    assert waits["all"][6] == pytest.approx(sum(waits[name][6] for name in waits if name != "all"), abs=0.1)
    assert "layout.data_files (asked for)" in tab.locator("#explore-facts-table").inner_text()


def test_what_was_chosen_stands_in_the_address_and_opens_again(opened):
    tab = opened()
    assert tab.evaluate("location.hash") == ""
    tick(tab, "data files", "2")
    tab.locator("#explore-choices").get_by_label("Scale").select_option("log")
    tab.locator("#cells-table th button", has_text="mean time, s").click()
    tab.locator("#explore-choices select").nth(1).select_option("verdict")
    tab.wait_for_function("location.hash.includes('colour=verdict')")
    assert said(tab)[f"is.{FILES}"] == ["2"]
    again = opened(tab.evaluate("location.hash"))
    assert {*column(again, "data files")} == {"2"}
    assert again.locator("#explore-choices select").nth(1).input_value() == "verdict"
    assert again.locator("#explore-choices").get_by_label("Scale").input_value() == "log"
    assert again.locator("#cells-table th[aria-sort]").count() == 1
    titles = again.locator("#figure-all-cells :is(.role-axis-title, .role-legend-title) text").all_text_contents()
    assert {"data files", "verdict (measured)"} < {*titles}
    assert again.locator(f"#figure-all-cells .role-legend-symbol path[stroke='{SLOWER}']").count() == 1


@pytest.mark.parametrize("address", ["#explore&A=nobody&sort=99&is.x=y&axis=z", "#%", "#explore&sort=x&find=%3Cimg%3E"])
def test_an_address_that_names_nothing_is_no_trouble(opened, address):
    tab = opened(address)
    assert tab.locator("#cells-table tbody tr").count() == 8
    assert tab.locator("img").count() == 0


def test_every_cell_has_its_series_and_pointing_at_a_moment_says_what_both_did_then(opened):
    tab = opened()
    assert [len(of_cell) for of_cell in tab.evaluate("window.storagelab.series")["of"]] == [3] * 8
    moments = tab.locator("#figure-pair-series .mark-rule line[aria-label]")
    words = [moments.nth(place).get_attribute("aria-label") for place in (1, moments.count() - 2)]
    assert words[0] != words[1]
    moments.nth(1).hover(force=True)
    tip = tab.locator("#tip")
    tip.wait_for(state="visible")
    assert tip.inner_text() == words[0]
    assert re.search("A, rows: .*; B, rows: ", tip.inner_text())
    assert tab.locator("#figure-pair-series .mark-text.role-mark text").text_content() == "thousand rows/s"


def test_every_mark_of_a_run_leads_to_its_series_beside_that_of_the_median_run(opened):
    tab = opened()
    runs = tab.locator("#explore-quantity select")
    for figure, place in (("cells", 1), ("all-cells", 4)):
        mark = tab.locator(f"#figure-{figure} [aria-label*=', repetition ']").nth(place)
        name, repetition = re.fullmatch(r"(.*), repetition (\d):.*", mark.get_attribute("aria-label") or "").groups()
        mark.dispatch_event("click")
        is_chosen = "n => document.querySelectorAll('#explore-quantity select')[2]?.value === n"
        tab.wait_for_function(is_chosen, arg=repetition)
        assert (pin(tab, "A"), pin(tab, "B")) == (name, name)
        assert runs.nth(1).locator("option:checked").inner_text().endswith("(median)")
    cell = said(tab)["B"][0]
    again = opened(f"#run-{cell}-3")
    assert again.locator("#explore-quantity select").nth(2).input_value() == "3"
    assert again.locator("#explore-series").is_visible()
    assert "of one cell" in (again.locator("#explore-counters-table").text_content() or "")


def test_the_keyboard_reaches_the_words_of_every_mark_and_pins_a_cell(opened):
    tab = opened()
    tab.locator("#figure-all-cells").focus()
    tab.keyboard.press("End")
    words = tab.locator("#tip").inner_text()
    assert "8 files" in words
    assert tab.locator("#heard").inner_text() == words
    tab.keyboard.press("Enter")
    assert pin(tab, "B") == words.split(":")[0].split(", repetition")[0]
    tab.keyboard.press("Escape")
    assert tab.locator("#tip").is_hidden()
    tab.locator("#figure-waits").focus()
    tab.keyboard.press("ArrowRight")
    assert " %; cell-" in tab.locator("#tip").inner_text()


@pytest.mark.parametrize("figure", ["waits", "all-cells", "pair-series"])
def test_a_chart_is_saved_as_svg_and_png_with_its_title_and_where_it_comes_from(opened, figure, tmp_path):
    tab = opened(accept_downloads=True)
    for form in ("svg", "png"):
        with tab.expect_download() as waiting:
            tab.locator(f"#figure-{figure} + .save button", has_text=form.upper()).click()
        assert waiting.value.suggested_filename == f"{figure}.{form}"
        waiting.value.save_as(tmp_path / f"chart.{form}")
    svg = (tmp_path / "chart.svg").read_text(encoding="utf-8").replace("\u00a0", " ")
    said = tab.locator(f".chart:has(#figure-{figure}) .caption").text_content().strip()[:30]
    title = tab.locator(f"#figure-{figure}").get_attribute("data-title").split("<")[0]
    words = " ".join(re.sub("<[^>]+>", " ", svg).split())  # long titles have several lines
    assert [one in words for one in (title, said, "files-and-log-place · MEASURED, 24 runs")] == [True] * 3
    ends = """svg => {
        document.body.insertAdjacentHTML("beforeend", svg);
        return [...document.querySelectorAll("body > svg > text")].map((one) => one.getComputedTextLength());
    }"""
    assert max(tab.evaluate(ends, svg)) <= float(re.search(r' width="([\d.]+)"', svg)[1]) - 8
    assert (png := (tmp_path / "chart.png").read_bytes()).startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") > 1_000


@pytest.mark.parametrize("figure", ["waits", "all-cells"])
def test_a_picture_of_filtered_cells_names_the_filter_and_holds_nothing_else_and_no_instructions(
    opened, figure, tmp_path
):
    tab = opened(accept_downloads=True)
    tick(tab, "data files", "2")
    tab.get_by_label("name contains").fill("on a")
    tab.wait_for_function("means => document.querySelectorAll(`#figure-all-cells ${means}`).length === 1", arg=MEANS)
    with tab.expect_download() as waiting:
        tab.locator(f"#figure-{figure} + .save button", has_text="SVG").click()
    waiting.value.save_as(tmp_path / "chart.svg")
    svg = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    assert "24 runs, 8 layouts · only data files = 2; names with “on a”</text>" in svg.replace("\u00a0", " ")
    assert {*re.findall(r"(\d) files?, log on", svg.partition("Of all layouts")[0])} == {"2"}
    assert "Click" not in svg


def test_no_label_becomes_markup_wherever_it_is_shown(opened):
    tab = opened()
    tab.locator("#explore-pins select").first.select_option(index=1)
    tab.locator("#explore-choices select").nth(2).select_option(label="log volume")
    tab.wait_for_function("location.hash.includes('panels')")
    assert NASTY[:20] in tab.locator("#explore-pair").inner_text()
    assert tab.locator("img").count() == 0
    assert tab.title() == "files-and-log-place · storagelab"


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(1280, "light"), (390, "dark"), *(pytest.param(*both, marks=pytest.mark.campaign) for both in OTHER_WAYS)],
)
def test_axe_finds_nothing_that_keeps_people_from_reading_the_page(opened, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    tab = opened(width=width, color_scheme=scheme, bypass_csp=True)
    tab.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    found = axe.Axe().run(tab)
    assert found.violations_count == 0, found.generate_report()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_axe_finds_nothing_on_a_page_with_a_winner_and_without_waits_either(browser, tmp_path):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    experiment, plan, runs = make_campaign({FILES: [1, 2, 4, 8]}, 3, elapsed=elapsed, waits=None)
    bare = tmp_path / "report.html"
    bare.write_text(html.page(experiment, plan, runs, analyse(experiment, plan, runs)), encoding="utf-8")
    within = browser.new_context(bypass_csp=True)
    tab = within.new_page()
    tab.goto(bare.as_uri())
    tab.wait_for_selector(READY)
    assert tab.locator("#cells-table .mark.fastest").count() == 1
    assert tab.locator("#figure-pair-waits").is_hidden()
    found = axe.Axe().run(tab)
    within.close()
    assert found.violations_count == 0, found.generate_report()


def test_no_column_is_lost_on_paper(opened):
    tab = opened(width=PAPER_WIDTH)
    tab.emulate_media(media="print")
    ends = tab.locator("table:visible").evaluate_all("all => all.map(one => one.getBoundingClientRect().right)")
    assert len(ends) > 5
    assert max(ends) < PAPER_WIDTH + 0.5
    assert tab.locator("#cells-table tbody tr:visible").count() == 8


def test_a_page_without_any_interval_draws_its_chart_of_all_cells_without_a_warning(browser, tmp_path):
    experiment, plan, runs = make_campaign({FILES: [1, 2, 4, 8], LOG: ["a", "b"]}, 1, elapsed=elapsed)
    bare = tmp_path / "report.html"
    bare.write_text(html.page(experiment, plan, runs, analyse(experiment, plan, runs)), encoding="utf-8")
    tab = browser.new_page()
    wrong = watched(tab, bare.as_uri())
    tab.goto(bare.as_uri() + "#explore&scale=log")
    tab.wait_for_selector(DRAWN)
    assert tab.locator(f"#figure-all-cells {MEANS}").count() == 8
    tab.close()
    assert wrong == []
