"""Runs in the guest, in two boots: a volume that was prepared by hand is still there after the power failed in its
block.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from guest_scripts.commands import begun, storagelab
from guest_scripts.trials import expect, sh

from storagelab.run.stored import read

PLACE, DRIVE, RESULTS = Path("/mnt/drive"), "/dev/ubda", Path(os.environ["RESULTS"])
SPEC = f"""\
repetitions = 2
[target]
engine = "raw-io"
[volumes.a]
path = "{PLACE}"
filesystem = "ext4"
prepare = "by-hand"
prepare_text = "Turn the switch."
variables = {{ cache = "on" }}
[layout]
data_size = "8MiB"
[workload]
operation = "read"
pattern = "random"
block = "8KiB"
duration = "1s"
warm_up = "0s"
[factors]
"volumes.a.variables.cache" = ["on", "off"]
"""
RUN = ("run", "hand.toml", "--results", str(RESULTS / "campaigns"))


def runs_stored() -> int:
    return len(read("hand", RESULTS / "campaigns").runs)


def first_boot() -> None:
    sh("mkfs.ext4", "-q", DRIVE)
    sh("mount", DRIVE, str(PLACE))
    Path("hand.toml").write_text(SPEC)
    waits = storagelab(*RUN)
    expect("exit 4", waits)
    expect("block 1 of 2", waits)
    begun(*RUN, "--prepared", "a")
    ends_at = time.monotonic() + 120
    while time.monotonic() < ends_at:
        try:
            if runs_stored() == 1:
                break
        except Exception:  # noqa: BLE001 - it is not there yet
            pass
        time.sleep(0.3)
    print("power fails after", runs_stored(), "of 2 runs", flush=True)
    sh("busybox", "poweroff", "-f", "-n")


def second_boot() -> None:
    unmounted = storagelab(*RUN)
    expect("exit 4", unmounted)
    expect("block 1 of 2", unmounted)
    sh("mount", DRIVE, str(PLACE))
    goes_on = storagelab(*RUN)
    print(goes_on)
    expect("block 2 of 2", goes_on)
    assert runs_stored() == 2
    print("the block is whole")


if __name__ == "__main__":
    PLACE.mkdir()
    (first_boot if sys.argv[1] == "1" else second_boot)()
