"""`storagelab run` on a fleet of hosts: which hosts there are, whether all can make the runs, and the runs
themselves.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from storagelab import screen
from storagelab.errors import PreflightError
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.model.prepared import distinct
from storagelab.run import fleet, loop, requests, stored
from storagelab.run.fleet import Asked, Found
from storagelab.run.messages import words
from storagelab.run.progress import LOG_FILE, RunProgress
from storagelab.run.rounds import Round, rounds_of, share_out
from storagelab.run.store import FILE_NAME, NothingStored, Store
from storagelab.stopping import Interruptible
from storagelab.targets import Site
from storagelab.verbs import so_far
from storagelab.verbs.elsewhere import Elsewhere
from storagelab.verbs.planning import saying_what_is_stored, site_of, tell_if_set_aside
from storagelab.words.numbers import bytes_, plural

if TYPE_CHECKING:
    from storagelab.run.asking import Present
    from storagelab.run.joining import Reach

KEY = "--executor"


def asked(experiment: Experiment, plan: Plan, elsewhere: Elsewhere | None) -> Elsewhere | None:
    """The cluster whose hosts are to make the runs; None if runs are simulated, or made here. Raises PreflightError
    if hosts can't make them.
    """
    simulated = loop.portable(plan)
    if experiment.fleet is not None and simulated:
        raise _refused("simulated runs come out the same on every host", "remove [fleet]", "fleet")
    if experiment.fleet is not None and elsewhere is None:
        hint = "add --executor dask --scheduler tls://HOST:8786, or remove [fleet] to make all runs on this machine"
        raise _refused("its runs are made on the hosts of a cluster", hint, "fleet")
    if elsewhere is None or simulated:
        return None
    configs = [cell.config for cell in plan.cells]
    here = "leave --executor out; `storagelab gather` puts campaigns of several hosts together"
    if any(config.kind.raw_io for config in configs):
        raise _refused("raw I/O can't be made run by run on hosts: it prepares a volume for many runs", here)
    if any(volume.kept_for_block for config in configs for volume in config.volumes.values()) or experiment.blocks > 1:
        raise _refused("hosts share rounds, and a block of runs on one preparation belongs to one host", here, "blocks")
    if experiment.race is not None:
        raise _refused("a race is decided round by round on one host", "leave --find-best out")
    if experiment.order == "cell-by-cell":
        raise _refused("hosts make whole rounds, and this order has none", 'set it to "randomised"', "order")
    if any(config.between_runs.burn_in for config in configs):
        raise _refused("a burn-in belongs to one host", f"remove it, or {here}", "between_runs.burn_in")
    return elsewhere


def _refused(problem: str, hint: str, key: str = KEY) -> PreflightError:
    return PreflightError(problem, key=key, hint=hint)


def make(
    experiment: Experiment,
    plan: Plan,
    folder: Path,
    elsewhere: Elsewhere,
    *,
    again: bool,
    allow_commands: bool,
    despite_space: bool = False,
) -> tuple[tuple[Run, ...], bool]:
    """Makes all runs of the experiment; returns whether none has failed."""
    site = site_of(experiment, folder, despite_space=despite_space).model_copy(update={"spec_folder": Path()})
    before = _stored(experiment, plan, folder)
    with Interruptible() as stopping:
        hosts = None
        if any(one.left for one in rounds_of(plan, before, again=again)):
            try:
                limit_s = loop.time_limit_s(plan, _durations(before), elsewhere.time_limit_s)
                hosts = _discover(experiment, plan, site, elsewhere, limit_s, allow_commands=allow_commands)
            except PreflightError as error:
                raise error.of(experiment.source) from error
        with Store.writing(folder, experiment) as store:
            if hosts is not None:
                _make_rounds(plan, store, site, hosts, stopping, again=again)
            runs = stored.of_plan(folder / FILE_NAME, plan, store.runs())
            failed = any(status == "failed" for _, status in store.attempts().values())
    return runs, not failed


def _stored(experiment: Experiment, plan: Plan, folder: Path) -> tuple[Run, ...]:
    """What is stored of this experiment. Raises StoreError if it belongs to another experiment; it is not moved
    aside.
    """
    with contextlib.suppress(NothingStored), Store.reading(folder) as store:
        if not store.would_be_set_aside(experiment):
            store.refuse_another(experiment)
            return stored.of_plan(folder / FILE_NAME, plan, store.runs())
    return ()


def _durations(runs: Sequence[Run]) -> list[tuple[str, float]]:
    return [(run.cell_id, run.wall_s) for run in runs if run.status != "failed"]


def _make_rounds(
    plan: Plan, store: Store, site: Site, hosts: Discovered, stopping: Interruptible, *, again: bool
) -> None:
    from storagelab.run import cluster

    todo = rounds_of(plan, store.runs(), again=again)
    share_out(todo, tuple(hosts.address_of))
    pending = [one.block.runs[at] for one in todo for at in one.left]
    before = len(plan.runs) - len(pending)
    console = screen.err()
    tell_if_set_aside(store, console)
    with RunProgress(
        plan, pending, store.durations(), console, store.folder, stopping.check, at_once=hosts.at_once
    ) as progress:
        for line in hosts.lines:
            progress.say(line)
        progress.say(_shares_text(todo, hosts))
        already = f", {before} stored already" if before else ""
        progress.say(f"{len(pending)} runs to make{already}; log: {store.folder / LOG_FILE}")
        request = requests.MeasuredRun(secrets.token_hex(8))
        executor = cluster.Cluster(
            request, hosts.reach, progress.say, limit_s=hosts.limit_s, fleet=tuple(hosts.address_of)
        )
        progress.workers = lambda: min(executor.at_once, hosts.at_once)
        live = so_far.kept(store.folder, progress, before, stopping)
        with live, saying_what_is_stored(stopping, progress, before):
            fleet.Rounds(plan, todo, hosts.at_once, store, site, progress).make(executor)
        if distinct(cell.config for cell in plan.cells):
            _remove_templates(plan, site, hosts, progress.say)


def _remove_templates(plan: Plan, site: Site, hosts: Discovered, say: Callable[[str], None]) -> None:
    """Removes templates on each host that is there at the end; workers may have been restarted meanwhile."""
    from storagelab.run import asking

    there = asking.present(hosts.reach, say, hosts.limit_s).address_of
    left = {host: there[host] for host in hosts.address_of if host in there}
    answers = asking.ask_each(
        hosts.reach, left, requests.CleanUp(), Asked(plan=plan, site=site, allow_commands=True), say, hosts.limit_s
    )
    for host in hosts.address_of:
        why = answers.get(host, "it is gone")
        if host not in answers or isinstance(why, Exception):
            say(f"{host}: templates may be left on its volumes: {why}")


def _shares_text(todo: Sequence[Round], hosts: Discovered) -> str:
    """How many of the remaining rounds each host makes."""
    left = [one.host for one in todo if one.left]
    shares = ", ".join(f"{left.count(host)} on {host}" for host in hosts.address_of)
    turns = f"; {plural(hosts.at_once, 'host')} at a time" if hosts.at_once < len(hosts.address_of) else ""
    return f"{plural(len(left), 'round')} to make: {shares}{turns}"


# --- who is there, and who can ---------------------------------------------------------------------------------------


class Discovered(NamedTuple):
    """The hosts that make a campaign, after all of them were checked: what each reported."""

    address_of: dict[str, str]
    at_once: int
    lines: tuple[str, ...]
    reach: Reach
    limit_s: float


def _discover(
    experiment: Experiment, plan: Plan, site: Site, elsewhere: Elsewhere, limit_s: float, *, allow_commands: bool
) -> Discovered:
    """All hosts, each checked, with a server started on it for a moment. Raises PreflightError if one is missing or
    can't make the runs; nothing has started anywhere then.
    """
    reach = elsewhere.reach(1, screen.say)
    if reach.address is None:
        hint = "name it: --scheduler tls://HOST:8786; without --executor, runs are made on this machine"
        raise _refused("measured runs need the scheduler of their hosts", hint, "--scheduler")
    from storagelab.run import asking

    there = asking.present(reach, screen.say, limit_s)
    wanted = experiment.fleet.hosts if experiment.fleet else ()
    for name, why in there.others.items():
        screen.say(f"worker {name} takes no part: {why}")
    _check_who_is_there(there, wanted, asking.START)
    hosts = {host: there.address_of[host] for host in wanted or there.address_of}
    if len(hosts) > experiment.repetitions:
        raise PreflightError(
            f"{plural(experiment.repetitions, 'round')} for {len(hosts)} hosts: each has to make at least one whole round",
            key="repetitions", hint=f"set it to {2 * len(hosts)} or more: two rounds of each host show which host is odd",
        )  # fmt: skip
    asked = Asked(plan=plan.model_copy(update={"runs": ()}), site=site, allow_commands=allow_commands)
    answers = asking.ask_each(reach, hosts, requests.LookAround(), asked, screen.say, limit_s)
    found = {
        host: one if isinstance(one, Found) else Found(preflight=None, refusal=str(one))
        for host, one in answers.items()
    }
    if refused := {host: one.refusal for host, one in found.items() if one.refusal}:
        raise PreflightError(_refusals(refused, len(hosts)))
    at_once = (experiment.fleet.at_once if experiment.fleet else None) or len(hosts)
    lines = tuple(words(f"{host}: {line}") for host, one in found.items() for line in _found_text(one))
    return Discovered(hosts, min(at_once, len(hosts)), lines, reach, limit_s)


def _check_who_is_there(there: Present, wanted: tuple[str, ...], start: str) -> None:
    if missing := [host for host in wanted if host not in there.address_of]:
        known = f"there are {', '.join(there.address_of)}" if there.address_of else "no host is there"
        raise PreflightError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not there; {known}", key="fleet.hosts",
            hint=f"start a worker there: {start}; or take it off the list",
        )  # fmt: skip
    if not there.address_of:
        raise PreflightError(
            "no worker offers to make measured runs", key="--scheduler", hint=f"start one on each host: {start}"
        )


def _refusals(refused: dict[str, str], hosts: int) -> str:
    each = "".join(f"\n  {host}: " + why.replace("\n", "\n    ") for host, why in refused.items())
    return f"{len(refused)} of {hosts} hosts can't make the runs, so nothing was started on any:{each}"


def _found_text(found: Found) -> Iterator[str]:
    """What is worth knowing of a host: its server, its volumes, notes of its check, and what it can't measure."""
    if found.preflight is not None:
        yield found.preflight.server
        for volume in found.preflight.volumes:
            yield f"volume {volume.name} is {volume.path}, with {bytes_(volume.free_bytes)} free"
        yield from found.preflight.notes
    yield from (f"{one.name}: {one.detail}" for one in found.abilities if one.state != "yes")
