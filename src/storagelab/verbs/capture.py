"""`storagelab capture`: records into a folder what a running server reads and writes.

Statistics load slowly, and the capture must not wait for them. So they are imported after the capture."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from storagelab import screen
from storagelab.errors import SpecError, StoreError
from storagelab.verbs import Unused, Verb, amount, when

app = Verb("Predict", 1)
_TOLD_EVERY_S = 30.0
VOLUMES_FILE = "volumes.toml"


@app.command(unused=(Unused("--requests", when("no_trace"), "needs the trace", "Leave --no-trace out."),))
def capture(
    target: Annotated[str, Argument(metavar="TARGET", help="DSN of the running server, or a variable that holds it.")],
    length: Annotated[str, Option("--for", metavar="10min", help="Duration of the capture.")] = "10min",
    output: Annotated[Path, Option("--output", "-o", help="Folder to write.")] = Path("capture"),
    requests: Annotated[
        bool, Option("--requests", help="Also keep each request, in a log that fio can replay. Needs root.")
    ] = False,
    no_trace: Annotated[bool, Option("--no-trace", help="Use the server's own counters only, even as root.")] = False,
    measure_cost: Annotated[
        int,
        Option("--measure-cost", metavar="TURNS", min=0, help="First measure the capture's cost, in pairs of periods."),
    ] = 0,
) -> None:
    """Record what a running server reads and writes, by object.

    The capture changes nothing on the server, and keeps neither its data nor the text of queries. Ctrl-C ends the
    capture early and keeps it. As root on the server's machine, it also records writes and the order of requests by
    table.
    """
    from storagelab.capture import folder, taking
    from storagelab.machine.descriptors import write_whole
    from storagelab.model.engines import ENGINES
    from storagelab.report.text.terminal import print_document
    from storagelab.report.words.captured import capture_paper
    from storagelab.run import contract
    from storagelab.run.engine import engine_in
    from storagelab.spec.units import parse_seconds

    seconds = amount(parse_seconds, length, "--for", "For example: --for 10min.", least=1)
    if not folder.is_free(output):
        raise SpecError(
            "is there already", file=output, hint="Choose another folder, or remove it: nothing is overwritten."
        )
    server = contract.target_of(target, key="TARGET")
    watched_of = engine_in(ENGINES[server.engine].folder).watched
    if watched_of is None:
        raise SpecError(f"{ENGINES[server.engine].title} can't be captured yet", key="TARGET")
    watched = watched_of(server)
    try:
        wanted = taking.Window(seconds, requests=requests, trace=not no_trace)
        cost = taking.cost_percent(watched, wanted, measure_cost, screen.say) if measure_cost else None
        with _progress(seconds) as progress:
            manifest = taking.take(watched, output, wanted, progress)
    finally:
        watched.close()
    if cost is not None:
        manifest = manifest.model_copy(update={"cost_percent": cost.percent, "notes": (*manifest.notes, cost.words)})
        folder.write_manifest(output, manifest)
    volumes = output / VOLUMES_FILE
    from storagelab.predicting.demands import check_load
    from storagelab.predicting.reckoning import skeleton

    write_whole(volumes, [skeleton(manifest).encode()], within=output)
    captured = folder.read(output)
    print_document(screen.out(), capture_paper(captured, output.resolve().name))
    screen.say(f"capture: {output}\nto see who does what, where and when: storagelab report {output}")
    try:
        check_load(captured, str(output))
        screen.say(f"to predict other volumes, fill in {volumes}: storagelab predict {output} --volumes {volumes}")
    except StoreError as problem:
        screen.say(f"no prediction is possible from {problem}")


@contextlib.contextmanager
def _progress(seconds: float) -> Iterator[Callable[[float, float], None]]:
    """Prints the progress of a capture. On a terminal, it changes one line each second, and removes the line at the
    end. Elsewhere, it prints a new line from time to time.
    """
    from storagelab.words import numbers

    last = [-_TOLD_EVERY_S]
    live = sys.stderr.isatty()

    def tell(gone_s: float, asked_per_s: float) -> None:
        left = numbers.duration(max(0, round(seconds - gone_s)))
        share = numbers.percent(min(1.0, gone_s / seconds), 0)
        text = f"{share}, {left} left, {numbers.round_figure(asked_per_s)} requests/s"
        hint = "; Ctrl-C ends it early and keeps it"
        if live:
            width = shutil.get_terminal_size().columns - 1  # a wrapped line can't be overwritten
            text = f"{text}{hint}" if len(text) + len(hint) <= width else text[:width]
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()
        elif gone_s - last[0] >= _TOLD_EVERY_S:
            screen.say(text + hint)
        else:
            return
        last[0] = gone_s

    try:
        yield tell
    finally:
        if live and last[0] >= 0:
            sys.stderr.write("\n")
