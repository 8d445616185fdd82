"""`python -m bench.guest` prepares what the guest boots from; a second call does nothing. It never fails a build."""

from __future__ import annotations

from bench.guest.booting import absent

if reason := absent():
    print(f"note: no guest with throw-away drives: {reason}. The tests that need it will be skipped.")
