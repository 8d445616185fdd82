"""Count the Python code: lines by folder, functions and their length, and questions that only one folder should ask.

    python tools/count_house.py [CHECKOUT...]

Lines are counted without blanks, comments and docstrings. Several checkouts are shown side by side, the oldest first.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SMALL = 40
_LOAD = r"(?:load|workload|work)"
_LOAD_CLASS = r"(?:\w*InsertLoad|GeneratedLoad|DatabaseLoad|Pgbench|Sysbench|Sql|RawIo|RandomInsert|Mixed)"
QUESTIONS = {
    "isinstance of a load": (
        re.compile(rf"isinstance\([\w.]*\b{_LOAD}\b|isinstance\([^()]*\b{_LOAD_CLASS}\b"),
        ("model/loads/", "model/workload.py"),
    ),
    "kind of a load compared": (
        re.compile(rf"\b{_LOAD}\.kind\s*(?:==|!=|in\b|not in\b)|\bkind (?:==|!=) \"(?:raw-io|mixed|[a-z]+-insert)"),
        ("model/loads/", "model/workload.py"),
    ),
    "self.server is None": (re.compile(r"self\._?server is (?:not )?None"), ("targets/servers.py",)),
    "target.attached": (re.compile(r"\btarget\.attached\b"), ("targets/servers.py", "spec/", "model/")),
}
"""What is counted, and where it is allowed."""


class Counts(NamedTuple):
    """What was counted in one checkout."""

    lines: Counter[str]
    functions: list[int]
    modules: list[int]
    questions: Counter[str]


def code_lines(text: str) -> set[int]:
    """The numbers of the lines that contain code."""
    ignored = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in ignored:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for statement in _bare_texts(ast.parse(text)):
        lines -= set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return lines


def _bare_texts(tree: ast.AST) -> Iterator[ast.Expr]:
    """Docstrings, including those of constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node


def functions_in(text: str, lines: set[int]) -> Iterator[int]:
    """The lines of code in each function's body."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield len(lines & set(range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)))


def count(checkout: Path) -> Counts:
    package = checkout / "src" / "storagelab"
    found = Counts(Counter(), [], [], Counter())
    for path in sorted(package.rglob("*.py")):
        name, text = path.relative_to(package).as_posix(), path.read_text(encoding="utf-8")
        lines = code_lines(text)
        parts = name.split("/")
        found.lines["/".join(parts[:2]) if parts[0] == "targets" and len(parts) > 2 else parts[0]] += len(lines)
        found.functions.extend(functions_in(text, lines))
        found.modules.append(len(lines))
        for question, (pattern, where) in QUESTIONS.items():
            if not name.startswith(where):
                found.questions[question] += sum(bool(pattern.search(line)) for line in text.splitlines())
    return found


def rows(counts: list[Counts]) -> Iterator[tuple[str, list[float]]]:
    for folder in sorted({folder for one in counts for folder in one.lines}):
        yield folder, [one.lines[folder] for one in counts]
    yield "all lines of code", [one.lines.total() for one in counts]
    yield "modules", [len(one.modules) for one in counts]
    yield f"modules below {SMALL} lines", [sum(lines < SMALL for lines in one.modules) for one in counts]
    yield "functions", [len(one.functions) for one in counts]
    yield "median lines of a function", [statistics.median(one.functions) for one in counts]
    for question in QUESTIONS:
        yield f"asked elsewhere: {question}", [one.questions[question] for one in counts]


def main() -> None:
    checkouts = [Path(name) for name in sys.argv[1:]] or [ROOT]
    for name, figures in rows([count(checkout) for checkout in checkouts]):
        print(f"{name:44}" + "".join(f"{figure:>10,.6g}" for figure in figures))


if __name__ == "__main__":
    main()
