"""A campaign as a Kubernetes Job: its objects by the published schemas, its claims in manifests, and what delays it.

No cluster is needed: the server that is asked for classes is a small one on loopback.
"""

import json
import re
import threading
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from shell import typed

import storagelab
from storagelab.errors import SpecError
from storagelab.kubernetes.held_up import held_up
from storagelab.kubernetes.job import documents, on_claims
from storagelab.machine import doctor, host
from storagelab.machine.host import Names, asked_of
from storagelab.spec import matrix, reading

QUICKSTART = Path(storagelab.__file__).parent / "experiments" / "quickstart.toml"
VERSION = "v1.36.0-local-strict"


def written(tmp_path: Path, *options: str, spec: Path = QUICKSTART) -> list[dict[str, Any]]:
    file = tmp_path / "job.yaml"
    done = typed(tmp_path, "k8s", str(spec), *options, "-o", str(file))
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(file.read_text()))


@cache
def published() -> tuple[Path, Any]:
    package = find_spec("kubernetes_validate")
    if package is None or package.origin is None:
        pytest.skip("Kubernetes' schemas are absent: pip install --no-deps -r requirements-alone.txt")
    folder = Path(package.origin).parent / "kubernetes-json-schema" / VERSION
    definitions = json.loads((folder / "_definitions.json").read_text())
    whole = Resource.from_contents(definitions, default_specification=DRAFT202012)
    return folder, Registry().with_resource("/api/_definitions.json", whole)


def check(one: dict[str, Any]) -> None:
    folder, registry = published()
    group, _, version = one["apiVersion"].rpartition("/")
    parts = [one["kind"], *([group.partition(".")[0]] if group else []), version]
    schema = json.loads((folder / ("-".join(parts).lower() + ".json")).read_text())
    jsonschema.Draft202012Validator(schema, registry=registry).validate(one)


# --- the objects -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ["--class", "gp3", "--class", "io2"],
        ["--class", "gp3", "--node", "n1.example", "--node", "n2.example", "--results-class", "standard"],
        ["--class", "gp3", "--without-rights"],
        ["--fetch", "--node", "n1"],
    ],
)
def test_every_object_keeps_to_the_published_schema_of_its_kind(tmp_path, options):
    for one in written(tmp_path, *options):
        check(one)


def test_the_published_schemas_refuse_what_a_cluster_does_not_know(tmp_path):
    job = next(one for one in written(tmp_path, "--class", "gp3") if one["kind"] == "Job")
    job["spec"]["template"]["spec"]["nodeselector"] = {}
    with pytest.raises(jsonschema.ValidationError, match="nodeselector"):
        check(job)


def test_a_claim_of_each_class_is_mounted_where_the_spec_has_its_volume(tmp_path):
    objects = written(tmp_path, "--class", "gp3", "--class", "io2.fast", "--size", "50Gi")
    claims = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "PersistentVolumeClaim"}
    assert {name: spec.get("storageClassName") for name, spec in claims.items()} == {
        "quickstart-on-gp3": "gp3", "quickstart-on-io2-fast": "io2.fast", "quickstart-results": None,
    }  # fmt: skip
    pod = next(one for one in objects if one["kind"] == "Job")["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    text = next(one for one in objects if one["kind"] == "ConfigMap")["data"]["spec.toml"]
    plan = matrix.expand(reading.parse(text, "quickstart.toml"))
    assert {cell.config.volumes[cell.config.layout.data[0]].path for cell in plan.cells} == {
        mounts["quickstart-on-gp3"], mounts["quickstart-on-io2-fast"],
    }  # fmt: skip
    assert len(plan.cells) == 2 * 5


def test_a_claim_that_can_not_hold_the_data_is_refused(tmp_path):
    done = typed(tmp_path, "k8s", str(QUICKSTART), "--class", "gp3", "--size", "1Mi")
    assert done.returncode == 2
    assert "--size: 1Mi is too small: about " in done.stderr


def test_one_class_compares_nothing_and_that_is_said_first(tmp_path):
    (tmp_path / "one.toml").write_text(QUICKSTART.read_text("utf-8").partition("[factors]")[0])
    done = typed(tmp_path, "k8s", "one.toml", "--class", "gp3")
    assert done.stderr.startswith("nothing is compared: there is one cell; name a second StorageClass: --class NAME\n")


def test_the_pod_has_no_privileges(tmp_path):
    pod = next(one for one in written(tmp_path, "--class", "gp3") if one["kind"] == "Job")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip


def test_each_host_of_a_fleet_has_claims_a_job_and_an_order_of_its_own(tmp_path):
    objects = written(tmp_path, "--class", "gp3", "--node", "n1", "--node", "n2")
    assert sum(one["kind"] == "Job" for one in objects) == 2
    texts = [one["data"]["spec.toml"] for one in objects if one["kind"] == "ConfigMap"]
    assert [reading.parse(text, "x.toml").seed for text in texts] == [1, 2]
    names = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(set(names)) == len(names)


SCRIPTED = """
name = "scripted"
[target]
engine = "postgres"
[volumes.gp3]
path = "."
[volumes.io2]
path = "."
[layout]
data = ["gp3"]
[workload]
kind = "pgbench"
scripts = ["sql/order's.sql@9", "select-only"]
duration = "5s"
[factors]
"layout.log" = ["gp3", "io2"]
"""


def test_a_spec_whose_volumes_are_named_as_the_classes_keeps_its_factors_and_takes_its_files_along(tmp_path):
    spec = tmp_path / "scripted.toml"
    spec.write_text(SCRIPTED)
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "order's.sql").write_text("CREATE TABLE t (a int); \n\tINSERT INTO t VALUES (1);")
    objects = written(tmp_path, "--class", "gp3", "--class", "io2", spec=spec)
    config = next(one for one in objects if one["kind"] == "ConfigMap")
    check(config)
    assert config["data"]["1-order_s.sql"] == (tmp_path / "sql" / "order's.sql").read_text()
    assert reading.parse(config["data"]["spec.toml"], "x.toml").factors[0].name == "layout.log"
    volumes = next(one for one in objects if one["kind"] == "Job")["spec"]["template"]["spec"]["volumes"]
    assert [item["path"] for item in volumes[0]["configMap"]["items"]] == ["scripted.toml", "sql/order's.sql"]


def test_only_files_that_a_key_takes_get_into_the_configmap_and_each_is_listed(tmp_path):
    """A text of the spec that happens to be the name of a file beside it is no reason to publish that file."""
    spec = tmp_path / "scripted.toml"
    spec.write_text('question = ".ssh/id_rsa"\n' + SCRIPTED)
    for name, content in (("sql/order's.sql", "SELECT 1;"), (".ssh/id_rsa", "secret")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    file = tmp_path / "job.yaml"
    said = typed(tmp_path, "k8s", str(spec), "--class", "gp3", "--class", "io2", "-o", str(file))
    assert said.returncode == 0, said.stderr
    assert "order's.sql" in said.stderr
    assert "its findings: kubectl logs -f job/scripted;" in said.stderr
    assert file.read_text().startswith("# 10 runs on the node: about ")
    assert "secret" not in file.read_text()


def test_a_file_outside_of_the_specs_folder_is_refused(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "order.sql").write_text("SELECT 1;")
    spec = tmp_path / "below" / "scripted.toml"
    spec.write_text(SCRIPTED.replace("sql/order's.sql", "../order.sql"))
    said = typed(tmp_path, "k8s", str(spec), "--class", "gp3", "--class", "io2")
    assert said.returncode == 2
    assert "workload.scripts: ../order.sql is outside of the spec's folder" in said.stderr


@pytest.mark.parametrize(
    "text", ["\U0001f600 emoji", "a\u2028b\nc\n", "\x7f\x85\ufeff", "é: #'\"\\", "two\nlines\n", "yes"]
)
def test_yaml_reads_back_what_was_written(text):
    (read,) = yaml.safe_load_all(documents([{"kind": text, "list": [text]}]))
    assert read == {"kind": text, "list": [text]}


@pytest.mark.parametrize(
    ("change", "classes", "problem"),
    [
        ("", [], "--class: is missing"),
        ("", ["gp3", "gp3"], "--class: names the same class twice"),
        ("", ["Bad_Name"], "--class: 'Bad_Name' can't be a StorageClass"),
        ("", ["other"], "factors.layout.log: varies volumes that are not the classes"),
        ('file = "1GiB"', ["gp3", "io2"], "volumes.gp3.file: can't be set on a claim"),
    ],
)
def test_what_a_claim_can_not_be_is_refused(tmp_path, change, classes, problem):
    spec = tmp_path / "scripted.toml"
    spec.write_text(
        SCRIPTED.replace("[volumes.gp3]", f"[volumes.gp3]\n{change}").replace("sql/order's.sql@9", "tpcb-like")
    )
    with pytest.raises(SpecError, match=re.escape(problem)):
        on_claims(reading.load(spec), classes)


# --- what a manifest says --------------------------------------------------------------------------------------------

STORED = {
    "/api/v1/nodes/n1": {
        "metadata": {"labels": {"topology.kubernetes.io/zone": "eu-1a",
        "node.kubernetes.io/instance-type": "m7i.large"}},
        "status": {"nodeInfo": {"kubeletVersion": "v1.36.1"}},
    },
    "/api/v1/namespaces/lab/persistentvolumeclaims/my-gp3": {
        "spec": {"storageClassName": "gp3", "volumeName": "pvc-1"}, "status": {"capacity": {"storage": "20Gi"}},
    },
    "/api/v1/persistentvolumes/pvc-1": {"spec": {"csi": {"driver": "ebs.csi.aws.com", "volumeAttributes": {"a": "b"}}}},
    "/apis/storage.k8s.io/v1/storageclasses/gp3": {
        "provisioner": "ebs.csi.aws.com", "parameters": {"type": "gp3", "iops": "3000", "restuserkey": "hidden"},
    },
}  # fmt: skip


@pytest.fixture
def server() -> Iterator[str]:
    """A server that answers as Kubernetes' does, and lets nobody read nodes."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.headers["Authorization"] == "Bearer t" and "/nodes/" not in self.path
            found = STORED.get(self.path)
            self.send_response(403 if not allowed else 200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps(found or {"kind": "Status"}).encode())

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


@pytest.fixture
def pod(monkeypatch, tmp_path) -> Path:
    """The variables of the Job's pod, with a claim mounted at the folder."""
    monkeypatch.setenv(Names.NODE, "n1")
    monkeypatch.setenv(Names.NAMESPACE, "lab")
    monkeypatch.setenv(Names.MEMORY_LIMIT, "8589934592")
    monkeypatch.setenv(Names.CLAIMS, json.dumps({str(tmp_path): {"claim": "my-gp3", "class": "gp3"}}))
    return tmp_path


def test_a_manifest_has_class_provisioner_and_parameters_but_no_secret(server, pod):
    claim = host.describe_claim(pod / "storagelab-x", lambda path: asked_of(server, path, "t", None))
    assert claim["class"] == "gp3"
    assert claim["provisioner"] == claim["driver"] == "ebs.csi.aws.com"
    assert claim["capacity"] == "20Gi"
    assert claim["parameters"] == {"type": "gp3", "iops": "3000", "restuserkey": "***"}
    assert claim["unknown"] == []


def test_what_the_service_account_may_not_read_is_said(server, pod):
    found = host.describe_pod(lambda path: asked_of(server, path, "t", None))
    assert (found["node"], found["memory_limit_bytes"]) == ("n1", 8589934592)
    assert found["unknown"] == ["zone, region and kind of machine: the service account may not read nodes"]


def test_without_a_service_account_the_class_is_known_from_the_job_alone(pod, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    claim = host.describe_volume(pod)["claim"]
    assert claim["class"] == "gp3"
    assert claim["unknown"][-1] == "provisioner and parameters: no service account is mounted"
    (row,) = doctor.claims({"gp3": pod})
    assert (row.name, row.state) == ("claim my-gp3", "partly")


def test_outside_of_a_job_manifests_are_as_before():
    assert "kubernetes" not in host.describe_host()
    assert "claim" not in host.describe_volume(".")


def test_a_container_that_forbids_io_uring_is_told():
    assert doctor.io_uring(1).state == "partly"
    assert "Operation not permitted" in doctor.io_uring(1).detail
    assert doctor.io_uring(0).state == "yes"


def of(kind: str, name: str, ours: bool = True, **parts: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "labels": {"storagelab/campaign": "my"} if ours else {}}, **parts}


CLASS = of("StorageClass", "standard", ours=False)
PENDING = of("PersistentVolumeClaim", "my-on-gp3", spec={"storageClassName": "gp3"}, status={"phase": "Pending"})
FULL = {
    "kind": "Event", "metadata": {}, "reason": "ProvisioningFailed", "message": "quota exceeded",
    "involvedObject": {"name": "my-on-gp3"},
}  # fmt: skip
RUNNING = of("Pod", "my-1", spec={"nodeName": "n1"}, status={"phase": "Running"})
UNSCHEDULED = of(
    "Pod", "my-1", status={"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 had "
        "volume node affinity conflict"}
    ]},
)  # fmt: skip
NOT_READY = of("Node", "n1", ours=False, status={"conditions": [{"type": "Ready", "status": "Unknown"}]})
OTHER = of("Node", "n2", ours=False, status={"conditions": [{"type": "Ready", "status": "True"}]})
NO_IMAGE = of(
    "Pod", "my-1", status={"phase": "Pending", "containerStatuses": [
        {"image": "storagelab:latest", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    ]},
)  # fmt: skip
FAILED = of("Job", "my", status={"conditions": [{"type": "Failed", "status": "True", "reason": "PodFailurePolicy"}]})


@pytest.mark.parametrize(
    ("objects", "problem", "way_out"),
    [
        ([CLASS, PENDING], "my-on-gp3 stays pending: there is no StorageClass gp3; there are standard", "--class"),
        ([of("StorageClass", "gp3", ours=False), PENDING, FULL], "my-on-gp3 stays pending: quota exceeded", "--size"),
        ([UNSCHEDULED], "my-1 waits for a node: 0/3 nodes are available: 3 had volume", "classes of one zone"),
        ([RUNNING, NOT_READY, OTHER], "my-1: its node n1 is not ready; all finished runs are stored", "--force my-1"),
        ([RUNNING, OTHER], "my-1: its node n1 is gone", "kubectl delete pod"),
        ([NO_IMAGE], "my-1: the image storagelab:latest can't be pulled", "--image"),
        ([FAILED], "my has failed: PodFailurePolicy", "kubectl logs job/my"),
    ],
)
def test_what_holds_a_job_up_is_one_message_with_the_way_out(objects, problem, way_out):
    (found,) = held_up(objects, "my")
    first, second = found.text.splitlines()
    assert first.startswith(problem)
    assert way_out in second
    assert not found.well


def test_a_job_at_work_is_said_to_be_and_what_kubectl_did_not_print_is_refused(tmp_path):
    spec = tmp_path / "my.toml"
    spec.write_text(SCRIPTED.replace('"scripted"', '"my"'))
    listed = tmp_path / "listed.json"
    listed.write_text(json.dumps({"kind": "List", "items": [RUNNING, of("Job", "my", status={"active": 1})]}))
    done = typed(tmp_path, "k8s", str(spec), "--look", str(listed))
    assert (done.returncode, done.stdout) == (0, "my: at work: kubectl logs job/my\n")
    listed.write_text("NAME   READY")
    done = typed(tmp_path, "k8s", str(spec), "--look", str(listed))
    assert done.returncode == 2
    assert "kubectl get storageclass,node,pvc,pod,job,event -o json" in done.stderr
