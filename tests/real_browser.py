"""A real browser, headless Chromium: $STORAGELAB_CHROMIUM, or chromium, chromium-browser or google-chrome on the
PATH.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
]  # fmt: skip


@contextmanager
def started() -> Iterator[playwright.Browser]:
    """A browser; the test is skipped where there is none."""
    named = os.environ.get("STORAGELAB_CHROMIUM")
    path = named or next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no browser: set STORAGELAB_CHROMIUM or install one of {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()


def watched(tab: playwright.Page, own: str) -> list[str]:
    """The faults from now on: errors, dialogs, and requests of anything except the page `own`."""
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("dialog", lambda dialog: wrong.append(dialog.message))
    tab.on("request", lambda one: None if one.url.startswith((own, "blob:")) else wrong.append(one.url))
    return wrong
