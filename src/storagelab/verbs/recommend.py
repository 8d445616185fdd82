"""`storagelab recommend`: recommends which tables, indexes and logs of a captured server to move, if any."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from storagelab.verbs import DEFAULT_RESULTS, FileOption, PaperOption, ResultsOption, Unused, Verb, lacks

app = Verb("Predict", 3)


@app.command(unused=[Unused("--load", lacks("spec"), "is the load of the spec that --spec writes", "Add --spec FILE.")])
def recommend(
    capture: Annotated[Path, Argument(metavar="CAPTURE", help="Folder of a capture.")],
    volumes: Annotated[Path, Argument(metavar="FILE", help="TOML file: the speed and the price of each volume.")],
    keep: Annotated[
        list[str] | None, Option("--keep", metavar="NAME", help="An object that must not move: a table, log or temp.")
    ] = None,
    worth: Annotated[str, Option("--worth", metavar="PERCENT", help="Smallest gain that is worth a change.")] = "10%",
    budget: Annotated[
        str | None, Option("--budget", metavar="PRICE", help="The highest total cost of the volumes per month.")
    ] = None,
    load: Annotated[
        Path | None, Option("--load", metavar="SPEC", help="With --spec: the spec that has the load.")
    ] = None,
    spec: Annotated[
        Path | None,
        Option("--spec", metavar="NAME.toml", help="Write the spec that measures today's layout and the proposals."),
    ] = None,
    format_: PaperOption = "text",
    output: FileOption = None,
    results: ResultsOption = DEFAULT_RESULTS,
) -> None:
    """Recommend what to move to which volume, or to leave all as it is.

    It predicts the fastest places for the capture's log, tables and indexes on FILE's volumes. It names at most three
    layouts with few moves. It moves nothing, but prints the statements for it.
    """
    from storagelab import screen
    from storagelab.errors import SpecError
    from storagelab.model.engines import ENGINES
    from storagelab.model.values import share_of
    from storagelab.predicting import proof
    from storagelab.predicting.prediction import OWN_FILE, as_text
    from storagelab.predicting.recommending import recommend as advice_on
    from storagelab.report import writing
    from storagelab.report.words.recommended import advice_paper
    from storagelab.run.engine import engine_in
    from storagelab.spec.units import parse_price

    if spec is not None and spec.suffix != ".toml":
        hint = "Such as --spec proof.toml: storagelab also writes the prediction beside it."
        raise SpecError("must name a TOML file", key="--spec", hint=hint)
    least = 0.0 if worth.strip() == "0" else share_of(worth)
    if least is None:
        raise SpecError(f"{worth!r} is not a share", key="--worth", hint='write it in per cent: "10%"')
    try:
        most = None if budget is None else parse_price(budget)
    except ValueError as error:
        raise SpecError(str(error), key="--budget", hint="It has the currency of the volumes' prices.") from None
    found = advice_on(capture, volumes, keep or (), least, most, results / OWN_FILE)
    if spec is not None and found.measurable:
        text = proof.spec_text(found, capture, load, volumes, spec)
        if output is not None and output.resolve() == proof.prediction_file(spec).resolve():
            raise SpecError("is where the prediction of --spec goes", key="--output", hint="Name another file.")
    elif spec is not None:
        screen.say(f"{spec} is not written: there is no layout to measure")
        spec = None
    moving = engine_in(ENGINES[found.engine].folder).moving
    statements = {one.name: tuple(moving(one.moves, found.folders)) for one in found.proposals}
    as_json = found.model_dump_json(by_alias=True, indent=1) + "\n"
    paper = advice_paper(found, statements, spec)
    html_file = f"recommendation-{capture.resolve().name}-{volumes.stem}.html"
    writing.deliver_paper(paper, lambda: as_json, format_, output, html_file)
    if spec is not None:
        writing.deliver(text, spec)
        writing.deliver(as_text(found.prediction), proof.prediction_file(spec))
