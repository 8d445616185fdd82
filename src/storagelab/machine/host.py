"""Describes this machine, its volumes and, on Kubernetes, this pod, for a run's manifest. Also acts on volumes.

A function that describes something raises no errors. If a fact is unknown, e.g. in a container without /sys, its value
is None or absent. Only the functions that act on a volume (`drop_page_cache`, `try_writing`) raise errors. Each error
says how to solve the problem.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import platform
import re
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from storagelab.errors import PreflightError
from storagelab.machine import disks
from storagelab.machine.counts import control_groups, throttle
from storagelab.machine.descriptors import opened
from storagelab.machine.disks import HERE, Kernel, integer_in, read_text

NAME_VARIABLE = "STORAGELAB_HOST"
"""The environment variable with this host's name. It is needed for containers, whose hostnames change."""

_WRITEBACK = ("dirty_background_bytes", "dirty_background_ratio", "dirty_bytes", "dirty_ratio", "swappiness")
"""The kernel's settings for writing out dirty pages. A setting `_ratio` applies only if its `_bytes` is 0."""

# ---------------------------------------------------------------------------------------------------------------------
# The machine
# ---------------------------------------------------------------------------------------------------------------------


def describe_host(kernel: Kernel = HERE) -> dict[str, object]:
    """This machine, as values that can be stored as JSON. Sizes are in bytes. An unknown value is None.

    `name` comes from NAME_VARIABLE, and is absent without it. `cpu_count` is the number of CPUs that this process may
    use (see `usable_cpus`). `cpu_quota` is the control group's limit, in CPUs. `memory_limit_bytes` is the control
    group's limit. Each limit is None if there is none.
    """
    cpuinfo, memory = read_text(kernel.proc / "cpuinfo"), parse_meminfo(read_text(kernel.proc / "meminfo"))
    virtual, hypervisor = virtual_machine(kernel)
    clock = kernel.sys / "devices" / "system" / "clocksource" / "clocksource0"
    pages = kernel.sys / "kernel" / "mm" / "transparent_hugepage" / "enabled"
    governor = kernel.sys / "devices" / "system" / "cpu" / "cpu0" / "cpufreq" / "scaling_governor"
    swap = memory.get("SwapTotal")
    return {
        **({"name": name} if (name := os.environ.get(NAME_VARIABLE)) else {}),
        "hostname": platform.node(),
        "operating_system": operating_system(),
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "cpu_model": cpu_model(cpuinfo) or platform.processor() or None,
        "cpu_count": usable_cpus(kernel),
        "cpu_count_online": os.cpu_count(),
        "cpu_quota": cpu_quota(kernel),
        "cpu_governor": read_text(governor) or None,
        "memory_bytes": memory.get("MemTotal") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "memory_available_bytes": memory.get("MemAvailable"),
        "memory_limit_bytes": memory_limit_bytes(kernel),
        "swap_bytes": swap,
        "swap_used_bytes": None if swap is None or "SwapFree" not in memory else swap - memory["SwapFree"],
        "load_1min": load_1min(),
        "virtual_machine": virtual,
        "hypervisor": hypervisor or None,
        "container": container(kernel) or None,
        "transparent_hugepages": disks.chosen(read_text(pages)) or None,
        "clocksource": read_text(clock / "current_clocksource") or None,
        "writeback": {
            name: number for name in _WRITEBACK if (number := integer_in(kernel.proc / "sys/vm" / name)) is not None
        },
        **({"kubernetes": pod} if (pod := describe_pod()) else {}),
    }


def usable_cpus(kernel: Kernel = HERE) -> int:
    """The number of CPUs that this process may use at once: the number in its affinity or, if it is less, the control
    group's quota, rounded up.
    """
    allowed, quota = len(os.sched_getaffinity(0)), cpu_quota(kernel)
    return allowed if quota is None else max(1, min(allowed, math.ceil(quota)))


def load_1min() -> float | None:
    """The one-minute load average, or None if unknown."""
    with contextlib.suppress(OSError):
        return os.getloadavg()[0]
    return None


def cpu_quota(kernel: Kernel = HERE) -> float | None:
    """The number of CPUs to which control groups (version 1 or 2) limit this process, or None if no limit is known."""
    quotas = []
    for folder in control_groups("cpu", kernel):
        limit, _, period = read_text(folder / "cpu.max").partition(" ")
        limit = limit or read_text(folder / "cpu.cfs_quota_us")
        period = period or read_text(folder / "cpu.cfs_period_us")
        if limit.isdigit() and period.isdigit() and int(period) > 0:
            quotas.append(int(limit) / int(period))
    return min(quotas, default=None)


def memory_limit_bytes(kernel: Kernel = HERE) -> int | None:
    """The memory to which control groups (version 1 or 2) limit this process, or None if no limit is known."""
    files = ("memory.max", "memory.limit_in_bytes")
    limits = (integer_in(folder / file) for folder in control_groups("memory", kernel) for file in files)
    # Version 1 has no word for "no limit": the file then has the largest possible number.
    return min((limit for limit in limits if limit is not None and limit < 2**62), default=None)


def virtual_machine(kernel: Kernel = HERE) -> tuple[bool | None, str]:
    """Whether this is a virtual machine (None if unknown), and its hypervisor's name ("" if unknown)."""
    dmi = kernel.sys / "class" / "dmi" / "id"
    maker = f"{read_text(dmi / 'sys_vendor')} {read_text(dmi / 'product_name')}"
    clock = read_text(kernel.sys / "devices/system/clocksource/clocksource0/available_clocksource")
    name = hypervisor_of(maker, clock, read_text(kernel.sys / "hypervisor" / "type"))
    flags = re.search(r"^flags\s*:(.*)$", read_text(kernel.proc / "cpuinfo"), re.MULTILINE)
    if flags is None:  # not an x86 CPU, so there is no flag: only a hypervisor's name is evidence
        return (True, name) if name else (None, "")
    return ("hypervisor" in flags[1].split(), name if "hypervisor" in flags[1].split() else "")


_HYPERVISORS = {
    "qemu": "QEMU", "kvm": "KVM", "vmware": "VMware", "virtualbox": "VirtualBox", "xen": "Xen", "hyperv": "Hyper-V",
    "microsoft corporation virtual machine": "Hyper-V", "amazon ec2": "Amazon EC2", "bhyve": "bhyve",
    "google compute engine": "Google Compute Engine", "openstack": "OpenStack", "parallels": "Parallels",
    "bochs": "Bochs", "digitalocean": "DigitalOcean", "apple virtualization": "Apple Virtualization",
}  # fmt: skip


def hypervisor_of(maker: str, clocksources: str, sys_hypervisor: str) -> str:
    """The name of the hypervisor, or "" if none is found. Three texts are searched: the firmware's maker,
    /sys/hypervisor and the available clocks. The most reliable comes first.
    """
    texts = [text.lower() for text in (maker, sys_hypervisor, clocksources) if ".metal" not in text]
    return next((name for text in texts for mark, name in _HYPERVISORS.items() if mark in text), "")


def container(kernel: Kernel = HERE) -> str:
    """The kind of container in which this process runs ("docker", "podman", "kubernetes", "lxc" ...), or "" if there is
    no sign of one.
    """
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    root = kernel.proc.parent
    if (root / "run" / ".containerenv").exists():
        return "podman"
    if (root / ".dockerenv").exists():
        return "docker"
    groups = read_text(kernel.proc / "self" / "cgroup")
    known = (name for name in ("kubepods", "docker", "containerd", "lxc") if f"/{name}" in groups)
    return read_text(root / "run" / "systemd" / "container") or next(known, "")


def cpu_model(cpuinfo: str) -> str:
    """The CPU model's name in the text of /proc/cpuinfo, or "" if the text has none, as on many ARM machines."""
    match = re.search(r"^(?:model name|Model|cpu model|machine)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return match[1].strip() if match else ""


def parse_meminfo(text: str) -> dict[str, int]:
    """The sizes in bytes, by name, from the text of /proc/meminfo. There, "kB" means KiB."""
    return {name: int(kib) * 1024 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}


def operating_system() -> str:
    """Returns the name of the Linux distribution. If this is unknown, returns the name and release of the system."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"


# ---------------------------------------------------------------------------------------------------------------------
# Volumes
# ---------------------------------------------------------------------------------------------------------------------


def describe_volume(path: str | Path, kernel: Kernel = HERE, process: int | str = "self") -> dict[str, object]:
    """The file system, the devices and the disks under `path`, as values that can be stored as JSON. An unknown value
    is None.

    `device` is the kernel's name of the disk. If there are several disks (`disks` lists all), `device` is the device
    that combines them. It is "" without a disk, as under tmpfs, overlay or NFS. `device_stack` is in the order from the
    file system downward. `queue` belongs to `device`. `file_system_queue` belongs to the device of the file system, if
    that is another one (loop, md, device-mapper). Never infer the medium from `rotational`. `throttle` has the limits
    per second that control groups set for `process` on this volume.
    """
    mount = disks.mount_of(path, disks.mounts_here(kernel))
    own = disks.block_devices_of(mount, kernel) if mount else ()
    stack = disks.device_stack(own, kernel)
    whole = disks.whole_disks(stack, kernel)
    device = whole[0] if len(whole) == 1 else next(iter(stack), "")
    disk = disks.describe_disk(device, kernel) if device else {}
    virtual, reason = disks.virtual_disk(mount, stack, virtual_machine(kernel)[0], kernel)
    size, free = _space_bytes(path)
    return {
        "path": os.path.abspath(path),
        "filesystem": mount.filesystem if mount else None,
        "mount_point": mount.mount_point if mount else None,
        "mount_options": ",".join(mount.all_options) if mount else None,
        "source": mount.source if mount else None,
        "device": device,
        "device_stack": list(stack),
        "disks": list(whole),
        "device_numbers": disks.device_numbers_of(path) or None,
        "device_model": disk.get("model") or None,
        "device_vendor": disk.get("vendor") or None,
        "device_firmware": disk.get("firmware") or None,
        "device_driver": disk.get("driver") or None,
        "queue": disk.get("queue", {}),
        "file_system_queue": disks.describe_queue(stack[0], kernel) if stack and stack[0] != device else {},
        "throttle": throttled.limits if (throttled := throttle(own, kernel, process)) is not None else {},
        "size_bytes": size,
        "free_bytes": free,
        "virtual": virtual,
        "virtual_reason": reason,
        "in_memory": disks.is_in_memory(mount, stack),
        **({"claim": claim} if (claim := describe_claim(path)) else {}),
    }


def _space_bytes(path: str | Path) -> tuple[int | None, int | None]:
    """The size of the file system, and its free space for users other than root, in bytes."""
    try:
        found = os.statvfs(disks.nearest_existing(path))
    except OSError:
        return None, None
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


# ---------------------------------------------------------------------------------------------------------------------
# Actions
# ---------------------------------------------------------------------------------------------------------------------


def free_bytes(path: str | Path) -> int:
    """The free bytes for users other than root at `path` or, if that does not exist, in the nearest folder above it.
    Raises PreflightError if they can't be read.
    """
    free = _space_bytes(path)[1]
    if free is None:
        raise PreflightError(f"{path}: its free space can't be read", hint="check the path and its permissions")
    return free


def why_not_writable(path: str | Path, kernel: Kernel = HERE) -> str:
    """Why this user can't write files in the folder `path`, as the end of a sentence, or "" if the user can. Only reads
    permissions and mounts.
    """
    folder = Path(path)
    if not folder.exists():
        return "does not exist"
    if not folder.is_dir():
        return "is not a folder"
    mount = disks.mount_of(folder, disks.mounts_here(kernel))
    if mount is not None and mount.read_only:
        return f"is on a file system mounted read-only ({mount.mount_point})"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "is not writable by this user"
    return ""


def try_writing(path: str | Path) -> None:
    """Makes and removes a file in the folder `path`. Raises PreflightError, which says why, if that fails."""
    reason = why_not_writable(path)
    if not reason:
        try:
            with tempfile.TemporaryFile(dir=path, prefix=".storagelab-") as file:  # on Linux the file has no name
                file.write(b"storagelab")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            reason = f"refuses a new file: {error.strerror or error}"
    if reason:
        raise PreflightError(f"{path} {reason}", hint="make the folder, fix its permissions, or name another one")


def sync_filesystem(path: str | Path) -> None:
    """Writes out all dirty data of the file system that contains `path`. Raises OSError."""
    with opened(path) as file:
        if ctypes.CDLL(None, use_errno=True).syncfs(file) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))


def can_drop_page_cache(kernel: Kernel = HERE) -> bool:
    """Whether this process may drop the kernel's page cache. Only checks permissions."""
    return os.access(kernel.proc / "sys" / "vm" / "drop_caches", os.W_OK)


def drop_page_cache(kernel: Kernel = HERE) -> None:
    """Writes out all dirty pages, and drops the clean ones, so that later reads come from the disk. Needs root. Raises
    PreflightError if this is not allowed.
    """
    os.sync()
    try:
        (kernel.proc / "sys" / "vm" / "drop_caches").write_text("1\n")
    except OSError as error:
        hint = "run as root, outside an unprivileged container, or set between_runs.drop_page_cache = false"
        raise PreflightError(f"the page cache can't be dropped: {error.strerror or error}", hint=hint) from error


def memory_available() -> int:
    """The bytes that programs can use without swapping. If the kernel doesn't report this figure, returns the free
    bytes.
    """
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return parse_meminfo(read_text(HERE.proc / "meminfo")).get("MemAvailable", free)


# --- Kubernetes: this pod, its node, and the claims that are mounted in it, for a run's manifest ----------------------
# The Job that `storagelab k8s` writes sets the variables of `Names`. All other facts are read from the cluster's API
# server, if the service account has the right. The key `unknown` lists the facts that the pod may not read, and the
# reasons.

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_ANSWER_S = 5.0
_SECRET = ("secret", "password", "passwd", "token", "key", "credential")
"""If a parameter of a StorageClass has one of these words in its name, its value is not stored."""
_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_MACHINE = "node.kubernetes.io/instance-type"

Answer = Mapping[str, Any]
Ask = Callable[[str], Answer]
"""Reads an object from the API server by its path. Raises OSError or ValueError."""


class Names:
    """The environment variables that the Job sets."""

    CLAIMS: Final = "STORAGELAB_CLAIMS"
    """JSON that maps each mount path to its claim and class: {"/volumes/gp3": {"claim": "my-gp3", "class": "gp3"}}"""
    NODE: Final = "STORAGELAB_NODE"
    POD: Final = "STORAGELAB_POD"
    NAMESPACE: Final = "STORAGELAB_NAMESPACE"
    CPU_LIMIT: Final = "STORAGELAB_CPU_LIMIT"
    MEMORY_LIMIT: Final = "STORAGELAB_MEMORY_LIMIT"


def describe_pod(ask: Ask | None = None) -> dict[str, object]:
    """The pod's node with its zone and machine type, and the pod's limits. {} outside of storagelab's Jobs."""
    node = os.environ.get(Names.NODE)
    if not node:
        return {}
    found: dict[str, object] = {
        "node": node,
        "pod": os.environ.get(Names.POD),
        "namespace": os.environ.get(Names.NAMESPACE),
        "cpu_limit": os.environ.get(Names.CPU_LIMIT),
        "memory_limit_bytes": int(limit) if (limit := os.environ.get(Names.MEMORY_LIMIT, "")).isdigit() else None,
    }
    unknown: list[str] = []
    asked = _asked(ask, f"/api/v1/nodes/{node}", "zone, region and kind of machine", unknown)
    labels = table_at(asked, "metadata", "labels")
    found |= {"zone": labels.get(_ZONE), "region": labels.get(_REGION), "instance_type": labels.get(_MACHINE)}
    found["kubelet"] = table_at(asked, "status", "nodeInfo").get("kubeletVersion")
    return {**found, "unknown": unknown}


def describe_claim(path: str | Path, ask: Ask | None = None) -> dict[str, object]:
    """The claim that is mounted at `path` or above it: its class with provisioner and parameters, and its volume. {} if
    there is no claim.
    """
    mounted = _claims()
    folder = Path(os.path.abspath(path))
    at = next((one for one in (folder, *folder.parents) if str(one) in mounted), None)
    if at is None:
        return {}
    claim, class_ = mounted[str(at)]["claim"], mounted[str(at)]["class"]
    namespace = os.environ.get(Names.NAMESPACE, "default")
    unknown: list[str] = []
    own = _asked(ask, f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}", "size and volume", unknown)
    volume_name = table_at(own, "spec").get("volumeName")
    volume = _asked(ask, f"/api/v1/persistentvolumes/{volume_name}", "driver", unknown) if volume_name else {}
    of_class = _asked(ask, f"/apis/storage.k8s.io/v1/storageclasses/{class_}", "provisioner and parameters", unknown)
    return {
        "claim": claim,
        "class": table_at(own, "spec").get("storageClassName") or class_,
        "capacity": table_at(own, "status", "capacity").get("storage"),
        "volume": volume_name,
        "driver": table_at(volume, "spec", "csi").get("driver"),
        "volume_attributes": _without_secrets(table_at(volume, "spec", "csi", "volumeAttributes")),
        "provisioner": of_class.get("provisioner"),
        "parameters": _without_secrets(table_at(of_class, "parameters")),
        "mount_options": of_class.get("mountOptions"),
        "binding": of_class.get("volumeBindingMode"),
        "unknown": unknown,
    }


def _claims() -> dict[str, dict[str, str]]:
    try:
        claims = json.loads(os.environ.get(Names.CLAIMS, "{}"))
        return {str(path): {"claim": str(one["claim"]), "class": str(one["class"])} for path, one in claims.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def _without_secrets(parameters: Answer) -> dict[str, object]:
    return {
        name: "***" if any(word in name.lower() for word in _SECRET) else value for name, value in parameters.items()
    }


def table_at(answer: Answer, *names: str) -> Answer:
    """A table inside an answer, by the names on the way to it, or {} if the answer has no such table."""
    for name in names:
        below = answer.get(name)
        answer = below if isinstance(below, dict) else {}
    return answer


# --- the cluster's server --------------------------------------------------------------------------------------------


def _asked(ask: Ask | None, path: str, what: str, unknown: list[str]) -> Answer:
    """The API server's object. If it can't be read, {}, and the reason is added to `unknown`."""
    try:
        return (ask or _ask)(path)
    except (OSError, ValueError) as error:
        unknown.append(f"{what}: {_reason(error, path)}")
        return {}


def _reason(error: Exception, path: str) -> str:
    kind = path.split("/")[-2]
    if isinstance(error, urllib.error.HTTPError):
        refused = f"the service account may not read {kind}"
        known = {401: refused, 403: refused, 404: f"there is no such object among {kind}"}
        return known.get(error.code, f"the server answers {error.code}")
    return f"the server does not answer: {error.reason}" if isinstance(error, urllib.error.URLError) else str(error)


def _ask(path: str) -> Answer:
    found = _answer_to(path)
    if isinstance(found, Exception):
        raise found
    return found


@cache
def _answer_to(path: str) -> Answer | Exception:
    """The API server's object, or the error. Each object is read once, because it does not change while a pod runs."""
    try:
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        token = read_text(SERVICE_ACCOUNT / "token")
        if not host or not token:
            raise OSError("no service account is mounted")
        host = f"[{host}]" if ":" in host else host
        return asked_of(
            f"https://{host}:{port}", path, token, ssl.create_default_context(cafile=SERVICE_ACCOUNT / "ca.crt")
        )
    except (OSError, ValueError) as error:
        return error


def asked_of(server: str, path: str, token: str, trust: ssl.SSLContext | None) -> Answer:
    """Reads an object from an API server. Raises OSError or ValueError."""
    request = urllib.request.Request(f"{server}{path}", headers={"Authorization": f"Bearer {token}"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=_ANSWER_S, context=trust) as answer:  # noqa: S310
        found = json.loads(answer.read(2**20))
    if not isinstance(found, dict):
        raise ValueError("its answer is not a JSON object")
    return found
