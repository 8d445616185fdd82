"""The counts of the code, and their rules: only loads distinguish loads, and only servers distinguish servers."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def house():
    found = importlib.util.spec_from_file_location("count_house", ROOT / "tools" / "count_house.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_blanks_comments_and_docstrings_are_no_lines_of_code(house):
    text = '"""What."""\n\nFIRST = 1  # the first\n"""Its meaning."""\n\n\ndef f():\n    # why\n    return """a\nb"""\n'
    assert house.code_lines(text) == {3, 7, 9, 10}
    assert list(house.functions_in(text, house.code_lines(text))) == [2]


@pytest.mark.parametrize(
    ("line", "question"),
    [
        ("if isinstance(config.workload, Pgbench | Sql):", "isinstance of a load"),
        ("if not isinstance(load, GeneratedLoad):", "isinstance of a load"),
        ('if config.workload.kind == "sequential-insert":', "kind of a load compared"),
        ("if self.server is not None:", "self.server is None"),
        ("if config.target.attached:", "target.attached"),
    ],
)
def test_a_question_is_found(house, tmp_path, line, question):
    (tmp_path / "src" / "storagelab").mkdir(parents=True)
    (tmp_path / "src" / "storagelab" / "asking.py").write_text(f"{line}\n    pass\n")
    assert house.count(tmp_path).questions == {**dict.fromkeys(house.QUESTIONS, 0), question: 1}


def test_nobody_else_asks_which_load_or_which_server_a_run_has(house):
    asked = house.count(ROOT).questions
    wanted = ("isinstance of a load", "kind of a load compared", "self.server is None")
    assert {question: asked[question] for question in wanted} == dict.fromkeys(wanted, 0)


LIMITS = {"code_lines": 1000, "median_at_least": 4, "longest_function": 60}


def test_a_house_within_its_figures_passes_and_one_above_or_well_below_fails(house):
    def said(**found):
        return " ".join(house.complaints(LIMITS, {**LIMITS, **found}))

    assert said(code_lines=995, longest_function=20, median_at_least=5) == ""
    assert "code_lines is 1,001, and may be 1,000 at most" in said(code_lines=1001)
    assert "lower the figure from 1,000" in said(code_lines=994)
    assert "longest_function is 61" in said(longest_function=61)
    assert "may be 4 at least" in said(median_at_least=3)


def test_writing_lowers_figures_and_never_raises_one(house):
    text = "# Why.\ncode_lines = 1_000  # of code\nmodules = 10\nlongest_function = 60\n"
    written = house.lowered(text, {"code_lines": 900, "modules": 11, "longest_function": 20})
    assert written == "# Why.\ncode_lines = 900  # of code\nmodules = 10\nlongest_function = 60\n"


def test_a_caution_may_be_a_small_module_and_a_median_is_not_rounded(house, tmp_path):
    for name, body in (("findings/cautions/one.py", "    a = 1\n"), ("findings/power.py", "    a = 1\n    return a\n")):
        (tmp_path / "src" / "storagelab" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / "storagelab" / name).write_text(f"def f():\n{body}")
    found = house.figures(tmp_path)
    assert (found["modules"], found["small_modules"], found["median_at_most"]) == (2, 1, 1.5)
