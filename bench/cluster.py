"""Compares two workers of a local Dask cluster with two processes of storagelab in the same call."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from bench.figures import Figure, paired_ratios, ratio_figure
from bench.listening import Quiet
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment
from storagelab.run import cluster, loop
from storagelab.run.store import Store
from storagelab.spec import matrix, reading
from storagelab.volumes.folders import Site

ROOT = Path(__file__).parent.parent
ARTICLE_A = ROOT / "experiments" / "multiple-data-files.toml"
SCALE, WORKERS = 256, 2


def figures(folder: Path, pairs: int, quick: bool) -> Iterator[Figure]:
    text = re.sub(r"(?m)^scale = \d+", f"scale = {SCALE}", ARTICLE_A.read_text("utf-8"))
    experiment = reading.parse(text, str(ARTICLE_A)).model_copy(update={"repetitions": 2 if quick else 5})
    digests: set[str] = set()

    def speed(*, dask: bool) -> float:
        runs = _made(folder, experiment, dask=dask)
        digests.add(digest(runs))
        took_s, begun = _side_by_side(runs)
        return len(begun) / took_s

    ratios = paired_ratios(2 if quick else max(3, pairs // 3), lambda: speed(dask=True), lambda: speed(dask=False))
    yield ratio_figure(
        "runs/s of two Dask workers / of two processes of our own", ratios, "at least 0.95", lambda r: r >= 0.95,
        f"{experiment.name}, {experiment.repetitions} repetitions at scale {SCALE}, once two runs go at a time; "
        f"load {os.getloadavg()[0]:.1f} at the end",
    )  # fmt: skip
    yield Figure(
        "different outcomes of these campaigns, by digest", len(digests), "", "exactly 1", len(digests) == 1,
        remark=", ".join(sorted(digests)),
    )  # fmt: skip


def _made(folder: Path, experiment: Experiment, *, dask: bool) -> tuple[Run, ...]:
    """Makes all runs of the experiment, with two workers or with two processes."""
    place = folder / f"cluster-{time.monotonic_ns()}"
    site = Site(experiment="bench", identity="c1057e40", spec_folder=folder)
    reach = cluster.Reach(None, WORKERS)
    workers = cluster.Cluster(loop.make_elsewhere, reach, lambda _: None, limit_s=3600.0) if dask else None
    with Store.writing(place, experiment) as store:
        loop.run_all(matrix.expand(experiment), store, site, Quiet(), jobs=WORKERS, elsewhere=workers)
        return store.runs()


def _times(runs: Iterable[Run]) -> list[tuple[float, float]]:
    """Returns for each run when it began and when it ended, sorted."""
    texts = ((run.started_at, run.finished_at) for run in runs)
    return sorted((datetime.fromisoformat(a).timestamp(), datetime.fromisoformat(b).timestamp()) for a, b in texts)


def _side_by_side(runs: tuple[Run, ...]) -> tuple[float, list[Run]]:
    """Returns the seconds since two runs were first in progress at the same time, and the runs that began since then.
    So the time in which processes start does not count.
    """
    times = _times(runs)
    since = next((later for (_, ended), (later, _) in itertools.pairwise(times) if later < ended), times[0][0])
    begun = [run for run in runs if datetime.fromisoformat(run.started_at).timestamp() >= since]
    return max(ended for _, ended in times) - since, begun


def digest(runs: tuple[Run, ...]) -> str:
    """Returns a digest of all measured values, except the simulation's own time on this machine."""
    digest = hashlib.sha256()
    for run in sorted(runs, key=lambda run: run.sequence):
        assert run.measurement is not None
        measured = run.measurement.model_copy(update={"teardown_s": None})
        digest.update(f"{run.sequence} {run.status} {measured.model_dump_json()}\n".encode())
    return digest.hexdigest()[:16]
