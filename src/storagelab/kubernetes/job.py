"""The objects that run a campaign in a cluster: the spec, a claim for each StorageClass, the rights to read classes,
and a Job without privileges. Also the pod from which the results are copied."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from storagelab.errors import SpecError
from storagelab.machine.host import NAME_VARIABLE, Names
from storagelab.model.config import Config
from storagelab.model.plan import Experiment, Plan
from storagelab.spec import given_files, keys, matrix, reading
from storagelab.spec.keys import leaves, line

# --- the spec on claims -----------------------------------------------------------------------------------------------
# Writes the spec for the claims of StorageClasses. Its volumes are the places where the claims are mounted.

FACTOR = "volume"
_PLACES = ("data", "log", "tables", "indexes", "temp")
"""The keys of `layout` that name volumes."""
OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_MOST_BYTES = 900_000
"""The largest size of a spec with its files. A ConfigMap can hold a mebibyte."""


class OnClaims(NamedTuple):
    """A spec for claims. `text` is the spec and `plan` its plan. `volumes` maps each class to its volume. `files` maps
    the names of files that the spec names to their texts.
    """

    text: str
    plan: Plan
    volumes: dict[str, str]
    files: dict[str, str]


def mount_path(volume: str) -> str:
    return f"/volumes/{volume}"


def on_claims(experiment: Experiment, classes: Sequence[str], host: int = 0) -> OnClaims:
    """Returns the spec for claims of these classes. `host` is the number of the host, from 0. Each host has its own
    seed, and so its own order of runs. Raises SpecError.
    """
    volumes = {name: _volume_of(name) for name in classes}
    if len(set(volumes.values())) < len(classes) or not classes:
        hint = "Name one or more StorageClasses, each once: kubectl get storageclass"
        raise SpecError("names the same class twice" if classes else "is missing", key="--class", hint=hint)
    configs = [cell.config for cell in matrix.expand(experiment).cells]
    for config in configs:
        if config.simulated or config.target.attached:
            problem = "is simulated" if config.simulated else "already runs elsewhere"
            hint = "A Job measures volumes under a private server, or by raw I/O."
            raise SpecError(f"its server {problem}", file=experiment.source, key="target", hint=hint)
    raw = tomllib.loads(experiment.text)
    files = _files(experiment, configs)
    raw |= {"name": experiment.name, "seed": experiment.seed + host}
    factors = dict(raw.get("factors", {}))
    if set(raw.get("volumes", {})) == set(volumes.values()):
        _refuse_made_volumes(raw, factors, experiment.source)
    else:
        _refuse_own_places(factors, experiment.source)
        layout = {name: value for name, value in raw.get("layout", {}).items() if name not in _PLACES}
        raw["layout"] = {**layout, "data": [volumes[classes[0]]]}
        if len(classes) > 1:
            factors = {
                FACTOR: [{"label": name, "layout.data": [volume]} for name, volume in volumes.items()],
                **factors,
            }
    raw["volumes"] = {
        volume: {**raw.get("volumes", {}).get(volume, {}), "path": mount_path(volume)} for volume in volumes.values()
    }
    text = _text(raw, factors)
    if sum(len(one.encode()) for one in (text, *files.values())) > _MOST_BYTES:
        hint = "Put large files into an image of your own: --image"
        raise SpecError("it and its files are too large for a ConfigMap", file=experiment.source, hint=hint)
    return OnClaims(text, matrix.expand(reading.parse(text, f"{experiment.source} on claims")), volumes, files)


def _volume_of(name: str) -> str:
    """Returns the name of a class's volume in the spec. The name of the claim ends with it."""
    if not OBJECT_NAME.fullmatch(name):
        hint = "Such a name has small letters, digits, `-` and `.`: kubectl get storageclass"
        raise SpecError(f"{name!r} can't be a StorageClass", key="--class", hint=hint)
    return name.replace(".", "-")[:32].rstrip("-")


def _refuse_made_volumes(raw: Mapping[str, Any], factors: Mapping[str, Any], source: str) -> None:
    """Refuses keys that make a volume. A claim has the file system of its class, because a pod without root's rights
    can't make one.
    """
    for name, volume in raw["volumes"].items():
        if other := sorted(volume.keys() - {"path"}):
            hint = "Leave it out. What a class makes is set in its parameters."
            raise SpecError("can't be set on a claim", file=source, key=f"volumes.{name}.{other[0]}", hint=hint)
    for path in _paths_of(factors):
        if path.startswith("volumes."):
            hint = "Make a class for each level."
            raise SpecError("can't be set on a claim", file=source, key=f"factors.{path}", hint=hint)


def _refuse_own_places(factors: Mapping[str, Any], source: str) -> None:
    for path in _paths_of(factors):
        if path.startswith("volumes.") or path.removeprefix("layout.") in _PLACES:
            hint = "Give the spec's volumes the names of the classes, such as [volumes.gp3] and [volumes.io2]."
            problem = "varies volumes that are not the classes"
            raise SpecError(problem, file=source, key=f"factors.{path}", hint=hint)
    if FACTOR in factors:
        hint = "Give your factor another name."
        raise SpecError("is reserved for the StorageClasses", file=source, key=f"factors.{FACTOR}", hint=hint)


def _paths_of(factors: Mapping[str, Any]) -> Iterator[str]:
    """Yields the keys of a spec that factors set."""
    for name, levels in factors.items():
        yield name
        for level in levels if isinstance(levels, list) else ():
            yield from (path for path in level if path != "label") if isinstance(level, dict) else ()


def _text(raw: Mapping[str, Any], factors: Mapping[str, Any]) -> str:
    header = {name: raw[name] for name in keys.HEADER if name in raw}
    tables = {name: raw[name] for name in keys.TABLES if name in raw}
    rest = {name: raw[name] for name in ("labels", "exclude") if name in raw}
    return "\n".join([
        "# Written by `storagelab k8s`: each volume is the claim of a StorageClass.",
        *(line((name,), value) for name, value in header.items()),
        *(line(place, value) for place, value in leaves(tables)),
        *(line((name,), value) for name, value in rest.items()),
        *(line(("factors", name), value) for name, value in factors.items()),
        "",
    ])  # fmt: skip


def _files(experiment: Experiment, configs: Iterable[Config]) -> dict[str, str]:
    """Maps the path of each file that a key of the spec names, relative to the spec's folder, to the file's text.
    Raises SpecError.
    """
    folder = Path(experiment.source).resolve().parent
    found = dict[str, str]()
    for name, path in given_files.named(configs, folder).items():
        key, _, text = name.partition(": ")
        if not path.is_relative_to(folder):
            hint = "Put it beside the spec, in the same folder or below."
            raise SpecError(f"{text} is outside of the spec's folder", file=experiment.source, key=key, hint=hint)
        try:
            found[path.relative_to(folder).as_posix()] = given_files.text_of(path)
        except (OSError, ValueError) as error:
            is_binary = isinstance(error, UnicodeDecodeError)
            why = "it is not UTF-8 text" if is_binary else getattr(error, "strerror", 0) or error
            hint = "Put it into an image of your own: --image"
            problem = f"{text} can't be in a ConfigMap: {why}"
            raise SpecError(problem, file=experiment.source, key=key, hint=hint) from None
    return found


# --- objects of Kubernetes --------------------------------------------------------------------------------------------

Value = str | int | bool | Mapping[str, "Value"] | Sequence["Value"]
Object = dict[str, Value]

CAMPAIGN = "storagelab/campaign"
"""The label of all objects that belong to a campaign."""
LAB, RESULTS = "/lab", "/results"
_USER = 1000
"""The user of the image. Claims are owned by its group."""
_LONGEST_NAME = 40
"""The longest name of an object before suffixes. The names of pods are longer than those of their Jobs, and can have at
most 63 characters."""
_LEAST_SHARED_MEMORY = "1Gi"


class JobOptions(NamedTuple):
    """The user's options. `results_class` is "" for the cluster's default class. `ask` says whether the pod may read
    facts about classes, volumes and its node from the cluster."""

    image: str
    size: str
    results_class: str
    cpu: str
    memory: str
    namespace: str
    ask: bool


def object_name(name: str, *more: str) -> str:
    """Makes a name for an object, of small letters, digits and `-`."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join((name[:_LONGEST_NAME], *more)).lower())[:63].strip("-")


def objects_of(name: str, node: str, spec: OnClaims, wanted: JobOptions) -> list[Object]:
    """Returns all objects that make the campaign `name` on a node. If `node` is "", any node may be used."""
    own = object_name(name, *(node,) * bool(node))
    claims = {class_: object_name(own, "on", volume) for class_, volume in spec.volumes.items()}
    return [
        _spec(own, name, spec),
        *(_claim(claim, name, class_, wanted.size) for class_, claim in claims.items()),
        _claim(_results_of(own), name, wanted.results_class, "2Gi"),
        _job(own, name, node, spec, claims, wanted),
    ]


def rights(name: str, wanted: JobOptions) -> list[Object]:
    """Returns a service account that may read only the facts about claims, classes and nodes that a manifest
    contains.
    """
    own, whole = object_name(name), object_name("storagelab", wanted.namespace, name)
    subject: Value = [{"kind": "ServiceAccount", "name": own, "namespace": wanted.namespace}]
    read: Value = ["get"]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(own, name)},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": _meta(whole, name),
            "rules": [
                {"apiGroups": [""], "resources": ["persistentvolumeclaims", "persistentvolumes", "nodes"],
                "verbs": read},
                {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": read},
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": _meta(whole, name),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": whole},
            "subjects": subject,
        },
    ]  # fmt: skip


def reader(name: str, node: str, wanted: JobOptions) -> Object:
    """Returns a pod that only mounts the claim of the results, for `kubectl cp`."""
    own = object_name(name, *(node,) * bool(node))
    container: Value = {
        "name": "results", "image": wanted.image, "command": ["sleep", "86400"], "securityContext": _unprivileged(),
        "volumeMounts": [{"name": "results", "mountPath": RESULTS}],
    }  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": _meta(_results_of(own), name),
        "spec": {
            "restartPolicy": "Never", "automountServiceAccountToken": False, "securityContext": _of_pod(),
            "containers": [container], "volumes": [_mounted("results", _results_of(own))],
        },
    }  # fmt: skip


def _results_of(own: str) -> str:
    return object_name(own, "results")


def _meta(own: str, name: str) -> Object:
    return {"name": own, "labels": {"app.kubernetes.io/name": "storagelab", CAMPAIGN: object_name(name)}}


def _spec(own: str, name: str, spec: OnClaims) -> Object:
    data = {"spec.toml": spec.text, **{_key_of(spec, file): text for file, text in spec.files.items()}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(own, name), "data": data}


def _key_of(spec: OnClaims, file: str) -> str:
    """Returns a file's key in the ConfigMap. Such a key has no folders, and the mount puts the file into its folder. A
    number makes the key unique.
    """
    return f"{list(spec.files).index(file) + 1}-{re.sub(r'[^A-Za-z0-9._-]', '_', file.rpartition('/')[2])[:200]}"


def _claim(own: str, name: str, class_: str, size: str) -> Object:
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": _meta(own, name),
        "spec": {
            "accessModes": ["ReadWriteOnce"], **({"storageClassName": class_} if class_ else {}),
            "resources": {"requests": {"storage": size}},
        },
    }  # fmt: skip


def _job(own: str, name: str, node: str, spec: OnClaims, claims: Mapping[str, str], wanted: JobOptions) -> Object:
    meta = _meta(own, name)
    pod: dict[str, Value] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": wanted.ask,
        **({"serviceAccountName": object_name(name)} if wanted.ask else {}),
        **({"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}),
        "securityContext": _of_pod(),
        "containers": [_container(name, spec, claims, wanted)],
        "volumes": list(_volumes(own, name, spec, claims)),
    }
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": meta,
        "spec": {
            "backoffLimit": 3,
            # If a pod is lost with its node, Kubernetes makes a new pod, which continues. If a pod ended with an error,
            # Kubernetes makes no new one.
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    {"action": "FailJob",
                    "onExitCodes": {"containerName": "storagelab", "operator": "In", "values": [1, 2]}},
                ]
            },
            "template": {"metadata": {"labels": meta["labels"]}, "spec": pod},
        },
    }  # fmt: skip


def _container(name: str, spec: OnClaims, claims: Mapping[str, str], wanted: JobOptions) -> Value:
    limits: Value = {"cpu": wanted.cpu, "memory": wanted.memory}
    file = f"{name}.toml"
    places = [("spec", LAB), ("results", RESULTS), ("temporary", "/tmp"), ("memory", "/dev/shm")]  # noqa: S108
    places += [(claims[class_], mount_path(volume)) for class_, volume in spec.volumes.items()]
    return {
        "name": "storagelab", "image": wanted.image, "workingDir": LAB,
        "command": ["sh", "-c", f"storagelab doctor {file}; exec storagelab run {file}"],
        "env": list(_variables(spec, claims)),
        "resources": {"requests": limits, "limits": limits},
        "securityContext": _unprivileged(),
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in places],
    }  # fmt: skip


def _variables(spec: OnClaims, claims: Mapping[str, str]) -> Iterator[Value]:
    mounted = {
        mount_path(volume): {"claim": claims[class_], "class": class_} for class_, volume in spec.volumes.items()
    }
    yield {"name": "STORAGELAB_RESULTS", "value": RESULTS}
    yield {"name": Names.CLAIMS, "value": json.dumps(mounted)}
    fields = {
        NAME_VARIABLE: "spec.nodeName", Names.NODE: "spec.nodeName", Names.POD: "metadata.name",
        Names.NAMESPACE: "metadata.namespace",
    }  # fmt: skip
    for variable, field in fields.items():
        yield {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": field}}}
    for variable, resource in ((Names.CPU_LIMIT, "limits.cpu"), (Names.MEMORY_LIMIT, "limits.memory")):
        yield {"name": variable, "valueFrom": {"resourceFieldRef": {"resource": resource}}}


def _volumes(own: str, name: str, spec: OnClaims, claims: Mapping[str, str]) -> Iterator[Value]:
    items: list[Value] = [{"key": "spec.toml", "path": f"{name}.toml"}]
    items += [{"key": _key_of(spec, file), "path": file} for file in spec.files]
    yield {"name": "spec", "configMap": {"name": own, "items": items}}
    yield _mounted("results", _results_of(own))
    yield {"name": "temporary", "emptyDir": {}}
    yield {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": _LEAST_SHARED_MEMORY}}
    for claim in claims.values():
        yield _mounted(claim, claim)


def _mounted(name: str, claim: str) -> Value:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def _of_pod() -> Value:
    return {
        "runAsNonRoot": True, "runAsUser": _USER, "runAsGroup": _USER, "fsGroup": _USER,
        "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip


def _unprivileged() -> Value:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def manifests(name: str, nodes: Sequence[str], specs: Sequence[OnClaims], wanted: JobOptions) -> list[Object]:
    """Returns all objects of a campaign, on one node or on each of several nodes."""
    each = [
        one for node, spec in zip(nodes or ("",), specs, strict=True) for one in objects_of(name, node, spec, wanted)
    ]
    return [*(rights(name, wanted) if wanted.ask else ()), *each]


# --- writes tables and lists as YAML; text in quotes has the form of JSON in ASCII ------------------------------------

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9/_-]*(\.[A-Za-z0-9/_-]+)*")
_NOT_IN_BLOCKS = re.compile(r"[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff]| \n|^\s|\n\n$")
_BEYOND_ASCII = re.compile(r"[^\x20-\x7e]")  # JSON escapes these as surrogate pairs; YAML can't read pairs
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def documents(objects: Sequence[Mapping[str, Value]]) -> str:
    return "---\n".join("\n".join(_lines(one, "")) + "\n" for one in objects)


def _lines(value: Value, before: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inside in value.items():
            yield from _entry(f"{before}{_scalar(name)}:", inside, before + "  ")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inside in value:
            first, *rest = _lines(inside, before + "  ") if _is_open(inside) else [_inline(inside)]
            yield f"{before}- {first.strip()}"
            yield from rest


def _entry(head: str, value: Value, below: str) -> Iterator[str]:
    if isinstance(value, str) and "\n" in value and not _NOT_IN_BLOCKS.search(value):
        yield f"{head} |" + ("" if value.endswith("\n") else "-")
        yield from (below + line if line else "" for line in value.removesuffix("\n").split("\n"))
    elif _is_open(value):
        yield head
        yield from _lines(value, below)
    else:
        yield f"{head} {_inline(value)}"


def _is_open(value: Value) -> bool:
    """Whether YAML writes this value on lines of its own."""
    return not isinstance(value, str) and isinstance(value, Mapping | Sequence) and bool(value)


def _inline(value: Value) -> str:
    return _scalar(value) if isinstance(value, str) else json.dumps(value)


def _scalar(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return (
        text if plain else _BEYOND_ASCII.sub(lambda one: f"\\U{ord(one[0]):08x}", json.dumps(text, ensure_ascii=False))
    )
