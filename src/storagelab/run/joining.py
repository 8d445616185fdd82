"""Joins a cluster that Dask runs, or starts one of local processes. Refuses what is not safe, and what is not the same.

A scheduler runs whatever it is sent, on every worker, with the rights of their users. So nothing beyond this machine is
joined without TLS, unless the user insists.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import ipaddress
import logging
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import dask
import distributed
from distributed import Client, LocalCluster, Security

from storagelab import _sim
from storagelab.errors import PreflightError
from storagelab.machine.host import describe_host
from storagelab.model.measurement import name_of_host
from storagelab.run.executors import tunables
from storagelab.version import __version__

_ANSWER_S = 10.0
_SCHEMES = ("tcp", "tls")
_SETTINGS = "ca-file", "client.cert", "client.key"
_LOCAL = "127.0.0.1"
_OPEN_PORT = "not encrypted, and whoever reaches that port can run programs on all workers"
_QUIET = {
    "distributed.admin.large-graph-warning-threshold": "1 TB",  # drives in a slice are large on purpose
    "distributed.scheduler.worker-ttl": None,  # whether a worker hangs is judged by the time limit
    # What Dask watches itself by takes time from runs in local workers, which take over these settings.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}
logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is said in our own words


class Reach(NamedTuple):
    """Where the cluster is. Without an `address`, `processes` of this machine are one."""

    address: str | None
    processes: int
    insecure: bool = False


def asked(address: str | None, processes: int, *, insecure: bool) -> Reach:
    """The cluster that the user means: by the option, by Dask's own setting, or none. Raises PreflightError."""
    said = address or dask.config.get("scheduler-address", None)
    return Reach(None if said is None else _checked(str(said), insecure), processes, insecure)


def _checked(said: str, insecure: bool) -> str:
    """The address with its scheme. Raises PreflightError for one that is not encrypted."""
    scheme, _, rest = said.rpartition("://")
    host, _, port = rest.rpartition(":")
    if (scheme and scheme not in _SCHEMES) or not host or not port.isdigit():
        raise PreflightError(
            f"{said} is no address of a scheduler", key="--scheduler", hint="write tcp://HOST:8786 or tls://HOST:8786"
        )
    if not scheme:
        scheme = "tcp" if insecure or is_local(rest) else "tls"
    address = f"{scheme}://{rest}"
    if not (insecure or is_safe(address)):
        raise PreflightError(
            f"{address} is {_OPEN_PORT}",
            key="--scheduler",
            hint=f"use TLS (tls://{rest}, docs/how-to/many-machines.md), or insist with --insecure on a network of your own",
        )
    if scheme == "tls":
        _check_certificates(address)
    return address


def is_safe(address: str) -> bool:
    """Whether nobody but holders of a certificate, or users of this machine, can reach the address."""
    return address.startswith("tls://") or is_local(address)


def is_local(address: str) -> bool:
    """Whether the address can be reached from this machine only."""
    host = address.rpartition("://")[2].rpartition(":")[0].strip("[]")
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _check_certificates(address: str) -> None:
    for name in _SETTINGS:
        setting = f"distributed.comm.tls.{name}"
        file = dask.config.get(setting, None)
        if file is None and name == "client.key":
            continue  # it may be in the certificate's file
        if file is None or not Path(file).is_file():
            problem = "is not set" if file is None else f"names {file}, which is not a file"
            variable = "DASK_" + setting.upper().replace("-", "_").replace(".", "__")
            raise PreflightError(
                f"{address} needs a certificate, but Dask's setting {setting} {problem}",
                key="--scheduler", hint=f"set it in Dask's configuration, or by {variable}",
            )  # fmt: skip


@contextmanager
def joined(reach: Reach) -> Iterator[Client]:
    """A client of the cluster; the local one ends with it. Raises PreflightError if no scheduler answers."""
    with dask.config.set(_QUIET), contextlib.ExitStack() as stack:
        if reach.address is None:
            cluster = stack.enter_context(contextlib.closing(_started(reach.processes)))
            address, security = cluster.scheduler_address, _unencrypted()
        else:
            address, security = reach.address, Security()
        try:
            client = Client(address, timeout=_ANSWER_S, set_as_default=False, security=security)
            stack.callback(_left, client)
            listens = str(client.scheduler_info()["address"])
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            reason = next(iter(str(error.__cause__ or error).splitlines()), type(error).__name__)
            raise PreflightError(
                f"no scheduler answers at {address}: {reason}",
                key="--scheduler", hint="start one with `dask scheduler`, or leave --scheduler out for a local cluster",
            ) from None  # fmt: skip
        if not (reach.insecure or is_safe(listens)):
            raise PreflightError(
                f"the scheduler at {address} listens at {listens} too, which is {_OPEN_PORT}",
                key="--scheduler", hint="start it with `--host localhost` or with TLS, or insist with --insecure",
            )  # fmt: skip
        yield client


def _unencrypted() -> Security:
    """For processes of one machine that no other reaches, whatever certificates Dask's settings name."""
    return Security(require_encryption=False, tls_ca_file=None)


def _left(client: Client) -> None:
    with contextlib.suppress(OSError, TimeoutError):
        client.close(timeout=1)


def _started(processes: int) -> LocalCluster:
    """Processes of this machine, which no other can reach."""
    return LocalCluster(
        n_workers=processes, threads_per_worker=1, processes=True, host=_LOCAL, protocol="tcp://", security=_unencrypted(),
        dashboard_address=f"{_LOCAL}:0", worker_dashboard_address=None, memory_limit=0, silence_logs=logging.CRITICAL,
        env={**tunables(), "DASK_LOGGING__DISTRIBUTED": "critical"},
    )  # fmt: skip


# --- whether workers are of the same kind ----------------------------------------------------------------------------

Identity = dict[str, str]
QUESTION = "__import__('storagelab.run.joining', fromlist=['introduction']).introduction()"
"""Text, so that any worker, and any scheduler, can read it, whatever it has."""


HOST, SLOTS = "host", "slots"
RESOURCE = "storagelab"
"""Dask's resource by which a worker offers to make runs of real servers."""


def introduction() -> Identity:
    """A worker's identity, the name of its HOST, "" if it has none that lasts, and how many SLOTS it offers."""
    return {**identity(), HOST: name_of_host(describe_host()), SLOTS: _slots()}


def identity() -> Identity:
    """What must be the same everywhere for results to be the same."""
    return {
        "storagelab": f"{__version__} ({_sources()})", "storagelab's core": _sim.version(),
        "Python": ".".join(platform.python_version_tuple()[:2]), "Dask": distributed.__version__,
    }  # fmt: skip


def _slots() -> str:
    try:
        resources = distributed.get_worker().state.total_resources
    except ValueError:  # it is no worker
        return "0"
    return f"{resources.get(RESOURCE, 0):g}"


@functools.cache
def _sources() -> str:
    """A digest of the package's own files: two checkouts of one version may differ."""
    folder = Path(str(resources.files("storagelab")))
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".py", ".toml"):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:8]


def refusal(told: Identity) -> str:
    """Why a worker of this identity is refused; "" if it is not."""
    ours = identity()
    differing = [
        f"its {name} is {told.get(name, 'unknown')}, here {own}" for name, own in ours.items() if told.get(name) != own
    ]
    return "; ".join(differing)
