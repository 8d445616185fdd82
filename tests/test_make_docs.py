"""The documentation: its tables match the code, and its site is complete and uses no network."""

import importlib
import json
import re
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

import pytest
from pydantic import BaseModel
from real_browser import playwright, started
from spec_texts import as_toml

from bench import statistics
from storagelab.errors import SpecError
from storagelab.model.config import Config
from storagelab.model.plan import Experiment
from storagelab.spec import keys
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse
from storagelab.validation.table import existing

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LOADS = {"link": "href", "script": "src", "img": "src", "source": "src", "iframe": "src", "object": "data"}
"""Elements that a browser fetches by itself -> the attribute with the address."""


@pytest.fixture(scope="module")
def make_docs():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        yield importlib.import_module("make_docs")


@pytest.fixture(scope="module")
def site(make_docs, tmp_path_factory) -> Path:
    """The site, built with warnings as errors."""
    folder = tmp_path_factory.mktemp("site")
    assert make_docs.build(folder) == 0
    return folder


def test_every_generated_table_is_what_the_code_says(make_docs):
    """If this fails: `make docs`."""
    pages = {page: page.read_text("utf-8") for page in DOCS.rglob("*.md")}
    assert [str(page.relative_to(ROOT)) for page, text in pages.items() if make_docs.written(text) != text] == []


def test_every_table_that_can_be_generated_stands_on_a_page(make_docs):
    text = "".join(page.read_text("utf-8") for page in DOCS.rglob("*.md"))
    assert [name for name in make_docs.GENERATED if f"<!-- generated: {name} -->" not in text] == []


def keys_below(make_docs, model: type[BaseModel], place: str) -> Iterator[tuple[str, str, keys.Schema]]:
    """The path, the description and the schema of every key that is not a table; NAME stands for a user's name."""
    for name, field in model.model_fields.items():
        below = make_docs.models_in(field.annotation)
        path = f"{place}{name}{'.NAME' if below and 'dict[' in str(field.annotation) else ''}"
        tells_kinds_apart = name == "kind" and len(get_args(field.annotation)) == 1
        if not below and not tells_kinds_apart:
            yield path, field.description or "", keys.schema_of(model)["properties"][name]
        for one in below:
            yield from keys_below(make_docs, one, f"{path}.")


def test_every_key_of_a_spec_is_described(make_docs):
    described = {path: text for path, text, _ in keys_below(make_docs, Config, "")}
    described |= {name: Experiment.model_fields[name].description for name in keys.HEADER}
    assert len(described) > 60
    assert [path for path, text in described.items() if not text] == []


REAL = {"name": "x", "target": {"engine": "postgres"}, "volumes": {"NAME": {"path": "."}}}
SIMULATED = {
    "name": "x", "target": {"engine": "simulated"}, "server": {"cores": 1, "memory": "1GB"},
    "drives": {"d": {"profile": "iodrive-320"}}, "volumes": {"NAME": {"drives": ["d"]}},
}  # fmt: skip
REFUSED_BY = {"Simulated": REAL, "Raw I/O only": REAL, "Real servers": SIMULATED}
"""How a key's description begins -> an experiment that may not have the key."""


def example(schema: keys.Schema) -> object:
    """A value that a key takes."""
    schema = next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema)
    by_type = {"boolean": True, "string": "x", "array": ["d"]}
    return schema.get("enum", [by_type.get(schema.get("type", ""), max(1, schema.get("minimum", 1)))])[0]


def test_a_key_that_is_described_as_one_of_some_experiments_is_refused_in_others(make_docs):
    said = {}
    for path, text, schema in keys_below(make_docs, Config, ""):
        for experiment in (one for begins, one in REFUSED_BY.items() if text.startswith(begins)):
            spec = keys.put(experiment, {path: example(schema)})
            said[path] = "nothing"
            try:
                expand(parse("".join(f"{key} = {as_toml(content)}\n" for key, content in spec.items()), "x.toml"))
            except SpecError as error:
                said[path] = error.problem
    assert len(said) > 15
    assert {path: problem for path, problem in said.items() if "is for " not in problem} == {}


class Page(HTMLParser):
    """What a page loads by itself, and the pages that it links to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[Path] = []
        self._folder = file.parent
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if address := given.get(LOADS.get(tag, "")):
            self.loads.append(address)
        if tag == "a" and (path := urlsplit(given.get("href") or "")) and not path.scheme and path.path:
            self.links.append((self._folder / path.path).resolve())


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site):
    pages = {file: Page(file).loads for file in site.rglob("*.html")}
    assert sum(map(len, pages.values())) > 100
    assert [load for loads in pages.values() for load in loads if urlsplit(load).scheme not in ("", "data")] == []


@pytest.mark.slow
def test_every_page_is_reachable_from_the_first_and_no_link_is_dead(site):
    first = (site / "index.html").resolve()
    seen, left = set(), [first]
    while left:
        page = left.pop()
        if page not in seen and page.suffix == ".html":
            assert page.is_file(), page
            seen.add(page)
            left += Page(page).links
    wanted = {(site / page.relative_to(DOCS)).with_suffix(".html").resolve() for page in DOCS.rglob("*.md")}
    assert wanted - seen == set()


@pytest.mark.slow
def test_the_search_finds_a_word_in_a_real_browser_without_any_network(site):
    asked, errors = [], []
    with started() as browser:
        tab: playwright.Page = browser.new_page()
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        tab.goto(f"{(site / 'search.html').as_uri()}?q=convoy")
        tab.wait_for_selector("#search-results li a")
        assert "The simulated server" in tab.inner_text("#search-results")
        assert "Validation" not in tab.inner_text("#search-results")  # records have the word, and are not searched
    assert errors == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


DENIED = {
    "loss of power": "power|plug", "namespaces": "namespaces", "from the owner": "owner",
    "format drives": r"\bdevices$", "build arrays": "raid_level",
}  # fmt: skip
"""Words of a sentence that denies something -> the key or option that would make it false."""


def false_denials(text: str, named: list[str]) -> list[str]:
    """The keys and options that a text denies; a denial of which nothing is known is returned itself."""
    denials = [
        one for one in re.split(r"(?<=\.)\s", " ".join(text.split())) if re.search("does not|makes no|never", one)
    ]
    known = {one: [key for words, key in DENIED.items() if words in one] for one in denials}
    return [name for keys in known.values() for key in keys for name in named if re.search(key, name)] + [
        one for one, keys in known.items() if not keys
    ]


def test_what_the_page_of_limits_denies_is_no_key_and_no_option(make_docs):
    named = [path for path, _, _ in keys_below(make_docs, Config, "")]
    named += re.findall(r"--[a-z-]+", make_docs.command_line())
    assert false_denials((DOCS / "explanation" / "limits.md").read_text("utf-8"), named) == []
    assert len(false_denials("It does not format drives or build arrays.", named)) == 2


def test_the_page_of_man_is_that_of_the_command_line(make_docs):
    assert make_docs.man_page() == make_docs.MAN.read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["tool"]["maturin"]["data"] == "docs/man", "the wheel installs it below share/man"


def test_the_schema_of_the_export_is_that_of_its_form(make_docs):
    assert json.loads(make_docs.EXPORT_SCHEMA.read_text("utf-8")) == make_docs.json_schema()


def test_pages_that_other_commands_write_into_have_their_marks():
    """`storagelab validate --write` and `make bench ARGS="--only statistics --write"`."""
    assert "--write docs/records/validation.md" in (existing(DOCS / "records" / "validation.md") or "")
    drawn = re.findall(
        r"<!-- drawn: (\S+) -->\n\|.*?\|\n<!-- end: \1 -->", statistics.DOCUMENT.read_text("utf-8"), re.DOTALL
    )
    assert sorted(drawn) == [
        "cycles", "gates", "orders", "races", "situations", "sizes", "warm-ups",
    ]  # fmt: skip


# --- README's example: the demo's output, with where and when it was measured -----------------------------------------


RUN = {
    "started_at": "2026-11-22T17:53:36.358+00:00",
    "measurement": {
        "environment": {
            "host": {"cpu_count": 2, "cpu_model": "AMD EPYC", "load_1min": 0.31},
            "volumes": {"disk": {"filesystem": "ext4", "virtual": True, "device": "vda", "device_model": None}},
            "server": {"version": "18.4"},
            "storagelab": {"version": "0.1.0"},
        },
    },
}


@pytest.fixture(scope="module")
def make_example():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        yield importlib.import_module("make_example")


def test_the_example_is_what_the_demo_said(make_example):
    assert make_example.example("No faster volume can gain more.\nMore.\n", RUN) == (
        "```\n$ storagelab demo\nNo faster volume can gain more.\nMore.\n```\n"
        "Measured on 2026-11-22 by storagelab 0.1.0 on 2 CPUs (AMD EPYC), ext4 on a virtual disk, PostgreSQL 18.4. "
        "Load of the machine before the first run: 0.3.\n"
    )


def test_it_goes_between_the_marks_of_the_readme_and_nowhere_else(make_example):
    before = make_example.README.read_text("utf-8")
    after = make_example.put_into(before, "here\n")
    assert after.count("<!-- example: begin -->\nhere\n<!-- example: end -->") == 1
    assert after.partition("<!-- example")[0] == before.partition("<!-- example")[0]
    assert after.rpartition("example: end -->")[2] == before.rpartition("example: end -->")[2]
