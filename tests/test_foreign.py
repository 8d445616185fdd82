"""Anything that does not belong in a spec is refused by its place, before it has any effect."""

import json
import time

from spec_texts import TARGET, factor, planned, refusal


def test_a_question_may_have_lines_and_a_label_any_script() -> None:
    assert planned('question = """\nhow many\tfiles,\nand where?"""\n' + factor('x = [{ label = "שקל 日本 é 🙂" }]'))


def test_nesting_that_the_parser_follows_is_refused_by_its_table() -> None:
    assert refusal("question = " + "[" * 200 + "]" * 200).problem == "is nested too deeply"
    assert refusal("a." * 2000 + "a = 1").problem == "is nested too deeply"


def test_keys_that_would_keep_the_parser_busy_for_hours_are_refused_at_once() -> None:
    began = time.monotonic()
    error = refusal("seed = 1\n" + "a." * 200_000 + "a = 1")
    assert (error.key, error.problem) == ("line 2", "is nested too deeply")
    assert time.monotonic() - began < 5


def test_more_volumes_or_levels_than_anyone_means_are_refused_at_once() -> None:
    volumes = "".join(f'[volumes.v{number}]\npath = "."\n' for number in range(20_000))
    error = refusal(TARGET + volumes)
    assert (error.key, error.problem) == ("volumes", "has 20,000 entries; at most 1,024 are allowed")
    error = refusal(factor(f'"layout.data_files" = {json.dumps(list(range(100_000)))}'))
    assert error.key == 'factors."layout.data_files"'


def test_a_key_of_a_megabyte_is_not_printed_whole() -> None:
    assert len(str(refusal(f"{'k' * 10**6} = 1"))) < 1000
    assert len(str(refusal(f'"{"k e" * 10**5}" = 1'))) < 1000
    assert len(str(refusal(factor(f'"between_runs.pause" = ["{"9" * 10**5} parsecs"]')))) < 1000
