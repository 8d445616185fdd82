"""The options of `storagelab run` for a cluster and for a race. Dask is loaded only if a cluster is wanted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from storagelab.errors import PreflightError, SpecError
from storagelab.model.plan import RACES_LOOK_FROM, Plan, Race
from storagelab.model.values import share_of
from storagelab.run import loop
from storagelab.run.scheduling import Batch
from storagelab.spec.units import parse_seconds

if TYPE_CHECKING:
    from storagelab.run.cluster import Cluster
    from storagelab.run.joining import Reach

_CAN = "can run programs on all workers, and read and change what they send"
INSECURE = f"--insecure: nothing is encrypted: whoever reaches the scheduler's port {_CAN}"
ON_THIS_MACHINE = f"without TLS: whoever has an account on this machine {_CAN}"
_INSTALL = 'pip install "storagelab[cluster]"'


class Elsewhere(NamedTuple):
    """What the user asked for. `scheduler` is None if Dask's own settings decide, or for a cluster of local
    processes.
    """

    scheduler: str | None
    insecure: bool
    time_limit_s: float | None

    def executor(
        self, plan: Plan, jobs: int, durations: list[tuple[str, float]], say: Callable[[str], None]
    ) -> Cluster[Batch, loop.Report]:
        """The cluster, not yet joined. Raises PreflightError."""
        with _dask():
            from storagelab.run import cluster, requests
        reach, limit_s = self.reach(jobs, say), loop.time_limit_s(plan, durations, self.time_limit_s)
        return cluster.Cluster(requests.SimulatedRuns(), reach, say, limit_s=limit_s)

    def reach(self, jobs: int, say: Callable[[str], None]) -> Reach:
        """Where the cluster is. Raises PreflightError if that is not safe, or if Dask is not installed."""
        with _dask():
            from storagelab.run import joining
        reach = joining.asked(self.scheduler, jobs, insecure=self.insecure)
        if self.insecure:
            say(INSECURE)
        elif reach.address is None or not reach.address.startswith("tls://"):
            say(ON_THIS_MACHINE)
        return reach


@contextlib.contextmanager
def _dask() -> Iterator[None]:
    """Wraps the loading of modules that need Dask."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] == "storagelab":
            raise
        raise PreflightError(
            f"Dask is not installed (there is no {missing.name})", key="--executor", hint=_INSTALL
        ) from None


def asked(executor: str, scheduler: str | None, *, insecure: bool, time_limit: str | None) -> Elsewhere | None:
    """The cluster that was asked for; None for processes of this machine. Raises SpecError."""
    if executor == "dask":
        hint = "Such as 90s or 10min."
        return Elsewhere(
            scheduler, insecure, None if time_limit is None else _seconds(time_limit, "--time-limit", hint)
        )
    given = {"--scheduler": scheduler is not None, "--insecure": insecure, "--time-limit": time_limit is not None}
    for name, is_given in given.items():
        if is_given:
            raise SpecError("is an option of a cluster", key=name, hint="Add --executor dask.")
    return None


def race(*, find_best: bool, within: str | None, budget: str | None) -> tuple[Race | None, float | None]:
    """The race, and the seconds that it may take. Raises SpecError."""
    if not find_best:
        for name, value in (("--within", within), ("--budget", budget)):
            if value is not None:
                raise SpecError("is an option of a race", key=name, hint="Add --find-best.")
        return None, None
    margin = 0.0 if within is None else share_of(within)
    if margin is None or not (0 < margin < 1 or within is None):
        raise SpecError(f"{within!r} is no margin", key="--within", hint="Write a percentage above 0, such as 3%.")
    return Race(within=margin, first_look=RACES_LOOK_FROM), None if budget is None else _seconds(
        budget, "--budget", "Such as 90min or 2h."
    )


def _seconds(text: str, key: str, hint: str) -> float:
    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise SpecError(str(error), key=key, hint=hint) from None
    if seconds <= 0:
        raise SpecError("must be above 0", key=key, hint=hint)
    return seconds
