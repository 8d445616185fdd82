"""Every ready-made spec, made at a tiny size: it runs, and its export keeps the schema."""

import contextlib
import itertools
import json
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from raw_io_specs import needs_fio
from real_mariadb import needs_mariadb
from spec_texts import as_toml

from storagelab import cli
from storagelab.verbs import _running as run
from storagelab.volumes import limits

ROOT = Path(__file__).resolve().parent.parent
SPECS = sorted((ROOT / "experiments").glob("*.toml"))
ON_DRIVES = ("drive-formats", "encryption", "raid-levels", "three-drives")
"""Those that need whole drives, which they name by names that no machine has."""
(SCHEMA,) = (json.loads(file.read_text("utf-8")) for file in (ROOT / "src").rglob("export.schema.json"))
LEVELS, SCALE, CONNECTIONS, ROWS, ROWS_PER_TRANSACTION = 2, 1000, 2, 200, 100


GENERATED = ("pgbench", "sql", "sysbench")
OF_A_KIND_WITH_ANOTHER = (
    "a-a", "files-and-log-place", "mariadb-durability", "quickstart-engines",
    "sequential-inserts-many-files", "sequential-inserts-many-files-randomised", "wal-volume",
)  # fmt: skip
"""Slow ones whose engine and load another spec has too: `make validate` runs these."""


def on_this_disk(spec: dict[str, Any]) -> bool:
    return any("path" in volume for volume in spec["volumes"].values())


def tiny(spec: dict[str, Any]) -> dict[str, Any]:
    """The same experiment with two levels of each factor, one repetition, and as little work as its engine can do. On
    this disk, no second levels of two factors meet.
    """
    factors = {name: levels[:LEVELS] for name, levels in spec["factors"].items()}
    target, work = dict(spec.get("target", {})), dict(spec["workload"])
    if work.get("kind") in GENERATED:
        least = {"table_size": 5000, "scale": 1, "connections": CONNECTIONS}
        work.pop("warm_up_at_most", None)
        work |= {"duration": "1s", "warm_up": "0s", **{key: size for key, size in least.items() if key in work}}
        factors |= {name: levels[:1] for name, levels in factors.items() if name.startswith("workload.")}
    elif "scale" not in target and "trace" not in work:
        work |= {"connections": CONNECTIONS, "rows_per_connection": ROWS, "rows_per_transaction": ROWS_PER_TRANSACTION}
    elif "duration" in work:
        work |= {"duration": "2s" if on_this_disk(spec) else "10s", "warm_up": "1s"}
    target |= {"scale": SCALE} if "scale" in target else {}
    left_out = [one for one in spec.get("exclude", []) if all(one[name] in factors[name] for name in one)]
    if on_this_disk(spec):
        seconds = {name: levels[1] for name, levels in factors.items() if len(levels) > 1}
        labels = {name: level["label"] if isinstance(level, dict) else level for name, level in seconds.items()}
        left_out += [dict(pair) for pair in itertools.combinations(labels.items(), 2)]
    raw_io = work.get("kind") == "raw-io"
    layout = spec.get("layout", {}) | ({"data_size": "64MiB"} if raw_io and on_this_disk(spec) else {})
    small = {
        "layout": layout, "repetitions": 1, "target": target, "workload": work, "factors": factors,
        "exclude": left_out,
    }  # fmt: skip
    return {key: value for key, value in (spec | small).items() if value}


def asked(monkeypatch, *words: object) -> None:
    """`storagelab WORDS` in this process."""
    monkeypatch.setattr(sys, "argv", ["storagelab", *map(str, words)])
    with contextlib.suppress(SystemExit):
        cli.main()


makes_drives = pytest.mark.skipif(os.geteuid() != 0 or limits.groups() is None, reason="makes drives, and limits them")


def marks(file: Path) -> list[pytest.MarkDecorator]:
    """What must be on this machine besides PostgreSQL, and whether it is left to `make validate`."""
    sysbench = pytest.mark.skipif(shutil.which("sysbench") is None, reason="no sysbench")
    zfs = pytest.mark.skipif(shutil.which("zfs") is None, reason="no ZFS")
    needed = {
        "engines": needs_mariadb, "mariadb": needs_mariadb, "sysbench": sysbench, "on-your-drives": needs_fio,
        "replay": needs_fio, "zfs": zfs, "file-systems": makes_drives, "cloud-disks": makes_drives,
    }  # fmt: skip
    later = [pytest.mark.campaign] if file.stem in OF_A_KIND_WITH_ANOTHER else []
    return [*later, *(mark for part, mark in needed.items() if part in file.stem)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", [pytest.param(file, id=file.stem, marks=marks(file)) for file in SPECS if file.stem not in ON_DRIVES]
)
def test_a_ready_made_spec_runs_and_its_export_keeps_the_schema(file, scratch, attached, monkeypatch):
    monkeypatch.setenv("STORAGELAB_DSN", attached.conninfo)
    monkeypatch.chdir(scratch)
    monkeypatch.setattr(run, "conclude", lambda *_, **__: None)  # pictures take longer than these runs
    spec = tiny(tomllib.loads(file.read_text("utf-8")))
    for volume in spec["volumes"].values():
        if "path" in volume:
            (scratch / volume["path"]).mkdir(parents=True, exist_ok=True)
    if (files := file.with_suffix("")).is_dir():
        shutil.copytree(files, scratch / files.name)
        for script in (scratch / files.name).iterdir():
            script.write_text(script.read_text("utf-8").replace("200000", "2000"), "utf-8")
    here = scratch / file.name
    here.write_text("".join(f"{key} = {as_toml(value)}\n" for key, value in spec.items()), "utf-8")
    asked(monkeypatch, "run", here, "--jobs", 1)
    asked(monkeypatch, "export", here, "--output", scratch / "export.json")

    document = json.loads((scratch / "export.json").read_text("utf-8"))
    jsonschema.validate(document, SCHEMA, cls=jsonschema.Draft202012Validator)
    runs = [run for cell in document["cells"] for run in cell["runs"]]
    assert {run["status"] for run in runs} == {"ok"}, [run["reason"] for run in runs]
    assert len(runs) >= len(document["cells"]) >= 2


@pytest.mark.parametrize("name", ON_DRIVES)
def test_a_spec_for_whole_drives_says_what_this_machine_lacks_and_touches_nothing(name, monkeypatch, capsys):
    file = ROOT / "experiments" / f"{name}.toml"
    assert "EVERYTHING ON THE DRIVE" in file.read_text("utf-8")
    asked(monkeypatch, "plan", file)
    said = capsys.readouterr().err
    assert re.fullmatch(rf"storagelab: (\S+{name}\.toml: volumes\.\w+(\.\w+)?: .+\n  .+\n)+", said), said


def test_every_ready_made_spec_says_what_it_asks():
    assert [file.name for file in SPECS if not tomllib.loads(file.read_text("utf-8"))["question"].endswith("?")] == []
