"""A terminal drawn by rich, with all text escaped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from storagelab.spec.characters import escaped


class Screen(Console):
    """rich's console with all text escaped. It may colour and move text, but it reads no markup: words in brackets
    stay words.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(highlight=False, markup=False, **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))
