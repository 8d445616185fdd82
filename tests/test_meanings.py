"""What is known of engines without their drivers."""

import re
from pathlib import Path

from storagelab import findings
from storagelab.model.engines import ENGINES
from storagelab.servers.durability import BENIGN_WAITS, KNOWN


def test_every_engine_with_a_server_of_its_own_judges_its_durability():
    assert set(KNOWN) == {name for name, engine in ENGINES.items() if engine.provenance == "measured"}
    assert [engine.judge({}, "").commits for engine in KNOWN.values()] == ["each commit is on the disk"] * 3


def test_no_engine_is_named_in_the_findings():
    named = re.compile(rf'"({"|".join(KNOWN)})"')
    texts = {file.name: file.read_text("utf-8") for file in Path(findings.__file__).parent.glob("*.py")}
    assert [name for name, text in texts.items() if named.search(text)] == []


def test_a_wait_of_the_storage_is_not_benign():
    assert BENIGN_WAITS.isdisjoint({"WRITELOG", "PAGEIOLATCH_EX", "PAGELATCH_UP"})
    assert "CHECKPOINT_QUEUE" in BENIGN_WAITS
