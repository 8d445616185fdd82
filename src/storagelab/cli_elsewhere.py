"""The verb for another place: `k8s`. `cli` has all others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    app.command("k8s")(k8s)


def k8s(
    spec_file: Annotated[Path, typer.Argument(metavar="SPEC", help="TOML file of the experiment.")],
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="NAME", help="A StorageClass to measure; repeat the option for each."),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="NAME", help="A node to measure on; repeat it for a fleet. Default: any one."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write, - for stdout.")] = None,
    image: Annotated[str, typer.Option("--image", help="The image, as the cluster reads it.")] = "storagelab:latest",
    size: Annotated[str, typer.Option("--size", help="Size of each claim.")] = "20Gi",
    results_class: Annotated[
        str, typer.Option("--results-class", metavar="NAME", help="StorageClass for results; default: the cluster's.")
    ] = "",
    cpu: Annotated[str, typer.Option("--cpu", help="CPUs of the pod: asked for, and its limit.")] = "4",
    memory: Annotated[str, typer.Option("--memory", help="Memory of the pod: asked for, and its limit.")] = "8Gi",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The namespace.")] = "default",
    without_rights: Annotated[
        bool,
        typer.Option("--without-rights", help="Make no service account; manifests then lack provisioner and zone."),
    ] = False,
    fetch: Annotated[bool, typer.Option("--fetch", help="Write the pod that hands out the results instead.")] = False,
    look: Annotated[
        Path | None,
        typer.Option(
            "--look", metavar="FILE", help="Say what holds the Job up, from what kubectl printed, or - for stdin."
        ),
    ] = None,
) -> None:
    """Write a Job of Kubernetes that compares StorageClasses.

    Nothing is sent to a cluster: kubectl does that.
    """
    from storagelab.kubernetes.job import Wanted
    from storagelab.verbs import k8s as verb

    if look is not None:
        if not verb.look(spec_file, look):
            raise typer.Exit(1)
        return
    wanted = Wanted(image, size, results_class, cpu, memory, namespace, ask=not without_rights)
    verb.write(spec_file, classes or (), nodes or (), wanted, output, fetch=fetch)
