"""The start of the command: `storagelab`, or `python -m storagelab`.

This module imports little. So if Ctrl-C, or another signal to stop, comes while the other modules are being loaded,
there is no traceback. The program then ends at once, because there is nothing to clean up. It can't raise an exception
instead, because one of the import system's own callbacks might drop it."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from storagelab.stopping import INTERRUPTED, STOPPING


def main() -> None:
    """Loads the verbs, and runs the requested verb."""
    try:
        before = {number: signal.getsignal(number) for number in STOPPING}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # it is ignored in the background of some shells, and under nohup
                signal.signal(number, _end)
        from storagelab import screen

        screen.prepare()
        from storagelab import cli

        for number, handler in before.items():
            signal.signal(number, handler)
        cli.main()
    except KeyboardInterrupt:
        _end_at_once()
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            _end_at_once()
        raise


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def _end_at_once() -> None:
    """Exits with the code of an interrupted program. Some libraries use `exec` while they load. If the interrupt comes
    then, Python would otherwise kill itself.
    """
    import logging

    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
