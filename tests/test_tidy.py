"""Checks that no linter does: files stay small, nothing is left open."""

import os
import re
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "storagelab"
LONGEST_FILE_LINES = 500
SOURCES = {".py", ".pyi", ".rs", ".js", ".sql", ".sh"}
PACKAGE_DATA = {".sql", ".html", ".css", ".js", ".json", ".toml", ".typed", ".pyi"}

# Spelt in pieces, so that this file does not hold what it looks for.
LEFT_OPEN = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|NotImplemented" r"Error|pytest\.mark\.skip\b")
REGISTRY = re.compile(r"https?://[\w.-]*(pypi|pythonh" r"osted|crates\.i" r"o|npm" r"js|mav" r"en|artif" r"actory)")
MACHINE_PATH = re.compile(r"(?<![\w./])/((root|work|Users)/\w|home/(?!me\b))")
MARKDOWN_LINK = re.compile(r"\]\(<?(?P<target>[^)\s>#]+)(?:#[^)\s>]*)?>?(?:\s+\"[^\"]*\")?\)")

CITED_FILE = re.compile(
    r"(?<![\w/.<>{}-])((?:src|storagelab|tests|crates|docs|tools|bench|experiments)/[\w./-]*\w\.[a-z]+|[A-Z]{4,}\.md)\b"
)
STANDS_FOR_ANY = {"docs/pictures/NAME.png"}


def tracked() -> list[Path]:
    """Every file that is, or is about to be, in the repository; all files where git or its folder is absent."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listing.returncode == 0:
        paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        built = {".git", ".venv", "target", "results", "build", "__pycache__"}
        paths = [path for path in ROOT.rglob("*") if built.isdisjoint(path.relative_to(ROOT).parts)]
    return sorted(path for path in paths if path.is_file())


def text_of(path: Path) -> str:
    """The file's text; nothing for a picture or another binary, or a file that a run beside the tests took away."""
    if not path.exists():
        return ""
    content = path.read_bytes()
    return "" if b"\0" in content else content.decode("utf-8")


def matches(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    """FILE:LINE: TEXT of every line where `pattern` is found."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if pattern.search(line)
    ]


FILES = tracked()
SOURCE_FILES = [path for path in FILES if path.suffix in SOURCES]


def test_there_is_something_to_look_at():
    assert {"pyproject.toml", "Cargo.lock", "Makefile"} <= {path.name for path in FILES}
    assert len(SOURCE_FILES) > 20


def test_no_source_file_is_longer_than_a_reader_can_hold():
    lengths = {str(path.relative_to(ROOT)): len(text_of(path).splitlines()) for path in SOURCE_FILES}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE_LINES} == {}


# Modules that open files that storagelab, its package, the kernel or a server on this machine wrote. Files of others
# are opened by `spec/given_files.py` alone.
OPENING = re.compile(r"\.read_text\(|\.read_bytes\(|(?<![\w.])(?<!def )open\(|\.open\((?:\"r|encoding)")
MAY_OPEN = re.compile(
    r"machine/|volumes/|experiments/|screen|spec/given_files|run/(?:cluster|scheduling|store_file)|"
    r"report/(?:drawing/vega|page/)|validation/|"
    r"capture/tracing|profiles/__init__|predicting/prediction|drives/fitting|"
    r"verbs/(?:_so_far|validate)|"
    r"capture/folder|servers/(?:attached|private|programs|templates)|loads/(?:fio|own_files|sysbench|transactions)|"
    r"engines/(?:fio/sender|postgres/(?:layout|preflight|server)|\w+/loads/inserts|sqlserver/layout)"
)


def test_files_of_others_are_opened_in_one_place():
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if OPENING.search(text_of(path))}
    assert sorted(name for name in found if not MAY_OPEN.match(name)) == []


def test_nothing_is_left_open_in_the_sources():
    assert matches(LEFT_OPEN, [path for path in SOURCE_FILES if path != Path(__file__)]) == []


def test_no_tracked_file_names_a_registry_host():
    assert matches(REGISTRY, [path for path in FILES if path.name != "Cargo.lock"]) == []


def test_no_tracked_file_names_a_folder_of_one_machine():
    assert matches(MACHINE_PATH, [path for path in FILES if path.name != "Cargo.lock"]) == []


def test_the_locks_name_no_index_and_pin_every_package_with_hashes():
    for lock in ROOT.glob("requirements*.lock"):
        text = text_of(lock)
        assert "://" not in text
        assert "--index-url" not in text
        pinned = [line for line in text.splitlines() if line[:1].isalnum()]
        assert pinned
        assert [line for line in pinned if "==" not in line] == []
        assert text.count("--hash=sha256:") >= len(pinned)


def test_what_is_pinned_for_users_is_pinned_the_same_for_developers():
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^([\w.\[\]-]+==\S+)", text_of(ROOT / name), re.MULTILINE))

    assert pins("requirements.lock") < pins("requirements-dev.lock")
    assert pins("requirements-cluster.lock") < pins("requirements-dev.lock")


def test_every_relative_link_of_a_document_leads_somewhere():
    dead = [
        f"{document.relative_to(ROOT)}: {link['target']}"
        for document in FILES
        if document.suffix == ".md"
        for link in MARKDOWN_LINK.finditer(text_of(document))
        if "://" not in link["target"] and not link["target"].startswith("mailto:")
        if not (document.parent / link["target"]).exists()
    ]
    assert dead == []


def test_every_file_that_a_text_names_exists():
    """Documents, comments and docstrings alike; a file of the package may be named without `src/`."""
    there = {path.relative_to(ROOT).as_posix() for path in FILES}
    missing = [
        f"{path.relative_to(ROOT)}: {cited}"
        for path in FILES
        if path != Path(__file__)
        for cited in CITED_FILE.findall(text_of(path))
        if not {cited, f"src/{cited}", f"src/storagelab/{cited}"} & there and cited not in STANDS_FOR_ANY
    ]
    assert missing == []


DESIGN = [ROOT / "DESIGN.md", *(ROOT / "docs" / "decisions").glob("*.md")]
CITED_IN_CODE = re.compile(r"`([a-z_]+/[a-z_./]*)`|`([A-Z_]{4,} = [^`]+)`")


def test_paths_figures_and_decisions_that_the_design_cites_are_there():
    """A path in backticks is one of the checkout or the package; a figure is cited as its constant, `NAME = 5`."""
    code = "".join(text_of(path) for path in FILES if path.suffix in {".py", ".rs"})
    for page in DESIGN:
        for path, constant in CITED_IN_CODE.findall(text_of(page)):
            assert not path or (ROOT / path).exists() or (PACKAGE / path).exists(), f"{page}: {path}"
            assert re.search(rf"^(pub const )?{constant}\b", code, re.MULTILINE) if constant else True, constant
    cited = re.findall(r"\]\(([\w-]+\.md)\)", text_of(ROOT / "docs" / "decisions" / "index.md"))
    assert sorted(cited) == sorted(page.name for page in DESIGN[1:] if page.stem != "index")
    assert len(text_of(DESIGN[0])) <= 12_000


def test_a_file_that_is_not_there_and_a_dead_link_would_be_found():
    text = "see docs/there.md, storagelab/x/y.py (WAITS.md) and /mnt/tests/a.toml"
    assert CITED_FILE.findall(text) == ["docs/there.md", "storagelab/x/y.py", "WAITS.md"]
    found = [link["target"] for link in MARKDOWN_LINK.finditer('[a](b.md#c) ![d](e/f.svg "g") [h](#i) [j](k)')]
    assert found == ["b.md", "e/f.svg", "k"]


@pytest.mark.slow
def test_the_wheel_holds_all_code_and_all_data_of_the_package(tmp_path):
    command = [sys.executable, "-m", "maturin", "build", "--quiet", "--release", "--locked", "--out", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in FILES
        if path.is_relative_to(PACKAGE) and path.suffix in PACKAGE_DATA | {".py"}
    }
    assert {"storagelab/py.typed", "storagelab/_sim.pyi"} <= wanted
    assert wanted - held == set()
    assert [name for name in held if name.startswith("storagelab/_sim.") and name.endswith(".so")] != []
    assert [name for name in held if "__pycache__" in name or name.startswith("tests/")] == []
    assert any(name.endswith("licenses/LICENSE") for name in held)

    # Unpacked beside the packages of this environment, it needs neither the checkout nor a program on the PATH.
    zipfile.ZipFile(wheel).extractall(tmp_path / "alone")
    beside = os.pathsep.join([str(tmp_path / "alone"), *site.getsitepackages()])
    command = [sys.executable, "-S", "-m", "storagelab", "init", "wal-volume"]
    said = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": beside}, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith(f"#:schema {(tmp_path / 'alone').as_uri()}")
