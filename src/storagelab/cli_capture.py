"""The verbs `capture`, `predict` and `k8s`: a running server watched, its load on other volumes, and a Job of
Kubernetes; `volumes`, the drives that experiments use, and `drives`, what drives can do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from storagelab.cli_unused import Verbs

# --- drives and volumes -----------------------------------------------------------------------------------------------


_volumes_app = Verbs(
    help="List the drives that experiments use, or give them back.", invoke_without_command=True, rich_markup_mode=None
)


@_volumes_app.callback()
def _volumes(context: typer.Context) -> None:
    """List the drives of this machine that experiments have claimed and not given back."""
    if context.invoked_subcommand is None:
        from storagelab.verbs import volumes

        volumes.list_all()


@_volumes_app.command("undo")
def _undo(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="Folder of the experiment's results.")],
    may_wipe: Annotated[
        list[str] | None,
        typer.Option("--yes-wipe", metavar="SERIAL", help="Wipe this drive, whatever it holds now. May be repeated."),
    ] = None,
) -> None:
    """Give back the drives that a killed run left.

    Unmounts and removes what storagelab made on them, and formats them to their old sectors. What lay on them before
    can't be put back.
    """
    from storagelab.verbs import volumes

    volumes.undo(results, may_wipe or ())


_drives_app = Verbs(
    help="List or show the profiles of drives, or measure a drive for one.", no_args_is_help=True, rich_markup_mode=None
)


@_drives_app.callback()
def _drives() -> None:
    """List or show the profiles of drives, or measure a drive for one."""


@_drives_app.command("list")
def _list_profiles() -> None:
    """List all drive profiles, also those measured here."""
    from storagelab.verbs import drives

    drives.list_all()


@_drives_app.command("show")
def _show_profile(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile, or its file.")],
    sources: Annotated[bool, typer.Option("--sources", help="Print where each figure comes from, too.")] = False,
    toml: Annotated[bool, typer.Option("--toml", help="Print the TOML file itself, as a start for your own.")] = False,
) -> None:
    """Show what a drive can do, and its profile.

    First its capacity, speed, CPU cost and need of host memory, then all figures of its profile.
    """
    from storagelab.verbs import drives

    if toml:
        drives.show_file(name)
    else:
        drives.show(name, sources=sources)


@_drives_app.command("fit")
def _fit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile; in specs and in lists.")],
    volume: Annotated[
        str, typer.Option("--volume", metavar="PATH", help="Folder on the drive; with --spec, a volume of that spec.")
    ],
    spec: Annotated[
        Path | None, typer.Option("--spec", help="Spec that declares the volume, which is made with its limits.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Measure about two minutes, at fewer points.")] = False,
    size: Annotated[str | None, typer.Option("--size", help="Size of the file to measure with, such as 16GiB.")] = None,
) -> None:
    """Measure a drive with fio in up to 15 minutes, and fit a profile to it.

    It writes one file in a folder of its own, and removes both. The profile holds every point that was measured, and
    the simulator runs it like any other drive.
    """
    from storagelab.verbs import drives

    drives.fit(name, volume, spec=spec, quick=quick, size=size)


# --- `capture`, `predict` and `k8s` -----------------------------------------------------------------------------------


def add_to(app: typer.Typer) -> None:
    app.command("capture")(_capture)
    app.command("predict")(_predict)
    app.command("k8s")(_k8s)
    app.add_typer(_volumes_app, name="volumes")
    app.add_typer(_drives_app, name="drives")


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
    from storagelab.kubernetes.job import JobOptions
    from storagelab.verbs import k8s as verb

    if look is not None:
        if not verb.look(spec_file, look):
            raise typer.Exit(1)
        return
    wanted = JobOptions(image, size, results_class, cpu, memory, namespace, ask=not without_rights)
    verb.write(spec_file, classes or (), nodes or (), wanted, output, fetch=fetch)
