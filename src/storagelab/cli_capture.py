"""The verbs `capture`, `predict` and `k8s`: a running server watched, its load on other volumes, and a Job of
Kubernetes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def add_to(app: typer.Typer) -> None:
    app.command("capture")(_capture)
    app.command("predict")(_predict)
    app.command("k8s")(_k8s)


def _capture(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="DSN of the running server, or a variable that holds it.")
    ],
    length: Annotated[str, typer.Option("--for", metavar="10min", help="How long to watch.")] = "10min",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write.")] = Path("capture"),
    requests: Annotated[
        bool, typer.Option("--requests", help="Keep each request, too: a log that fio plays back. Needs root.")
    ] = False,
    no_trace: Annotated[
        bool, typer.Option("--no-trace", help="Use the server's own counters only, even as root.")
    ] = False,
    measure_cost: Annotated[
        int,
        typer.Option(
            "--measure-cost", metavar="TURNS", min=0, help="First measure what capturing costs, in pairs of turns."
        ),
    ] = 0,
) -> None:
    """Watch what a running server reads and writes, by object.

    Nothing on the server is changed, and neither its data nor the text of queries is kept. Ctrl-C ends the window
    early. As root on the server's machine, writes and the order of requests are known by table.
    """
    from storagelab.verbs import capture

    capture.capture(target, length, output, requests=requests, trace=not no_trace, turns=measure_cost)


def _predict(
    capture: Annotated[Path, typer.Argument(metavar="CAPTURE", help="Folder of a capture.")],
    volumes: Annotated[
        Path, typer.Option("--volumes", metavar="FILE", help="TOML file: what each volume can do, and the layouts.")
    ],
    format_: Annotated[Literal["text", "md", "html", "json"], typer.Option("--format", help="What to write.")] = "text",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write, - for stdout.")] = None,
) -> None:
    """Predict rate and latency of a captured server on other volumes.

    FILE says what each volume can do, by a limit or a measured drive's profile, and names layouts: [layouts.NAME] with
    objects and log. `compare CAMPAIGN PREDICTION` puts a campaign beside what --format json wrote.
    """
    from storagelab.verbs import predict

    predict.predict(capture, volumes, format_, output)


def _k8s(
    spec_file: Annotated[Path, typer.Argument(metavar="SPEC", help="TOML file of the experiment.")],
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="NAME", help="A StorageClass to measure; repeat the option for each."),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="NAME", help="A node to measure on; repeat it for several. Default: any one."),
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
