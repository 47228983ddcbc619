"""The manifest for KubeRay, without a cluster: its fields, and what a run asks of its nodes.

KubeRay's fields are those of `ray-operator/apis/ray/v1/rayjob_types.go` (commit 0057210e) and
`raycluster_types.go` (026f1433) of ray-project/kuberay, which have been there since 1.3; those of
pods, claims and policies are the few of Kubernetes that the manifest uses. What is not named here
is refused, as `kubectl --validate=strict` does.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs._blocks import parsed

MANIFEST = Path(__file__).parents[2] / "examples/kuberay/train.yaml"
AMOUNT = "cpu memory storage nvidia.com/gpu"
POD = "metadata spec"
FIELDS = {
    "RayJob.spec": "entrypoint submissionMode backoffLimit activeDeadlineSeconds "
    "shutdownAfterJobFinishes ttlSecondsAfterFinished submitterPodTemplate rayClusterSpec",
    "rayClusterSpec": "rayVersion headGroupSpec workerGroupSpecs",
    "headGroupSpec": "serviceType rayStartParams template",
    "workerGroupSpecs": "groupName replicas minReplicas maxReplicas rayStartParams template",
    "submitterPodTemplate": POD,
    "template": POD,
    "metadata": "name labels",
    "spec": "containers volumes restartPolicy terminationGracePeriodSeconds "
    "automountServiceAccountToken",
    "containers": "name image env resources volumeMounts",
    "env": "name value",
    "resources": "requests limits",
    "requests": AMOUNT,
    "limits": AMOUNT,
    "volumeMounts": "name mountPath",
    "volumes": "name persistentVolumeClaim",
    "persistentVolumeClaim": "claimName",
}
FREE = ("labels", "rayStartParams")


def unknown(value: Any, place: str) -> Iterator[str]:
    """The fields of a manifest that `FIELDS` does not name."""
    if isinstance(value, list):
        for row in value:
            yield from unknown(row, place)
    elif isinstance(value, dict) and place not in FREE:
        for name, inner in value.items():
            if name not in FIELDS[place].split():
                yield f"{place}: {name}"
            elif isinstance(inner, (dict, list)):
                yield from unknown(inner, name)


@pytest.fixture
def documents() -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))}


@pytest.fixture
def job(documents: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = documents["RayJob"]["spec"]
    return spec


def test_kuberay_knows_every_field_and_the_program_its_command(job: dict[str, Any]) -> None:
    assert list(unknown(job, "RayJob.spec")) == []
    job["rayClusterSpec"]["workerGroupSpecs"][0]["replica"] = 4
    assert list(unknown(job, "RayJob.spec")) == ["workerGroupSpecs: replica"]
    parsed(shlex.split(job["entrypoint"])[1:], str(MANIFEST))


def test_a_worker_is_a_node_for_one_unit_and_the_head_for_none(job: dict[str, Any]) -> None:
    threads = re.search(r"--threads (\d+)", job["entrypoint"])
    (workers,) = job["rayClusterSpec"]["workerGroupSpecs"]
    (container,) = workers["template"]["spec"]["containers"]
    limits = container["resources"]["limits"]
    assert threads and workers["rayStartParams"]["num-cpus"] == threads[1]
    assert int(limits["cpu"]) > int(threads[1]), "sandboxes need some, too"
    assert limits["nvidia.com/gpu"] == "1"
    assert job["rayClusterSpec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert workers["minReplicas"] == workers["maxReplicas"], "no autoscaler decides how long it is"


def test_every_pod_has_the_same_code_and_the_same_folder_at_one_path(
    job: dict[str, Any], documents: dict[str, Any]
) -> None:
    specs = [template["spec"] for template in templates(job)]
    containers = [one for spec in specs for one in spec["containers"]]
    assert len({one["image"] for one in containers}) == 1
    mounts = {mount["mountPath"] for one in containers for mount in one["volumeMounts"]}
    claims = {v["persistentVolumeClaim"]["claimName"] for spec in specs for v in spec["volumes"]}
    claim = documents["PersistentVolumeClaim"]
    assert mounts == {"/shared"} and claims == {claim["metadata"]["name"]}
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    paths = re.findall(r"(?:--\w+ |hf:)(/\S+)", job["entrypoint"])
    assert len(paths) == 3 and all(path.startswith("/shared/") for path in paths)


def templates(job: dict[str, Any]) -> list[Any]:
    """Of the head and of the workers."""
    cluster = job["rayClusterSpec"]
    return [row["template"] for row in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


def test_ports_are_open_to_the_run_alone_and_workers_hold_no_key(
    job: dict[str, Any], documents: dict[str, Any]
) -> None:
    policy = documents["NetworkPolicy"]["spec"]
    chosen = policy["podSelector"]["matchLabels"]
    pods = [*templates(job), job["submitterPodTemplate"]]
    assert [pod["metadata"]["labels"] for pod in pods] == [chosen] * len(pods)
    ours, operators = policy["ingress"]
    assert ours["from"] == [{"podSelector": {"matchLabels": chosen}}]
    assert [port["port"] for port in operators["ports"]] == [8265]
    for template in templates(job)[1:]:
        for one in template["spec"]["containers"]:
            assert [variable["name"] for variable in one["env"]] == ["RAY_worker_niceness"]


def test_a_stop_has_time_to_seal(job: dict[str, Any]) -> None:
    spec = templates(job)[0]["spec"]
    (head,) = spec["containers"]
    wait = next(row["value"] for row in head["env"] if row["name"] == "RAY_JOB_STOP_WAIT_TIME_S")
    assert int(wait) == spec["terminationGracePeriodSeconds"]
    assert job["backoffLimit"] > 0, "an end that can be resumed is one"
