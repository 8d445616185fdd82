"""The gallery in Markdown: campaigns by question, engine, drive and limit, as ratios. Pure but for `entries`, which reads."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from storagelab.errors import StoreError
from storagelab.gallery.entry import Entry, Layout, why_not_compared
from storagelab.spec import small_files
from storagelab.words import numbers

FILE_NAME = "campaign.json"
_QUESTIONS = {
    "layout.data_files": "How many data files?",
    "volume.filesystem": "Which file system?",
    "volume.mount_options": "Which mount options?",
    "volume.limit": "Which cloud disk, or which limit?",
    "layout.log": "Which volume for the log?",
    "layout.indexes": "Which volume for indexes?",
    "layout.data": "Which volume for the data?",
    "target.settings": "Which settings of the server?",
    "target.engine": "Which engine?",
}
"""By the beginning of a factor's name."""
_OTHER = "Other questions"


def question_of(entry: Entry) -> str:
    """By the first factor that has one."""
    for factor in entry.factors:
        for beginning, question in _QUESTIONS.items():
            if factor.name.startswith(beginning):
                return question
    return _OTHER


def as_json(entry: Entry) -> str:
    return json.dumps(entry.model_dump(mode="json", by_alias=True), indent=1, ensure_ascii=True) + "\n"


def folder_name(entry: Entry) -> str:
    """A name without the campaign's own: what was measured, and a hash."""
    what = next((factor.name.rpartition(".")[2] for factor in entry.factors), "one-layout").replace("_", "-")
    return f"{entry.engine}-{entry.family}-{what}-{hashlib.sha256(as_json(entry).encode()).hexdigest()[:8]}"


def entries(folder: Path) -> list[Entry]:
    """The campaigns in the folders of a gallery, by their names. Raises StoreError for one that is not as it must be."""
    found = []
    for file in sorted(folder.glob(f"*/{FILE_NAME}")):
        try:
            found.append(Entry.model_validate_json(small_files.text_of(file)))
        except (ValidationError, ValueError, OSError) as error:
            problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise StoreError(f"{file}: is no shared campaign: {problem}\n  make it with `storagelab share`") from None
        if file.parent.name != folder_name(found[-1]):
            raise StoreError(f"{file}: was changed after it was shared\n  share the campaign again")
    return found


def page(found: Sequence[Entry]) -> str:
    """A chapter for each question, a section for each set of campaigns that may be compared."""
    parts = []
    for question, of_question in itertools.groupby(sorted(found, key=question_of), question_of):
        parts.append(f"## {question}\n")
        parts += [_section(group) for group in groups(list(of_question))]
    return "\n".join(parts)


def groups(found: Sequence[Entry]) -> list[list[Entry]]:
    """Campaigns that may be compared with each other, together."""
    grouped: list[list[Entry]] = []
    for entry in found:
        group = next((one for one in grouped if not why_not_compared(one[0], entry)), None)
        if group is None:
            grouped.append([entry])
        else:
            group.append(entry)
    return grouped


def summary(entry: Entry) -> list[str]:
    """What an entry says of load, machine and drive, in lines."""
    drive = entry.drive
    host = f"{numbers.plural(entry.host.cpus, 'CPU')}, {entry.host.memory_gib} GiB" + (
        ", virtual" if entry.host.virtual else ""
    )
    return [
        f"load: {_listed(entry.load.items())}",
        f"settings: {_listed(entry.settings.items()) or 'the defaults'}",
        f"drive: {drive.kind}{', made of a file' if drive.made_of_file else ''}; {drive.filesystem}; limit: {drive.limit}",
        f"machine: {host}, {entry.host.architecture}",
        f"{numbers.plural(entry.repetitions, 'round')}, {entry.month}, storagelab {entry.storagelab}",
        f"cautions: {', '.join(entry.cautions) or 'none'}",
    ]


def layouts(entry: Entry) -> Iterator[tuple[str, str, str]]:
    """Each layout with its verdict and its time against the best."""
    for layout in entry.layouts:
        yield _listed(layout.levels.items()), layout.verdict, _ratio(layout)


def _section(group: Sequence[Entry]) -> str:
    first = group[0]
    lines = [
        f"### {first.engine} {first.family}, {first.drive.kind}, {first.drive.filesystem}, limit: {first.drive.limit}",
        "",
    ]
    if len(group) > 1:
        lines += [f"These {len(group)} campaigns may be compared.", ""]
    for entry in group:
        lines += [f"- {line}" for line in summary(entry)]
        lines += ["", "| layout | verdict | time against the best (joint 95 % CI) |", "| --- | --- | ---: |"]
        lines += [f"| {name} | {verdict} | {ratio} |" for name, verdict, ratio in layouts(entry)]
        lines.append("")
    return "\n".join(lines)


def _ratio(layout: Layout) -> str:
    if layout.ratio is None:
        return ""
    if layout.verdict == "best" or layout.low is None or layout.high is None:
        return numbers.significant(layout.ratio)
    figures = (numbers.significant(one) for one in (layout.ratio, layout.low, layout.high))
    return "{} ({} to {})".format(*figures)


def _listed(items: Iterable[tuple[str, object]]) -> str:
    return ", ".join(f"{name} = {str(value).lower() if isinstance(value, bool) else value}" for name, value in items)
