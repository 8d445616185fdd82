"""How Sphinx builds the site from the Markdown pages of this folder: `make docs`."""

from typing import Any

project = "storagelab"
author = "the storagelab maintainers"
extensions = ["myst_parser"]
myst_heading_anchors = 4
exclude_patterns = ["conf.py"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_title = "storagelab"
html_copy_source = False
html_show_copyright = False
html_show_search_summary = False  # it fetches pages, which a browser forbids to a page that is a file
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
_NOT_SEARCHED = ("records/", "decisions/", "project/")


def setup(app: Any) -> None:
    """Leaves the records and the project's own pages out of the search, which is for users."""
    app.connect("env-updated", _leave_out)


def _leave_out(_: Any, env: Any) -> None:
    for page in env.found_docs:
        if page.startswith(_NOT_SEARCHED):
            env.metadata[page]["no-search"] = ""
