"""Runs in the guest: a small campaign of PostgreSQL over two file systems and two RAID levels, from plan to report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ID = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_"
SPEC = f"""\
question = "Which file system and which RAID level?"
repetitions = {sys.argv[1]}
[target]
engine = "postgres"
settings = {{ shared_buffers = "16MB", max_wal_size = "80MB", max_connections = 20 }}
[volumes.a]
path = "."
devices = ["{ID}D0", "{ID}D1"]
raid_level = "raid0"
made_for = "block"
[workload]
kind = "pgbench"
scale = 1
connections = 2
duration = "5s"
warm_up = "1s"
[factors]
"volumes.a.filesystem" = ["ext4", "xfs"]
"volumes.a.raid_level" = ["raid0", "raid1"]
"""

if __name__ == "__main__":
    folder = Path("/var/tmp/campaign")
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    (folder / "campaign.toml").write_text(SPEC)
    wiped = ["--yes-wipe", "D0", "--yes-wipe", "D1"]
    for words in (
        ["plan", "campaign.toml"], ["run", "campaign.toml", *wiped], ["report", "campaign", "--format", "md"],
        ["volumes"],
        ["export", "campaign", "--output", f"{os.environ['RESULTS']}/campaign.json"],
    ):  # fmt: skip
        print("$ storagelab", *words, flush=True)
        done = subprocess.run([sys.executable, "-m", "storagelab", *words], cwd=folder, check=False)
        if done.returncode != 0:
            sys.exit(f"exit {done.returncode}")
    print("no mounts left" if str(folder) not in Path("/proc/mounts").read_text() else "a mount is left")
