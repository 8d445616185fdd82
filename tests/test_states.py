"""What drives remember, in a file and on its way to another machine."""

from __future__ import annotations

import pytest
from real_servers import site_at
from simulated_specs import ONE_BLOCK, SMALL, planned

from storagelab import profiles
from storagelab.model.measurement import Run
from storagelab.run import loop
from storagelab.run.errands import slice_in, slice_message
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse
from storagelab.targets.states import Carried, InFile


def test_a_state_that_travels_arrives_as_it_left_and_is_small_on_the_way():
    state = Carried()
    state.write([b"header\n", bytes(1_000_000)])
    sent = state.packed()
    assert len(sent) < 20_000
    assert Carried(sent).read() == b"header\n" + bytes(1_000_000)


def test_a_state_that_has_travelled_stays_packed_in_a_file_and_when_it_is_sent_on(tmp_path):
    state, file = Carried(), InFile(tmp_path / "block-0.bin")
    state.write([b"header\n", bytes(1_000_000)])
    file.write([state.packed()])
    assert file.path.stat().st_size < 20_000
    assert file.read() == Carried(Carried(file.kept()).packed()).read() == state.read()
    file.write([file.kept()[:100]])
    assert file.read() == b"", "what is damaged counts as lost"


def test_a_state_in_a_file_is_replaced_whole_and_one_that_is_not_there_is_empty(tmp_path):
    state = InFile(tmp_path / "new" / "block-0.bin")
    assert state.read() == b""
    state.write([b"old", b"er"])
    state.write([b"newer"])
    assert state.read() == b"newer"
    assert [file.name for file in state.path.parent.iterdir()] == ["block-0.bin"]


def made(work: loop.Slice) -> list[str]:
    told: list[object] = []
    loop.make_elsewhere(slice_in(slice_message(work))[0], told.append)
    (news,) = told
    assert isinstance(news, loop.Made)
    assert all(isinstance(run, Run) and run.status == "ok" for run in news.runs)
    return [run.measurement.model_copy(update={"teardown_s": None}).model_dump_json() for run in news.runs]


@pytest.mark.parametrize(
    "head", [b'{"bytes": [1e999]}', b"[" * 10_000, b'{"bytes": [], "identity": "", "runs_done": 1e999}', b"[]", b"\xff"]
)
def test_a_state_that_another_machine_made_up_counts_as_lost(tmp_path, head):
    (whole,) = loop.slices(planned(ONE_BLOCK), {}, site_at(tmp_path), tmp_path)
    one = whole._replace(wanted={0: 1})
    assert made(one._replace(state=Carried(head + b"\n"))) == made(one._replace(state=Carried()))


def test_a_slice_takes_profiles_of_the_users_own_along(tmp_path, monkeypatch):
    (tmp_path / "my.toml").write_text(profiles.text_of("iodrive-320", tmp_path))
    text = SMALL.replace(*ONE_BLOCK).replace('"iodrive-320"', '"./my.toml"')
    plan = expand(parse(text, str(tmp_path / "small.toml")))
    site = site_at(tmp_path).model_copy(update={"spec_folder": tmp_path})
    (whole,) = loop.slices(plan, {}, site, tmp_path)
    texts = loop._profiles_of(plan, site)
    away = site.model_copy(update={"spec_folder": tmp_path / "nowhere", "texts": texts})
    (ready_made,) = loop.slices(planned(ONE_BLOCK), {}, site, tmp_path)
    found, expected = made(whole._replace(site=away, state=Carried())), made(ready_made._replace(state=Carried()))
    assert len(found) == len(expected) == 4
    assert list(texts) == ["./my.toml"]
