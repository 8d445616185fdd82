"""Starts processes with their own shared memory and, if wanted, as another user. Both need root's rights."""

from __future__ import annotations

import ctypes
import os
import pwd
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from storagelab.machine.rights import cover, covers

_CLONE_NEWNS, _CLONE_NEWIPC = 0x00020000, 0x08000000
_MS_REC, _MS_SLAVE = 1 << 14, 1 << 19
_LIBC = ctypes.CDLL(None, use_errno=True)
_ROOT = Path(__file__).parent.parent.parent


def may_have_own() -> bool:
    return os.geteuid() == 0


def own_view(user: str | None) -> Callable[[], None]:
    """Returns a function for `preexec_fn`. It gives a process empty shared memory that no other process uses, and makes
    it run as this user (None = the current user). The process can still reach the checkout and Python, even below
    folders that only root may enter.
    """
    account = pwd.getpwnam(user) if user else None
    reach = [_ROOT, Path(sys.prefix), Path(sys.base_prefix)]
    ways = covers(reach, account.pw_uid, account.pw_gid) if account else ()

    def become() -> None:
        if _LIBC.unshare(_CLONE_NEWNS | _CLONE_NEWIPC) != 0:
            raise OSError(ctypes.get_errno(), "no view of its own")
        _mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None)
        _mount(b"none", b"/dev/shm", b"tmpfs", 0, b"mode=1777")
        cover(ways)
        if account is not None:
            os.setgroups([])
            os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
            os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)

    return become


def _mount(source: bytes, place: bytes, kind: bytes | None, flags: int, options: bytes | None) -> None:
    if _LIBC.mount(source, place, kind, ctypes.c_ulong(flags), options) != 0:
        raise OSError(ctypes.get_errno(), "can't be mounted", os.fsdecode(place))


def given_to(user: str | None, folders: Sequence[Path]) -> None:
    if user:
        account = pwd.getpwnam(user)
        for folder in folders:
            os.chown(folder, account.pw_uid, account.pw_gid)
