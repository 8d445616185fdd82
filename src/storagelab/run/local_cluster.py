"""A cluster of local processes, as a program: `python -m storagelab.run.local_cluster COUNT`. It prints the address
of its scheduler, and ends when its standard input closes. It is a separate process, since Dask runs whatever a
scheduler's port receives.
"""

from __future__ import annotations

import logging
import signal
import sys

import dask
from distributed import LocalCluster, Security

LOCAL = "127.0.0.1"
_SETTINGS = {
    "distributed.scheduler.worker-ttl": None,  # the time limit decides whether a worker hangs
    # Dask's own monitoring takes time from the runs in workers, which inherit these settings.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}


def unencrypted() -> Security:
    """For processes of one machine that no other machine reaches, whatever certificates Dask's settings name."""
    return Security(require_encryption=False, tls_ca_file=None)


def _serve(processes: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asked for it decides when it ends
    with dask.config.set(_SETTINGS), LocalCluster(
        n_workers=processes, threads_per_worker=1, processes=True, host=LOCAL, protocol="tcp://", security=unencrypted(),
        dashboard_address=f"{LOCAL}:0", worker_dashboard_address=None, memory_limit=0, silence_logs=logging.CRITICAL,
        env={"DASK_LOGGING__DISTRIBUTED": "critical"},
    ) as cluster:  # fmt: skip
        sys.stdout.write(f"{cluster.scheduler_address}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    _serve(int(sys.argv[1]))
