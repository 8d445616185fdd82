"""The contract suite: what storagelab promises of every engine, tried on a server of the user's own.

    promises = verify(target_of("mssql://me@host/master"))      connects, runs 2 x 2 small cells, cleans up

It knows targets only by their seam, so the same code faces every engine. What an engine must add is a `Probe`: the names
of what is on a server, and something in the way.
"""

from __future__ import annotations

from storagelab.targets.contract.promises import Promise
from storagelab.targets.contract.suite import target_of, verify

__all__ = ["Promise", "target_of", "verify"]
