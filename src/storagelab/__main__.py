"""Where the command starts: `storagelab`, or `python -m storagelab`.

Little is imported here, so that a Ctrl-C while the rest is being loaded ends as quietly as one later. It ends all at once
then: there is nothing to clean up, and what is raised amid an import may be lost in one of the import system's own callbacks.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Load the verbs and run them."""
    try:
        before = signal.getsignal(signal.SIGINT)
        if before is not signal.SIG_IGN:  # as in the background of a shell without job control
            signal.signal(signal.SIGINT, _end)
        from storagelab import screen

        screen.prepare()
        from storagelab import cli

        signal.signal(signal.SIGINT, before)
        cli.main()
    except KeyboardInterrupt:
        sys.exit(130)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(130)


if __name__ == "__main__":
    main()
