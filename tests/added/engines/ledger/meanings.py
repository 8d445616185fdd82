"""What is known of it without its driver."""

from __future__ import annotations

from collections.abc import Mapping

from storagelab.model.durability import Deciding, Durability
from storagelab.watching.wait_events import Knowledge


def judge(settings: Mapping[str, str], _version: str = "") -> Durability:
    decides = Deciding(name="synchronous", value=settings.get("synchronous", "FULL"))
    return Durability(engine="Ledger", settings=(decides,), whole_pages=True)


KNOWN = Knowledge(judge)
