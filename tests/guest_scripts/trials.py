"""Runs the functions of a script one after the other in the guest, and reports each that is done."""

from __future__ import annotations

import subprocess
import sys
import traceback


def sh(*words: str, given: str | None = None) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, input=given).stdout


def expect(words: str, text: str) -> None:
    assert words in text, f"expected {words!r} in {text!r}"


def failed_of(script: dict[str, object]) -> int:
    """How many of the functions named on the command line fail."""
    failed = 0
    for name in sys.argv[1:]:
        try:
            script[name]()
            print("done:", name)
        except Exception as problem:  # noqa: BLE001 - the others are still tried
            traceback.print_exc()
            print(getattr(problem, "stderr", ""))
            failed += 1
    return failed
