"""How Sphinx builds the site from the Markdown pages of this folder: `make docs`."""

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
