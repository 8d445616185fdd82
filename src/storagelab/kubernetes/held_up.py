"""Finds in kubectl's output the reasons why a campaign's Job does not progress. The output is that of this command:

kubectl get storageclass,node,pvc,pod,job,event -o json"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from storagelab.kubernetes.job import CAMPAIGN
from storagelab.machine.host import table_at

Found = Mapping[str, Any]


class Notice(NamedTuple):
    """One message. If something is wrong, the solution follows on its own line."""

    text: str
    well: bool


def held_up(objects: Sequence[Found], campaign: str) -> list[Notice]:
    """Returns one message for each obstacle to the campaign. If there is none, returns messages about the campaign's
    progress.
    """
    seen = _Seen(objects, campaign)
    wrong = [*seen.claims(), *seen.pods(), *seen.jobs()]
    return [Notice(text, well=False) for text in wrong] or [Notice(text, well=True) for text in seen.how_far()]


class _Seen:
    def __init__(self, objects: Sequence[Found], campaign: str) -> None:
        self._all, self._campaign = objects, campaign

    def _of(self, kind: str) -> list[Found]:
        return [one for one in self._all if one.get("kind") == kind]

    def _ours(self, kind: str) -> list[Found]:
        return [one for one in self._of(kind) if table_at(one, "metadata", "labels").get(CAMPAIGN) == self._campaign]

    def claims(self) -> Iterator[str]:
        classes = {_name(one) for one in self._of("StorageClass")}
        for claim in self._ours("PersistentVolumeClaim"):
            wanted, stays = table_at(claim, "spec").get("storageClassName"), f"{_name(claim)} stays pending"
            match table_at(claim, "status").get("phase"):
                case "Lost":
                    yield _told(
                        f"{_name(claim)}: its volume is lost, with all data on it",
                        "delete the Job and this claim, and apply the file again; results have a claim of their own",
                    )
                case "Pending" if classes and wanted and wanted not in classes:
                    yield _told(
                        f"{stays}: there is no StorageClass {wanted}; there are {', '.join(sorted(classes))}",
                        "kubectl delete -f the file, and write it again with --class and one of these",
                    )
                case "Pending" if not wanted:
                    yield _told(
                        f"{stays}: the cluster has no default StorageClass",
                        "kubectl delete -f the file, and write it again with --results-class and a class",
                    )
                case "Pending" if why := self._event(claim, "ProvisioningFailed"):
                    yield _told(
                        f"{stays}: {why}", "mend the class or its provisioner, or write the file again: --class, --size"
                    )

    def pods(self) -> Iterator[str]:
        ready = {_name(one): _condition(one, "Ready").get("status") == "True" for one in self._of("Node")}
        for pod in self._ours("Pod"):
            node, phase = table_at(pod, "spec").get("nodeName"), table_at(pod, "status").get("phase")
            if phase in ("Succeeded", "Failed"):
                continue
            if node and ready and not ready.get(node, False):
                gone = "is not ready" if node in ready else "is gone"
                yield _told(
                    f"{_name(pod)}: its node {node} {gone}; all finished runs are stored",
                    f"if it does not come back: kubectl delete pod --force {_name(pod)}. Then another pod goes on with "
                    "the campaign, unless --node or a local volume ties it to that node",
                )
            elif (scheduled := _condition(pod, "PodScheduled")).get("status") == "False":
                yield _told(
                    f"{_name(pod)} waits for a node: {scheduled.get('message', 'no reason is given')}",
                    "one node must reach all claims: choose classes of one zone, less --cpu or "
                    "--memory, or another --node",
                )
            else:
                yield from _waiting(pod)

    def jobs(self) -> Iterator[str]:
        for job in self._ours("Job"):
            if (failed := _condition(job, "Failed")).get("status") == "True":
                yield _told(
                    f"{_name(job)} has failed: {failed.get('message') or failed.get('reason')}",
                    f"kubectl logs job/{_name(job)} says why; finished runs are stored: delete "
                    "the Job, and apply the file",
                )

    def how_far(self) -> Iterator[str]:
        jobs = self._ours("Job")
        if not jobs:
            yield "there is no Job of this campaign: kubectl apply -f the file, in this namespace"
        for job in jobs:
            done = _condition(job, "Complete").get("status") == "True"
            yield f"{_name(job)}: {'complete' if done else 'at work'}: kubectl logs job/{_name(job)}"

    def _event(self, about: Found, reason: str) -> str:
        messages = [
            str(one.get("message", ""))
            for one in self._of("Event")
            if one.get("reason") == reason and table_at(one, "involvedObject").get("name") == _name(about)
        ]
        return messages[-1] if messages else ""


def _waiting(pod: Found) -> Iterator[str]:
    for container in table_at(pod, "status").get("containerStatuses") or ():
        waiting = table_at(container, "state", "waiting")
        reason, message = waiting.get("reason"), waiting.get("message", "")
        if reason in ("ErrImagePull", "ImagePullBackOff", "InvalidImageName"):
            yield _told(
                f"{_name(pod)}: the image {container.get('image')} can't be pulled: {message or reason}",
                "push it to a registry that the cluster reads, and name it: --image",
            )
        elif reason and reason != "ContainerCreating":
            yield _told(f"{_name(pod)} waits: {reason}: {message}", f"kubectl describe pod {_name(pod)} says more")


def _told(what: str, way_out: str) -> str:
    return f"{what}\n  {way_out}"


def _name(one: Found) -> str:
    return str(table_at(one, "metadata").get("name", "?"))


def _condition(one: Found, type_: str) -> Found:
    conditions = table_at(one, "status").get("conditions") or ()
    return next((each for each in conditions if each.get("type") == type_), {})
