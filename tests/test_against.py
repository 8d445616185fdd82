"""Two specs as one experiment: their cells' runs alternate, their differences are a factor, and a gate decides."""

import json
import tomllib
from pathlib import Path
from random import Random

import pytest
from simulated_specs import SMALL, changed

from storagelab.errors import SpecError
from storagelab.model.target import Preflight
from storagelab.spec import keys, matrix
from storagelab.spec.keys import leaves, line
from storagelab.spec.reading import against
from storagelab.verbs import _planning

FACTORS_OF_SMALL = SMALL[SMALL.index("[factors]") :]
OWN = """
repetitions = 2
[target]
engine = "postgres"
[volumes.a]
path = "."
[workload]
kind = "sql"
connections = 2
duration = "5s"
warm_up = "1s"
setup = ["tables.sql"]
transactions = [{ file = "a.sql", weight = 1 }]
"""
BASES = {"simulated": SMALL.replace(FACTORS_OF_SMALL, ""), "own": OWN}
KEYS = [(base, path.replace("NAME", "x")) for base in BASES for path in keys.known_paths(tomllib.loads(BASES[base]))]


@pytest.fixture
def written(tmp_path):
    """Writes base.toml, and change.toml with some text replaced."""

    def write(*changes: tuple[str, str], base: str = SMALL) -> tuple[Path, Path]:
        files = tmp_path / "base.toml", tmp_path / "change.toml"
        for file, content in zip(files, (base, changed(base, *changes)), strict=True):
            file.write_text(content)
        return files

    return write


def test_what_differs_is_a_factor_and_the_rest_is_as_in_both(written):
    experiment = against(*written(("connections = 8", "connections = 16")))
    (first, *_) = experiment.factors
    assert (first.name, [level.value for level in first.levels]) == ("spec", ["base", "change"])
    assert [level.sets for level in first.levels] == [{"workload.connections": 8}, {"workload.connections": 16}]
    assert experiment.order == "randomised"
    assert experiment.name == "small-against-small"


def test_cells_are_those_of_the_two_specs(written):
    from storagelab.spec.reading import load

    files = written(("connections = 8", "connections = 16"), ("rows_per_transaction", "# rows_per_transaction"))
    cells = {cell.config.model_dump_json() for cell in matrix.expand(against(*files)).cells}
    alone = {cell.config.model_dump_json() for file in files for cell in matrix.expand(load(file)).cells}
    assert cells == alone


def test_the_same_two_files_are_the_same_experiment_and_its_text_says_so(written):
    files = written(("connections = 8", "connections = 16"))
    assert against(*files).sha256 == against(*files).sha256
    assert against(*files).text.startswith("# base against change: what differs between the two is the factor spec.\n")


@pytest.mark.parametrize(
    ("changes", "key", "problem"),
    [
        ((), None, "is equal to the other spec"),
        ((("repetitions = 2", "repetitions = 3"),), "repetitions", "differs from the spec that it is compared with"),
        ((("[1, 4]", "[1, 8]"),), "factors", "differs from the spec that it is compared with"),
        (
            (("[volumes.a]", '[drives.disk]\nprofile = "iodrive-320"\n[volumes.a]'),),
            "drives.disk",
            "only one of the two",
        ),
        ((("connections = 8", "connections = -8"),), "workload.connections", "must be"),
    ],
)
def test_what_can_not_run_in_turns_is_refused_by_file_and_key(written, changes, key, problem):
    with pytest.raises(SpecError) as refused:
        against(*written(*changes))
    assert (refused.value.key, Path(str(refused.value.file)).name) == (key, "change.toml")
    assert problem in refused.value.problem


def test_a_spec_in_another_folder_is_refused(written, tmp_path):
    first, second = written(("connections = 8", "connections = 16"))
    (tmp_path / "other").mkdir()
    with pytest.raises(SpecError, match="in another folder"):
        against(first, second.rename(tmp_path / "other" / "change.toml"))


def value_of(schema: keys.Schema, random: Random) -> object:
    """Some value that a key takes, by its schema."""
    schema = keys._plain(schema)
    if choices := [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]:
        return value_of(random.choice(choices), random)
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    match schema:
        case {"enum": values}:
            return random.choice(values)
        case {"const": value}:
            return value
        case {"type": "integer"}:
            return random.randint(low, min(low + 9, schema.get("maximum", low + 9)))
        case {"type": "number"}:
            return low + min(4, schema.get("maximum", low + 4) - low) * random.choice((0.25, 0.5))
        case {"type": "boolean"}:
            return random.random() < 0.5
        case {"type": "array"}:
            return [value_of(schema["items"], random) for _ in range(random.randint(1, 2))]
        case {"type": "object"}:
            return {name: value_of(of, random) for name, of in schema.get("properties", {}).items()}
    return random.choice(("a", "b.sql"))


@pytest.mark.slow
def test_whatever_key_two_specs_differ_in_they_are_planned_or_refused_in_words(home, typed, monkeypatch):
    """The server is assumed to accept everything. The test asks whether any value can be a level."""
    monkeypatch.setattr(_planning, "survey", lambda *_, **__: Preflight(server="a server", volumes=()))
    for name in ("tables.sql", "a.sql", "b.sql"):
        (home / name).write_text("SELECT 1;\n")
    planned = set()
    for base, path in KEYS:
        schema, random = keys.schema_of(keys.Written), Random(path)
        for part in keys.split_path(path):
            schema = keys._step(schema, part)
        tables = tomllib.loads(BASES[base])
        for name in ("base.toml", "change.toml"):
            (home / name).write_text("\n".join(line(*leaf) for leaf in leaves(tables)) + "\n")
            tables = keys.put(tables, {path: value_of(schema, random)})
        code, out, err = typed("plan", "base.toml", "--against", "change.toml")
        assert (code, bool(out)) in ((0, True), (2, False), (2, True)), (base, path, err)
        assert code == 0 or ("toml: " in err and path.partition(".")[0] in err), (base, path, err)
        planned |= {path} if code == 0 else set()
    assert {"workload.transactions", "workload.setup", "target.settings.x", "server.cores"} <= planned
    assert len(planned) >= 40, sorted(planned)


@pytest.mark.slow
def test_it_is_run_reported_and_gated(written, typed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = SMALL.replace(FACTORS_OF_SMALL, "").replace("repetitions = 2", "repetitions = 4")
    written(("cores = 4", "cores = 2"), base=base)
    code, out, err = typed("run", "base.toml", "--against", "change.toml")
    assert code == 0, err
    assert "as a gate: storagelab compare small-against-small --by spec --fail-if-slower 5%" in err
    assert typed("run", "base.toml", "--against", "change.toml")[0] == 0, "nothing is left to run"
    gated = "compare", "small-against-small", "--by", "spec", "--fail-if-slower"
    code, out, _ = typed(*gated, "5%")
    assert (code, "Gate: slower by more than 5 %, for sure. " in out) == (1, True)
    assert "--against" not in out, "it was run in turns"
    assert typed(*gated, "150%")[0] == 0


@pytest.mark.slow
def test_a_copy_under_another_name_is_told_before_the_runs_and_what_the_runs_find_too(written, typed, tmp_path):
    base, change = written(('file = "a.sql"', 'file = "b.sql"'), base=OWN)
    for name, text in {"tables": "CREATE TABLE t (id int PRIMARY KEY);", "a": "SELECT 1;", "b": "SELECT 1;"}.items():
        (tmp_path / f"{name}.sql").write_text(text)
    out = typed("plan", str(base), "--against", str(change))[1]
    assert "the same content under two names is no change: a.sql and b.sql" in out
    assert "2 repetitions find" in out


def test_a_gate_judges_each_layout_of_the_change_and_no_two_of_the_base(written, typed, tmp_path, monkeypatch):
    """With factors, c01 and c02 are both the base: a change many times slower would look like no change."""
    monkeypatch.chdir(tmp_path)
    base = SMALL.replace("repetitions = 2", "repetitions = 4").replace('["basic", "maximum-write"]', '["basic"]')
    written(("cores = 4", "cores = 1"), base=base)
    assert typed("run", "base.toml", "--against", "change.toml")[0] == 0
    code, out, _ = typed("compare", "small-against-small", "--by", "spec", "--fail-if-slower", "5%")
    assert (code, "Gate: slower by more than 5 %, for sure, in 2 of 2 pairs. " in " ".join(out.split())) == (1, True)
    assert out.count("too slow") == 2
    code, out, _ = typed("compare", "small-against-small", "--by", "spec", "--json", "--fail-if-slower", "900%")
    assert (code, [one["gate"] for one in json.loads(out)["pairs"]]) == (0, ["not-slower"] * 2)
    code, _, err = typed("compare", "small-against-small", "c01", "c02", "--fail-if-slower", "5%")
    assert (code, "c01 and c02 are both of the spec base, so no change is judged" in err) == (2, True)
    assert "compare small-against-small --by spec" in err
    assert typed("compare", "small-against-small", "c01", "c02")[0] == 0, "a person may look at them"
