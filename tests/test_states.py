"""What drives remember, in a file and on its way to another machine."""

import os
import pickle
import zlib

import pytest
from real_servers import site_at
from simulated_specs import ONE_BLOCK, SMALL, planned

from storagelab import profiles
from storagelab.model.measurement import Run
from storagelab.run import loop, scheduling
from storagelab.run.scheduling import InFile, InMemory
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse


def test_a_state_that_travels_arrives_as_it_left_and_is_small_on_the_way():
    state = InMemory()
    state.write([b"header\n", bytes(1_000_000)])
    sent = pickle.dumps(state)
    assert len(sent) < 20_000
    assert pickle.loads(sent).read() == b"header\n" + bytes(1_000_000)


def test_a_state_that_has_travelled_stays_packed_in_a_file_and_when_it_is_sent_on(tmp_path):
    state, file = InMemory(), InFile(tmp_path / "block-0.bin")
    state.write([b"header\n", bytes(1_000_000)])
    file.write([pickle.loads(pickle.dumps(state)).kept()])
    assert file.path.stat().st_size < 20_000
    assert file.read() == pickle.loads(pickle.dumps(InMemory(file.kept()))).read() == state.read()
    file.write([file.kept()[:100]])
    assert file.read() == b"", "what is damaged counts as lost"


def test_a_state_in_a_file_is_replaced_whole_and_one_that_is_not_there_is_empty(tmp_path):
    state = InFile(tmp_path / "new" / "block-0.bin")
    assert state.read() == b""
    state.write([b"old", b"er"])
    state.write([b"newer"])
    assert state.read() == b"newer"
    assert [file.name for file in state.path.parent.iterdir()] == ["block-0.bin"]


def test_a_state_that_somebody_else_put_there_is_read_only_if_it_is_a_small_file(tmp_path, monkeypatch):
    state = InFile(tmp_path / "state" / "block-0.bin")
    state.path.parent.mkdir()
    os.mkfifo(state.path)
    assert state.read() == b""
    state.path.unlink()
    (tmp_path / "mine").write_bytes(b"mine")
    state.path.symlink_to(tmp_path.parent / "mine")
    assert state.read() == b""
    with pytest.raises(OSError, match="it leads out of"):
        state.write([b"theirs"])
    state.path.unlink()
    monkeypatch.setattr(scheduling, "_MOST_BYTES", 2**20)
    state.path.write_bytes(zlib.compress(bytes(2**24), level=1))
    assert state.path.stat().st_size < 2**18
    assert state.read() == b""


def made(work: loop.Batch) -> list[str]:
    told: list[object] = []
    loop.make_elsewhere(pickle.loads(pickle.dumps(work)), told.append)
    (report,) = told
    assert isinstance(report, loop.BatchResult)
    assert all(isinstance(run, Run) and run.status == "ok" for run in report.runs)
    return [run.measurement.model_copy(update={"teardown_s": None}).model_dump_json() for run in report.runs]


@pytest.mark.parametrize(
    "head", [b'{"bytes": [1e999]}', b"[" * 10_000, b'{"bytes": [], "identity": "", "runs_done": 1e999}', b"[]", b"\xff"]
)
def test_a_state_that_another_machine_made_up_counts_as_lost(tmp_path, head):
    (whole,) = loop.batches(planned(ONE_BLOCK), {}, site_at(tmp_path), tmp_path)
    one = whole._replace(wanted={0: 1})
    assert made(one._replace(state=InMemory(head + b"\n"))) == made(one._replace(state=InMemory()))


def test_a_slice_takes_profiles_of_the_users_own_along(tmp_path, monkeypatch):
    (tmp_path / "my.toml").write_text(profiles.text_of("iodrive-320", tmp_path))
    text = SMALL.replace(*ONE_BLOCK).replace('"iodrive-320"', '"./my.toml"')
    plan = expand(parse(text, str(tmp_path / "small.toml")))
    site = site_at(tmp_path).model_copy(update={"spec_folder": tmp_path})
    (whole,) = loop.batches(plan, {}, site, tmp_path)
    texts = loop._profiles_of(plan, site)
    away = site.model_copy(update={"spec_folder": tmp_path / "nowhere", "texts": texts})
    (ready_made,) = loop.batches(planned(ONE_BLOCK), {}, site, tmp_path)
    found, expected = made(whole._replace(site=away, state=InMemory())), made(ready_made._replace(state=InMemory()))
    assert len(found) == len(expected) == 4
    assert list(texts) == ["./my.toml"]
