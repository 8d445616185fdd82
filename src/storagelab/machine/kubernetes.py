"""Kubernetes' facts about this pod, its node and its mounted claims, for a run's manifest.

The Job that `storagelab k8s` writes sets the variables of `Names`. All other facts come from the cluster's API server,
if the service account may read them. Facts that it may not read are listed under `unknown`, with the reason.
"""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from storagelab.machine.disks import read_text

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_ANSWER_S = 5.0
_SECRET = ("secret", "password", "passwd", "token", "key", "credential")
"""A parameter of a StorageClass with such a word in its name is not stored."""
_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_MACHINE = "node.kubernetes.io/instance-type"

Answer = Mapping[str, Any]
Ask = Callable[[str], Answer]
"""Gets an object by its path on the server. Raises OSError or ValueError."""


class Names:
    """The variables that the Job sets."""

    CLAIMS: Final = "STORAGELAB_CLAIMS"
    """{"/volumes/gp3": {"claim": "my-gp3", "class": "gp3"}}: the claim that is mounted at each path, and its class."""
    NODE: Final = "STORAGELAB_NODE"
    POD: Final = "STORAGELAB_POD"
    NAMESPACE: Final = "STORAGELAB_NAMESPACE"
    CPU_LIMIT: Final = "STORAGELAB_CPU_LIMIT"
    MEMORY_LIMIT: Final = "STORAGELAB_MEMORY_LIMIT"


def describe_pod(ask: Ask | None = None) -> dict[str, object]:
    """The pod's node, with its zone and kind of machine, and the pod's limits; {} outside of a Job of ours."""
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
    """The claim that is mounted at `path` or above it: its class with provisioner and parameters, and its volume; {} if
    there is none.
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
    """A table in an answer; {} if it is not there."""
    for name in names:
        below = answer.get(name)
        answer = below if isinstance(below, dict) else {}
    return answer


# --- the cluster's server --------------------------------------------------------------------------------------------


def _asked(ask: Ask | None, path: str, what: str, unknown: list[str]) -> Answer:
    """The server's answer; {} if there is none, which is noted."""
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
    """The answer, or why there is none. Each object is read once, because it does not change while a pod runs."""
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
    """An object of a server. Raises OSError or ValueError."""
    request = urllib.request.Request(f"{server}{path}", headers={"Authorization": f"Bearer {token}"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=_ANSWER_S, context=trust) as answer:  # noqa: S310
        found = json.loads(answer.read(2**20))
    if not isinstance(found, dict):
        raise ValueError("its answer is no object")
    return found
