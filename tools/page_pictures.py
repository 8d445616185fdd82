"""Takes the pictures of docs/how-to/read-a-report.md in a real browser. It follows that page step by step.

tools/page_pictures.py RESULTS: RESULTS is a folder of results with a finished `multiple-data-files`. Its report is
written again.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
NAME = "multiple-data-files"
LARGEST = 150_000
"""The most bytes of a picture."""


def choose(page: Page) -> str:
    page.get_by_label("only what may be the fastest").check()
    page.locator("#cells-table").get_by_role("button", name="mean, s").click()
    return "#explore-filters, .tall"


def how_sure(page: Page) -> str:
    page.get_by_label("only what may be the fastest").check()
    return "#figure-all-cells"


def why(page: Page) -> str:
    page.locator("#explore-waits").scroll_into_view_if_needed()
    return "#figure-pair-waits"


def compare(page: Page) -> str:
    page.locator("#explore-pins").get_by_label("pin A").select_option(label=_cell(page, "1", "2.2.3, 4 KB"))
    page.locator("#explore-pins").get_by_label("pin B").select_option(label=_cell(page, "128", "2.2.3, 4 KB"))
    page.locator("#explore-quantity").get_by_label("Show", exact=True).select_option(
        label="Write amplification over time"
    )
    return "#explore-pins, #explore-pair"


def one_driver(page: Page) -> str:
    page.get_by_role("group", name="driver").get_by_label("2.2.3, 4 KB").check()
    page.locator("#explore-choices").get_by_label("Colour").select_option(label="format of drive ssd")
    return "#figure-all-cells"


def capacity(page: Page) -> str:
    page.get_by_label("only what may be the fastest").check()
    usable = page.locator("#cells-table").get_by_role("button", name="usable")
    usable.click()
    usable.click()
    page.locator(".tall .scroll").evaluate("box => { box.scrollLeft = 330; }")
    return "#explore-filters, .tall"


def slide(page: Page) -> Path:
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save the chart “Completion time” as PNG").click()
    return Path(waiting.value.path())


TASKS: dict[str, Callable[[Page], str | Path]] = {
    "choose": choose, "how-sure": how_sure, "why": why, "compare": compare, "one-driver": one_driver,
    "capacity": capacity, "slide": slide,
}  # fmt: skip


def _cell(page: Page, files: str, driver: str) -> str:
    """Returns the label of a cell in the lists of pins. It begins with the cell's id."""
    named = f"({files} file{'s' if files != '1' else ''}, basic, {driver})"
    labels = page.locator("#explore-pins option").all_inner_texts()
    return next(label for label in labels if label.endswith(named))


def _taken(page: Page, where: str, file: Path) -> None:
    """Takes a picture of the part of the page that contains everything selected."""
    page.wait_for_timeout(500)
    page.evaluate("window.scrollTo(0, 0)")
    boxes = [box for one in page.locator(where).all() if (box := one.bounding_box())]
    left, top = (min(box[side] for box in boxes) - 6 for side in ("x", "y"))
    right, bottom = (
        max(box[start] + box[size] for box in boxes) + 6 for start, size in (("x", "width"), ("y", "height"))
    )
    clip = {"x": max(0, left), "y": max(0, top), "width": right - left, "height": min(bottom - top, 640)}
    page.screenshot(path=file, clip=clip, full_page=True)  # type: ignore[arg-type]


def _half_size(page: Page, saved: Path, file: Path) -> None:
    """Scales a screenshot to the size of the page. The screenshot has two pixels for each pixel of the page."""
    encoded = base64.b64encode(saved.read_bytes()).decode()
    page.goto("about:blank")
    page.set_content(f'<img src="data:image/png;base64,{encoded}" style="zoom: 0.5">')
    page.locator("img").screenshot(path=file)


def main() -> int:
    results = Path(sys.argv[1])
    subprocess.run([sys.executable, "-m", "storagelab", "report", NAME, "--results", str(results)], check=True)
    address = (results / NAME / "report.html").resolve().as_uri()
    with sync_playwright() as running:
        browser = running.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for name, task in TASKS.items():
            page = browser.new_context(viewport={"width": 1000, "height": 900}, reduced_motion="reduce").new_page()
            page.goto(address)
            page.wait_for_selector("html[data-explore=ready]", timeout=60_000)
            page.evaluate("document.querySelectorAll('#explore details').forEach(part => { part.open = true; })")
            file = PICTURES / f"report-{name}.png"
            got = task(page)
            if isinstance(got, Path):
                _half_size(page, got, file)
            else:
                _taken(page, got, file)
            print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")
            if file.stat().st_size > LARGEST:
                print("  too large", file=sys.stderr)
                return 1
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
