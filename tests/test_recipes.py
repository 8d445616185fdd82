"""The recipes of docs/how-to/cluster, tried on loopback with their programs, or read by the parsers of these."""

import contextlib
import getpass
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from simulated_specs import SMALL
from test_determinism import rows

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
from real_cluster import RECIPES, certified, done_by, free_port

from storagelab.run import cluster

ROOT = Path(__file__).parent.parent
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def _without_loading(package: str) -> Path:
    """The folder of a package. Loading dask_jobqueue would take Ctrl-C for itself, in all tests that follow."""
    found = find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed")
    return Path(found.origin).parent


def environment(home: Path) -> dict[str, str]:
    """What a user has who set up his home as the recipes say."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DASK_")}
    own = {"HOME": str(home), "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
    return {**kept, **own, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@contextlib.contextmanager
def started(home: Path, recipe: str, *words: str) -> Iterator[str]:
    """Run a recipe until Ctrl-C. The address of its scheduler, as it prints it."""
    program = [sys.executable, str(RECIPES / recipe), *words]
    complaints = home / "complaints"
    with complaints.open("w") as errors:
        process = subprocess.Popen(program, env=environment(home), stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("storagelab run my.toml --executor dask --scheduler tls://127.0.0.1:"), (
            complaints.read_text()
        )
        yield line.split()[-1]
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def home(tmp_path) -> Path:
    """A home with certificates where Dask looks for them."""
    certified(tmp_path / ".config" / "dask")
    return tmp_path


@pytest.fixture
def hosts(home) -> Iterator[list[str]]:
    """Names in ~/.ssh/config, all of them for an sshd of the test's own."""
    if SSHD is None:
        pytest.skip("sshd is absent: apt-get install openssh-server")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd gives up root's rights
    ours, port = home / ".ssh", free_port()
    (home / "bin").mkdir()
    (home / "bin" / "storagelab").write_text(f'#!/bin/sh\nexec {sys.executable} -m storagelab "$@"\n')
    (home / "bin" / "storagelab").chmod(0o755)
    ours.mkdir(mode=0o700)
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ours / key], check=True)
    (ours / "known_hosts").write_text(f"[127.0.0.1]:{port} {(ours / 'host.pub').read_text()}")
    seen_there = " ".join(f'{name}="{environment(home)[name]}"' for name in ("HOME", "PATH", "PYTHONPATH"))
    (ours / "sshd_config").write_text(f"""
ListenAddress 127.0.0.1:{port}
HostKey {ours}/host
AuthorizedKeysFile {ours}/user.pub
PidFile none
Subsystem sftp internal-sftp
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
SetEnv {seen_there}
""")
    (ours / "config").write_text(f"""
Host head node-1 node-2
  HostName 127.0.0.1
  Port {port}
  User {getpass.getuser()}
  IdentityFile {ours}/user
  UserKnownHostsFile {ours}/known_hosts
""")
    with (home / "sshd.log").open("w") as log:
        sshd = subprocess.Popen([SSHD, "-D", "-e", "-f", ours / "sshd_config"], stderr=log)
    try:
        yield ["head", "node-1", "node-2"]
    finally:
        sshd.kill()
        sshd.wait()


@pytest.mark.campaign
def test_hosts_that_ssh_reaches_make_the_runs_that_a_person_types(hosts, home):
    pytest.importorskip("asyncssh")
    (home / "small.toml").write_text(SMALL)
    with started(home, "ssh_cluster.py", *hosts, "--port", str(free_port()), "--interface", "lo") as scheduler:
        words = ["--results", home / "r", "--executor", "dask", "--scheduler", scheduler]
        said = subprocess.run(
            [sys.executable, "-m", "storagelab", "run", home / "small.toml", *words],
            capture_output=True, text=True, env=environment(home), timeout=120,
        )  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert len(rows(home / "r")) == 8


EACH = """
name = "both"
repetitions = 2
target = { engine = "postgres" }
volumes.a = { path = "." }
layout = { data = ["a"], log = "a" }
workload = { connections = 2, rows_per_connection = 200 }
[factors]
"layout.data_files" = [1, 2]
"""


@pytest.mark.campaign
def test_a_loop_with_ssh_measures_on_two_hosts_and_gathers_their_campaigns(hosts, home):
    for name in ("ssh", "scp"):  # OpenSSH reads the user's own file by /etc/passwd, not by HOME
        program = home / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {shutil.which(name)} -F {home}/.ssh/config "$@"\n')
        program.chmod(0o755)
    (home / "both.toml").write_text(EACH)
    script = (RECIPES.parent / "hosts" / "each-host.sh").read_text()
    (home / "each-host.sh").write_text(
        script.replace("at=lab\n", f'at="{home}/$host/lab"\n')
    )  # one home for both names
    said = subprocess.run(
        ["sh", "each-host.sh", "both.toml", *hosts[1:]],
        capture_output=True, text=True, cwd=home, env=environment(home), timeout=300,
    )  # fmt: skip
    logs = "".join(log.read_text() for log in home.glob("node-*.log"))
    assert said.returncode == 0, said.stderr + logs
    assert "8 runs of 2 campaigns" in said.stdout + said.stderr
    assert "Runs come from 2 hosts" in (home / "gathered" / "both" / "report.html").read_text()


SBATCH = """#!/bin/sh
# Stands in for Slurm's: runs the job here and now.
cp "$1" "$HOME/job.sh"
setsid sh "$HOME/job.sh" >"$HOME/job.log" 2>&1 &
echo "Submitted batch job $!"
"""
SCANCEL = """#!/bin/sh
kill -- "-$1"
"""


@pytest.mark.campaign
def test_a_job_of_slurms_brings_workers(home):
    _without_loading("dask_jobqueue")
    (home / "bin").mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (home / "bin" / name).write_text(text)
        (home / "bin" / name).chmod(0o755)
    asked_for = (RECIPES / "jobqueue.yaml").read_text()
    for ours, here in (
        ("interface: null", "interface: lo"),
        ("port: 8786", "port: 0"),
        (": 8 ", ": 1 "),
        (": 8\n", ": 1\n"),
    ):
        assert ours in asked_for
        asked_for = asked_for.replace(ours, here)
    (home / ".config" / "dask" / "jobqueue.yaml").write_text(asked_for)
    with started(home, "slurm_cluster.py", "1") as scheduler:
        assert done_by(scheduler, home / ".config" / "dask") == ["a", "b"]
        directives = re.findall(r"^#SBATCH (.+)", (home / "job.sh").read_text(), re.MULTILINE)
    assert directives == [
        "-J storagelab", "-p compute", "-n 1", "--cpus-per-task=1", "--mem=15G", "-t 04:00:00", "--requeue",
    ]  # fmt: skip


def test_the_keys_for_slurm_are_those_that_dask_reads():
    jobqueue = _without_loading("dask_jobqueue")
    known = yaml.safe_load((jobqueue / "jobqueue.yaml").read_text())["jobqueue"]["slurm"]
    assert yaml.safe_load((RECIPES / "jobqueue.yaml").read_text())["jobqueue"]["slurm"].keys() <= known.keys()


# --- Kubernetes ------------------------------------------------------------------------------------------------------

KUBERNETES = yaml.safe_load((RECIPES / "kubernetes.yaml").read_text())


def container(which: str) -> dict[str, Any]:
    (only,) = KUBERNETES["spec"][which]["spec"]["containers"]
    return only


def without_unknown_keys(schema: Any) -> Any:
    """The schema, of which a cluster of Kubernetes would drop what it does not know, made to refuse that."""
    if isinstance(schema, list):
        return [without_unknown_keys(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: without_unknown_keys(part) for key, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    return closed


def test_the_operator_knows_every_key_of_the_cluster_on_kubernetes():
    operator = find_spec("dask_kubernetes")
    if operator is None or operator.origin is None:
        pytest.skip("Dask's operator is absent: pip install --no-deps -r requirements-alone.txt")
    resources = Path(operator.origin).parent / "operator" / "deployment" / "helm" / "dask-kubernetes-operator" / "crds"
    definition = yaml.load((resources / "daskcluster.yaml").read_text(), yaml.CSafeLoader)["spec"]
    assert KUBERNETES["kind"] == definition["names"]["kind"]
    (version,) = definition["versions"]
    assert KUBERNETES["apiVersion"] == f"{definition['group']}/{version['name']}"
    schema = without_unknown_keys(version["schema"]["openAPIV3Schema"])
    of_all = {key: {} for key in ("apiVersion", "kind", "metadata")}
    known = jsonschema.Draft202012Validator({**schema, "properties": {**schema["properties"], **of_all}})
    known.validate(KUBERNETES)
    with pytest.raises(jsonschema.ValidationError, match="workers"):
        known.validate({**KUBERNETES, "spec": {**KUBERNETES["spec"], "workers": {}}})


def test_ports_volumes_and_names_of_the_cluster_on_kubernetes_fit_each_other():
    service = KUBERNETES["spec"]["scheduler"]["service"]
    ports = {port["name"]: port["containerPort"] for port in container("scheduler")["ports"]}
    assert {port["targetPort"]: port["port"] for port in service["ports"]} == ports
    assert service["selector"]["dask.org/cluster-name"] == KUBERNETES["metadata"]["name"]
    assert f"tls://{KUBERNETES['metadata']['name']}-scheduler:{ports['tcp-comm']}" in container("worker")["args"]
    for which in ("scheduler", "worker"):
        volumes = {volume["name"] for volume in KUBERNETES["spec"][which]["spec"]["volumes"]}
        assert [(mount["name"] in volumes, mount["mountPath"]) for mount in container(which)["volumeMounts"]] == [
            (True, "/etc/dask")  # where Dask looks for settings, and tls.yaml for certificates
        ]


@pytest.mark.slow
def test_the_commands_for_kubernetes_are_a_cluster(home, monkeypatch):
    monkeypatch.setattr(cluster, "_ANSWER_S", 60.0)  # it is being started
    port = free_port()
    here = {
        "8786": str(port), "tls://storagelab-scheduler:8786": f"tls://127.0.0.1:{port}", "$(DASK_WORKER_NAME)": "one",
        "dask": Path(sys.executable).with_name("dask"),
    }  # fmt: skip
    with contextlib.ExitStack() as ending:
        for which in ("scheduler", "worker"):
            words = [here.get(word, word) for word in container(which)["args"]]
            log = ending.enter_context((home / f"{which}.log").open("w"))
            process = subprocess.Popen([*words, "--host", "127.0.0.1"], env=environment(home), stderr=log, cwd=home)
            ending.callback(process.wait)
            ending.callback(process.terminate)
        assert done_by(f"tls://127.0.0.1:{port}", home / ".config" / "dask") == ["a", "b"]


def instructions() -> list[tuple[str, list[str]]]:
    """The Containerfile's, in order: a word in capitals, and what follows."""
    text = re.sub(r"^#.*\n", "", (RECIPES / "Containerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [
        (first, shlex.split(rest)) for first, _, rest in (line.partition(" ") for line in text.splitlines() if line)
    ]


def test_the_image_is_made_from_files_that_are_there_and_from_locks_with_hashes():
    known = instructions()
    assert {one for one, _ in known} == {"ARG", "FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "CMD"}
    (copied,) = [words[:-1] for one, words in known if one == "COPY"]
    assert copied == ["requirements-cluster.lock", "storagelab-*.whl"]
    assert (ROOT / copied[0]).exists()
    commands = [" ".join(words).split("&&") for one, words in known if one == "RUN"]
    installed = [shlex.split(command) for one in commands for command in one if "pip install" in command]
    assert len(installed) == 2
    assert all("--require-hashes" in words or {"--no-deps", "--no-index"} <= set(words) for words in installed)
    assert [words for one, words in known if one == "USER"] == [["1000"]]


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_the_image_is_built_and_a_user_measures_in_it(tmp_path):
    """Takes minutes. The base is Debian's own, which has PostgreSQL 18; the wheel is that of `make wheel`."""
    (wheel, *_) = [*sorted((ROOT / "build" / "wheels").glob("storagelab-*x86_64.whl")), None]
    if os.geteuid() != 0 or wheel is None or not all(map(shutil.which, ("buildah", "mmdebstrap"))):
        pytest.skip("needs root, `make wheel`, and: apt-get install buildah mmdebstrap")
    for file in (wheel, ROOT / "requirements-cluster.lock", RECIPES / "Containerfile"):
        shutil.copy(file, tmp_path)
    base, late = tmp_path / "base.tar", 'Acquire::Check-Valid-Until "false"'
    subprocess.run(
        ["mmdebstrap", "--variant=minbase", f"--aptopt={late}", "--include=ca-certificates", "forky", base], check=True
    )
    trust = "/etc/ssl/certs/ca-certificates.crt"
    places = ["--root", str(tmp_path / "root"), "--runroot", str(tmp_path / "runroot"), "--storage-driver", "vfs"]

    def buildah(*words: object) -> str:
        command = ["buildah", *places, *map(str, words)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=tmp_path).stdout.strip()

    empty = buildah("from", "scratch")
    buildah("add", empty, base, "/")
    buildah("commit", empty, "localhost/base")
    buildah(
        "bud", "--isolation", "chroot", "--pull-never", "--build-arg", "BASE=localhost/base", "--volume",
        f"{trust}:{trust}:ro", "-f", "Containerfile", "-t", "storagelab", ".",
    )  # fmt: skip
    results = tmp_path / "results"
    results.mkdir()
    os.chown(results, 1000, 1000)
    made = buildah("from", "--pull-never", "localhost/storagelab")
    ran = ["run", "--isolation", "chroot", "-v", f"{results}:/results", made, "--"]
    assert buildah(*ran, "id", "-u") == "1000"
    assert "PostgreSQL) 18" in buildah(*ran, "postgres", "--version")
    assert "--with-liburing" in buildah(*ran, "pg_config", "--configure")
    assert "commits a second from one session" in " ".join(buildah(*ran, "storagelab", "demo").split())
    assert {file.stat().st_uid for file in results.rglob("report.html")} == {1000}


# --- all of them -----------------------------------------------------------------------------------------------------


CI = RECIPES.parent / "ci"


def test_the_examples_for_ci_are_yaml_that_calls_the_script_and_their_page_links_to_all():
    page = (RECIPES.parent / "gate-in-ci.md").read_text()
    assert [file.name for file in CI.iterdir() if f"](ci/{file.name})" not in page] == []
    assert (CI / "gate.sh").read_text() in page
    steps = yaml.safe_load((CI / "github.yaml").read_text())["jobs"]["gate"]["steps"]
    gitlab = yaml.safe_load((CI / "gitlab.yaml").read_text())["storage-gate"]
    for script in (steps[1]["run"], "\n".join(gitlab["script"])):
        assert "sh gate.sh base.toml change.toml 5%" in script
    assert "allow_failure" not in gitlab, "3, these runs can't tell, passes nowhere"
    assert steps[-1]["run"] == 'exit "${{ steps.gate.outputs.code }}"'


@pytest.mark.parametrize(
    ("ran", "compared", "code"), [(0, 0, 0), (0, 1, 1), (0, 3, 3), (2, 0, 2), (1, 0, 4), (130, 0, 130)]
)
def test_the_gate_passes_on_what_storagelab_says(tmp_path, ran, compared, code):
    """A stand-in answers with exit codes; docs/how-to/gate-in-ci.md shows a real one."""
    stand_in = tmp_path / "storagelab"
    stand_in.write_text(
        f"""#!/bin/sh
case $1 in
    run) mkdir "$6/base-against-change"; exit {ran} ;;
    compare) test "$2 $3 $4" = "base-against-change --by spec" && echo answer > gate.md; exit {compared} ;;
esac
"""
    )
    stand_in.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["sh", CI / "gate.sh", "base.toml", "change.toml"], cwd=tmp_path, env=path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == code
    assert done.stdout == ("answer\n" if ran == 0 else "")
    assert [one for one in tmp_path.iterdir() if one.is_dir()] == []


@pytest.mark.parametrize(("folder", "page"), [("cluster", "start-a-cluster.md"), ("hosts", "many-machines.md")])
def test_the_page_links_to_every_recipe(folder, page):
    text = (RECIPES.parent / page).read_text()
    assert [file.name for file in (RECIPES.parent / folder).iterdir() if f"]({folder}/{file.name})" not in text] == []
