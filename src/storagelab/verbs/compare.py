"""`storagelab compare`: compares cells of one experiment, or two or more campaigns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from storagelab import screen, verbs
from storagelab.errors import SpecError
from storagelab.findings import FitKind

if TYPE_CHECKING:
    from storagelab.findings.campaigns import Campaign, Gate
    from storagelab.report.document import Document
    from storagelab.run import stored

app = verbs.Verb("Read", 3)
_WAYS = (
    "two campaigns: compare BEFORE AFTER; a new one and those before it: compare --history OLD... NEW; two cells of "
    "one: compare NAME CELL CELL; all pairs of cells that differ in one factor: compare NAME --by FACTOR; a campaign "
    "and a prediction: compare NAME prediction.json"
)


def _of_prediction(given: verbs.Given) -> bool:
    file = Path(given["names"][-1])
    return len(given["names"]) == 2 and file.suffix == ".json" and file.is_file()


UNUSED = (
    verbs.Unused("--by", lambda given: len(given["names"]) != 1 or given["history"], "is for the cells of one campaign",
           "Name that one alone: compare NAME --by FACTOR."),
    verbs.Unused("--fail-if-slower", _of_prediction,
           "judges campaigns and cells, not a prediction: its interval holds the model's errors, not only chance",
           "Leave it out, or compare two campaigns."),
    verbs.Unused("--format", lambda given: given["as_json"] and given["format_"] != "json", "is not what --json writes",
           "Leave one of them out."),
)  # fmt: skip


@app.command(unused=UNUSED)
def compare(
    names: Annotated[
        list[str],
        Argument(
            metavar="NAME...",
            help="Two or more campaigns, by name, spec or folder; or one campaign, and two of its cells or --by.",
        ),
    ],
    results: verbs.ResultsOption = verbs.DEFAULT_RESULTS,
    by: Annotated[
        str, Option("--by", metavar="FACTOR", help="Compare each pair of cells that differ only in this factor.")
    ] = "",
    format_: verbs.PaperOption = "text",
    output: verbs.OutputOption = None,
    fit: verbs.FitOption = "robust",
    fail_if_slower: Annotated[
        str | None,
        Option(
            "--fail-if-slower",
            metavar="SHARE",
            help="Exit with 1 if a later campaign or cell is surely slower than the first by more than this (5%), with "
            "3 if the runs can't tell.",
        ),
    ] = None,
    history: Annotated[
        bool, Option("--history", help="Compare the last campaign with five or more earlier ones of its spec.")
    ] = False,
    as_json: verbs.JsonOption = False,
) -> None:
    """Compare campaigns, or cells of one campaign, and gate a script.

    Two campaigns: `compare A B`, for example before and after an upgrade. Two cells: `compare NAME CELL CELL`. After
    `run A --against B`: `compare NAME --by spec`.

    A cell is named by its id (c07) or by its levels ("data_files=4,driver=2.2.3").
    """
    asked = _Asked(results, "json" if as_json else format_, output, fit, _share(fail_if_slower))
    are_results = [asked.place(name) is not None for name in names]
    if by:
        result = _by(asked, names[0], by)
    elif len(names) < 2:
        raise SpecError("needs two things to compare", key="NAME", hint=_WAYS)
    elif not history and _of_prediction({"names": names}):
        result = _with_prediction(asked, *names)
    elif not history and len(names) == 3 and are_results[0] and not any(are_results[1:]):
        result = _cells(asked, *names)
    else:
        result = _campaigns(asked, names, history=history)
    if result:
        raise typer.Exit(int(result))


def _share(margin: str | None) -> float | None:
    """Returns the gate's margin as a share. Raises SpecError if `margin` is not a percentage."""
    from storagelab.model.values import share_of

    share = None if margin is None else share_of(margin)
    if margin is not None and share is None:
        raise SpecError(f"{margin!r} is not a share", key="--fail-if-slower", hint='write it in per cent: "5%"')
    return share


@dataclass(frozen=True)
class _Asked:
    """The options: the folder of results, the kind of fit, and the outputs. `margin` is the margin of a gate, as a
    share.
    """

    results: Path
    format_: str
    output: Path | None
    fit: FitKind
    margin: float | None

    def place(self, name: str) -> tuple[str, Path] | None:
        """Returns the name and the results folder for `name`, which is the name of an experiment, its spec, or its
        folder. Returns None if there is no such experiment.
        """
        from storagelab.run.store import FILE_NAME

        folder = Path(name)
        if (name.endswith(".toml") and folder.exists()) or (self.results / name / FILE_NAME).is_file():
            return name, self.results
        whole = folder.resolve()
        return (whole.name, whole.parent) if (folder / FILE_NAME).is_file() else None

    def read(self, name: str) -> stored.Results:
        from storagelab.run import stored

        return stored.read(*(self.place(name) or (name, self.results)))

    def judged(self, read: stored.Results, name: str = "") -> Campaign:
        from storagelab.findings.analysis import analyse
        from storagelab.findings.basis import basis_of
        from storagelab.findings.campaigns import Campaign

        of = read.experiment, read.plan, read.runs, self.fit
        return Campaign(name or read.experiment.name, read.experiment, analyse(*of), basis_of(*of))

    def deliver(self, of: Document, as_json: Callable[[], str]) -> None:
        from storagelab.report import writing

        compared = re.sub(r"[^\w.=]+", "-", of.title.removesuffix(" compared"))[:200]  # a file name has 255 bytes
        writing.deliver_paper(of, as_json, self.format_, self.output, f"comparison-{compared}.html")


def _cells(asked: _Asked, name: str, *named: str) -> Gate:
    from storagelab.spec.naming import find_cell
    from storagelab.words.names import factor_labels

    read = asked.read(name)
    labels = factor_labels(read.experiment.factors)
    before, after = (find_cell(cell, read.plan.cells, labels) for cell in named)
    if before == after:
        raise SpecError(f"{named[0]!r} and {named[1]!r} are the same cell, {before}", key="CELL", hint="name two cells")
    if asked.margin is not None:
        _refuse_one_spec(read, before, after)
    return _pairs(asked, read, [(before, after)])


def _refuse_one_spec(read: stored.Results, *ids: str) -> None:
    """Raises SpecError if both cells are of the same spec. A gate of two such cells would not judge a change."""
    from storagelab.spec.reading import SPEC_FACTOR

    specs = {cell.levels.get(SPEC_FACTOR) for cell in read.plan.cells if cell.cell_id in ids}
    if len(specs) == 1 and None not in specs:
        raise SpecError(
            f"{' and '.join(ids)} are both of the spec {specs.pop()}, so no change is judged", key="CELL",
            hint=f"Judge each pair that differs in the spec: compare {read.experiment.name} --by {SPEC_FACTOR}.",
        )  # fmt: skip


def _by(asked: _Asked, name: str, factor: str) -> Gate:
    from storagelab.spec.naming import pairs_by
    from storagelab.words.names import factor_labels

    read = asked.read(name)
    by, ids = pairs_by(factor, read.plan.cells, factor_labels(read.experiment.factors))
    return _pairs(asked, read, ids, by)


def _pairs(asked: _Asked, read: stored.Results, ids: Sequence[tuple[str, str]], by: str = "") -> Gate:
    """Compares each pair of cells of a campaign. The output has a table of all pairs, and the slowest pair in full."""
    from storagelab.findings.campaigns import Gate, pair_of
    from storagelab.findings.reasons import case_between
    from storagelab.report.export.as_json import pair_json
    from storagelab.report.words.campaigns import with_gate, with_pairs
    from storagelab.report.words.why import pair_paper

    campaign = asked.judged(read)
    findings, basis = campaign.findings, campaign.basis
    pairs = [pair_of(basis, read.plan, *one, asked.margin) for one in ids]
    shown = max(pairs, key=lambda one: one.rank)
    of = shown.before, shown.after, shown.ratio
    case = case_between(findings, basis.used, *of)
    paper = pair_paper(findings, *of, case)
    if len(pairs) > 1:
        paper = with_pairs(paper, findings, pairs, by)
    if asked.margin is not None:
        paper = with_gate(paper, basis, read.plan, pairs, shown, asked.margin)
    said = None if shown.gate is None else shown.gate.text
    asked.deliver(paper, lambda: pair_json(findings, *of, case, paper, said, pairs if by else ()))
    return shown.gate or Gate.NOT_SLOWER


def _campaigns(asked: _Asked, names: Sequence[str], *, history: bool) -> Gate:
    from storagelab.findings import campaigns
    from storagelab.findings.beside import of_campaigns
    from storagelab.report.export.as_json import campaigns_json
    from storagelab.report.words import campaigns as words
    from storagelab.report.words.predicted import with_beside
    from storagelab.spec.naming import is_cell

    if len(names) == 2 and asked.place(names[0]) and not asked.place(names[1]) and is_cell(names[1]):
        problem = f"{names[1]} is one cell of {names[0]}, and nothing to compare it with"
        raise SpecError(problem, key="CELL", hint=_WAYS)
    read = [asked.read(name) for name in names]
    given = [asked.judged(one, name) for name, one in zip(_called([one.folder for one in read]), read, strict=True)]
    runs = {campaign.name: one.runs for campaign, one in zip(given, read, strict=True)}
    found = campaigns.against_history(given, runs) if history else campaigns.against_first(given)
    result = campaigns.Gate.NOT_SLOWER if asked.margin is None else campaigns.gate(found, asked.margin)
    said = "" if asked.margin is None else words.gate_of_campaigns_sentence(result, asked.margin, found)
    paper = words.campaigns_paper(found, [words.manifest_table(one, runs) for one in found], said)
    # Charts need exactly two campaigns. With several predictions, a chart would not show to which campaign each
    # prediction belongs.
    pair = of_campaigns(found[0], read[0].plan, read[1].plan) if len(given) == 2 and not history else None
    if pair is not None:
        predicted, measured = sorted(given, key=lambda one: one.findings.provenance == "measured")
        paper = with_beside(paper, *pair, predicted.name, measured.name)
    asked.deliver(paper, lambda: campaigns_json(found, paper, None if asked.margin is None else result.text))
    return result


def _called(folders: Sequence[Path]) -> list[str]:
    """Returns a short name for each campaign: the name of its folder. If names are equal, they get as many parent
    folders as are needed to distinguish them.
    """
    from itertools import count

    resolved = [folder.resolve() for folder in folders]
    if len(set(resolved)) < len(resolved):
        raise SpecError("the same results are named twice", key="NAME", hint="name two campaigns")
    named = (["/".join(folder.parts[-parts:]) for folder in resolved] for parts in count(1))
    return next(names for names in named if len(set(names)) == len(names))


def _with_prediction(asked: _Asked, name: str, file: str) -> Gate:
    from storagelab.findings.basis import basis_of
    from storagelab.findings.campaigns import Gate
    from storagelab.predicting import prediction, proof
    from storagelab.report.export.as_json import beside_json
    from storagelab.report.words.predicted import prediction_paper

    read, known = asked.read(name), prediction.read(Path(file))
    campaign = read.experiment.name
    basis = basis_of(read.experiment, read.plan, read.runs, asked.fit)
    found, names, alone = prediction.beside_measured(known, Path(file), campaign, basis, read.plan)
    paper = prediction_paper(found, names, known, campaign, alone)
    own = asked.results / prediction.OWN_FILE
    of_database = not read.plan.cells[0].config.target.raw_io
    if basis.provenance == "measured" and of_database and proof.learn(known, found, names, campaign, own):
        screen.say(f"kept in {own}: intervals of the next prediction use it")
    asked.deliver(paper, lambda: beside_json(found, names, paper))
    return Gate.NOT_SLOWER
