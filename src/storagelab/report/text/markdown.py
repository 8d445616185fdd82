"""Writes a report as Markdown. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from storagelab.report.document import Code, Document, Fold, Ladder, Listed, Part, Picture, Table
from storagelab.report.text.terminal import written
from storagelab.report.words.secrets import masked
from storagelab.words import numbers

_SPECIAL = re.compile(r"[\\`*<\[|]|(?<!\w)_|_(?!\w)")  # an underscore inside a word is not markup


def markdown(of: Document) -> str:
    """Returns the whole report: the answer, the ladders, and all sections in full."""
    return masked("\n\n".join(filter(None, _pieces(of)))) + "\n"


def escaped(text: str) -> str:
    """Returns `text`, escaped so that Markdown shows it unchanged and on one line."""
    return _SPECIAL.sub(r"\\\g<0>", text).replace("\n", " ")


def _pieces(of: Document) -> Iterator[str]:
    yield f"# {escaped(of.title)}"
    if of.question:
        yield f"*{escaped(of.question)}*"
    yield f"**{escaped(' '.join(filter(None, of.head)))}**" if of.verdict else ""
    yield escaped("; ".join(filter(None, (of.based.removesuffix("."), *of.facts))))
    for ladder in of.ladders:
        yield from _ladder(ladder)
    yield "\n".join(f"- {escaped(text)}" for text in (*of.why, of.doubt, of.next) if text)
    for section in of.sections:
        yield f"## {escaped(section.title)}"
        for part in section.parts:
            yield from _part(part)


def _ladder(ladder: Ladder) -> Iterator[str]:
    if ladder.title:
        yield f"### {escaped(ladder.title)}"
    number = max(len(rung.name) for rung in ladder.shown())
    ratio = f"time / {ladder.over.removeprefix('the ')} ({ladder.interval})"
    headings = ["", "layout", *[""] * (number - 1), ratio, ladder.what, "verdict"]
    rows = [
        [
            f"**{rung.pick}**" if rung.pick else "",
            *(escaped(text) for text in (*rung.name, *[""] * (number - len(rung.name)))),
            "" if rung.ratio is None else numbers.ratio_estimate(rung.ratio, ladder.decimals), rung.figure,
            escaped(rung.verdict.text),
        ]
        for rung in ladder.shown()
    ]  # fmt: skip
    yield _rows(headings, ["---"] * (number + 1) + ["---:", "---:", "---"], rows)
    if ladder.limit_text:
        yield escaped(f"{ladder.limit_text[0].upper()}{ladder.limit_text[1:]}.")


def _rows(headings: list[str], rules: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (headings, rules, *rows))


def _part(part: Part) -> Iterator[str]:
    match part:
        case str():
            yield escaped(part)
        case Listed(sentences):
            yield "\n".join(f"- {escaped(one.text)}" for one in sentences)
        case Table():
            yield from _table(part)
        case Code(language=language):
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", part.text)), default=0))
            yield f"{fence}{language}\n{part.text}\n{fence}"
        case Picture(drawn) if drawn.chart.part != "answer":
            yield f"### {escaped(drawn.title)}"
            yield escaped(drawn.label)
            yield from _table(drawn.table)
        case Fold():
            mark = f", {part.mark}" if part.mark and str(part.mark) else ""
            yield f"### {escaped(part.title)}{escaped(mark)}"
            for inner in part.parts:
                yield from _part(inner)


def _table(table: Table) -> Iterator[str]:
    columns = written(table)
    rules = ["---:" if heading.align == "number" else "---" for _, heading in columns]
    rows = [[escaped(str(row[place])) for place, _ in columns] for row in table.rows]
    yield f"**{escaped(table.caption)}**" if table.caption else ""
    yield _rows([escaped(heading.text) for _, heading in columns], rules, rows)
