"""Vega-Lite's runtime for a page: made once, kept, and the same whether kept or made."""

import base64
import hashlib

from test_html import unpacked

from storagelab.report.drawing import vega as module
from storagelab.report.drawing.vega import runtime


def test_it_is_made_once_and_the_policy_can_name_it_by_its_hash(monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(module, "_kept_in", lambda: tmp_path / "cache" / "runtime.js.gz")
    monkeypatch.setattr(module, "_made", lambda: made.append(1) or b"window.vegaEmbed = 1;")
    monkeypatch.setattr(module.sys, "dont_write_bytecode", False)
    first, second = runtime(), runtime()
    assert first == second
    assert made == [1]
    script = unpacked(first.packed)
    assert script == b"window.vegaEmbed = 1;"
    assert base64.b64decode(first.sha256) == hashlib.sha256(script).digest()
    assert [file.name for file in (tmp_path / "cache").iterdir()] == ["runtime.js.gz"]


def test_a_damaged_one_or_a_folder_that_can_not_be_written_means_that_it_is_made_anew(monkeypatch, tmp_path):
    kept = tmp_path / "runtime.js.gz"
    kept.write_bytes(b"half a fi")
    monkeypatch.setattr(module, "_kept_in", lambda: kept)
    monkeypatch.setattr(module, "_made", lambda: b"anew")
    assert unpacked(runtime().packed) == b"anew"
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(module, "_kept_in", lambda: tmp_path / "file" / "runtime.js.gz")
    assert unpacked(runtime().packed) == b"anew"
