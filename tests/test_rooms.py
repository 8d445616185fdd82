"""The engines' folders are parallel: a room has the same name, and answers to the same names, in each of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from storagelab.model.engines import ENGINES

TARGETS = Path(__file__).resolve().parent.parent / "src" / "storagelab" / "targets"
MEASURED = [engine.folder for engine in ENGINES.values() if engine.provenance == "measured"]

ROOMS = {
    "attached": {"ServerFacts", "read_facts", "check_rights"},
    "connecting": {"connect", "words_of"},
    "engine": {"ENGINE", "abilities"},
    "events": {"LISTED", "event_of"},
    "known": {"KNOWN", "judge"},
    "layout": {"Layout"},
    "preflight": {"check"},
    "probe": set[str](),
    "reaching": {"Reaching"},
    "read_back": {"server_facts", "settings"},
    "sampler": {"Sampler"},
    "settings": set[str](),
    "target": {"drop_leftovers", "opened"},
    "waiting": set[str](),
    "workload": {"TABLE", "Workers", "procedure"},
}
"""Every engine has these rooms, and in each what others ask of it."""
PRIVATE_ROOMS = {
    "binaries": {"Binaries", "find_binaries"},
    "server": {"Server", "STARTER", "stop_orphan"},
}
"""The rooms of an engine whose servers storagelab starts itself."""
OWN_ROOMS = {
    "mariadb": {
        "clients": "MariaDB's own client program, which reads files of SQL",
        "generated": "the tables of a generator's load, spread over the layout",
    },
    "postgres": {
        "clients": "PostgreSQL's own client programs, which a generator is one of",
        "generated": "the tables of a generator's load, spread over the layout",
        "kept": "a template database, which only PostgreSQL copies by a command",
        "shared_memory": "what a killed server leaves in the kernel, which no other engine does",
    },
    "sqlserver": {
        "counters": "the waits of each session, which only SQL Server counts exactly",
        "facts": "what documents say of versions and idle waits, for reports as well",
        "login": "is run as a program of its own, as the driver forgets what the server said",
        "pages": "which page holds which map, by arithmetic",
        "tsql": "quotes names and texts, as the driver does not",
    },
}


def names_in(room: Path) -> set[str]:
    """What a module defines, or assigns, at its top."""
    names = set[str]()
    for node in ast.parse(room.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def rooms_of(engine: str) -> dict[str, set[str]]:
    return ROOMS | (PRIVATE_ROOMS if ENGINES[engine].starts_server else {})


@pytest.mark.parametrize("engine", MEASURED)
def test_an_engines_folder_holds_the_rooms_of_the_list_and_few_of_its_own(engine):
    found = {path.stem for path in (TARGETS / engine).glob("*.py")} - {"__init__"}
    assert found == {*rooms_of(engine), *OWN_ROOMS.get(engine, {})}


@pytest.mark.parametrize("engine", MEASURED)
def test_a_room_answers_to_the_same_names_in_every_engines_folder(engine):
    lacking = {
        room: lacks
        for room, names in rooms_of(engine).items()
        if (lacks := names - names_in(TARGETS / engine / f"{room}.py"))
    }
    assert lacking == {}


def test_every_folder_beside_the_shared_modules_is_known():
    folders = {path.name for path in TARGETS.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - {*MEASURED, "contract", "generators", "raw", "simulated"} == set()
