"""The export's form of the findings. Pure."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, get_args

from pydantic import Field

from storagelab.findings import FitKind
from storagelab.findings.answer_kinds import Cause, Choice, Gain, Next, Unable
from storagelab.findings.cautions import kinds
from storagelab.findings.model import Compared, Dependence, Fleet, Verdict, WaitChange, WaitTrend
from storagelab.model.engines import Provenances
from storagelab.report.export.run_form import Form, Interval, Level, Levels, Table, dumped


def _facts(schema: dict[str, Any]) -> None:
    schema["enum"] = [*get_args(Unable), *(kind.unable for kind in kinds() if kind.unable)]


Fact = Annotated[str, Field(json_schema_extra=_facts)]


class LeftOutForm(Form):
    cell_id: str
    """The cell."""
    repetition: int
    """The run's repetition."""


class Concluded(Form):
    """The verdict on the layouts under one load."""

    verdict: Verdict
    """`by-load`: the load, or another condition, is varied too, see `loads`. `one-layout`: only loads are varied.
    `untested`: enough runs, but each cell ran in a separate stretch of time.
    """
    best: list[str]
    """The cells that may be the fastest, the one in front first: at 95 %, a fastest one is among them; empty without a
    verdict. With several loads, the cells of each.
    """
    tied: list[str]
    """The same without the first of each load."""
    worst: str | None
    """The slowest cell; with several loads, under the load where layouts differ most."""
    not_compared: NotRequired[list[str]]
    """Cells that have too few runs for a test against the fastest, or none: neither fast nor slower. While there is
    one, nothing is a winner."""
    at_most_slower: NotRequired[float | None]
    """With 95 % confidence, the time of the nominally fastest cell over that of the truly fastest is at most this
    ratio. `null` if nothing is tied with it, or if there are several loads.
    """


class LoadForm(Concluded):
    load: Levels
    """Its levels, by factor. A factor is a load or another condition if it sets only keys of `workload`, `between_runs`
    and `measure`."""
    cells: list[str]
    """Its cells."""
    fastest: str | None
    """The cell with the smallest time."""


class ComparisonForm(Form):
    cell_id: str
    """The cell."""
    best_cell_id: str
    """The best cell under the same load; in an experiment run in blocks, that of its block."""
    ratio: Annotated[float, Field(gt=0)]
    """Its time over that of the best: 1.25 = it takes 25 % longer."""
    ci95: Interval
    """The simultaneous 95 % interval of the ratio."""
    tested: bool
    """Whether there are enough runs to tell the two apart."""
    distinguishable: bool
    """Whether it is surely slower than the best."""
    may_be_fastest: bool
    """Whether it is among those that may be the fastest: at 95 %, a fastest one is among them."""
    across_blocks: NotRequired[bool]
    """The best of a block against the best of all: not tested."""
    at_most_slower: NotRequired[float | None]
    """With 95 % confidence, its time over that of the truly fastest is at most this ratio, for all tied cells at
    once. `null` if it is told apart, or if not all can be compared.
    """


class EffectForm(Form):
    factor: str
    """The factor."""
    level: Level
    """This level is compared ..."""
    baseline: Level
    """... with the factor's first."""
    at: Levels
    """Levels of other factors that are held fixed; empty = over all."""
    ratio: Annotated[float, Field(gt=0)]
    """Time at the level over time at the baseline."""
    ci95: Interval
    """The joint 95 % interval of the ratio; `null` if it was not tested."""
    pairs: int
    """The number of pairs of cells that differ only in this factor."""
    distinguishable: bool
    """Whether the two are told apart."""
    across_blocks: NotRequired[bool]
    """The levels were run in different blocks: not tested."""


class CautionForm(Form):
    kind: str
    """The kind of caution ([below](#cautions))."""
    severity: Literal["note", "caution"]
    """How serious it is."""
    cells: list[str]
    """The cells that it concerns; empty = all."""
    figures: Table
    """Its figures."""
    text: Annotated[str, Field(min_length=1)]
    """The caution in words."""


class AnswerForm(Form):
    lines: Annotated[list[Annotated[str, Field(max_length=640)]], Field(min_length=1, max_length=8)]
    """The answer in words, the same as on the terminal and the page: what to use comes first. All lines together take
    at most eight rows of 80 characters.
    """
    provenance: Provenances | None
    """The same as `headline`."""
    runs: Annotated[int, Field(ge=0)]
    """Usable runs, without those of a burn-in."""
    runs_planned: Annotated[int, Field(ge=0)]
    """Runs that the spec asks for, without those of a burn-in."""
    layouts: Annotated[int, Field(ge=0)]
    """How many layouts were compared (each counted once, whatever its loads)."""
    compared: Compared
    """As in the findings."""
    unable: list[Fact]
    """Facts that keep the runs from answering, or from answering all. `not-compared`: a layout has no result.
    `shared-device`: places vary, but they are on one device. The line that says what was run names them.
    """
    choices: Annotated[list[Any], dumped(list[Choice])]
    """What to use: one choice if some layout is among the best under every load, else one for each group of loads.
    Empty if nothing is judged.
    """
    gains: Annotated[list[Any], dumped(list[Gain])]
    """What each factor saves, the largest first."""
    causes: Annotated[list[Any], dumped(list[Cause])]
    """Which wait changed with a factor, or which volume was at its limit."""
    doubts: list[str]
    """Kinds of cautions that are not in `unable`, the most serious first."""
    indifferent: float | None
    """The margin that the spec sets, as a share, or `null`."""
    next: NotRequired[Annotated[object, dumped(Next | None)]]
    """What to do next, so that runs say more; `null` = nothing."""
    no_verdict: NotRequired[str | None]
    """The fact in `unable` because of which runs that show no difference say nothing about storage; else `null`."""


class FindingsForm(Concluded):
    compared: NotRequired[Compared]
    """The quantity whose ratios are given. `time-per-row`: cells insert different numbers of rows. `time-per-request`:
    raw I/O. `time-per-transaction`: loads of a generator. The others: by `measure.judge`."""
    headline: Annotated[str, Field(min_length=1)]
    """The verdict in words."""
    sentences: list[str]
    """The evidence in words."""
    answer: NotRequired[AnswerForm]
    """What a decision needs, as values and in words ([below](#the-answer))."""
    fleet: NotRequired[Annotated[object, dumped(Fleet | None)]]
    """The hosts of the campaign; `null` if all runs were made on one."""
    fit: NotRequired[FitKind]
    """`robust`: no mean and no verdict rests on the runs in `left_out`; other odd runs count in their own cells, and
    change nothing that is said of others. `least-squares`: all runs count alike."""
    left_out: NotRequired[list[LeftOutForm]]
    """The runs that a robust fit leaves out: odd ones whose record shows a cause that is the machine's."""
    loads: NotRequired[list[LoadForm]]
    """A verdict for each load; empty if there is one load only."""
    comparisons: list[ComparisonForm]
    """Each cell against the best one."""
    effects: list[EffectForm]
    """Each level against its factor's first."""
    cautions: list[CautionForm]
    """Reasons to trust the findings less, and their limits."""
    wait_changes: Annotated[list[Any], dumped(list[WaitChange])]
    """Waits in the best and the worst cell: seconds, and shares of connections x elapsed."""
    wait_trends: Annotated[list[Any], dumped(list[WaitTrend])]
    """A wait's share of connections x elapsed along a factor."""
    wait_names: NotRequired[dict[str, list[str]]]
    """If engines are compared, waits in `wait_changes` and `wait_trends` are joined by category: category -> the
    engines' own names, longest wait first. Empty for one engine.
    """
    dependences: NotRequired[Annotated[list[Any], dumped(list[Dependence])]]
    """How the best level of a factor depends on another factor, all else averaged."""
    speed_ups: NotRequired[list[EffectForm]]
    """Like `effects`; `at` has only a level of the axis, and all else is averaged."""
