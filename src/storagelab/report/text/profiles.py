"""Prints the list of drive profiles, and every figure of one profile with its label and source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console

from storagelab.drives.sizing import OUTSTANDING, Sizing
from storagelab.profiles import Profile
from storagelab.report.text.columns import Column, print_paragraph, print_table
from storagelab.volumes.limits import CloudDisk
from storagelab.words.numbers import bytes_, capacity, quantity_text, significant


def print_profiles(console: Console, profiles: Sequence[Profile]) -> None:
    """Print a line for each profile."""
    columns = [
        Column("profile", [profile.name for profile in profiles], right=False),
        Column("drive", [profile.title for profile in profiles], right=False, wraps=True),
        Column("formats", [", ".join(profile.formats) for profile in profiles], right=False, wraps=True),
        Column("drivers", [", ".join(profile.drivers) for profile in profiles], right=False, wraps=True, rank=2),
        Column("sectors, bytes", [", ".join(map(str, profile.sectors)) for profile in profiles], right=False, rank=1),
    ]
    print_table(console, columns, indent=0)


def _print_heading(console: Console, text: str) -> None:
    console.print()
    print_paragraph(console, text, style="bold")


def print_cloud_disks(console: Console, disks: Mapping[str, CloudDisk]) -> None:
    """Print a line for each cloud disk whose limits a spec can use by name."""
    _print_heading(console, 'Limits of cloud disks, for volumes with limit = { like = "NAME" }')
    columns = [
        Column("name", list(disks), right=False),
        Column("disk", [disk.title for disk in disks.values()], right=False, wraps=True),
        Column("source", [disk.source for disk in disks.values()], right=False, wraps=True, rank=1),
    ]
    print_table(console, columns, indent=0)


def print_title(console: Console, profile: Profile) -> None:
    """Print the name of a profile, and which drive it describes."""
    print_paragraph(console, f"{profile.name}: {profile.title} ({profile.kind})", style="bold")


def print_figures(console: Console, profile: Profile, *, sources: bool) -> None:
    """Print every figure of a profile with its label. With `sources`, the source of a figure is below it."""
    _print_heading(console, "Figures")
    figures = list(profile.figures())
    columns = [
        Column("figure", [name for name, _ in figures], right=False),
        Column("value", [_value(name, figure.value) for name, figure in figures]),
        Column("label", [figure.label for _, figure in figures], right=False),
    ]
    print_table(console, columns, indent=0, below=[figure.source for _, figure in figures] if sources else ())
    if not sources:
        print_paragraph(console, "--sources prints where each figure comes from.", first="  ")


def print_sizing(console: Console, sizing: Sizing) -> None:
    """Print the usable capacity, the requests per second, and the price of each if known. If the host keeps the drive's
    mapping table, print the host memory that the table takes.
    """
    _print_heading(console, "What one drive offers")
    print_table(console, _capacity_columns(sizing), indent=0)
    requests = f"random requests of 8 KB, {OUTSTANDING} in progress"
    print_paragraph(console, f"IO/s are simulated: {requests}, on a drive that was filled once.", first="  ")
    if sizing.price_usd is None:
        way = "Add [price_usd] with value, label and source to a copy (--toml prints it)."
        print_paragraph(console, f"No costs: the profile has no price. {way}", first="  ")
    if not sizing.maps:
        return
    _print_heading(console, "Host memory for the map of a full drive")
    columns = [
        Column("sector, bytes", [f"{one.sector_bytes:,}" for one in sizing.maps]),
        Column("driver", [one.driver for one in sizing.maps], right=False),
        Column("format", [one.format for one in sizing.maps], right=False),
        Column("database pages", [bytes_(one.pages_bytes) for one in sizing.maps]),
        Column("worst case", [bytes_(one.worst_bytes) for one in sizing.maps]),
    ]
    print_table(console, columns, indent=0)
    print_paragraph(console, "Worst case: every sector was written separately.", first="  ")


def _capacity_columns(sizing: Sizing) -> list[Column]:
    rows, price = sizing.capacities, sizing.price_usd
    columns = [
        Column("format", [row.format or "-" for row in rows], right=False),
        Column("usable", [capacity(row.usable_bytes) for row in rows]),
        Column("reads, IO/s", [significant(row.reads_per_s) for row in rows]),
        Column("writes, IO/s", [significant(row.writes_per_s) for row in rows]),
    ]
    if price is not None:
        columns += [
            Column("USD a GB", [significant(price / (row.usable_bytes / 1e9)) for row in rows]),
            Column("USD a read/s", [significant(price / row.reads_per_s) for row in rows]),
            Column("USD a write/s", [significant(price / row.writes_per_s) for row in rows]),
        ]
    return columns


def _value(name: str, value: str | int | float | bool) -> str:
    """Writes a figure as the profile's file has it. Sizes in bytes have decimal units, as manufacturers state them."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return quantity_text(name, value)
