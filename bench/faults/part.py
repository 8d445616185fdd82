"""Runs the campaigns of one kind in a separate process. It prints a line of JSON for each campaign, and progress on
stderr."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from bench.faults.campaigns import KINDS, World
from bench.faults.found import Found
from bench.faults.kills import kills
from bench.faults.moments import Pace
from bench.faults.signals import signals
from storagelab.words.numbers import duration


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.faults.part")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--kills", type=int, required=True)
    parser.add_argument("--signals", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--own-view", action="store_true", help="no other process uses this process's shared memory")
    options = parser.parse_args()
    print(f"{options.kind}: one campaign without any fault first", file=sys.stderr, flush=True)
    began_s, sofar = time.monotonic(), Found()
    for found in _all(World(Path(tempfile.gettempdir()), options.kind, own_view=options.own_view), options):
        sofar.add(found)
        print(json.dumps(found.as_data()), flush=True)
        done, of = sofar.kills + len(sofar.signals_took_s), options.kills + options.signals
        left_s = (time.monotonic() - began_s) / max(1, done) * (of - done)
        print(
            f"{options.kind}: {sofar.kills} of {options.kills} kills, {len(sofar.signals_took_s)} of {options.signals} "
            f"signals, {len(sofar.troubles)} troubles, about {duration(left_s)} left",
            file=sys.stderr, flush=True,
        )  # fmt: skip


def _all(world: World, options: argparse.Namespace) -> Iterator[Found]:
    pace = Pace()
    with world.open():
        yield from chain(
            kills(world, options.kills, options.seed, pace) if options.kills else (),
            signals(world, options.signals, options.seed, pace),
        )


if __name__ == "__main__":
    main()
