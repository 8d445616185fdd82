"""The contract suite: tries on a user's own server what storagelab promises for every engine.

    promises = verify(target_of("mssql://me@host/master"))      connects, runs 2 x 2 small cells, cleans up

It uses targets only through their interface, so the same code tests every engine. Each engine adds a `Probe`, which
lists what is on a server and puts something in the way.
"""

from __future__ import annotations

from storagelab.targets.contract.promises import Promise
from storagelab.targets.contract.suite import target_of, verify

__all__ = ["Promise", "target_of", "verify"]
