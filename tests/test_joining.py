"""Which cluster is meant, whether it is safe to join, and whether its workers are of the same kind."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from simulated_specs import SMALL

from storagelab.errors import PreflightError

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
import dask
from real_cluster import certified, done_by, machines

from storagelab.run import joining
from storagelab.run.joining import Reach, asked, identity, is_local, joined, refusal


@pytest.mark.parametrize(
    ("said", "local"),
    [("tcp://127.0.0.1:8786", True), ("tcp://[::1]:8786", True), ("localhost:1", True), ("tls://10.1.2.3:8786", False)],
)
def test_only_loopback_is_this_machine_alone(said, local):
    assert is_local(said) == local


def test_without_an_address_the_cluster_is_local_and_dasks_own_setting_is_read():
    assert asked(None, 4, insecure=False) == Reach(None, 4)
    with dask.config.set({"scheduler-address": "tcp://127.0.0.1:4711"}):
        assert asked(None, 4, insecure=False).address == "tcp://127.0.0.1:4711"
        assert asked("localhost:1", 4, insecure=False).address == "tcp://localhost:1"


def test_what_is_not_encrypted_is_refused_beyond_this_machine_unless_the_user_insists():
    with pytest.raises(PreflightError, match=r"(?s)10\.1\.2\.3:8786 is not encrypted.*--insecure"):
        asked("tcp://10.1.2.3:8786", 1, insecure=False)
    assert asked("tcp://10.1.2.3:8786", 1, insecure=True).address == "tcp://10.1.2.3:8786"


def test_an_address_without_a_scheme_means_tls_beyond_this_machine_and_asks_for_certificates():
    with pytest.raises(
        PreflightError, match=r"tls://10\.1\.2\.3:8786 needs a certificate.*tls\.ca-file is not set"
    ) as raised:
        asked("10.1.2.3:8786", 1, insecure=False)
    assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in str(raised.value)
    with (
        dask.config.set({"distributed.comm.tls.ca-file": "/nowhere.pem"}),
        pytest.raises(PreflightError, match=r"names /nowhere\.pem, which is not a file"),
    ):
        asked("tls://10.1.2.3:8786", 1, insecure=False)


@pytest.mark.parametrize("said", ["8786", "host", "http://host:1", "tcp://host", "tls://:8786"])
def test_what_is_no_address_is_refused(said):
    with pytest.raises(PreflightError, match="is no address of a scheduler"):
        asked(said, 1, insecure=False)


@pytest.mark.parametrize("name", sorted(identity()))
def test_a_worker_that_differs_in_anything_is_refused_with_what_differs(name):
    assert refusal(identity()) == ""
    assert re.fullmatch(rf"its {name} is another, here .+", refusal({**identity(), name: "another"}))


# --- as a person types it --------------------------------------------------------------------------------------------


@pytest.fixture
def spec(tmp_path) -> Path:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    return file


def test_options_of_a_cluster_need_the_cluster(typed, spec, tmp_path):
    for words in (["--scheduler", "tcp://127.0.0.1:1"], ["--insecure"], ["--time-limit", "1min"]):
        code, _, err = typed("run", spec, "--results", tmp_path / "r", *words)
        assert code == 2
        assert f"{words[0]}: is an option of a cluster\n  Add --executor dask." in err


def test_without_dask_the_message_says_what_to_install(typed, spec, tmp_path, monkeypatch):
    for name in [
        name for name in sys.modules if name.startswith("storagelab.run.") and name[15:] in ("cluster", "joining")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setattr("storagelab.run.cluster", None, raising=False)
    monkeypatch.delattr("storagelab.run.cluster")
    code, _, err = typed("run", spec, "--results", tmp_path / "r", "--executor", "dask")
    assert code == 2
    assert "Dask is not installed" in err
    assert 'pip install "storagelab[cluster]"' in err


@pytest.mark.slow
def test_where_no_scheduler_answers_the_message_says_so(typed, spec, tmp_path, monkeypatch):
    monkeypatch.setattr(joining, "_ANSWER_S", 1.0)
    code, _, err = typed(
        "run", spec, "--results", tmp_path / "r", "--executor", "dask", "--scheduler", "tcp://127.0.0.1:9"
    )
    assert code == 2
    assert "no scheduler answers at tcp://127.0.0.1:9" in err
    assert "without TLS: whoever has an account on this machine can run programs on all workers" in err


# --- encryption ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_with_certificates_all_is_encrypted_and_who_has_none_or_others_stays_outside(tmp_path, monkeypatch):
    ours, others = certified(tmp_path / "ours"), certified(tmp_path / "others")
    with machines(tmp_path / "cluster", 1, scheme="tls", DASK_CONFIG=str(ours)) as cluster:
        assert done_by(cluster.address, ours) == ["a", "b"]
        monkeypatch.setattr(joining, "_ANSWER_S", 2.0)
        for address, settings in [(cluster.address, others), (cluster.address.replace("tls", "tcp"), None)]:
            with pytest.raises(PreflightError, match=f"no scheduler answers at {address}"):
                done_by(address, settings)
        with pytest.raises(PreflightError, match="needs a certificate"):
            done_by(cluster.address)


@pytest.mark.slow
def test_a_scheduler_that_listens_everywhere_without_encryption_is_refused_though_it_is_reached_from_here(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(joining, "_ANSWER_S", 90.0)  # it is still starting
    with machines(tmp_path / "cluster", workers=0, host="") as cluster:
        with pytest.raises(PreflightError, match=r"listens at tcp://\S+ too, which is not encrypted, and whoever"):
            done_by(cluster.address)
        with joined(Reach(cluster.address, 1, insecure=True)) as client:
            assert client.status == "running"
