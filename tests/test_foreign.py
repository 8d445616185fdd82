"""Anything that does not belong in a spec is refused by its place, before it has any effect."""

from __future__ import annotations

import json
import time

import pytest
from spec_texts import MINIMAL, TARGET, factor, planned, refusal


@pytest.mark.parametrize(
    ("text", "key", "code_point"),
    [
        (f'question = "why\\u001b[2J?"\n{MINIMAL}', "question", "U+001B"),
        (f'name = "a\\u0007"\n{MINIMAL}', "name", "U+0007"),
        (factor('driver = [{ label = "a\\u009b" }, { label = "b" }]'), "factors.driver[1].label", "U+009B"),
        (factor('driver = [{ label = "a\\nb" }, { label = "b" }]'), "factors.driver[1].label", "U+000A"),
        (factor('driver = [{ label = "turned \\u202E round" }]'), "factors.driver[1].label", "U+202E"),
        (factor('driver = [{ label = "a\\uFFFE" }]'), "factors.driver[1].label", "U+FFFE"),
        (factor('"dri\\u0001ver" = [1]'), 'factors."dri\\u0001ver"[1]', "U+0001"),
        (f'{MINIMAL}[target.settings]\nwork_mem = "a\\u0000b"\n', "target.settings.work_mem", "U+0000"),
        (MINIMAL.replace("[volumes.a]", 'bin_dir = "/x\\u0000y"\n[volumes.a]'), "target.bin_dir", "U+0000"),
    ],
)
def test_a_control_character_is_named_with_its_place(text: str, key: str, code_point: str) -> None:
    error = refusal(text)
    assert error.key == key
    assert f"contains the control character {code_point}" in error.problem
    assert not any(ord(char) < 32 and char != "\n" for char in str(error))


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
