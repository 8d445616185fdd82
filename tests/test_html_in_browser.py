"""The page in a real browser: nothing breaks, nothing asks the network, everybody can read it."""

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from builders import make_experiment, make_plan, make_runs
from real_browser import playwright, watched
from shortcuts import drawn

from storagelab.findings.analysis import analyse
from storagelab.report.export.as_json import to_json
from storagelab.report.page import html

NASTY = "</script><script>document.title='broken into'</script><img src=x onerror=alert(1)>"


@dataclass(frozen=True)
class Report:
    file: Path
    exported: str


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Report:
    """FABRICATED: an experiment of two factors, one of whose levels tries to break out."""
    experiment = make_experiment({"layout.data_files": [1, 2, 4, 8], "layout.log": ["a", NASTY]}, 3, question=NASTY)
    return written(experiment, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def long_report(tmp_path_factory) -> Report:
    """FABRICATED: two cells of 1,000 and 800 s, whose throughput falls by a tenth at half-time."""
    experiment = make_experiment({"layout.data_files": [1, 2]}, 1)
    times_s = {1: 1_000.0, 2: 800.0}
    runs_of = {"elapsed": lambda levels, _: times_s[levels["layout.data_files"]]}
    return written(experiment, tmp_path_factory.mktemp("long"), **runs_of)


def written(experiment, folder: Path, so_far: tuple[str, int] | None = None, **given) -> Report:
    plan = make_plan(experiment)
    runs = make_runs(experiment, plan, **given)
    findings = analyse(experiment, plan, runs)
    exported = to_json(experiment, plan, runs, findings)
    file = folder / "report.html"
    with drawn():
        file.write_text(html.page(experiment, plan, runs, findings, [exported], so_far=so_far), encoding="utf-8")
    return Report(file, exported)


@pytest.fixture
def opened(browser, report) -> Iterator:
    """Opens the report: `opened(width, **context)`, with its parts open unless `folded`. Whatever a test does, nothing
    may fail or use the network.
    """
    tabs: dict[playwright.Page, list[str]] = {}

    def open_page(
        width: int = 1280, of: Report = report, *, folded: bool = False, **context: object
    ) -> playwright.Page:
        tab = browser.new_context(viewport={"width": width, "height": 800}, **context).new_page()
        tabs[tab] = watched(tab, of.file.as_uri())
        tab.goto(of.file.as_uri())
        if context.get("java_script_enabled", True) and not folded:
            open_all(tab)
        return tab

    yield open_page
    for tab, wrong in tabs.items():
        tab.context.close()
        assert wrong == []


def open_all(tab: playwright.Page) -> None:
    """Opens every part, and waits until what they hold is in the page."""
    tab.wait_for_selector("html[data-later=ready]", state="attached")
    tab.evaluate("document.querySelectorAll('details.part').forEach(part => { part.open = true; })")
    tab.wait_for_function("() => !document.querySelector('details.part > noscript')")
    if tab.locator("#explore-chart").count():
        tab.wait_for_selector("html[data-explore=drawn]", state="attached")


def brightness(tab: playwright.Page, selector: str, style: str) -> float:
    """0 (black) to 1 (white)."""
    colour = tab.evaluate("([s, p]) => getComputedStyle(document.querySelector(s))[p]", [selector, style])
    return sum(float(part) for part in colour.strip("rgba()").split(",")[:3]) / (3 * 255)


@pytest.fixture(scope="module")
def wordy_report(tmp_path_factory) -> Report:
    """FABRICATED: eight long-named places, which legends name."""
    places = [f"flash drive {number} of format maximum-write" for number in range(8)]
    experiment = make_experiment({"storage": places, "layout.data_files": [1, 2]}, 2)
    return written(experiment, tmp_path_factory.mktemp("wordy"))


@pytest.mark.parametrize("width", [1280, 390])
def test_no_label_of_a_legend_runs_into_the_next_one_or_out_of_its_chart(opened, wordy_report, width):
    tab = opened(width, wordy_report)
    ends = tab.evaluate("""[...document.querySelectorAll('figure svg :is(.role-axis-label, .role-title) text')]
        .filter((text) => text.getBoundingClientRect().width)
        .map((text) => text.closest('figure').getBoundingClientRect().right - text.getBoundingClientRect().right)""")
    assert min(ends) > -1
    charts = tab.evaluate("""[...document.querySelectorAll('figure')].map((figure) => [
        figure.getBoundingClientRect().right,
        [...figure.querySelectorAll('.role-legend-label text')].map((label) => label.getBoundingClientRect())
            .filter((box) => box.width > 0).map((box) => [box.left, box.right, box.top]),
    ])""")
    assert sum(len(labels) for _, labels in charts) > 10
    for edge, labels in charts:
        assert all(right <= edge for _, right, _ in labels)
        for one, other in itertools.combinations(sorted(labels), 2):
            assert abs(one[2] - other[2]) > 4 or one[1] < other[0] - 8


@pytest.mark.parametrize("width", [1280, 1000, 768, 702, 360])
def test_the_page_opens_without_an_error_or_a_request_and_fits_its_window(opened, width):
    tab = opened(width)
    assert tab.title() == "files-and-log-place · storagelab"
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_it_can_be_read_without_scripts(opened):
    tab = opened(java_script_enabled=False)
    assert tab.locator(".ladder tbody tr").count() == 6
    assert tab.locator("#cells-table").is_visible()
    assert not tab.locator("#figure-waits").is_visible()
    tab.locator("#waits summary").first.click()
    assert tab.locator("#figure-waits .wide").is_visible()
    tab.locator("#cells > details > summary").click()
    assert tab.locator("#cells details.cell").count() == 4
    tab.emulate_media(media="print")
    assert tab.locator("#figure-cells .wide").is_visible()


def test_a_folded_part_opens_where_a_link_leads_and_on_paper(opened):
    tab = opened(folded=True)
    part = tab.locator("#waits > details.part")
    assert part.get_attribute("open") is None
    assert tab.evaluate("document.documentElement.scrollHeight") < 2_500
    tab.locator("nav a[href='#waits']").click()
    tab.locator("#figure-waits .wide").wait_for(state="visible")
    assert tab.locator("#figure-effects").count() == 0
    tab.emulate_media(media="print")
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("#figure-effects").is_visible()
    assert not tab.locator("#glossary").is_visible()
    tab.emulate_media(media="screen")
    tab.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert not tab.locator("#figure-effects").is_visible()
    tab.set_viewport_size({"width": 390, "height": 800})
    top = tab.locator("a.to-top").bounding_box()
    assert (top["x"], top["width"]) == (0, 390), "a bar below the text, which no line ends under"
    tab.locator("a.to-top").click()
    tab.wait_for_function("() => window.scrollY < 50")


def test_a_live_page_keeps_what_is_open_and_the_place_of_its_reader(opened, tmp_path):
    live = written(make_experiment({"layout.data_files": [1, 2, 4, 8]}, 3), tmp_path, so_far=("Running.", 4))
    tab = opened(of=live, folded=True)
    tab.locator("#waits summary").first.click()
    tab.locator("#explore-chart > summary").click()
    tab.wait_for_selector("html[data-explore=drawn]", state="attached")
    tab.evaluate("document.getElementById('waits').scrollIntoView({behavior: 'instant'})")
    seen = """[...document.querySelectorAll('details[open]')].map((one) => one.textContent.slice(0, 20)).concat(
        Math.round(document.getElementById('waits').getBoundingClientRect().top))"""
    before = tab.evaluate(seen)
    with tab.expect_navigation():
        pass
    tab.wait_for_selector("html[data-explore=drawn]", state="attached")
    assert len(before) == 3
    assert tab.evaluate(seen) == before


def test_the_contents_mark_the_section_that_was_asked_for_and_then_the_one_that_is_read(opened):
    tab = opened(folded=True, reduced_motion="reduce")
    links, marked = tab.locator("nav a"), tab.locator("nav a[aria-current]")
    for place in (*range(links.count()), *reversed(range(links.count()))):
        links.nth(place).click()
        tab.wait_for_timeout(50)
        assert marked.all_inner_texts() == [links.nth(place).inner_text()]
    links.nth(3).click()
    tab.mouse.move(700, 400)
    top = "document.getElementById('effects').getBoundingClientRect().top"
    while tab.evaluate(top) > 100:
        tab.mouse.wheel(0, 60)
        tab.wait_for_timeout(50)
    assert marked.all_inner_texts() == ["What each factor does"]


def stops(tab: playwright.Page) -> int:
    """How often the tab key goes on until it has been everywhere."""
    tab.evaluate("document.activeElement.blur()")
    seen = "document.activeElement === document.body ? 'out' : !document.activeElement.met++ ? 'new' : 'met'"
    for number in range(1_000):
        tab.keyboard.press("Tab")
        if tab.evaluate(f"(() => {{ document.activeElement.met ??= 0; return {seen}; }})()") != "new":
            return number
    return 1_000


@pytest.fixture(scope="module")
def large_report(tmp_path_factory) -> Report:
    """FABRICATED: 72 cells of five runs."""
    factors = {"layout.data_files": [1, 2, 4, 8, 16, 32], "layout.log": ["a", "b"], "target.settings.x": list("abcdef")}
    return written(make_experiment(factors, 5), tmp_path_factory.mktemp("large"))


def test_a_page_of_360_runs_is_light_until_something_is_opened(opened, large_report):
    tab = opened(of=large_report, folded=True)
    tab.wait_for_selector("html[data-explore]", state="attached")
    assert tab.evaluate("document.querySelectorAll('*').length") <= 10_000
    assert tab.locator("#cells-table tbody tr").count() == 72
    assert 20 < stops(tab) <= 100
    tab.locator("#cells-table tbody a").first.focus()
    tab.keyboard.press("ArrowDown")
    assert tab.evaluate("document.activeElement.textContent") == tab.locator("#cells-table tbody a").nth(1).inner_text()
    painted_ms = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert painted_ms < 5_000  # a shared machine


def test_under_a_filter_the_fastest_of_the_chosen_cells_has_the_first_bar(opened, large_report):
    tab = opened(of=large_report)
    for level in "bcde":
        tab.get_by_role("group", name="x", exact=True).get_by_label(level, exact=True).check()
    names = tab.locator("#figure-waits .wide .role-axis-label text:visible").all_text_contents()
    cells = tab.locator("#cells-table tbody tr:visible th").all_text_contents()
    assert [name.removeprefix("★ ").split(":")[0] for name in names if ":" in name] == cells[:24]
    assert "the fastest 24 of 48 cells" in tab.locator(".chart:has(#figure-waits) .caption").inner_text()


def test_72_cells_take_eight_sheets_of_paper_the_first_of_which_decides(opened, large_report):
    tab = opened(of=large_report, folded=True)
    tab.wait_for_selector("html[data-later=ready]", state="attached")
    tab.emulate_media(media="print")
    last = tab.locator("#answer .why li").last.evaluate("line => line.getBoundingClientRect().bottom")
    assert last < 1_000
    pdf = tab.pdf(prefer_css_page_size=True)
    assert 4 <= len(re.findall(rb"/Type\s*/Page[^s]", pdf)) <= 8


@pytest.mark.parametrize("large", [False, True])
def test_no_page_is_wider_than_a_phone_and_no_text_is_too_small_for_one(opened, report, large_report, large):
    tab = opened(390, large_report if large else report, has_touch=True)
    tab.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    small = """() => [...document.querySelectorAll('main *')]
        .filter(one => !one.closest('svg, .unseen') && one.checkVisibility())
        .filter(one => [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
        .filter(one => parseFloat(getComputedStyle(one).fontSize) < 12).map(one => one.outerHTML.slice(0, 80))"""
    assert tab.evaluate(small) == []


@pytest.mark.parametrize(("width", "form", "other"), [(1280, "wide", "narrow"), (360, "narrow", "wide")])
def test_every_chart_is_drawn_in_the_form_for_the_window(opened, width, form, other):
    tab = opened(width)
    figures = tab.locator(".part figure:has(.wide)")
    assert figures.count() == 7
    for number in range(figures.count()):
        figure = figures.nth(number)
        assert figure.locator(f".{form}").is_visible()
        assert not figure.locator(f".{other}").is_visible()
        count = "marks => marks.filter(mark => mark.getBoundingClientRect().height > 1).length"
        assert figure.locator(f".{form} path[aria-label]").evaluate_all(count) >= 4
    size = "text => parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a"
    assert min(tab.locator(f"figure .{form} svg text").evaluate_all(f"texts => texts.map({size})")) > 8.5


def test_the_download_is_the_export(opened, report, tmp_path):
    tab = opened(accept_downloads=True)
    with tab.expect_download() as waiting:
        tab.locator("#download").click()
    assert waiting.value.suggested_filename == "files-and-log-place.json"
    file = tmp_path / "raw.json"
    waiting.value.save_as(file)
    assert file.read_text(encoding="utf-8") == report.exported
    assert json.loads(report.exported)["experiment"]["name"] == "files-and-log-place"


def test_dark_mode_is_dark_and_its_text_is_light_in_charts_too_and_light_mode_is_light(opened):
    assert brightness(opened(color_scheme="light"), "body", "backgroundColor") > 0.95
    tab = opened(color_scheme="dark")
    assert brightness(tab, "body", "backgroundColor") < 0.15
    assert brightness(tab, ".head p", "color") > 0.8
    assert brightness(tab, "#figure-waits .wide svg .role-axis-title text", "fill") > 0.6
    light = "mark => getComputedStyle(mark).filter"
    assert tab.locator("#figure-cells .wide .mark-symbol").first.evaluate(light) == "brightness(1.45)"
    assert tab.locator("#figure-waits .wide .mark-rect").first.evaluate(light) == "none", "its text is for its colour"


def test_paper_is_white_even_in_dark_mode_and_no_chart_is_wider_than_it(opened):
    tab = opened(700, color_scheme="dark")
    tab.emulate_media(media="print", color_scheme="dark")
    assert brightness(tab, ".head p", "color") < 0.3
    assert tab.locator("#figure-waits svg:visible").count() == 1
    assert not tab.locator("nav").is_visible()
    answer = tab.locator("#answer .why li")
    assert answer.count() > 1
    assert all(line.is_visible() and line.inner_text().strip() for line in answer.all())
    rights = "figures => figures.map(figure => figure.getBoundingClientRect().right)"
    assert max(tab.locator("figure").evaluate_all(rights)) <= 700
    assert tab.pdf(format="A4", prefer_css_page_size=True).startswith(b"%PDF")


def test_the_contents_have_a_name_and_the_skip_link_leads_to_the_answer(opened):
    tab = opened()
    assert tab.locator("nav").get_attribute("aria-label") == "Contents"
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the answer"
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"


def tip_at(tab: playwright.Page, line: playwright.Locator, share: float) -> str:
    """The tip shown when pointing at a line's vertex, given by its position along the line."""
    line.scroll_into_view_if_needed()
    x, y = line.evaluate(
        """(line, share) => {
            const corners = [...line.getAttribute("d").matchAll(/[ML]([\\d.]+),([\\d.]+)/g)];
            const [, x, y] = corners[Math.floor(share * (corners.length - 1))].map(Number);
            const place = new DOMPoint(x, y).matrixTransform(line.getScreenCTM());
            return [place.x, place.y];
        }""",
        share,
    )
    tab.mouse.move(x, y)
    tip = tab.locator("#tip")
    tip.wait_for(state="visible")
    return tip.inner_text()


@pytest.mark.parametrize(("width", "form"), [(1280, "wide"), (360, "narrow")])
def test_pointing_at_a_line_over_time_says_the_point_that_is_pointed_at(opened, long_report, width, form):
    tab = opened(width, of=long_report, reduced_motion="reduce")
    lines = tab.locator(f"#figure-rows-over-time .{form} svg .mark-line.role-mark path")
    assert lines.count() == 2
    for line, files, end_s in ((lines.nth(0), "1 data file", 1_000), (lines.nth(1), "2 data files", 800)):
        for share, factor in ((0.1, 1.05), (0.9, 0.95)):
            said = re.fullmatch(
                r"(.+), repetition 1, rows, at ([\d,]+) s: ([\d.,]+) thousand rows/s\. Click.*",
                tip_at(tab, line, share),
            )
            assert said[1] == files
            assert float(said[2].replace(",", "")) == pytest.approx(share * end_s, abs=0.02 * end_s)
            assert float(said[3]) == pytest.approx(factor * 800 / end_s, rel=0.01)


def test_marks_say_the_same_in_both_widths(opened):
    said = []
    for width, form in ((1280, "wide"), (360, "narrow")):
        tab = opened(width, reduced_motion="reduce")
        tab.locator(f"#figure-waits .{form} svg .mark-rect.role-mark path").nth(3).hover()
        tab.locator("#tip").wait_for(state="visible")
        said.append(tab.locator("#tip").inner_text())
    assert said[0] == said[1]
    assert " %; cell-" in said[0]


def test_a_link_to_a_cell_shows_its_waits_and_so_does_the_chooser(opened):
    tab = opened(folded=True)
    tab.wait_for_selector("html[data-later=ready]", state="attached")
    link = tab.locator("#cells-table a").nth(3)
    link.click()
    heading = tab.locator("#cell-shown h3")
    heading.wait_for(state="visible")
    assert heading.inner_text().startswith(f"{link.inner_text()}: ")
    last = tab.locator("#cell-list option").last.inner_text()
    tab.locator("#cell-list").select_option(label=last)
    assert last.startswith(heading.evaluate("one => one.firstChild.data"))
    assert "Lock:extend" in tab.locator("#cell-shown table").first.inner_text()
