"""A program that tries to log in once, in its own process, and writes the driver's message (JSON).

pymssql remembers a process's first failed login: for later ones it reports the first one's number without the server's
message. A login in a fresh process gets both. The login data comes through standard input, since other users of the
machine can see arguments and some variables.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pymssql

_PATIENCE_S = 60


def try_in_fresh_process(arguments: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of the driver's error; empty if there is none or the process failed."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__], input=json.dumps(arguments), capture_output=True, text=True, check=False,
            timeout=_PATIENCE_S,
        )  # fmt: skip
        return tuple(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError):
        return ()


def main() -> None:
    try:
        pymssql.connect(**json.load(sys.stdin)).close()
        arguments_of_error = list[Any]()
    except pymssql.Error as error:
        arguments = error.args[0] if len(error.args) == 1 and isinstance(error.args[0], tuple) else error.args
        arguments_of_error = [
            value.decode(errors="replace") if isinstance(value, bytes) else value for value in arguments
        ]
    sys.stdout.write(json.dumps(arguments_of_error, default=str))


if __name__ == "__main__":
    main()
