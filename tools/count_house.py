"""Counts the Python code: lines by folder, lengths of functions, and idioms that are allowed in only some folders.

    python tools/count_house.py [CHECKOUT...]
    python tools/count_house.py --check     fails if a figure exceeds its limit in tools/house.toml, or is well below
    python tools/count_house.py --write     lowers the figures to what is counted; it raises none

Lines are counted without blanks, comments and docstrings. Several checkouts are shown in columns, the oldest first.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
HOUSE = "tools/house.toml"
SMALL = 60
LONGEST_LINE = 120
SLACK = 0.005
"""How far a figure may be below its limit, as a fraction, before the limit must be lowered."""
MAY_BE_SMALL = re.compile(r"findings/(?:cautions|kinds)/|report/charts/|verbs/|engines/\w+/loads/")
"""Modules of these kinds may be small: a caution, a kind of finding, a chart, a verb, or an engine's load."""
_LOAD = r"(?:load|workload|work)"
_LOAD_CLASS = r"(?:\w*InsertLoad|GeneratedLoad|DatabaseLoad|Pgbench|Sysbench|Sql|RawIo|RandomInsert|Mixed)"
QUESTIONS = {
    "isinstance of a load": (
        re.compile(rf"isinstance\([\w.]*\b{_LOAD}\b|isinstance\([^()]*\b{_LOAD_CLASS}\b"),
        ("model/loads/", "model/config.py"),
    ),
    "kind of a load compared": (
        re.compile(rf"\b{_LOAD}\.kind\s*(?:==|!=|in\b|not in\b)|\bkind (?:==|!=) \"(?:raw-io|mixed|[a-z]+-insert)"),
        ("model/loads/", "model/config.py"),
    ),
    "self.server is None": (re.compile(r"self\._?server is (?:not )?None"), ("servers/server.py",)),
    "target.attached": (re.compile(r"\btarget\.attached\b"), ("servers/server.py", "spec/", "model/")),
}
"""The idioms that are counted. For each: how its lines are found, and the folders and files where it is allowed."""


class Counts(NamedTuple):
    """The counts of one checkout: lines by folder, each function's lines, each module's lines, and idioms by name."""

    lines: Counter[str]
    functions: list[int]
    modules: dict[str, int]
    questions: Counter[str]


def code_lines(text: str) -> set[int]:
    """Returns the numbers of the lines that contain code."""
    ignored = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in ignored:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for statement in _bare_texts(ast.parse(text)):
        lines -= set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return lines


def _bare_texts(tree: ast.AST) -> Iterator[ast.Expr]:
    """Yields docstrings, including those of constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node


def functions_in(text: str, lines: set[int]) -> Iterator[int]:
    """Yields the number of lines of code in each function's body."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield len(lines & set(range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)))


def count(checkout: Path) -> Counts:
    package = checkout / "src" / "storagelab"
    found = Counts(Counter(), [], {}, Counter())
    for path in sorted(package.rglob("*.py")):
        name, text = path.relative_to(package).as_posix(), path.read_text(encoding="utf-8")
        lines = code_lines(text)
        parts = name.split("/")
        found.lines["/".join(parts[:2]) if parts[0] == "engines" and len(parts) > 2 else parts[0]] += len(lines)
        found.functions.extend(functions_in(text, lines))
        found.modules[name] = len(lines)
        for question, (pattern, where) in QUESTIONS.items():
            if not name.startswith(where):
                found.questions[question] += sum(bool(pattern.search(line)) for line in text.splitlines())
    return found


def rows(counts: list[Counts]) -> Iterator[tuple[str, list[float]]]:
    for folder in sorted({folder for one in counts for folder in one.lines}):
        yield folder, [one.lines[folder] for one in counts]
    yield "all lines of code", [one.lines.total() for one in counts]
    yield "modules", [len(one.modules) for one in counts]
    yield f"modules below {SMALL} lines", [_small(one) for one in counts]
    yield "functions", [len(one.functions) for one in counts]
    yield "median lines of a function", [statistics.median(one.functions) for one in counts]
    for question in QUESTIONS:
        yield f"asked elsewhere: {question}", [one.questions[question] for one in counts]


def _small(counts: Counts) -> int:
    return sum(lines < SMALL and not MAY_BE_SMALL.match(name) for name, lines in counts.modules.items())


def figures(checkout: Path) -> dict[str, float]:
    """Returns the figures that tools/house.toml limits, as counted in this checkout."""
    counts = count(checkout)
    tests = [path.read_text("utf-8").splitlines() for path in sorted((checkout / "tests").rglob("*.py"))]
    rust = [path.read_text("utf-8").splitlines() for path in sorted((checkout / "crates").rglob("*.rs"))]
    others = ("src", "bench", "tools", "docs")
    python = [path.read_text("utf-8").splitlines() for at in others for path in (checkout / at).rglob("*.py")] + tests
    median = statistics.median(counts.functions or [0])
    return {
        "code_lines": counts.lines.total(),
        "modules": len(counts.modules),
        "small_modules": _small(counts),
        "test_lines": sum(map(len, tests)),
        "rust_lines": sum(map(len, rust)),
        "longest_function": max(counts.functions, default=0),
        "long_lines": sum(len(line) > LONGEST_LINE for lines in python for line in lines),
        "median_at_least": median,
        "median_at_most": median,
    }


def complaints(limits: dict[str, int], found: dict[str, float]) -> Iterator[str]:
    """Yields the reasons why `make lint` fails."""
    for name, limit in limits.items():
        is_least, is_bound = name.endswith("_at_least"), name in ("median_at_most", "longest_function")
        if found[name] < limit if is_least else found[name] > limit:
            yield f"{HOUSE}: {name} is {found[name]:,}, and may be {limit:,} at {'least' if is_least else 'most'}"
        elif not is_bound and not is_least and found[name] < limit * (1 - SLACK):
            yield f"{HOUSE}: {name} is {found[name]:,}: lower the figure from {limit:,} (count_house.py --write)"


def lowered(text: str, found: dict[str, float]) -> str:
    """Returns the text of the file in which each figure above the counted one is lowered to it. Bounds of functions
    don't change."""
    bounds = ("median_at_least", "median_at_most", "longest_function")
    for name, limit in tomllib.loads(text).items():
        if name not in bounds and found[name] < limit:
            text = re.sub(rf"^{name} = [\d_]+", f"{name} = {found[name]:_}", text, flags=re.MULTILINE)
    return text


def main() -> None:
    if sys.argv[1:] in (["--check"], ["--write"]):
        house, found = ROOT / HOUSE, figures(ROOT)
        if sys.argv[1] == "--write":
            house.write_text(lowered(house.read_text("utf-8"), found), "utf-8")
        sys.exit("\n".join(complaints(tomllib.loads(house.read_text("utf-8")), found)) or None)
    checkouts = [Path(name) for name in sys.argv[1:]] or [ROOT]
    for name, counted in rows([count(checkout) for checkout in checkouts]):
        print(f"{name:44}" + "".join(f"{figure:>10,.6g}" for figure in counted))


if __name__ == "__main__":
    main()
