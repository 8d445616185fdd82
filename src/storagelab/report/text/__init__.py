"""Reports as text: on a terminal, and as Markdown."""
