"""Ready-made specs: their groups, their texts, the questions that they answer, and the files that belong to them.

Each spec is one TOML file in this folder. The SQL files of a spec are in a folder with the name of the spec."""

from __future__ import annotations

import tomllib
from pathlib import Path

from storagelab.errors import SpecError, choices

FOLDER = Path(__file__).parent
SCHEMA = FOLDER / "spec.schema.json"
"""The JSON schema of a spec, for editors. `make docs` writes it."""
SCHEMA_LINE = "#:schema "
"""The beginning of a spec's first line. This line names the schema for editors."""


MEASURED = {
    "Servers: files, volumes and settings": [
        "ceiling", "quickstart", "a-a", "your-own", "mounted-drives", "wal-volume", "index-volume", "hot-table",
        "files-and-log-place", "io-method", "mariadb-durability", "quickstart-engines", "sysbench-engines"],
    "Drives and file systems": [
        "raw-io-on-your-drives", "replay", "file-systems", "cloud-disks", "raid-levels", "three-drives",
        "drive-formats", "encryption", "zfs-by-your-own-commands"],
}  # fmt: skip
"""The names of the ready-made specs in their groups. The specs that most readers need come first."""
SIMULATED = {
    "Hardware that you don't have: simulated (drive-history-reversed: reverse order)": [
        "drive-to-buy", "todays-drives", "flash-as-it-fills", "cores-and-data-files", "many-cores", "reads-join-in",
        "pfs-latch", "drive-history"],
    "The articles: simulated (NAME-randomised: in random order)": [
        "multiple-data-files", "random-inserts", "sequential-inserts", "sequential-inserts-many-files",
        "raw-io-flash-against-disks"],
}  # fmt: skip
"""The specs that need neither a server nor a drive."""


def question_of(name: str) -> str:
    return str(tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))["question"])


def text_of(name: str) -> str:
    """Returns the text of a ready-made spec. Its first line names the schema of this installation. Raises SpecError."""
    names = sorted(file.stem for file in FOLDER.glob("*.toml"))
    if name not in names:
        hint = choices(name, names, "The ready-made specs")
        raise SpecError("is not the name of a ready-made spec", key=name, hint=f"{hint}\n  storagelab init lists them.")
    return with_schema((FOLDER / f"{name}.toml").read_text("utf-8").partition("\n")[2])


def with_schema(text: str) -> str:
    """Returns the text of a spec with a first line that names the schema of this installation."""
    return f"{SCHEMA_LINE}{SCHEMA.as_uri()}\n{text}"


def files_of(name: str) -> dict[str, str]:
    """Returns the other files that a ready-made spec needs. Maps their paths relative to the spec to their texts."""
    return {
        str(file.relative_to(FOLDER)): file.read_text("utf-8")
        for file in sorted((FOLDER / name).glob("*"))
        if file.is_file()
    }
