"""The verbs for other places: `k8s` for a cluster, `share` for a gallery. `cli` has all others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    for verb in (k8s, share):
        app.command(verb.__name__)(verb)


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


def share(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the experiment, its spec, or its folder of results.")
    ],
    results: Annotated[
        Path, typer.Option("--results", envvar="STORAGELAB_RESULTS", help="Folder that holds the results.")
    ] = Path("results"),
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The gallery's folder, which gets a folder for the campaign.")
    ] = Path("gallery"),
    yes: Annotated[bool, typer.Option("--yes", help="Write it without asking.")] = False,
) -> None:
    """Write a campaign for a public gallery, without names.

    What is left is printed first: ratios, and words of storagelab's own; no name, path, host, user or text of the spec.
    """
    from storagelab.verbs import share as verb

    verb.share(name, results, output, yes=yes)
