"""Checks of a plan's cells that engines with servers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from storagelab.model.config import Config
from storagelab.targets import Site
from storagelab.targets.generators import against_memory
from storagelab.targets.generators.against_memory import Memory
from storagelab.targets.parts import tables_of


def by_how(configs: Sequence[Config]) -> tuple[list[Config], list[Config]]:
    """The cells with private servers, and those with servers that already run."""
    return [one for one in configs if not one.target.attached], [one for one in configs if one.target.attached]


def check_generators(configs: Sequence[Config], site: Site, programs: Callable[[Config], Path]) -> list[str]:
    """Finds each cell's generator and its scripts; `programs` is the folder of a private server's programs. Describes the
    generators; raises PreflightError for what is missing."""
    return [
        tables_of(one)(one, site.prefix, None).check(site, None if one.target.attached else programs(one))
        for one in configs if one.generated
    ]  # fmt: skip


def memory_notes(configs: Sequence[Config], memory: Callable[[Config], Memory]) -> list[str]:
    """How each cell's data compares with the memory that holds it."""
    notes = [
        against_memory.note(one.generated_load, tables_of(one).unit_bytes, memory(one))
        for one in configs
        if one.generated
    ]
    return list(dict.fromkeys(notes))
