"""Take the pictures of docs/how-to/read-a-report.md from the page of a campaign, in a real browser.

storagelab run multiple-data-files               the recipe that the pictures show
python tools/make_pictures.py results/multiple-data-files/report.html
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
MAY_BE = "only what may be the fastest"
WIDTH, HEIGHT = 1280, 1000
TABLE_PX = 560
"""The height of the pictures of the table, in pixels. They show its first rows."""


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    program = os.environ.get("STORAGELAB_CHROMIUM") or shutil.which("chromium")
    if program is None:
        raise SystemExit("make_pictures: no browser: install chromium, or set STORAGELAB_CHROMIUM to its path")
    address = Path(sys.argv[1]).resolve().as_uri()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])

        def opened() -> Page:
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
            page.goto(address)
            page.wait_for_selector("html[data-explore]")
            for part in ("#explore-chart", "#explore-two"):
                page.locator(part).evaluate("part => { part.open = true; }")
            page.wait_for_selector("html[data-explore=drawn]")
            return page

        page = opened()
        page.get_by_label(MAY_BE).check()
        take(page, "choose", "#explore-filters", "#explore-filters + .tall", TABLE_PX)
        take(page, "how-sure", "#figure-all-cells", "#figure-all-cells")
        page.get_by_role("columnheader", name="capacity").get_by_role("button").dblclick()
        take(page, "capacity", "#explore-filters + .tall", "#explore-filters + .tall", TABLE_PX)
        page = opened()
        take(page, "why", "#explore-waits", "#figure-pair-waits")
        take(page, "compare", "#explore-pins", "#explore-pair")
        page.get_by_role("group", name="driver", exact=True).get_by_label("2.2.3, 4 KB").check()
        take(page, "one-driver", "#explore-choices", "#figure-all-cells")
        browser.close()


def take(page: Page, name: str, first: str, last: str, most_px: float = 2000) -> None:
    """Save the part of the page from the element `first` to the element `last` as a picture of at most this height."""
    page.wait_for_timeout(600)  # Vega draws after it has answered
    top = page.evaluate("scrollY")
    boxes = [page.locator(one).bounding_box() for one in (first, last)]
    start, end = (box for box in boxes if box is not None)
    height = min(end["y"] + end["height"] - start["y"], most_px)
    clip = {"x": min(start["x"], end["x"]) - 6, "y": top + start["y"] - 6,
            "width": max(start["width"], end["width"]) + 12, "height": height + 12}  # fmt: skip
    page.screenshot(path=PICTURES / f"report-{name}.png", full_page=True, clip=clip)


if __name__ == "__main__":
    main()
