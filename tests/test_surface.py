"""What users and their programs rely on stays as recorded."""

import json

import pytest
from surface import RECORD, surface


@pytest.mark.parametrize("part", ["verbs", "top of a spec", "spec keys", "export fields", "exit codes"])
def test_verbs_options_keys_fields_and_exit_codes_are_those_recorded(part):
    """If one is added on purpose: `.venv/bin/python tests/surface.py` records it."""
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    assert json.loads(json.dumps(surface()))[part] == recorded[part]


def test_nothing_else_is_recorded():
    assert json.loads(RECORD.read_text(encoding="utf-8")).keys() == surface().keys()
