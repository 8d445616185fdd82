"""`storagelab gather`: joins several campaigns into one, and judges their runs together."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

from typer import Argument

from storagelab import screen
from storagelab.errors import StoreError
from storagelab.verbs import DEFAULT_RESULTS, JsonOption, ResultsOption, Verb

app = Verb("Measure", 5)


@app.command()
def gather(
    folders: Annotated[
        list[Path],
        Argument(metavar="FOLDER...", help="Results of one spec, a folder for each host: db1/my db2/my db3/my."),
    ],
    results: ResultsOption = DEFAULT_RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Combine several hosts' campaigns of one spec into one campaign.

    The verdict applies to hosts like these, because layouts are compared within each host.
    """
    from storagelab.run import stored
    from storagelab.run.store import NothingStored, Store
    from storagelab.spec import matrix
    from storagelab.verbs._running import conclude

    if len({folder.resolve() for folder in folders}) < 2:
        raise StoreError("give the folders of two or more campaigns, each with its results\n  such as db1/my db2/my")
    parts = [stored.read(folder.resolve().name, folder.resolve().parent, whole=True) for folder in folders]
    whole = stored.gathered(parts)
    plan, folder = matrix.expand(whole.experiment), results / whole.experiment.name
    with contextlib.suppress(NothingStored), Store.reading(folder):
        raise StoreError(f"{folder} has results already\n  choose another folder with --results")
    with Store.writing(folder, whole.experiment) as store:
        store.append(*whole.runs)
    screen.say(f"{len(whole.runs)} runs of {len(parts)} campaigns are in {folder}")
    conclude(stored.Results(folder, whole.experiment, plan, whole.runs), as_json=as_json)
