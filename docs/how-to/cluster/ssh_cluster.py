"""Run a cluster on hosts that SSH reaches, until Ctrl-C: python ssh_cluster.py SCHEDULER WORKER [WORKER ...]

Hosts are names in your ~/.ssh/config, or addresses; the first may come again as a worker. Every host has the same
Python environment at the same path, and Dask's settings for TLS (tls.yaml). This machine needs asyncssh as well.
"""

import argparse
import contextlib
import signal
import time

from distributed import SSHCluster

asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
asked.add_argument("hosts", nargs="+", metavar="HOST")
asked.add_argument("--workers", type=int, default=1, help="worker processes on each host: as many as it has cores")
asked.add_argument("--port", type=int, default=8786, help="of the scheduler")
asked.add_argument("--interface", help="the network to listen on, such as eth1, if hosts have several")

if __name__ == "__main__":
    options = asked.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    listening = {"protocol": "tls://", "interface": options.interface}
    with SSHCluster(
        options.hosts,
        scheduler_options={**listening, "port": options.port, "dashboard": False},
        worker_options={**listening, "n_workers": options.workers, "nthreads": 1, "memory_limit": 0},
    ) as cluster:
        print(f"storagelab run my.toml --executor dask --scheduler {cluster.scheduler_address}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(1)
