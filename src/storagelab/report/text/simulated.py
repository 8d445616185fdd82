"""One simulated run as text: its time, and what its connections waited for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from storagelab.model.plan import Cell
from storagelab.model.waits import NS
from storagelab.report.text.columns import Column, print_paragraph, print_table
from storagelab.words.numbers import count, rate, seconds


def print_outcome(console: Console, cell: Cell, outcome: Mapping[str, Any]) -> None:
    """Print the core's outcome at life-size. A second and a row of the simulated world stand for as many as its
    scale says.
    """
    scale = cell.config.target.world_scale
    print_paragraph(console, f"{cell.cell_id}: one run on drives as its block begins, at scale {scale}", style="bold")
    if outcome["failure"]:
        print_paragraph(console, f"It failed: {outcome['failure']}")
    elapsed_s = outcome["elapsed_ns"] * scale * NS
    if "ios" in outcome and "rows" not in outcome:
        text = f"{rate(outcome['ios_per_s'], 'requests')}, {seconds(outcome['latency']['mean_ns'] * NS)} each"
        print_paragraph(console, f"{seconds(elapsed_s)} counted: {text}.")
    else:
        rows = outcome["rows"] * scale
        print_paragraph(console, f"{seconds(elapsed_s)}, {count(rows)} rows, {outcome['connections']} connections.")
        _print_waits(console, outcome, scale)
    print_paragraph(console, "--trace prints the scenario and the whole outcome, --every-io each I/O too.")


def _print_waits(console: Console, outcome: Mapping[str, Any], scale: int) -> None:
    waits = outcome["waits"]
    columns = [
        Column("wait", [row["wait_type"] for row in waits], right=False),
        Column("wait s", [seconds((row["resource_ns"] + row["signal_ns"]) * scale * NS) for row in waits]),
        Column("signal s", [seconds(row["signal_ns"] * scale * NS) for row in waits], rank=1),
        Column("count", [count(row["count"] * scale) for row in waits]),
    ]
    print_table(console, columns, indent=0)
