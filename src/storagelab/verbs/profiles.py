"""`storagelab drives list` and `drives show`."""

from __future__ import annotations

from pathlib import Path

from storagelab import profiles, screen
from storagelab.errors import PreflightError
from storagelab.provisioning import cloud_disks
from storagelab.report import writing
from storagelab.report.text.profiles import print_cloud_disks, print_figures, print_profiles, print_sizing, print_title
from storagelab.targets.simulated.sizing import sizing


def list_all() -> None:
    found = [profiles.load(name, Path()) for name in profiles.ready_made()]
    for name in profiles.own():
        try:
            found.append(profiles.load(name, Path()))
        except PreflightError as error:  # the others are listed
            screen.say(str(error))
    print_profiles(screen.out(), found)
    print_cloud_disks(screen.out(), cloud_disks.disks())


def show(name: str, *, sources: bool) -> None:
    profile = profiles.load(name, Path())
    offered = sizing(profile)  # first, as it may be refused
    print_title(screen.out(), profile)
    print_sizing(screen.out(), offered)
    print_figures(screen.out(), profile, sources=sources)


def show_file(name: str) -> None:
    writing.deliver(profiles.text_of(name, Path()), None)
