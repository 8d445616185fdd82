"""What is known of SQL Server without its driver, above all what survives a crash, by its settings."""

from __future__ import annotations

from collections.abc import Mapping

from storagelab.model.durability import Deciding, Durability, Loss
from storagelab.targets.knowledge import Known
from storagelab.targets.sqlserver.facts import BENIGN, latch_note


def judge(settings: Mapping[str, str], _version: str = "") -> Durability:
    """Judges `settings`, named as the columns of sys.databases. Loads don't use delayed durability where it is only allowed.

    A log record holds enough to redo a page. Checksums and torn-page bits detect a half-written page but don't repair it, so
    pages count as whole only if the medium writes them whole.
    """
    delayed = settings.get("delayed_durability_desc", "DISABLED")
    lost: Loss | None = "commits not in the log" if delayed.upper() == "FORCED" else None
    return Durability(
        engine="SQL Server",
        settings=(
            Deciding(name="delayed_durability", value=delayed, loses=lost),
            Deciding(name="page_verify", value=settings.get("page_verify_option_desc", "CHECKSUM")),
        ),
        whole_pages=False,
    )


KNOWN = Known(judge, BENIGN, latch_note)
