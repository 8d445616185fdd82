"""Profiles of drives as text: which there are, and every figure of one with its label and its source."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from storagelab.profiles import Profile
from storagelab.report.cell_sections import figure_text
from storagelab.report.columns import Column, print_paragraph, print_table


def print_profiles(console: Console, profiles: Sequence[Profile]) -> None:
    """One line a profile."""
    columns = [
        Column("profile", [profile.name for profile in profiles], right=False),
        Column("drive", [profile.title for profile in profiles], right=False, wraps=True),
        Column("formats", [", ".join(profile.formats) for profile in profiles], right=False, wraps=True),
        Column("drivers", [", ".join(profile.drivers) for profile in profiles], right=False, wraps=True, rank=2),
        Column("sectors, bytes", [", ".join(map(str, profile.sectors)) for profile in profiles], right=False, rank=1),
    ]
    print_table(console, columns, indent=0)


def print_profile(console: Console, profile: Profile) -> None:
    """All of one profile; sources wrap."""
    print_paragraph(console, f"{profile.name}: {profile.title} ({profile.kind})", style="bold")
    figures = list(profile.figures())
    columns = [
        Column("figure", [name for name, _ in figures], right=False),
        Column("value", [_value(name, figure.value) for name, figure in figures]),
        Column("label", [figure.label for _, figure in figures], right=False),
        Column("source", [figure.source for _, figure in figures], right=False, wraps=True),
    ]
    print_table(console, columns, indent=0)


def _value(name: str, value: str | int | float | bool) -> str:
    """Makers count in thousands: a size is shown in bytes, as it stands in the file."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return figure_text(name, value)
