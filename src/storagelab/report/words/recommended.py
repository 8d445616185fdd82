"""Shows in text and tables which layouts are worth a move of data. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from storagelab.model.values import Estimate
from storagelab.predicting.recommending import Advice, Move, Proposal
from storagelab.report.document import Code, Document, Heading, Ladder, Section, Table, bare, listed
from storagelab.report.words.predicted import Speed, ladder_of_speeds, times_text
from storagelab.words import numbers
from storagelab.words.names import listed as listed_words


def advice_paper(found: Advice, statements: Mapping[str, Sequence[str]], spec: Path | None = None) -> Document:
    """Returns the report on the proposals, the fastest first. `statements` maps the name of a proposal to the SQL that
    an administrator would run. `spec` is the path of the spec that measures the proposals.
    """
    notes = [*_notes(found), *found.notes]
    sections = [Section("proposals", "Proposals", [_proposals(found), _moves(found)])] if found.proposals else []
    sections += [
        Section(
            f"do-{name.replace(' ', '-')}",
            f"Statements for {name} (storagelab runs none of them)",
            [Code("\n".join(lines), language="sql")],
        )
        for name, lines in statements.items()
    ]
    why = [f"Why: today the load waits for {one.limited_today}; after the move, for {one.limited_then}."
           for one in found.measurable[:1]]  # fmt: skip
    todo = f"Next: storagelab plan {spec}" if spec else "Next: measure it; --load SPEC --spec FILE writes the spec."
    return Document(
        f"Recommendation from {found.capture}", "predicted", [_head(found)],
        [*sections, Section("notes", "Notes", listed(notes))], ladders=_ladder(found) if found.measurable else (),
        why=why, doubt=f"Doubt: {' '.join(found.doubts)}" if found.doubts else "",
        next=todo if found.measurable else "",
    )  # fmt: skip


def _ladder(found: Advice) -> tuple[Ladder, ...]:
    take = found.proposals[:1]
    rows = [Speed((one.name,), one.times_present, _moved(one, " + "), take=one in take) for one in found.measurable]
    rows.append(Speed(("today",), Estimate(value=1.0), "as it is"))
    return ladder_of_speeds(rows, "predicted rate, as times today's")


def _head(found: Advice) -> str:
    if found.unsure is not None:
        return (
            f"Leave it as it is, or measure first: {found.because}. The best placement moves {_moved(found.unsure)}: "
            f"{times_text(found.unsure.times_present)} times today's rate."
        )
    if not found.proposals:
        return f"Leave it as it is: {found.because}."
    best = found.proposals[0]
    price = _price(found, best)
    return f"Move {_moved(best)}: {times_text(best.times_present)} times today's rate{price and f', {price}'}."


def _moved(one: Proposal, between: str = "") -> str:
    """Describes the moves: "the log to c; orders and lines to b". `between` joins things that move to the same volume;
    if it is "", they are joined by commas and "and".
    """
    by_volume: dict[str, list[str]] = {}
    for move in one.moves:
        by_volume.setdefault(move.to, []).append(_name(move))
    return "; ".join(
        f"{between.join(names) if between else listed_words(names)} to {to}" for to, names in by_volume.items()
    )


def _name(move: Move) -> str:
    words = {"log": "the log", "temp": "temporary files", "tables": "all tables and indexes"}
    return words.get(move.what, ".".join(move.names))


def _price(found: Advice, one: Proposal) -> str:
    if one.price is None:
        return ""
    more = "" if found.price_today is None else f", {bare(found.price_today)} today"
    return f"price {bare(one.price)} a month{more}"


def _proposals(found: Advice) -> Table:
    headings = [Heading("proposal", "text"), Heading("times today", "text"), Heading("moves", "prose")]
    priced = any(one.price is not None for one in found.proposals)
    headings += [Heading("a month")] if priced else []
    headings += [Heading("today waits for", "prose"), Heading("then waits for", "prose")]
    rows = [
        [
            one.name, times_text(one.times_present), _moved(one),
            *(["" if one.price is None else bare(one.price)] if priced else []),
            one.limited_today, one.limited_then,
        ]
        for one in found.proposals
    ]  # fmt: skip
    return Table(headings, rows, "Proposals (predicted)", {"today waits for": 2, "then waits for": 1})


def _moves(found: Advice) -> Table:
    headings = [Heading("proposal", "text"), Heading("what", "text"), Heading("from", "text"), Heading("to", "text"),
                Heading("size"), Heading("copying, at least")]  # fmt: skip
    rows = [
        [
            one.name, _name(move), move.from_, move.to, numbers.bytes_(move.bytes),
            "" if move.copy_s is None else numbers.duration(move.copy_s),
        ]
        for one in found.proposals
        for move in one.moves
    ]  # fmt: skip
    return Table(headings, rows, "What moves")


def _notes(found: Advice) -> Iterator[str]:
    if found.considered:
        searched = "all" if found.predicted == found.placements else f"{found.predicted:,} of"
        yield (
            f"May move: {listed_words(list(found.considered))}. Predictions were made for {searched} "
            f"{found.placements:,} placements; moves that gain less than 2 % were left out."
        )
    yield f"A move must gain at least {numbers.percent(found.worth)} to be worth it (--worth)."
