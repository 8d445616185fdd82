"""Measures how long readers wait for a report's page: for its first paint, and for its response to a choice in its
interactive table.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench import many_runs
from bench.figures import Figure

CELLS, REPETITIONS = 100, 50
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
_TOOK = "performance.getEntriesByName('explore').map(one => one.duration)"


def figures(folder: Path, times: int) -> Iterator[Figure]:
    """Yields the figures for a page that shows 100 cells and 5,000 runs. Yields none if there is no browser."""
    program = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        return
    page = many_runs.report(many_runs.stored(folder, CELLS, REPETITIONS))
    empty = folder / "empty.html"
    empty.write_text("<!doctype html><title>empty</title><p>Nothing.</p>", encoding="utf-8")
    megabytes = page.stat().st_size / 1e6
    yield Figure("page of 100 cells and 5,000 runs", megabytes, "MB", "at most 3 MB", megabytes <= 3)
    seen = [_opened(program, page, empty) for _ in range(times)]
    paint_ms, empty_ms = (median(one[place] for one in seen) for place in (0, 1))
    yield Figure("first paint of that page", paint_ms, "ms", "at most 500 ms", paint_ms <= 500, remark="median")
    yield Figure("first paint of that page / of an empty one", paint_ms / empty_ms, "", "for the record", None)
    took_ms = median(took for one in seen for took in one[2])
    yield Figure(
        "a filter, an order or a pin chosen on it", took_ms, "ms", "at most 100 ms", took_ms <= 100, remark="median"
    )


def _opened(program: str, page: Path, empty: Path) -> tuple[float, float, list[float]]:
    """Returns the first paints of both pages in ms, and for each interaction the ms until everything was drawn."""
    from playwright.sync_api import sync_playwright  # here, because only this part needs it

    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page()
        tab.goto(empty.as_uri())
        tab.wait_for_function(f"(() => {{ try {{ return {_PAINT} > 0; }} catch {{ return false; }} }})()")
        empty_ms = tab.evaluate(_PAINT)
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-explore]", timeout=60_000)
        paint_ms = tab.evaluate(_PAINT)
        tab.evaluate("performance.clearMeasures()")
        filters = tab.locator("#explore-filters [type=checkbox]")
        choices = [
            *(filters.nth(place).click for place in (0, 1, 0)),
            *(tab.locator("#cells-table th button").nth(place).click for place in (2, 2, 0)),
            *(tab.locator("button.pin").nth(place).click for place in (4, 11)),
        ]
        for number, choose in enumerate(choices, 1):
            choose()
            tab.wait_for_function(f"performance.getEntriesByName('explore').length >= {number}")
        took_ms = list(map(float, tab.evaluate(_TOOK)))
        browser.close()
    return paint_ms, empty_ms, took_ms
