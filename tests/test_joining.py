"""Which cluster is meant, whether it is safe to join, and whether its workers are of the same kind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from real_servers import until
from simulated_specs import SMALL
from test_determinism import completed, rows

from storagelab.errors import PreflightError

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
import dask
from real_cluster import machines

from storagelab.run.joining import Reach, asked, identity, is_local, refusal


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


def run(spec: Path, folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "storagelab", "run", str(spec), "--results", str(folder), *words]
    asked_for = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    said = subprocess.run(command, capture_output=True, text=True, timeout=200, env=asked_for)
    assert "Traceback" not in said.stdout + said.stderr
    return said


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
def test_where_no_scheduler_answers_the_message_says_so(spec, tmp_path):
    said = run(spec, tmp_path / "r", "--executor", "dask", "--scheduler", "tcp://127.0.0.1:9")
    assert said.returncode == 2
    assert "no scheduler answers at tcp://127.0.0.1:9" in said.stderr


@pytest.mark.slow
def test_a_client_that_is_killed_goes_on_to_the_same_rows(spec, tmp_path):
    completed(tmp_path / "one", "run", str(spec), "--jobs", "1")
    with machines(tmp_path / "cluster", workers=1) as cluster:
        words = [
            "run",
            str(spec),
            "--results",
            str(tmp_path / "r"),
            "--executor",
            "dask",
            "--scheduler",
            cluster.address,
        ]
        environment = {**os.environ, "PYTHONPATH": cluster.environment["PYTHONPATH"]}
        process = subprocess.Popen(
            [sys.executable, "-m", "storagelab", *words], env=environment, stderr=subprocess.PIPE, text=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if "[1/8]" in line:
                process.send_signal(signal.SIGKILL)
                break
        process.wait(timeout=30)
        process.stderr.close()
        said = run(spec, tmp_path / "r", "--executor", "dask", "--scheduler", cluster.address)
        assert said.returncode == 0, said.stderr
    assert rows(tmp_path / "r") == rows(tmp_path / "one")


OPENSSL = """
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=storagelab-ca -keyout ca-key.pem -out ca.pem
openssl req -newkey rsa:2048 -nodes -subj /CN=cluster -keyout key.pem -out request.pem
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -out cert.pem
"""
"""As docs/how-to/many-machines.md says."""


def certificates(folder: Path) -> dict[str, str]:
    """Dask's settings for a certificate that all machines of a cluster share."""
    folder.mkdir()
    subprocess.run(["sh", "-ec", OPENSSL], cwd=folder, check=True, capture_output=True)
    files = {"CA_FILE": "ca.pem"}
    for who in ("CLIENT", "SCHEDULER", "WORKER"):
        files |= {f"{who}__CERT": "cert.pem", f"{who}__KEY": "key.pem"}
    return {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(folder / file) for name, file in files.items()}


@pytest.mark.slow
def test_with_certificates_all_is_encrypted_and_who_has_none_or_others_stays_outside(spec, tmp_path):
    settings = certificates(tmp_path / "ours")
    others = certificates(tmp_path / "others")
    with machines(tmp_path / "cluster", 0, scheme="tls", **settings) as cluster:
        cluster.add_worker()
        until(cluster.all_are_there, timeout_s=90)
        words = ["--executor", "dask", "--scheduler", cluster.address]
        said = run(spec, tmp_path / "r", *words, **settings)
        assert said.returncode == 0, said.stderr
        stranger = run(spec, tmp_path / "s", *words, **others)
        assert (stranger.returncode, "no scheduler answers at tls://" in stranger.stderr) == (2, True)
        bare = run(spec, tmp_path / "t", *words)
        assert (bare.returncode, "needs a certificate" in bare.stderr) == (2, True)
