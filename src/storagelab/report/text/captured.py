"""A capture on the terminal, and as Markdown."""

from __future__ import annotations

from rich.console import Console

from storagelab.capture.model import Capture
from storagelab.report.text.markdown import markdown_of
from storagelab.report.text.terminal import print_paper
from storagelab.report.words.captured import capture_paper


def print_capture(console: Console, capture: Capture, name: str) -> None:
    """Prints who reads and writes what."""
    print_paper(console, capture_paper(capture, name))


def capture_markdown(capture: Capture, name: str) -> str:
    """The same tables, complete."""
    return markdown_of(capture_paper(capture, name))
