"""What is known of MariaDB without its driver, above all what survives a crash under its settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from storagelab.model.durability import Deciding, Durability
from storagelab.watching.wait_events import Known

DECIDING = (
    "innodb_flush_log_at_trx_commit", "innodb_doublewrite", "innodb_flush_method", "log_bin", "sync_binlog",
)  # fmt: skip
_DEFAULTS = {
    "innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "ON", "innodb_flush_method": "", "log_bin": "OFF",
    "sync_binlog": "0",
}  # fmt: skip


def judge(settings: Mapping[str, str], version: str = "") -> Durability:
    """Judges `settings` as the server shows them. A setting that is not shown has its default."""
    decide = tuple(_deciding({**_DEFAULTS, **settings}))
    return Durability(
        engine="MySQL" if version and "MariaDB" not in version else "MariaDB",
        settings=decide,
        whole_pages=all(setting.loses != "pages not written twice" for setting in decide),
    )


def _deciding(settings: Mapping[str, str]) -> Iterator[Deciding]:
    name, value = "innodb_flush_log_at_trx_commit", settings["innodb_flush_log_at_trx_commit"]
    # 2 writes the log at each commit, but syncs it only once a second.
    yield Deciding(name=name, value=value, loses="last second of commits" if value in ("0", "2") else None)
    name, value = "innodb_doublewrite", settings["innodb_doublewrite"]
    off = value.lower() in ("off", "false", "0", "detect_only")
    yield Deciding(name=name, value=value, loses="pages not written twice" if off else None)
    if (value := settings["innodb_flush_method"]).lower() == "nosync":
        yield Deciding(name="innodb_flush_method", value=value, loses="everything")
    # Crash recovery uses the binary log if there is one, so commits are only as safe as that log.
    if settings["log_bin"].lower() in ("on", "1"):
        value = settings["sync_binlog"]
        yield Deciding(name="sync_binlog", value=value, loses=None if value == "1" else "commits not in the binary log")


KNOWN = Known(judge)
