"""How the programs of a database server are run: without root's rights, in folders of theirs, never outliving storagelab."""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.values import Frozen

_PR_SET_PDEATHSIG = 1


class Unprivileged(Frozen):
    """How to run a server program without root's rights, which database servers refuse. `prefix` goes before its arguments.

    `owner` is the (uid, gid) that folders must be given to first; None where they stay as they are.
    """

    prefix: tuple[str, ...] = ()
    owner: tuple[int, int] | None = None
    how: str = "as the current user"


@cache
def unprivileged() -> Unprivileged:
    """As a plain user: nothing to do. As root: inside a user namespace of one user, so that files stay root's and no
    account is made; where namespaces are barred, as `nobody`. Raises PreflightError when neither works."""
    if os.geteuid() != 0:
        return Unprivileged()
    namespace = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
    if _works(namespace):
        return Unprivileged(prefix=namespace, how="in a user namespace")
    nobody = pwd.getpwnam("nobody")
    as_nobody = (
        "setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups", "--pdeathsig=keep",
    )  # fmt: skip
    if _works(as_nobody):
        return Unprivileged(prefix=as_nobody, owner=(nobody.pw_uid, nobody.pw_gid), how="as nobody")
    raise PreflightError(
        "database servers refuse to run as root, and neither `unshare --user` nor `setpriv` works here",
        hint="run storagelab as an ordinary user, or install util-linux",
    )


def may_enter(folder: Path) -> bool:
    """May a server that is started as `unprivileged` says pass through this folder?"""
    prefix = unprivileged().prefix
    return not prefix or subprocess.run([*prefix, "test", "-x", str(folder)], check=False).returncode == 0


def _works(prefix: tuple[str, ...]) -> bool:
    if shutil.which(prefix[0]) is None:
        return False
    return subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0


def give_to_server(folder: Path) -> None:
    owner = unprivileged().owner
    if owner is not None:
        os.chown(folder, *owner)


def make_folder(folder: Path, owner: tuple[int, int] | None = None) -> None:
    """An empty folder of the server's, mode 0700 as PostgreSQL demands; of `owner` (uid, gid) where one is named."""
    folder.mkdir(mode=0o700, parents=True)
    if owner is not None:
        os.chown(folder, *owner)
    else:
        give_to_server(folder)


_LIBC = ctypes.CDLL(None)


def _die_with_parent() -> None:
    """In the child: ask Linux to stop the server at once if storagelab is killed, so that nothing is left running."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


IN_CHILD = _die_with_parent if sys.platform == "linux" else None
"""For `preexec_fn`."""
