"""What is known of PostgreSQL without its driver, above all what survives a crash under its settings."""

from __future__ import annotations

from collections.abc import Mapping

from storagelab.model.durability import Deciding, Durability, Loss
from storagelab.watching.wait_events import Known

_LOSE: dict[str, Loss] = {
    "fsync": "everything", "synchronous_commit": "last commits", "full_page_writes": "pages not in the log",
}  # fmt: skip
"""What is lost if the setting is off."""
DECIDING = tuple(_LOSE)


def judge(settings: Mapping[str, str], _version: str = "") -> Durability:
    """Judges `settings` as the server shows them. The deciding ones are on by default."""
    values = {name: settings.get(name, "on") for name in DECIDING}
    lose = {name: _LOSE[name] for name, value in values.items() if value.lower() in ("off", "false", "no", "0")}
    return Durability(
        engine="PostgreSQL",
        settings=tuple(Deciding(name=name, value=value, loses=lose.get(name)) for name, value in values.items()),
        whole_pages="full_page_writes" not in lose,
    )


KNOWN = Known(judge)
