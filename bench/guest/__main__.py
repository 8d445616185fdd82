"""`python -m bench.guest` prepares the files from which guests boot. A second call does nothing. It never fails a
build."""

from __future__ import annotations

from bench.guest import user_mode
from bench.guest.booting import absent

for kind, reason in (("emulated", absent()), ("quick", user_mode.absent())):
    if reason:
        print(f"note: no {kind} guest with throw-away drives: {reason}. The tests that need it will be skipped.")
