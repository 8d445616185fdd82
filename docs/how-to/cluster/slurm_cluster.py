"""Run a scheduler here and its workers as Slurm's jobs, until Ctrl-C: python slurm_cluster.py JOBS

Start it on a machine that may submit jobs and that the nodes reach. jobqueue.yaml says what a job asks for. Nodes see
the same Python environment and the same certificates, at the same paths. This machine needs dask-jobqueue as well.
"""

import argparse
import contextlib
import signal
import time

from dask_jobqueue import SLURMCluster
from distributed import Security

asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
asked.add_argument("jobs", type=int, help="how many, each with the workers that jobqueue.yaml says")

if __name__ == "__main__":
    options = asked.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    with SLURMCluster(protocol="tls://", security=Security(require_encryption=True)) as cluster:
        cluster.scale(jobs=options.jobs)
        print(f"storagelab run my.toml --executor dask --scheduler {cluster.scheduler_address}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(1)
