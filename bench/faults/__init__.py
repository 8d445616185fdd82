"""Sends kills and signals at random moments to whole campaigns of each kind. No run may be lost or repeated, no files
or processes may be left, and every campaign must end in time.

ARGS="--only faults"                                              the whole list
ARGS="--only faults --as-user nobody"                             the same as another user
ARGS="--only faults --faults-kind mariadb --kills 30 --seed 3"    a part of it
ARGS="--only faults --kept FILE"                                  continues where it was stopped

The seed determines the moments as shares of a campaign. Which steps they interrupt depends on the machine. So each kill
records the interrupted step, and the table shows all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.faults import views
from bench.faults.campaigns import KINDS, Kind
from bench.faults.found import WRONG, Found
from bench.faults.signals import IN_TIME_S
from bench.figures import Figure
from storagelab.words.numbers import duration

_KILLS: dict[Kind, int] = {
    "simulated": 100, "postgres": 60, "mariadb": 30, "raw-io": 30, "pgbench": 30, "template": 30, "attached": 30,
    "replay": 30, "made": 30, "made-for-block": 30, "capture": 30, "fit": 30,
}  # fmt: skip
_SIGNALS = 120
_NEEDS = {"mariadb": "mariadbd", "raw-io": "fio", "pgbench": "pgbench", "template": "pgbench",
          "replay": "fio", "capture": "pgbench", "fit": "fio"}  # fmt: skip
_ROOTS = {"made", "made-for-block"}
"""The kinds that only root can run, because only root may make volumes."""
_ROOT = Path(__file__).parent.parent.parent
_PHASES = (
    "loading itself", "checking settings", "trial start", "set-up", "making a template", "load", "tear-down", "report",
)  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    ours = parser.add_argument_group("--only faults")
    ours.add_argument("--faults-kind", choices=KINDS, action="append", help="only these kinds of campaigns")
    ours.add_argument("--kills", type=int, help="kills of each kind; default: the numbers of the list")
    ours.add_argument("--signals", type=int, help=f"the sum of signals over all kinds; default: {_SIGNALS}")
    ours.add_argument("--seed", type=int, default=1, help="the seed of the moments")
    ours.add_argument("--as-user", metavar="NAME", help="run storagelab as this user; only root can do this")
    ours.add_argument("--side-by-side", type=int, default=2, help="how many kinds run at the same time")


def figures(options: argparse.Namespace) -> Iterator[Figure]:
    """Yields one figure for each promise of each kind. Then prints one table of all kinds."""
    began_s = time.monotonic()
    kinds = [kind for kind in options.faults_kind or KINDS if kind not in _NEEDS or shutil.which(_NEEDS[kind])]
    user = options.as_user
    if user or os.geteuid() != 0:
        kinds = [kind for kind in kinds if kind not in _ROOTS]
    if user and not views.may_have_own():
        raise SystemExit(f"bench: only root can run storagelab as {user}")
    with ThreadPoolExecutor(options.side_by_side) as side_by_side:
        parts = {kind: side_by_side.submit(_of_kind, kind, options, len(kinds)) for kind in kinds}
        found = {}
        for kind, part in parts.items():
            found[kind] = part.result()
            yield from _of_found(kind, found[kind], options)
    print(f"\nas {user or 'the current user'}, seed {options.seed}, {duration(time.monotonic() - began_s)}")
    print(table(found), flush=True)


def _of_found(kind: Kind, found: Found, options: argparse.Namespace) -> Iterator[Figure]:
    words = {
        "lost": "runs lost", "repeated": "runs repeated", "left": "files, processes or segments left at the end",
        "unlike": "exports that differ", "other": "other trouble",
    }  # fmt: skip
    for name in WRONG:
        wrong = getattr(found, name)
        if wrong or (found.kills and (name != "unlike" or kind == "simulated")):
            remark = "; ".join(wrong[:5]) or f"seed {options.seed}"
            yield Figure(
                f"{found.kills} kills, {kind}: {words[name]}", len(wrong), "", "none", not wrong, remark=remark
            )
    if took_s := found.signals_took_s:
        wrong = found.after_signals
        remark = f"beside {found.waited_for_a_core_s / len(took_s):.1f} s in which others had the cores, on average"
        yield Figure(
            f"{len(took_s)} signals, {kind}: the longest time to the end", max(took_s), "s", "at "
            f"most {IN_TIME_S:.0f} s",
            max(took_s) <= IN_TIME_S, remark=remark,
        )  # fmt: skip
        yield Figure(
            f"{len(took_s)} signals, {kind}: troubles", len(wrong), "", "none", not wrong, remark="; ".join(wrong[:5])
        )


def table(found: dict[Kind, Found]) -> str:
    """Returns one line for each kind: the faults, and the steps that kills and signals interrupted."""
    heads = ["kind", "kills", *WRONG, "signals", "longest s", "wrong after", *_PHASES]
    rows = []
    for kind, one in found.items():
        counts = [len(getattr(one, name)) for name in WRONG]
        longest = f"{max(one.signals_took_s):.1f}" if one.signals_took_s else ""
        spread = [one.phases.get(phase, 0) for phase in _PHASES]
        rows.append([
            kind, one.kills, *counts, len(one.signals_took_s), longest, len(one.after_signals), *spread,
        ])  # fmt: skip
    sums = [sum(row[at] for row in rows if isinstance(row[at], int)) if rows else 0 for at in range(1, len(heads))]
    rows.append(["all", *("" if heads[at] == "longest s" else total for at, total in enumerate(sums, 1))])
    widths = [max(len(str(row[at])) for row in [heads, *rows]) for at in range(len(heads))]
    lines = [
        "  ".join(
            str(cell).ljust(width) if at == 0 else str(cell).rjust(width) for at, (cell, width) in enumerate(pairs)
        )
        for pairs in (list(zip(row, widths, strict=True)) for row in [heads, *rows])
    ]
    return "\n".join(lines)


# --- each kind in a process of its own -------------------------------------------------------------------------------


def _of_kind(kind: Kind, options: argparse.Namespace, kinds: int) -> Found:
    kills = _KILLS[kind] // (10 if options.quick else 1) if options.kills is None else options.kills
    signals = (_SIGNALS // (10 if options.quick else 1) if options.signals is None else options.signals) / kinds
    found = _kept(kind, options)
    kills, asked = max(0, kills - found.kills), max(0, -int(-signals // 1) - len(found.signals_took_s))
    if not kills and not asked:
        return found
    # The name is short, so that the paths of sockets in the campaign's temporary folder are short enough. Servers of
    # other users must be able to enter the folder.
    with tempfile.TemporaryDirectory(prefix="slab-", dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        views.given_to(options.as_user, [folder])
        with _started(kind, options, folder, kills, asked, options.seed + found.campaigns) as process:
            assert process.stdout is not None
            for line in process.stdout:
                more = Found.from_data(json.loads(line))
                found.add(more)
                _keep(kind, options, more)
        if process.returncode != 0:
            found.other.append(f"the bench's own part ended with {process.returncode}")
    return found


def _started(
    kind: Kind, options: argparse.Namespace, folder: Path, kills: int, signals: int, seed: int
) -> subprocess.Popen[str]:
    own_view = views.may_have_own()
    return subprocess.Popen(
        [sys.executable, "-m", "bench.faults.part", kind, "--kills", str(kills), "--signals", str(signals),
         "--seed", str(seed), *(["--own-view"] if own_view else [])],
        cwd=_ROOT, env={**os.environ, "TMPDIR": str(folder), "HOME": str(folder)}, stdout=subprocess.PIPE, text=True,
        preexec_fn=views.own_view(options.as_user) if own_view else None,
    )  # fmt: skip


def _kept(kind: Kind, options: argparse.Namespace) -> Found:
    """Returns the results of earlier calls for this kind and this user."""
    found = Found()
    if options.kept is not None and options.kept.exists():
        for line in options.kept.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            if (one["kind"], one["as_user"]) == (kind, options.as_user):
                found.add(Found.from_data(one["found"]))
    return found


def _keep(kind: Kind, options: argparse.Namespace, found: Found) -> None:
    if options.kept is not None:
        line = json.dumps({"kind": kind, "as_user": options.as_user, "found": found.as_data()})
        with options.kept.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
