"""Writes the comparison as text: for a terminal, as Markdown for the docs, and as CSV and JSON for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from rich.console import Console

from storagelab import __version__, profiles
from storagelab.errors import StoragelabError
from storagelab.findings.model import Estimate
from storagelab.model.values import Frozen, JsonValue, Scalar
from storagelab.report.text.columns import Column, print_paragraph, print_table
from storagelab.validation.articles import Article, PublishedFigure, spans
from storagelab.validation.making import SMALLER_IF_OPEN, Row, Simulations, Summary, summaries
from storagelab.words import numbers

FORMATS = ("md", "csv", "json")
BEGIN, END = "<!-- storagelab validate: begin -->", "<!-- storagelab validate: end -->"
"""The command writes into a document only between these lines."""
_EXPLAINED_FROM = 0.15
"""If the error of a figure is larger than this, the suspected reason is shown, if there is one."""


class Parameter(Frozen):
    """A parameter of its `owner`, which is the server or a drive.

    Parameters that a fit may change have `bounds`. If a fit has changed a parameter, the parameter also has
    `fitted_on`.
    """

    owner: str
    name: str
    value: Scalar
    label: profiles.Label
    source: str
    bounds: tuple[int | float, int | float] | None = None
    fitted_on: tuple[str, ...] = ()


def parameters(profile_names: Sequence[str]) -> tuple[Parameter, ...]:
    """The parameters of the server, then of each named ready-made profile, then parameters that are in no profile."""
    found = [("the server", name, cost) for name, cost in profiles.server().costs.items()]
    for profile in (profiles.load(name, Path()) for name in dict.fromkeys(profile_names)):
        found += [(f"the drive {profile.name}", name, figure) for name, figure in profile.figures()]
    return (
        *(Parameter(owner=owner, name=name, **figure.model_dump()) for owner, name, figure in found),
        *(Parameter(**constant.model_dump(exclude={"is_default"})) for constant in profiles.constants()),
    )


class Validation(Frozen):
    """The content of all tables."""

    articles: tuple[Article, ...]
    simulations: tuple[Simulations, ...]
    rows: tuple[Row, ...]
    parameters: tuple[Parameter, ...]


TextColumn = tuple[str, list[str]]


_OPEN = "†"
"""The mark of verdicts on an article that does not give enough facts to test the model."""
_MOVES = "‡"
"""The mark of figures that depend on the scale."""


def _row_columns(article: Article, rows: Sequence[Row]) -> list[TextColumn]:
    mark = f" {_OPEN}" if article.under_determined else ""
    return [
        ("no.", [row.figure.id for row in rows]),
        ("figure", [row.figure.what for row in rows]),
        ("published", [_published_text(row.figure) + (" *" if row.figure.derived else "") for row in rows]),
        ("simulated", [_simulated_text(row) for row in rows]),
        ("error", [_error_text(row) for row in rows]),
        ("held to", [_tolerance_text(row.figure) for row in rows]),
        ("verdict", [f"{row.verdict}{mark}" for row in rows]),
        ("other scale", [_change_text(row) for row in rows]),
        ("use", [row.figure.use for row in rows]),
    ]


def _summary_columns(articles: Sequence[Article], items: Sequence[Summary]) -> list[TextColumn]:
    marks = {article.id: f" {_OPEN}" for article in articles if article.under_determined}
    return [
        ("article", [item.article + marks.get(item.article, "") for item in items]),
        ("use", [item.use for item in items]),
        ("figures", [str(item.figures) for item in items]),
        ("simulated", [str(item.simulated) for item in items]),
        ("within", [str(item.within) for item in items]),
        ("median error", [_share_text(item.median_error) for item in items]),
        ("worst error", [_share_text(item.worst_error) for item in items]),
        ("worst", [item.worst for item in items]),
        (f"scale matters {_MOVES}", [str(item.scale_matters) for item in items]),
    ]


def _band_columns(rows: Sequence[Row]) -> list[TextColumn]:
    return [
        ("no.", [row.figure.id for row in rows]),
        ("figure", [row.figure.what for row in rows]),
        ("published", [_published_text(row.figure) for row in rows]),
        ("simulated", [_simulated_text(row) for row in rows]),
        ("with any of these", [_band_text(row) for row in rows]),
        ("published is", ["inside" if _in_band(row) else "outside" for row in rows]),
    ]


def _in_band(row: Row) -> bool:
    """Whether the published figure, or a part of the published range, is in the simulated band."""
    assert row.band is not None
    low, high = row.figure.between or (row.figure.value or 0.0, row.figure.value or 0.0)
    return row.band[0] <= high and low <= row.band[1]


def _parameter_columns(items: Sequence[Parameter]) -> list[TextColumn]:
    return [
        ("parameter", [item.name for item in items]),
        ("value", [_plain_text(item.value) for item in items]),
        ("label", [item.label for item in items]),
        ("bounds", [_bounds_text(item.bounds) for item in items]),
        ("fitted on", [_fitted_on(item) for item in items]),
        ("source", [item.source for item in items]),
    ]


def _fitted_on(item: Parameter) -> str:
    if item.label != "fitted":
        return ""
    rows = " ".join(item.fitted_on)
    if not rows:
        return "none: a prior"
    at_a_bound = item.bounds is not None and item.value in item.bounds
    return f"{rows} (at its bound)" if at_a_bound else rows


def _notes(article: Article, rows: Sequence[Row]) -> Iterator[str]:
    """The notes below an article's table."""
    if article.under_determined:
        yield f"{_OPEN} Under-determined: {article.under_determined}."
    yield from article.assumed
    for row in rows:
        figure = row.figure
        if figure.derived:
            yield f"{figure.id} * is not published itself: {figure.derived}."
        if figure.assumed:
            yield f"{figure.id}: {figure.assumed}."
        if row.error is not None and abs(row.error) > _EXPLAINED_FROM and figure.suspected:
            how = "is outside of its limit" if row.verdict == "outside" else "is far off, but within its limit"
            yield f"{figure.id} {how}. The suspected reason: {figure.suspected}."
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            reasons.setdefault(row.reason, []).append(row.figure.id)
    for reason, ids in reasons.items():
        yield f"Not simulated yet ({', '.join(spans(ids))}): {reason}."


def _title(article: Article) -> str:
    year = f", {article.year}" if article.year else ""
    return f"Article {article.id}: {article.title} ({article.author}{year})"


def _how(simulations: Sequence[Simulations]) -> Iterator[str]:
    for one in simulations:
        times = "once" if one.repetitions == 1 else f"{one.repetitions} times, each with its own seed"
        also = f"; compared with scale {_scales(one.other_scales)}" if one.other_scales else ""
        if one.open_inputs:
            also += (
                f"; and with {one.open_inputs} combinations of what is left open, at scale {_scales(one.open_scales)}"
            )
        yield f"{one.spec}: {one.runs} runs at scale {_scales(one.scales)}, each cell {times}{also}."
    if any(one.other_scales for one in simulations):
        yield (
            "Other scale: the change of a figure at the other scale, as a percentage of the published figure. "
            f"{_MOVES}: a change by more than half of the tolerance, so the figure depends on the scale."
        )
    if any(one.repetitions > 1 for one in simulations):
        yield (
            "Simulated figures are means over repetitions, ± half their 95 % confidence interval. If levels are joined "
            'by "or", the runs don\'t show which of them is right, or repetitions differ. Then each of these levels '
            "counts as within. A figure is within a range if its interval overlaps the range."
        )


def _scales(scales: Sequence[int]) -> str:
    return " and ".join(map(str, scales))


# --- forms -----------------------------------------------------------------------------------------------------------


class _Section(NamedTuple):
    """A table with its title and notes. If the table is too wide, columns with a high rank are left out first."""

    title: str
    columns: list[TextColumn]
    notes: Iterable[str] = ()
    wraps: str = ""
    ranks: Mapping[str, int] = MappingProxyType({})


def _sections(validation: Validation) -> Iterator[_Section]:
    """A table for each article, the summaries, and a table for each owner of parameters."""
    for article in validation.articles:
        rows = [row for row in validation.rows if row.article == article.id]
        ranks = {"use": 3, "held to": 1, "other scale": 2}
        yield _Section(_title(article), _row_columns(article, rows), _notes(article, rows), "figure", ranks)
        if banded := [row for row in rows if row.band is not None]:
            notes = [f"Open: {one.what}." for one in article.open]
            notes += [
                f"Bands come from simulations {SMALLER_IF_OPEN} times smaller, so a figure may lie outside its band."
            ]
            yield _Section(f"What article {article.id} leaves open", _band_columns(banded), notes, "figure")
    in_sum = _summary_columns(validation.articles, summaries(validation.rows))
    yield _Section("In sum", in_sum, _how(validation.simulations))
    for owner in dict.fromkeys(item.owner for item in validation.parameters):
        columns = _parameter_columns([item for item in validation.parameters if item.owner == owner])
        yield _Section(f"Parameters of {owner}", columns, wraps="source", ranks={"bounds": 2, "fitted on": 1})


_RIGHT = (
    "published", "simulated", "with any of these", "error", "other scale", "figures", "within", "median error",
    "worst error", f"scale matters {_MOVES}", "value",
)  # fmt: skip


def print_validation(console: Console, validation: Validation) -> None:
    """Prints the tables on a terminal."""
    for number, one in enumerate(_sections(validation)):
        if number:
            console.print()
        print_paragraph(console, one.title, style="bold")
        print_table(console, [
            Column(name, texts, rank=one.ranks.get(name, 0), right=name in _RIGHT, wraps=name == one.wraps)
            for name, texts in one.columns
        ])  # fmt: skip
        for note in one.notes:
            print_paragraph(console, note, first="  ")


def markdown(validation: Validation) -> str:
    """The tables as Markdown for the docs. They contain nothing that changes from day to day."""
    parts = []
    for one in _sections(validation):
        notes = [f"- {_escaped(note)}" for note in one.notes]
        parts += [f"## {one.title}", _markdown_table(one.columns), "\n".join(notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_table(columns: Sequence[TextColumn]) -> str:
    rules = ["---:" if name in _RIGHT else "---" for name, _ in columns]
    rows = zip(*(texts for _, texts in columns), strict=True)
    lines = [[name for name, _ in columns], rules, *([_escaped(text) for text in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _escaped(text: str) -> str:
    for character in "\\*<|_[`":
        text = text.replace(character, f"\\{character}")
    return text


def as_csv(validation: Validation) -> str:
    """The rows as CSV, with one line for each figure. Numbers are raw and in SI units. Missing numbers are empty."""
    out = io.StringIO()
    lines = [_flat(row) for row in validation.rows]
    writer = csv.DictWriter(out, list(lines[0]) if lines else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def _flat(row: Row) -> dict[str, object]:
    figure, estimate = row.figure, row.simulated
    low, high = figure.between or ("", "")
    return {
        "id": figure.id,
        "article": row.article,
        "figure": figure.what,
        "quantity": figure.quantity,
        "use": figure.use,
        "unit": figure.unit,
        "published": " ".join(map(str, figure.order)) if figure.order else figure.value,
        "published_low": low,
        "published_high": high,
        "simulated": estimate.value if estimate else " ".join(map(str, row.order)) or row.level,
        "simulated_tied": " ".join(map(str, row.tied)),
        "simulated_low": estimate.low if estimate else None,
        "simulated_high": estimate.high if estimate else None,
        "error": row.error,
        "change_at_other_scale": row.change,
        "scale_matters": row.scale_matters,
        "band_low": row.band[0] if row.band else None,
        "band_high": row.band[1] if row.band else None,
        "tolerance": figure.tolerance,
        "tolerance_absolute": figure.tolerance_absolute,
        "verdict": row.verdict,
        "reason": row.reason,
    }


def as_json(validation: Validation) -> str:
    content = {
        "schema": 1,
        "storagelab": __version__,
        "articles": [article.model_dump(exclude={"figures", "cell"}) for article in validation.articles],
        "simulations": [one.model_dump() for one in validation.simulations],
        "figures": [_flat(row) for row in validation.rows],
        "summaries": [item.model_dump() for item in summaries(validation.rows)],
        "parameters": [item.model_dump() for item in validation.parameters],
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def render(form: str, validation: Validation) -> str:
    """The comparison in one of FORMATS."""
    forms: dict[str, Callable[[Validation], str]] = {"md": markdown, "csv": as_csv, "json": as_json}
    return forms[form](validation)


def existing(file: Path) -> str | None:
    """The text of the document in `file`. Returns None if there is no such document.

    Raises StoragelabError if the file lacks the marks or is not text, because a text that a person wrote must not be
    overwritten.
    """
    if not file.is_file():
        return None  # the text of a pipe or a device can't be read
    text = file.read_text(encoding="utf-8", errors="replace")
    if not 0 <= text.find(BEGIN) < text.find(END):
        raise StoragelabError(f"{file} has no lines {BEGIN} and {END}\n  put them where the tables should go")
    return text


def document(before: str | None, validation: Validation) -> str:
    """Returns the document with the tables between its marks. If `before` is None, returns a new document."""
    inside = f"{BEGIN}\n\n{markdown(validation)}\n{END}"
    if before is None:
        return f"# The model and the published figures\n\n{inside}\n"
    return before[: before.index(BEGIN)] + inside + before[before.index(END) + len(END) :]


# --- figures as texts -------------------------------------------------------------------------------------------------


_MOST_DIGITS = 6


def _unit_for(unit: str, value: float) -> tuple[float, str]:
    """The divisor of a value, and the unit after it. Units are powers of 1000, as drive makers and the articles use."""
    match unit:
        case "s":
            return (1.0, " s") if abs(value) >= 0.1 or value == 0 else (1e-6, " µs")
        case "share":
            return 0.01, " %"
        case "bytes":
            return 1e9, " GB"
        case "bytes/s":
            return 1e6, " MB/s"
        case "":
            return (1e6, " M") if abs(value) >= 1e6 else (1.0, "")
        case "/s":
            return 1.0, "/s"
        case _:
            return 1.0, f" {unit}"


def _published_text(figure: PublishedFigure) -> str:
    """The published figure as in the article: a value with all its digits, a range, or an order."""
    if figure.order is not None:
        return _levels(figure.order)
    if figure.between is not None:
        low, high = figure.between
        divisor, unit = _unit_for(figure.unit, high)
        return f"{_exact(low / divisor)} to {_exact(high / divisor)}{unit}"
    assert figure.value is not None
    divisor, unit = _unit_for(figure.unit, figure.value)
    return f"{_exact(figure.value / divisor)}{unit}"


def _exact(value: float) -> str:
    return numbers.round_figure(value, _MOST_DIGITS)


def _levels(levels: Sequence[JsonValue]) -> str:
    return " < ".join(map(str, levels))


def _simulated_text(row: Row) -> str:
    """The simulated figure. A mean is shown with half the width of its interval, if there are enough runs for one."""
    if row.order:
        return _levels(row.order)
    if row.tied:
        return f"{row.level} or {', '.join(map(str, row.tied))} {row.figure.unit}"
    if row.level is not None:
        return f"{row.level} {row.figure.unit}" if row.level != "never" else "never"
    return "" if row.simulated is None else _estimate_text(row.simulated, row.figure.unit)


def _estimate_text(value: Estimate, unit: str) -> str:
    divisor, words = _unit_for(unit, value.value)
    half = None if value.high is None else (value.high - value.value) / divisor
    whole = half is None and divisor == 1 and value.value == round(value.value)
    decimals = 0 if whole else numbers.decimals_for([value.value / divisor], half, significant=4)
    interval = "" if half is None else f" ± {half:,.{decimals}f}"
    return f"{value.value / divisor:,.{decimals}f}{interval}{words}"


def _error_text(row: Row) -> str:
    """The error of the simulated figure in percent of the published figure."""
    if row.error is None:
        return ""
    if row.figure.between is not None and row.error == 0:
        return "in range"
    points = 100 * row.error
    return f"{points:+,.0f} %" if abs(points) >= 9.95 else f"{points:+.1f} %"


def _change_text(row: Row) -> str:
    """The change, in percent, of the figure at the other scale."""
    mark = f" {_MOVES}" if row.scale_matters else ""
    if row.change is None:
        return f"differs{mark}" if mark and row.simulated is None else mark.strip()
    return f"{100 * row.change:+.1f} %{mark}"


def _band_text(row: Row) -> str:
    assert row.band is not None
    return " to ".join([_estimate_text(Estimate(value=value), row.figure.unit) for value in row.band])


def _tolerance_text(figure: PublishedFigure) -> str:
    """The largest allowed error of the model."""
    if figure.tolerance_absolute is not None:
        return f"± {_estimate_text(Estimate(value=figure.tolerance_absolute), figure.unit)}"
    if figure.tolerance:
        return f"± {numbers.percent(figure.tolerance)}"
    return "the range" if figure.between is not None else "the same"


def _share_text(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _bounds_text(low_high: tuple[int | float, int | float] | None) -> str:
    return "" if low_high is None else f"{_plain_text(low_high[0])} to {_plain_text(low_high[1])}"


def _plain_text(value: object) -> str:
    """A parameter's value as in its file, with commas between thousands."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return f"{value:,}"
