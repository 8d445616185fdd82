"""Where the command starts: `storagelab`, or `python -m storagelab`.

Little is imported here, so that a Ctrl-C while the rest is being loaded ends as quietly as one later.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Load the verbs and run them."""
    try:
        from storagelab import screen

        screen.prepare()
        from storagelab import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
