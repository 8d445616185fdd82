"""A real T-SQL parser for tests: Microsoft's ScriptDom, as SQL Server's own tools use it.

parser = TsqlParser();  parser.parse("SELECT 1")  -> Parsed(errors=[], statements=[{"kind": "SelectStatement", ...}])
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

WHERE = Path(__file__).with_name("tsql_parser_process.py")
SQL_SERVER_2016 = 130
ABSENT = "Microsoft's T-SQL parser is absent (Linux on x86-64 only): pip install --no-deps -r requirements-alone.txt"


def there_is_a_parser() -> bool:
    return sys.platform == "linux" and all(importlib.util.find_spec(name) for name in ("mssqlcli", "pythonnet"))


needs_parser = pytest.mark.skipif(not there_is_a_parser(), reason=ABSENT)


class Parsed(NamedTuple):
    errors: list[str]
    statements: list[dict[str, Any]]


class TsqlParser:
    """A context manager; the parser runs in a process of its own."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, str(WHERE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._answer() == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def _answer(self) -> str:
        return self._process.stdout.readline().strip()

    def parse(self, text: str, version: int = SQL_SERVER_2016) -> Parsed:
        self._process.stdin.write(json.dumps({"version": version, "text": text}) + "\n")
        self._process.stdin.flush()
        return Parsed(**json.loads(self._answer()))
