"""The page as text: its content and order, and that no text of a user can become markup."""

import base64
import gzip
import hashlib
import json
import random
import re
from collections.abc import Sequence
from html.parser import HTMLParser

import pytest
from builders import make_campaign, make_environment, make_measurement, make_planned, make_run, make_runs
from hypothesis import given, settings
from hypothesis import strategies as st
from shortcuts import drawn

from storagelab.findings.analysis import analyse
from storagelab.model.measurement import Run, WaitingTask
from storagelab.model.values import JsonValue
from storagelab.model.waits import CountedWaits
from storagelab.report.export.as_json import to_json
from storagelab.report.page import html
from storagelab.report.sections import waits
from storagelab.report.sections.waits import NINE_COLUMNS
from storagelab.report.words.secrets import masked

FILES, LOG = "layout.data_files", "layout.log"
NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \"quotes\" 'single' ${x} $title \\"


def page_of(
    factors: dict[str, Sequence[JsonValue]], *, repetitions: int = 2, fields: dict[str, object] | None = None, **given
) -> str:
    """FABRICATED: the page of an experiment over `factors`."""
    experiment, plan = make_planned(factors, repetitions, **fields or {})
    runs = make_runs(experiment, plan, **given)
    findings = analyse(experiment, plan, runs)
    return html.page(
        experiment, plan, runs, findings, [to_json(experiment, plan, runs, findings)], {"made by": "a test"}
    )


def words_of_one_run(shares: dict[str, float] | None = None, **fields: object) -> str:
    """The words of the page of one run that was measured like this."""
    experiment, plan = make_planned({FILES: [1]}, 1)
    runs = (make_run(plan.runs[0], plan.cells[0], make_measurement(plan.cells[0].config, 10.0, shares, **fields)),)
    return words_of(html.page(experiment, plan, runs, analyse(experiment, plan, runs), "{}"))


@pytest.fixture(scope="module")
def page() -> str:
    with drawn():
        return page_of({FILES: [1, 2, 4], LOG: ["a", "b"]})


def payload_of(page: str, *, packed: bool = True) -> str:
    found = re.search(r'<script type="text/plain" id="raw-data"[^>]*>([^<]*)</script>', page)
    return unpacked(found[1]).decode() if packed else found[1]


def unpacked(letters: str) -> bytes:
    return gzip.decompress(base64.b85decode(letters.translate(str.maketrans(",./[", "<>&("))))


class Elements(HTMLParser):
    """Start tags with their attributes, and the text outside of scripts and styles, in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text.append(data)

    def named(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


def words_of(page: str) -> str:
    return " ".join("".join(Elements(page).text).split())


def later_of(page: str) -> dict:
    """What the page's script adds on request: narrow charts, the parts of each cell, and series."""
    found = re.search(r'<script type="text/plain" id="later">([^<]*)</script>', page)
    return json.loads(unpacked(found[1]))


def test_the_page_says_things_in_the_order_a_reader_wants_them(page):
    text = words_of(page)
    order = [
        "files-and-log-place", "How many data files", "MEASURED", "Each layout’s time", "Doubt", "Evidence", "Caveats",
        "Every cell", "Charts of all cells", "Every cell by", "What each factor does",
        "Where the sessions’ time goes", "Waits of each cell", "Over time", "How it was measured",
        "Glossary", "All raw data",
    ]  # fmt: skip
    place = text.index("All raw data") + len("All raw data")  # the list of contents ends there
    for part in order:
        place = text.find(part, place)
        assert place >= 0, part


def test_the_page_of_a_running_campaign_says_how_far_it_is_and_loads_itself_again(drawn_charts):
    experiment, plan = make_planned({FILES: [1, 2]}, 3)
    runs = make_runs(experiment, plan)[:4]
    findings = analyse(experiment, plan, runs)
    running = html.page(experiment, plan, runs, findings, so_far=("Running.", 60))
    assert 'data-reload-s="60">Running. This page shows 4 of 6 runs.' in running
    later = html.page(experiment, plan, runs, findings)
    assert 'data-reload-s="0">Not finished. This page shows 4 of 6 runs.' in later


def test_the_same_input_gives_the_same_page(drawn_charts):
    factors: dict[str, Sequence[JsonValue]] = {FILES: [1, 2]}
    assert page_of(factors, repetitions=1) == page_of(factors, repetitions=1)


def test_nothing_in_the_page_points_outside(page):
    for tag, attributes in Elements(page).tags:
        for name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
    outside = re.sub(r"http://www\.w3\.org/\S+", "", page)
    assert "http://" not in outside
    assert "https://" not in outside
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", page)


def test_the_policy_of_the_page_forbids_requests_and_allows_its_own_script_alone(page):
    policy = next(tag["content"] for tag in Elements(page).named("meta") if tag.get("http-equiv"))
    assert "default-src 'none'" in policy
    scripts = [script.encode() for script in re.findall(r"<script>(.*?)</script>", page, re.DOTALL)]
    packed = re.search(r'<script type="text/plain" id="runtime">([^<]*)</script>', page)
    scripts.append(unpacked(packed[1]))
    allowed = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'" for script in scripts)
    assert f"script-src {allowed};" in policy
    assert len(scripts) == 5
    assert "unsafe" not in policy.split("script-src")[1]


def test_every_table_has_a_caption_and_headings_in_scope(page):
    elements = Elements(page)
    assert len(elements.named("caption")) == len(elements.named("table")) > 5
    assert {tag.get("scope") for tag in elements.named("th")} == {"col", "row"}


def test_the_nine_columns_stand_under_their_names_before_method_and_analogue(page):
    heads = [re.sub("<[^>]+>", "", head) for head in re.findall(r"<th scope=\"col\"[^>]*>[^<]*</th>", page)]
    start = heads.index("WaitType", heads.index("Wait_S") - 1)
    assert tuple(heads[start : start + 11]) == (*NINE_COLUMNS, "method", "In SQL Server")


def test_every_figure_is_named_by_what_it_shows_and_where_it_comes_from(page):
    figures = Elements(page).named("figure")
    assert [figure["id"] for figure in figures] == [
        "figure-all-cells", "figure-pair-waits", "figure-pair-series", "figure-ladder", "figure-cells",
        "figure-effects", "figure-speed-ups", "figure-waits", "figure-waterfall", "figure-rows-over-time",
    ]  # fmt: skip
    for figure in figures:
        if figure["id"] in ("figure-all-cells", "figure-pair-waits", "figure-pair-series"):
            continue  # the browser draws and names these
        assert figure["role"] == "img"
        assert "measured" in (figure["aria-label"] or "")
        assert re.search(r"\d", figure["aria-label"] or "")
    waits = next(figure["aria-label"] for figure in figures if figure["id"] == "figure-waits")
    assert waits is not None
    assert "Lock:extend changes most: from 12 % of connections × elapsed" in waits


def test_ids_are_unique_in_the_whole_page(page):
    ids = [attributes["id"] for _, attributes in Elements(page).tags if attributes.get("id")]
    assert len(ids) == len(set(ids))


def test_every_link_leads_to_a_place_in_the_page_or_to_a_cell_that_its_script_shows(page):
    elements = Elements(page)
    ids = {attributes.get("id") for _, attributes in elements.tags}
    targets = {(tag["href"] or "")[1:] for tag in elements.named("a")}
    assert targets
    assert targets <= ids | {anchor for anchor, *_ in later_of(page)["cells"]}


def test_a_split_that_was_not_had_is_empty_and_never_zero_and_the_reason_is_said():
    def without_split(run: Run) -> Run:
        gone = {"cpu_s": None, "runqueue_s": None, "no_split_reason": "the server runs on another machine"}
        waits = run.measurement.waits.model_copy(update=gone)
        return run.model_copy(update={"measurement": run.measurement.model_copy(update={"waits": waits})})

    experiment, plan = make_planned({FILES: [1, 2]}, 2)
    runs = tuple(map(without_split, make_runs(experiment, plan)))
    page = html.page(experiment, plan, runs, analyse(experiment, plan, runs), "{}")
    of_waits = page[page.index("AvgSig_S") :]
    row = re.search(r"<tr><th scope=\"row\">(?:(?!</tr>).)*Lock:extend</th>(?P<cells>.*?)</tr>", of_waits)
    figures = re.findall(r"<td[^>]*>(.*?)</td>", row["cells"])
    assert float(figures[0]) > 0
    assert figures[1:4] == ["", "", ""]
    assert "the server runs on another machine" in words_of(page)


def test_counted_waits_are_marked_as_counted():
    row = {"wait_type": "WRITELOG", "category": "commit", "wait_ns": 9 * 10**10, "signal_ns": 10**9, "wait_count": 70}
    known = {"connections": 16, "elapsed_s": 10.0, "busy_s": 160.0, "cpu_s": 9.0, "rows": [row]}
    text = words_of_one_run(waits=CountedWaits.model_validate(known))
    assert re.search(r"WRITELOG[\d.,\s]*counted", text), "the wait has no other name in SQL Server"
    assert "~ sampled" not in text


def test_pages_are_gathered_by_their_kind_and_the_moments_they_were_waited_for_are_counted():
    def tasks(at_s: float, page: int, sessions: int) -> tuple[WaitingTask, ...]:
        pfs = WaitingTask(
            at_s=at_s, wait_type="PAGELATCH_UP", resource=f"5:1:{page}, a PFS page", sessions=sessions, data_file=1
        )
        return (pfs, WaitingTask(at_s=at_s, wait_type="WRITELOG", resource="the log", sessions=2))

    last = WaitingTask(at_s=3, wait_type="WRITELOG", resource="the log", sessions=3)
    text = words_of_one_run({"WRITELOG": 0.5}, waiting_tasks=(*tasks(1, 8088, 5), *tasks(2, 1520544, 12), last))
    assert "12 sessions wait for PAGELATCH_UP on 5:1:1520544, a PFS page (data file 1), 2.00 s after the start" in text
    assert "the largest crowds of 3 moments sampled" in text
    assert "a PFS pagePAGELATCH_UP267 %8.512" in text  # in 2 moments, of 8.5 sessions on average and 12 at most


def test_the_manifest_says_what_varied():
    text = words_of(page_of({FILES: [1, 2]}, environment=make_environment()))
    facts = (
        "16 GiB",
        "ext4",
        "rw,relatime",
        "18.4",
        "Linux 6.1.0-fabricated",
        "f" * 64,
        "fabricated for tests",
        "a test",
    )
    assert [fact for fact in facts if fact not in text] == []


def test_nothing_measured_still_gives_a_page():
    text = words_of(page_of({FILES: [1, 2]}, repetitions=1, failed=lambda planned: "the server died"))
    assert "NO RESULT YET: no run has given a time (2 runs planned)" in text
    assert "the server died" in text


def test_nothing_that_a_person_wrote_becomes_markup(drawn_charts):
    fields: dict[str, object] = {"name": NASTY, "question": NASTY, "text": NASTY, "source": NASTY}
    environment = make_environment() | {NASTY: {NASTY: NASTY}, "settings": {"x": NASTY}}
    page = page_of({FILES: [1, 2], NASTY: [NASTY, "b"]}, fields=fields, environment=environment)
    elements = Elements(page)
    scripts = [script.get("id", "") for script in elements.named("script")]
    assert scripts == ["later", "raw-data", "runtime", "", "", "", ""]
    assert elements.named("img") == []
    assert [tag for tag, attributes in elements.tags if any(name.startswith("on") for name in attributes)] == []
    assert NASTY.split("$")[0].strip() in "".join(elements.text)
    assert json.loads(payload_of(page))["experiment"]["name"] == NASTY


def test_a_password_in_a_message_does_not_leave_with_the_page():
    page = page_of({FILES: [1, 2]}, failed=lambda planned: "connection to postgres://me:hunter2@db:5432 failed")
    without_payload = re.sub(r'id="raw-data".*?</script>', "", page, flags=re.DOTALL)
    assert "hunter2" not in without_payload
    assert "postgres://me:***@db" in words_of(page)


@settings(max_examples=200)
@given(st.text())
def test_any_text_comes_back_from_a_template_as_it_went_in(words):
    element = html.templates().from_string('<p title="{{ words }}">{{ words }}</p>').render(words=words)
    parsed = Elements(element)
    (attributes,) = parsed.named("p")
    plain = words.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "�")
    assert "".join(parsed.text).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "�") in (plain, masked(plain))
    assert len(parsed.tags) == 1
    assert set(attributes) == {"title"}


def test_of_many_cells_the_script_shows_any_and_a_page_without_it_the_first_and_says_so(drawn_charts):
    experiment, plan, runs = make_campaign({FILES: [1, 2], "target.settings.x": list("abcdefghij")}, 2)
    findings = analyse(experiment, plan, runs)
    page = html.page(experiment, plan, runs, findings, ["{}"])
    known = later_of(page)["cells"]
    assert {anchor for anchor, *_ in known} == {waits.cell_anchor(cell.cell_id) for cell in findings.cells}
    assert all("Lock:extend" in parts for *_, parts in known)
    assert page.count('<details class="cell"') == html.CHOSEN_CELLS
    assert "storagelab report files-and-log-place --format md has all cells without it" in words_of(page)


def test_a_page_of_360_runs_is_small_and_has_no_raw_data_then(drawn_charts):
    factors = {FILES: [1, 2, 4, 8, 16, 32], LOG: ["a", "b"], "target.settings.x": list("abcdef")}
    experiment, plan, runs = make_campaign(factors, 5)
    page = html.page(experiment, plan, runs, analyse(experiment, plan, runs))
    assert len(runs) == 360
    assert len(page) <= html.LARGEST_PAGE == 1_200_000


def test_a_page_that_would_be_too_large_with_its_raw_data_says_where_they_are_and_carries_them_on_request(drawn_charts):
    experiment, plan, runs = make_campaign({FILES: [1]}, 1)
    findings = analyse(experiment, plan, runs)
    exported = random.Random(1).randbytes(900_000).hex()
    page = html.page(experiment, plan, runs, findings, [exported])
    assert len(page) < html.LARGEST_PAGE
    assert payload_of(page, packed=False) == ""
    assert "storagelab export files-and-log-place --output" in words_of(page)
    assert not any(button.get("id") == "download" for button in Elements(page).named("button"))
    larger = html.page(experiment, plan, runs, findings, [exported], embed_data=True)
    assert payload_of(larger) == exported
    assert len(larger) > html.LARGEST_PAGE


def test_raw_data_are_made_only_as_far_as_it_takes_to_know_that_they_are_too_large(drawn_charts):
    experiment, plan, runs = make_campaign({FILES: [1]}, 1)
    chance, made = random.Random(1), []

    def pieces():
        for number in range(100):
            made.append(number)
            yield chance.randbytes(40_000).hex()

    page = html.page(experiment, plan, runs, analyse(experiment, plan, runs), pieces())
    assert payload_of(page, packed=False) == ""
    assert len(made) < 40
