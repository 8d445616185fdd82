"""Rewrite the golden answers in tests/golden/answers from stored results.

    python tools/make_golden_answers.py RESULTS NAME...     a file of thinned findings and a text for each experiment
    python tools/make_golden_answers.py                     only the texts: of stored findings, and of cautions

The findings are real ones, without the parts that no line of an answer uses. Read every text that changes before you
commit it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from storagelab.errors import StoragelabError
from storagelab.findings.analysis import analyse
from storagelab.findings.model import Findings
from storagelab.report.words.answer import answer_lines
from storagelab.run import stored
from storagelab.run.engine import preflight
from storagelab.spec import reading
from storagelab.spec.matrix import expand

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "golden" / "answers"
LEAST_SPENT = 1e-7
"""The smallest fraction of a connection's time. Waits with a smaller one are left out."""
DIGITS = 6
_UNUSED = {
    "points", "wait_trends", "wait_changes", "speed_ups", "found", "wait_shares", "raw_io", "checkpoint_s",
    "drive_states", "arithmetic", "analogue", "minimum", "maximum",
}  # fmt: skip


def thinned(findings: Findings) -> dict[str, Any]:
    content = json.loads(findings.model_dump_json())
    content["effects"] = [effect for effect in content["effects"] if not effect["at"]]
    for cell in content["cells"]:
        cell["waits"] = []
        cell["spent"] = [one for one in cell["spent"] if sum(one["by_run_s"]) > LEAST_SPENT * _whole_s(cell)]
    for content_of, caution in zip(content["cautions"], findings.cautions, strict=True):
        lists = {name: value for name, value in dict(caution).items() if isinstance(value, tuple)}
        content_of.update(lists)
    return _without(content)


def _whole_s(cell: dict[str, Any]) -> float:
    """Returns the seconds of a connection, summed over all runs."""
    return sum(sum(one["by_run_s"]) for one in cell["spent"])


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _without(item) for name, item in value.items() if name not in _UNUSED}
        if "median" in value:
            kept |= {"points": [], "minimum": 0, "maximum": 0}
        if "by_run_s" in value:
            kept |= {"analogue": ""}
        return kept
    if isinstance(value, list):
        return [_without(item) for item in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def reword() -> None:
    for file in sorted(FOLDER.glob("*.json")):
        lines = answer_lines(Findings.model_validate_json(file.read_text("utf-8")))
        file.with_suffix(".txt").write_text("\n".join(lines) + "\n", "utf-8")
        print("\n".join([f"== {file.stem}", *lines]))
    sys.path.insert(0, str(FOLDER.parent.parent))
    import test_caution_texts as tried

    said = [{**case, "says": tried.words(caution)} for case, caution in zip(tried.CASES, tried.CAUTIONS, strict=True)]
    write_cases(tried.GOLDEN, said)
    import test_answer
    import test_cautions
    import test_export
    import test_loads
    import test_markdown
    import test_numbers
    import test_profiles
    import test_sentences
    import test_spec
    import test_terminal
    import test_what_if
    from fabricated_findings import golden, said_in

    write_cases(golden("refusals", "json"), [{**case, "says": test_spec.said_of(case)} for case in test_spec.REFUSED])
    write_cases(golden("numbers", "json"), [{**case, "says": test_numbers.said_of(case)} for case in test_numbers.SAID])
    write_cases(golden("exports", "json"), test_export.documents())
    write_cases(golden("raised", "json"), test_cautions.raised())
    with tempfile.TemporaryDirectory() as folder:
        wrong = [{**case, "says": test_profiles.said_of(case, Path(folder))} for case in test_profiles.WRONG]
    write_cases(golden("refused-profiles", "json"), wrong)
    worlds = json.loads(golden("refused-worlds", "json").read_text("utf-8"))
    write_cases(golden("refused-worlds", "json"), [{**case, "says": refused_world(case["changes"])} for case in worlds])

    alike = {name: lambda found=found: found for name, found in test_sentences.SITUATIONS.items()}
    golden("sentences").write_text(said_in(alike), "utf-8")
    golden("answers").write_text(said_in(test_answer.SITUATIONS, test_answer.texts), "utf-8")
    golden("reports").write_text(test_markdown.reports(), "utf-8")
    golden("screens").write_text(test_terminal.screens(), "utf-8")
    golden("loads").write_text(said_in(test_loads.SITUATIONS), "utf-8")
    golden("what-if").write_text(said_in(test_what_if.SITUATIONS, test_what_if.what_if_sentences), "utf-8")


def refused_world(changes: list[tuple[str, str]]) -> str:
    """Returns the output of `storagelab plan`, on one line, for the small simulated experiment with these changes."""
    from real_servers import site_at
    from simulated_specs import SMALL

    text = SMALL
    for old, new in changes:
        text = text.replace(old, new)
    try:
        experiment = reading.parse(text, "x.toml")
        preflight(expand(experiment), site_at(Path()))
    except StoragelabError as error:
        return " ".join(str(error).split()).removeprefix("x.toml: ")
    raise SystemExit(f"these changes are not refused: {changes}")


def write_cases(file: Path, cases: list[dict[str, Any]]) -> None:
    """Writes each case on one line."""
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    file.write_text(f"[\n{lines}\n]\n", "utf-8")


def main() -> None:
    if len(sys.argv) == 1:
        reword()
        return
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[2:]:
        _, experiment, plan, runs = stored.read(name, Path(sys.argv[1]))
        findings = analyse(experiment, plan, runs)
        content = thinned(findings)
        content |= {"wait_trends": [], "wait_changes": []}
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        (FOLDER / f"{name}.json").write_text(text + "\n", "utf-8")
        lines = answer_lines(findings)
        if lines != answer_lines(Findings.model_validate_json(text)):
            raise SystemExit(f"{name}: too much was removed, because its answer differs")
        (FOLDER / f"{name}.txt").write_text("\n".join(lines) + "\n", "utf-8")
        print("\n".join([f"== {name}, {len(text):,} bytes", *lines]))


if __name__ == "__main__":
    main()
