"""`storagelab capture`: watch a running server, and write what it reads and writes into a folder."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from storagelab import screen
from storagelab.capture import folder, taking
from storagelab.capture.folder import Capture
from storagelab.capture.taking import cost_percent
from storagelab.errors import SpecError
from storagelab.machine.descriptors import write_whole
from storagelab.model.engines import ENGINES
from storagelab.report.text.terminal import print_document
from storagelab.report.words.captured import capture_paper
from storagelab.run import contract
from storagelab.run.engine import engine_in
from storagelab.spec.units import parse_seconds
from storagelab.words import numbers

_TOLD_EVERY_S = 30.0
VOLUMES_FILE = "volumes.toml"


def capture(target: str, length: str, output: Path, *, requests: bool, trace: bool, turns: int) -> None:
    """Watches the server and writes the folder. Raises StoragelabError before anything is written if it can't."""
    seconds = _seconds(length)
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
        wanted = taking.Window(seconds, requests=requests, trace=trace)
        cost = cost_percent(watched, wanted, turns, screen.say) if turns else None
        with _progress(seconds) as progress:
            manifest = taking.take(watched, output, wanted, progress)
    finally:
        watched.close()
    if cost is not None:
        manifest = manifest.model_copy(update={"cost_percent": cost.percent, "notes": (*manifest.notes, cost.words)})
        folder.write_manifest(output, manifest)
    volumes = output / VOLUMES_FILE
    from storagelab.predicting.reckoning import skeleton  # statistics load slowly, and a window must not wait for them

    write_whole(volumes, [skeleton(manifest).encode()], within=output)
    print_capture(screen.out(), folder.read(output), output.resolve().name)
    screen.say(
        f"capture: {output}\nto see who does what, where and when: storagelab report {output}\n"
        f"to predict other volumes, fill in {volumes}: storagelab predict {output} --volumes {volumes}"
    )


def _seconds(length: str) -> float:
    try:
        seconds = parse_seconds(length)
    except ValueError as error:
        raise SpecError(str(error), key="--for", hint="For example: --for 10min.") from error
    if seconds < 1:
        raise SpecError("is less than a second", key="--for", hint="For example: --for 10min.")
    return seconds


@contextlib.contextmanager
def _progress(seconds: float) -> Iterator[Callable[[float, float], None]]:
    """Tells how far it is: on a terminal each second in one line, which ends with the capture; elsewhere a line now and
    then.
    """
    last = [-_TOLD_EVERY_S]
    live = sys.stderr.isatty()

    def tell(gone_s: float, asked_per_s: float) -> None:
        left = numbers.duration(max(0, round(seconds - gone_s)))
        share = numbers.percent(min(1.0, gone_s / seconds), 0)
        text = f"{share}, {left} left, {numbers.round_figure(asked_per_s)} requests/s"
        hint = "; Ctrl-C ends it early and keeps it"
        if live:
            width = shutil.get_terminal_size().columns - 1  # a line that is broken can't be written over
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


REPORT_FILE = "report.html"


def report(path: Path, format_: str, output: Path | None) -> None:
    """Writes the report of a capture: a page into its folder, or Markdown to stdout."""
    from storagelab.report import writing  # here, because it takes seconds, and a window begins without it
    from storagelab.report.page.papers import capture_page

    captured, name = folder.read(path), path.resolve().name
    if format_ == "md":
        writing.deliver(capture_markdown(captured, name), output)
        return
    page = capture_page(captured, name)
    if output is None:
        writing.write(path / REPORT_FILE, page, within=path)
        writing.tell(path / REPORT_FILE)
    else:
        writing.deliver(page, output)


# --- A capture on the terminal, and as Markdown -----------------------------------------------------------------------


def print_capture(console: Console, capture: Capture, name: str) -> None:
    """Prints who reads and writes what."""
    print_document(console, capture_paper(capture, name))


def capture_markdown(capture: Capture, name: str) -> str:
    """The same tables, complete."""
    from storagelab.report.text.markdown import markdown  # here, as above

    return markdown(capture_paper(capture, name))
