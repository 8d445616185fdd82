"""The engines' folders are parallel: a module has the same name, and answers to the same names, in each of them."""

import ast
from pathlib import Path

import pytest

from storagelab.model.engines import ENGINES

ENGINES_FOLDER = Path(__file__).resolve().parent.parent / "src" / "storagelab" / "engines"
MEASURED = [engine.folder for engine in ENGINES.values() if engine.provenance == "measured"]

MODULES = {
    "captured": {"watched"}, "connecting": {"ServerFacts", "connect", "words_of", "read_facts", "check_rights"},
    "engine": {"ENGINE", "abilities"}, "events": {"LISTED", "event_of"}, "known": {"KNOWN", "judge"},
    "layout": {"Layout"}, "preflight": {"check"}, "sampler": {"Sampler"}, "settings": set[str](),
}  # fmt: skip
"""Every engine has these modules, and in each what others ask of it."""
PRIVATE_MODULES = {
    "engine": {"ENGINE", "abilities", "opened", "drop_leftovers"}, "found": set[str](),
    "reaching": {"Reaching", "server_facts", "settings"}, "server": {"Server", "STARTER", "stop_orphan"},
    "settings": {"Binaries", "find_binaries"},
}  # fmt: skip
"""The same for an engine whose servers storagelab starts itself."""
OWN_MODULES = {
    "mariadb": {
        "generated": "the tables of a generator's load, spread over the layout",
        "redo_log": "when the log was full, so that reports tell what counts before that",
    },
    "postgres": {
        "generated": "the tables of a generator's load, spread over the layout",
        "checkpoints": "when checkpoints begin, so that runs hold whole cycles",
        "dumps": "pg_dump has formats, and names owners that need not exist",
    },
    "sqlserver": {
        "login": "is run as a program of its own, as the driver forgets what the server said",
        "target": "needs the driver, which may be absent where `engine` is loaded",
        "workload": "the inserts, the only load that it takes",
    },
}


def names_in(module: Path) -> set[str]:
    """What a module defines, or assigns, at its top."""
    names = set[str]()
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def modules_of(engine: str) -> dict[str, set[str]]:
    return MODULES | (PRIVATE_MODULES if ENGINES[engine].starts_server else {})


@pytest.mark.parametrize("engine", MEASURED)
def test_an_engines_folder_holds_the_modules_of_the_list_and_few_of_its_own(engine):
    found = {path.stem for path in (ENGINES_FOLDER / engine).glob("*.py")} - {"__init__"}
    assert found == {*modules_of(engine), *OWN_MODULES.get(engine, {})}


@pytest.mark.parametrize("engine", MEASURED)
def test_a_module_answers_to_the_same_names_in_every_engines_folder(engine):
    lacking = {
        module: lacks
        for module, names in modules_of(engine).items()
        if (lacks := names - names_in(ENGINES_FOLDER / engine / f"{module}.py"))
    }
    assert lacking == {}


def test_every_engines_folder_is_known():
    folders = {path.name for path in ENGINES_FOLDER.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - {*MEASURED, "fio", "simulated"} == set()
