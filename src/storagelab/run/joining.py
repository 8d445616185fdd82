"""Joins a Dask cluster, or starts one of local processes. Refuses what is not safe, and workers that differ.

A scheduler runs whatever it is sent, on every worker, with the rights of the workers' users. So nothing beyond this
machine is joined without TLS, unless the user insists.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import ipaddress
import logging
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import dask
import distributed
from distributed import Client, Security

from storagelab import _sim
from storagelab.errors import PreflightError
from storagelab.machine.host import describe_host
from storagelab.model.measurement import name_of_host
from storagelab.model.values import Frozen
from storagelab.run import data_only, local_cluster
from storagelab.run.local_cluster import unencrypted
from storagelab.run.messages import answer_of, words
from storagelab.version import __version__

_ANSWER_S = 10.0
_SCHEMES = ("tcp", "tls")
_SETTINGS = "ca-file", "client.cert", "client.key"
_ENDING_S = 10.0
_OPEN_PORT = "not encrypted, and whoever reaches that port can run programs on all workers"
_QUIET = {
    "distributed.admin.large-graph-warning-threshold": "1 TB",  # the drives in a batch are large on purpose
    "distributed.diagnostics.computations.nframes": 0,  # do not send lines of our programs
}
logging.getLogger("distributed").setLevel(logging.CRITICAL)  # storagelab itself reports what matters


class Reach(NamedTuple):
    """Where the cluster is. Without an `address`, it is `processes` of this machine."""

    address: str | None
    processes: int
    insecure: bool = False


def asked(address: str | None, processes: int, *, insecure: bool) -> Reach:
    """The cluster that the user means: by the option, by Dask's own setting, or none. Raises PreflightError."""
    address_given = address or dask.config.get("scheduler-address", None)
    return Reach(None if address_given is None else _checked(str(address_given), insecure), processes, insecure)


def _checked(address_given: str, insecure: bool) -> str:
    """The address with its scheme. Raises PreflightError for one that is not encrypted."""
    scheme, _, rest = address_given.rpartition("://")
    host, _, port = rest.rpartition(":")
    if (scheme and scheme not in _SCHEMES) or not host or not port.isdigit():
        raise PreflightError(
            f"{address_given} is no address of a scheduler",
            key="--scheduler",
            hint="write tcp://HOST:8786 or tls://HOST:8786",
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
    """Whether only holders of a certificate, or users of this machine, can reach the address."""
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
            continue  # the key may be in the certificate's file
        if file is None or not Path(file).is_file():
            problem = "is not set" if file is None else f"names {file}, which is not a file"
            variable = "DASK_" + setting.upper().replace("-", "_").replace(".", "__")
            raise PreflightError(
                f"{address} needs a certificate, but Dask's setting {setting} {problem}",
                key="--scheduler", hint=f"set it in Dask's configuration, or by {variable}",
            )  # fmt: skip


@contextmanager
def joined(reach: Reach) -> Iterator[Client]:
    """A client of the cluster; a local cluster ends with it. Raises PreflightError if no scheduler answers."""
    with dask.config.set(_QUIET), contextlib.ExitStack() as stack:
        data_only.close()
        if reach.address is None:
            address, security = stack.enter_context(_started(reach.processes)), unencrypted()
        else:
            address, security = reach.address, Security()
        try:
            client = Client(address, timeout=_ANSWER_S, set_as_default=False, security=security)
            stack.callback(_left, client)
            listens = str(client.scheduler_info()["address"])
        except Exception as error:  # noqa: BLE001 - whatever a message of another's making breaks with
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


def _left(client: Client) -> None:
    with contextlib.suppress(OSError, TimeoutError):
        client.close(timeout=1)


@contextmanager
def _started(processes: int) -> Iterator[str]:
    """The address of a cluster of local processes. It runs in its own process, so that clients of the cluster get no
    access to the store, and this process has no server.
    """
    program = [sys.executable, "-m", local_cluster.__name__, str(processes)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            address = running.stdout.readline().decode().strip()
            if not address:
                raise PreflightError("the cluster of local processes did not start", key="--executor")
            yield address
        finally:
            running.stdin.close()
            try:
                running.wait(_ENDING_S)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)


# --- whether workers are of the same kind ----------------------------------------------------------------------------

RESOURCE = "storagelab"
"""Dask's resource by which a worker offers to make runs of real servers."""
Identity = dict[str, str]


class Introduction(Frozen):
    """What a worker reports about itself: its identity, the name of its host ("" if that is not permanent), and its
    number of slots for measured runs.
    """

    identity: Identity
    host: str
    slots: str


class Introducing:
    """The request of a new worker."""

    entry = f"{__name__}:introduce"

    def message(self, task: None) -> bytes:  # noqa: ARG002 - nothing to tell
        return b""

    def reports(self, task: None, host: str, parts: Sequence[bytes]) -> tuple[Introduction, ...]:  # noqa: ARG002
        (content,) = parts
        return (Introduction.model_validate_json(content),)


def introduce(_: bytes) -> bytes:
    """Runs on a worker."""
    return answer_of(lambda: [introduction().model_dump_json().encode()])


def introduction() -> Introduction:
    return Introduction(identity=identity(), host=name_of_host(describe_host()), slots=_slots())


def identity() -> Identity:
    """What must be the same everywhere so that results are the same."""
    return {
        "storagelab": f"{__version__} ({_sources()})", "storagelab's core": _sim.version(),
        "Python": ".".join(platform.python_version_tuple()[:2]), "Dask": distributed.__version__,
    }  # fmt: skip


def _slots() -> str:
    try:
        resources = distributed.get_worker().state.total_resources
    except ValueError:  # this process is not a worker
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


def refusal(theirs: Identity) -> str:
    """Why a worker of this identity is refused; "" if it is accepted."""
    ours = identity()
    differing = [
        f"its {name} is {words(theirs.get(name, 'unknown'))}, here {own}"
        for name, own in ours.items()
        if theirs.get(name) != own
    ]
    return "; ".join(differing)
