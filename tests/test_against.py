"""Two specs as one experiment: their cells run in turns, what differs is a factor, and a gate decides."""

import json
from pathlib import Path

import pytest
from simulated_specs import SMALL

from storagelab.errors import SpecError
from storagelab.spec import matrix
from storagelab.spec.against import against

FACTORS_OF_SMALL = SMALL[SMALL.index("[factors]") :]


@pytest.fixture
def written(tmp_path):
    """Writes base.toml, and change.toml with some text replaced."""

    def write(*changes: tuple[str, str], base: str = SMALL) -> tuple[Path, Path]:
        files = tmp_path / "base.toml", tmp_path / "change.toml"
        text = base
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        for file, content in zip(files, (base, text), strict=True):
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
        ((), None, "says the same as the other spec"),
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


@pytest.mark.slow
def test_it_is_run_reported_and_gated(written, typed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = SMALL.replace(FACTORS_OF_SMALL, "").replace("repetitions = 2", "repetitions = 4")
    written(("cores = 4", "cores = 2"), base=base)
    code, out, err = typed("run", "base.toml", "--against", "change.toml")
    assert code == 0, err
    assert "as a gate: storagelab compare small-against-small c01 c02 --fail-if-slower 5%" in err
    assert typed("run", "base.toml", "--against", "change.toml")[0] == 0, "nothing is left to run"
    gated = "compare", "small-against-small", "c01", "c02", "--fail-if-slower"
    code, out, _ = typed(*gated, "5%")
    assert (code, "Gate: slower by more than 5 %, for sure. " in out) == (1, True)
    assert "--against" not in out, "it was run in turns"
    assert typed(*gated, "150%")[0] == 0
    code, out, _ = typed("compare", "small-against-small", "c02", "c01", "--fail-if-slower", "5%", "--format", "json")
    assert (code, json.loads(out)["gate"]) == (0, "not-slower")
