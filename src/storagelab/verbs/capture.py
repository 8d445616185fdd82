"""`storagelab capture`: watch a running server, and write what it reads and writes into a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from storagelab import screen
from storagelab.capture import folder, taking
from storagelab.capture.cost import cost_percent
from storagelab.errors import SpecError
from storagelab.model.engines import ENGINES
from storagelab.report import writing
from storagelab.report.page.captured import capture_page
from storagelab.report.text.captured import capture_markdown, print_capture
from storagelab.spec.units import parse_seconds
from storagelab.targets import contract
from storagelab.targets.engines import engine_in
from storagelab.words import numbers

_TOLD_EVERY_S = 30.0


def capture(target: str, length: str, output: Path, *, requests: bool, trace: bool, turns: int) -> None:
    """Watches the server and writes the folder. Raises StoragelabError before anything is written if it can't."""
    seconds = _seconds(length)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise SpecError(
            "is there already", file=output, hint="Choose another folder, or remove it: nothing is overwritten."
        )
    server = contract.target_of(target)
    watched_of = engine_in(ENGINES[server.engine].folder).watched
    if watched_of is None:
        raise SpecError(f"{ENGINES[server.engine].title} can't be captured yet", key="TARGET")
    watched = watched_of(server)
    try:
        wanted = taking.Wanted(seconds, requests=requests, trace=trace)
        cost = cost_percent(watched, wanted, turns, screen.say) if turns else None
        manifest = taking.take(watched, output, wanted, _progress(seconds))
    finally:
        watched.close()
    if cost is not None:
        manifest = manifest.model_copy(update={"cost_percent": cost.percent, "notes": (*manifest.notes, cost.words)})
        folder.write_manifest(output, manifest)
    print_capture(screen.out(), folder.read(output), output.resolve().name)
    screen.say(f"capture: {output}; to see who does what, where and when: storagelab report {output}")


def _seconds(length: str) -> float:
    try:
        seconds = parse_seconds(length)
    except ValueError as error:
        raise SpecError(str(error), key="--for", hint="For example: --for 10min.") from error
    if seconds < 1:
        raise SpecError("is less than a second", key="--for", hint="For example: --for 10min.")
    return seconds


def _progress(seconds: float) -> Callable[[float, float], None]:
    """Tells how far it is: on a terminal each second in one line, elsewhere a line now and then."""
    last = [-_TOLD_EVERY_S]
    live = sys.stderr.isatty()

    def tell(gone_s: float, asked_per_s: float) -> None:
        left = numbers.duration(max(0.0, seconds - gone_s))
        text = f"{numbers.round_figure(asked_per_s)} requests/s, {left} left; Ctrl-C ends it early and keeps it"
        if live:
            sys.stderr.write(f"\r\033[K{text}" + ("\n" if gone_s >= seconds else ""))
            sys.stderr.flush()
        elif gone_s - last[0] >= _TOLD_EVERY_S:
            last[0] = gone_s
            screen.say(text)

    return tell


REPORT_FILE = "report.html"


def report(path: Path, format_: str, output: Path | None) -> None:
    """Writes the report of a capture: a page into its folder, or Markdown to stdout."""
    captured, name = folder.read(path), path.resolve().name
    if format_ == "md":
        writing.deliver(capture_markdown(captured, name), output)
    elif format_ == "html":
        page = capture_page(captured, name)
        if output is None:
            writing.write(path / REPORT_FILE, page, within=path)
            writing.tell(path / REPORT_FILE)
        else:
            writing.deliver(page, output)
    else:
        raise SpecError(
            "a capture has a page and Markdown", key="--format", hint="leave out --format, or write --format md"
        )
