"""Where the command starts: `storagelab`, or `python -m storagelab`.

Little is imported here, so that a Ctrl-C, or another signal to stop, while the rest is being loaded ends as quietly as one
later. It ends all at once then: there is nothing to clean up, and what is raised amid an import may be lost in one of the
import system's own callbacks.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from storagelab.stopping import INTERRUPTED, STOPPING


def main() -> None:
    """Load the verbs and run them."""
    try:
        before = {number: signal.getsignal(number) for number in STOPPING}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # as in the background of a shell without job control, or under nohup
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
    """Exit with the code. Where the interrupt came amid the execution of a text, as libraries execute some while they load,
    Python would kill itself instead."""
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
