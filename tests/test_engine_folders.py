"""The engines' folders are parallel: a module has the same name, and answers to the same names, in each of them."""

import ast
from pathlib import Path

import pytest

from storagelab.model.engines import ENGINES

ENGINES_FOLDER = Path(__file__).resolve().parent.parent / "src" / "storagelab" / "engines"
MEASURED = [engine.folder for engine in ENGINES.values() if engine.provenance == "measured"]

MODULES = {
    "engine": {"ENGINE", "abilities"}, "layout": {"Layout"}, "meanings": {"KNOWN", "judge"}, "preflight": {"check"},
    "sampler": {"Sampler"},
}  # fmt: skip
"""Every engine has these modules, and in each what others ask of it."""
PRIVATE_MODULES = {
    "capture": {"found", "watched"},
    "connect": {"AttachedReach", "PrivateReach", "connect", "words_of", "settings_checks"},
    "engine": {"ENGINE", "abilities", "opened", "drop_leftovers", "server_facts"}, "meanings": {"LISTED", "event_of"},
    "preflight": {"ServerFacts", "read_facts", "check_rights"},
    "server": {"Binaries", "find_binaries", "Server", "STARTER", "stop_orphan"},
}  # fmt: skip
"""The same for an engine whose servers storagelab starts itself."""
OWN_MODULES = {
    "sqlserver": {
        "capture": "what a capture sees, without a start for a spec",
        "connect": "connections, without client programs",
        "server": "its runs; needs the driver, which may be absent where `engine` is loaded",
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
    private = PRIVATE_MODULES if ENGINES[engine].starts_server else {}
    return {name: MODULES.get(name, set()) | private.get(name, set()) for name in {**MODULES, **private}}


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
