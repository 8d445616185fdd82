"""`storagelab k8s`: writes a campaign that compares StorageClasses as Kubernetes objects. Also reports what delays such
a campaign."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer import Option

from storagelab import screen
from storagelab.errors import SpecError, StoragelabError
from storagelab.verbs import FileOption, SpecArgument, Unused, Verb, when

if TYPE_CHECKING:
    from storagelab.model.plan import Experiment, Plan

app = Verb("Measure", 6)
LOOK = "kubectl get storageclass,node,pvc,pod,job,event -o json"
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|[kMGTPE]|[KMGTPE]i)?")
UNUSED = (
    Unused("--class --node --output --image --size --results-class --cpu --memory --namespace --without-rights --fetch",
           when("look"), "is for a Job to be written, and --look reads one", "Leave one of them out."),
    Unused("--class --size --results-class --cpu --memory --namespace --without-rights", when("fetch"),
           "is for the Job, and --fetch writes the pod for its results"),
)  # fmt: skip


@app.command(unused=UNUSED)
def k8s(
    spec_file: SpecArgument,
    classes: Annotated[
        list[str] | None,
        Option("--class", metavar="NAME", help="A StorageClass to measure; repeat the option for each."),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        Option("--node", metavar="NAME", help="A node to measure on; repeat the option for several. Default: any."),
    ] = None,
    output: FileOption = None,
    image: Annotated[str, Option("--image", help="The image's name in the cluster.")] = "storagelab:latest",
    size: Annotated[str, Option("--size", help="Size of each claim.")] = "20Gi",
    results_class: Annotated[
        str, Option("--results-class", metavar="NAME", help="StorageClass for results. Default: the cluster's.")
    ] = "",
    cpu: Annotated[str, Option("--cpu", help="CPUs of the pod, as its request and its limit.")] = "4",
    memory: Annotated[str, Option("--memory", help="Memory of the pod, as its request and its limit.")] = "8Gi",
    namespace: Annotated[str, Option("--namespace", "-n", help="The namespace.")] = "default",
    without_rights: Annotated[
        bool, Option("--without-rights", help="Make no service account. Manifests then lack provisioner and zone.")
    ] = False,
    fetch: Annotated[bool, Option("--fetch", help="Write the pod for copying the results instead.")] = False,
    look: Annotated[
        Path | None,
        Option("--look", metavar="FILE", help="Say what delays the Job, from a file of kubectl's output (- = stdin)."),
    ] = None,
) -> None:
    """Write a Kubernetes Job that compares StorageClasses.

    It sends nothing to a cluster, because kubectl does that.
    """
    from storagelab.kubernetes.job import OBJECT_NAME, JobOptions, documents, manifests, object_name, on_claims, reader
    from storagelab.report import writing
    from storagelab.run.estimate import estimate
    from storagelab.spec import reading
    from storagelab.verbs._planning import guessed
    from storagelab.words.numbers import duration, plural

    if look is not None:
        if not _look(spec_file, look):
            raise typer.Exit(1)
        return
    wanted = JobOptions(image, size, results_class, cpu, memory, namespace, ask=not without_rights)
    nodes = nodes or []
    for key, text in (("--size", wanted.size), ("--cpu", wanted.cpu), ("--memory", wanted.memory)):
        if not _QUANTITY.fullmatch(text):
            raise SpecError(f"{text!r} is no quantity of Kubernetes", key=key, hint="Such as 20Gi, or 4 for CPUs.")
    for node in nodes:
        if not OBJECT_NAME.fullmatch(node) or nodes.count(node) > 1:
            raise SpecError(f"{node!r} can't be a node, or is named twice", key="--node", hint="kubectl get nodes")
    experiment = reading.load(spec_file)
    name = experiment.name
    if fetch:
        writing.deliver(documents([reader(name, node, wanted) for node in nodes or ("",)]), output)
        _say_how_to_fetch(name, nodes)
        return
    specs = [on_claims(experiment, classes or (), host) for host in range(max(1, len(nodes)))]
    plan = specs[0].plan
    _say_cautions(experiment, plan, wanted.size)
    amount = f"{plural(len(plan.runs), 'run')} on {'each' if len(nodes) > 1 else 'the'} node: "
    amount += f"about {duration(estimate(plan, plan.runs, ()).seconds)} ({guessed(plan)})"
    writing.deliver(f"# {amount}\n" + documents(manifests(name, nodes, specs, wanted)), output)
    for line in (amount, f"the pods use the image {wanted.image}; --image selects another"):
        screen.say(line)
    for file_name in specs[0].files:
        screen.say(f"this file is put into the ConfigMap, where others may read it: {file_name}")
    file = output if output is not None and output != writing.STDOUT else "FILE"
    job = object_name(name, *nodes[:1])
    screen.say(f"start it: kubectl apply -n {wanted.namespace} -f {file}")
    screen.say(f"if nothing happens: {LOOK} | storagelab k8s {spec_file} --look -")
    screen.say(f"its findings: kubectl logs -f job/{job}; its files: storagelab k8s {spec_file} --fetch")


def _say_cautions(experiment: Experiment, plan: Plan, size: str) -> None:
    """Prints the notes of `plan` that apply on any machine. Raises SpecError if a claim is too small for a volume."""
    from storagelab.report.text.plan import before_full, of_preparing, too_short
    from storagelab.verbs._planning import look_at, site_of

    here = [
        cell.model_copy(update={"config": cell.config.model_copy(update={"volumes": {
            name: volume.model_copy(update={"path": "."}) for name, volume in cell.config.volumes.items()}})})
        for cell in plan.cells
    ]  # fmt: skip
    cautions = list(of_preparing(experiment, plan, "name a second StorageClass: --class NAME"))
    site = site_of(experiment, Path(experiment.name), despite_space=True)
    found = look_at(experiment, plan.model_copy(update={"cells": tuple(here)}), site, allow_commands=False)
    for error in found.lacks[:1]:
        problem = error.problem if error.key is None else f"{error.key}: {error.problem}"
        cautions.append(f"some checks were not possible on this machine: {problem}")
    needed = max((need.needed_bytes or 0 for need in found.volumes), default=0)
    number, prefix = cast("re.Match[str]", _QUANTITY.fullmatch(size)).groups("")
    unit = 1024.0 if prefix.endswith("i") else 1000.0
    power = -1 if prefix == "m" else " KMGTPE".index(prefix[:1].upper() or " ")
    if needed > float(number) * unit**power:
        hint = f"Ask for more, or make the load smaller: --size {math.ceil(1.1 * needed / 2**30)}Gi"
        raise SpecError(f"{size} is too small: about {needed / 2**30:.2f} GiB needed", key="--size", hint=hint)
    for line in (*cautions, *too_short(plan, found.cycles, {}), *before_full(plan, found.log_rooms, {})):
        screen.say(line.replace("\n", "; "))


def _say_how_to_fetch(name: str, nodes: Sequence[str]) -> None:
    from storagelab.kubernetes.job import RESULTS, object_name

    pods = [object_name(object_name(name, *(node,) * bool(node)), "results") for node in nodes or ("",)]
    for node, pod in zip(nodes or ("",), pods, strict=True):
        screen.say(f"kubectl cp {pod}:{RESULTS}/{name} {f'{node}/{name}' if node else f'results/{name}'}")
    if nodes:
        screen.say("storagelab gather " + " ".join(f"{node}/{name}" for node in nodes))


def _look(spec_file: Path, file: Path) -> bool:
    """Prints what delays the campaign, as kubectl's output shows. Returns whether nothing delays it."""
    from storagelab.kubernetes.held_up import held_up
    from storagelab.kubernetes.job import object_name
    from storagelab.spec import reading

    found = held_up(_objects(file), object_name(reading.load(spec_file).name))
    for one in found:
        screen.say(one.text, stdout=True)
    return all(one.well for one in found)


def _objects(file: Path) -> list[Mapping[str, Any]]:
    from storagelab.report import writing
    from storagelab.spec.given_files import json_of

    try:
        found = json.loads(sys.stdin.read()) if file == writing.STDOUT else json_of(file, 2**26)
        objects = found["items"] if found.get("kind") == "List" else [found]
        if all(isinstance(one, dict) for one in objects):
            return list(objects)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        pass
    raise StoragelabError(f"{file}: is not what kubectl prints\n  {LOOK}")
