"""`storagelab volumes`: the drives that experiments have, and how they are given back; and the question before a run
destroys what lies on drives.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from storagelab import screen
from storagelab.errors import PreflightError
from storagelab.model.target import ClaimedDrive

YES_WIPE = "--yes-wipe"


def list_all() -> None:
    from storagelab.volumes.journal import claims

    found = claims()
    for claim in found:
        screen.say(f"{claim.drive.text}\n  for the runs whose results are in {claim.results}", stdout=True)
    if not found:
        screen.say("no drive is in use by storagelab", stdout=True)


def undo(results: Path, may_wipe: Collection[str] = ()) -> None:
    """Puts back what can be put back: the sectors of each drive, and no partition, RAID or file system of storagelab's
    on it. What lay on it before is gone.
    """
    from storagelab.volumes.for_runs import put_back

    if not results.is_dir():
        raise PreflightError(
            "there is no such folder", file=results, hint="name the folder of the experiment's results"
        )
    done = put_back(results, may_wipe)
    for line in done:
        screen.say(line, stdout=True)
    if done:
        screen.say("what lay on these drives before the experiment can't be put back", stdout=True)
    else:
        screen.say("no drive is left to be given back", stdout=True)


def refuse_unconfirmed(drives: Sequence[ClaimedDrive], confirmed: Collection[str]) -> None:
    """Asks for the serial number of each drive whose content is destroyed. Raises PreflightError unless each was given,
    on the command line or now.
    """
    asked = [drive for drive in drives if drive.serial not in confirmed]
    if asked and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise PreflightError(
            "everything on these drives would be destroyed:" + "".join(f"\n    {drive.text}" for drive in asked),
            hint="confirm it: " + " ".join(f"{YES_WIPE} {drive.serial}" for drive in asked),
        )
    for drive in asked:
        screen.say(f"everything on this drive will be destroyed:\n  {drive.text}")
        screen.say("to go on, type its serial number:")
        typed = sys.stdin.readline().strip()
        if typed != drive.serial:
            hint = "run again, and type it; or name another drive"
            raise PreflightError(f"{drive.serial} was not confirmed, so nothing was done", hint=hint)
