"""The manifest for KubeRay, without a cluster: its fields, and what a run asks of its nodes.

KubeRay's fields are those of `ray-operator/apis/ray/v1/rayjob_types.go` (commit 0057210e) and
`raycluster_types.go` (026f1433) of ray-project/kuberay, which have been there since 1.3; those of
pods, claims and policies are the few of Kubernetes that the manifest uses. What no model here names
is refused, as `kubectl --validate=strict` does.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from tests.docs.test_pages import parsed

MANIFEST = Path(__file__).parents[2] / "examples/kuberay/train.yaml"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)


class Metadata(Strict):
    name: str | None = None
    labels: dict[str, str] = {}


Amount = dict[Literal["cpu", "memory", "storage", "nvidia.com/gpu"], str]


class Resources(Strict):
    requests: Amount
    limits: Amount = {}


class Variable(Strict):
    name: str
    value: str


class Mount(Strict):
    name: str
    mount_path: str


class Container(Strict):
    name: str
    image: str
    env: list[Variable] = []
    resources: Resources
    volume_mounts: list[Mount] = []


class Claim(Strict):
    claim_name: str


class Volume(Strict):
    name: str
    persistent_volume_claim: Claim


class PodSpec(Strict):
    containers: list[Container]
    volumes: list[Volume] = []
    restart_policy: Literal["Never"] | None = None
    termination_grace_period_seconds: int | None = None
    automount_service_account_token: bool = True


class Pod(Strict):
    metadata: Metadata
    spec: PodSpec


class Head(Strict):
    service_type: Literal["ClusterIP"]
    ray_start_params: dict[str, str]
    template: Pod


class Workers(Strict):
    group_name: str
    replicas: int
    min_replicas: int
    max_replicas: int
    ray_start_params: dict[str, str]
    template: Pod


class RayCluster(Strict):
    ray_version: str
    head_group_spec: Head
    worker_group_specs: list[Workers]


class RayJob(Strict):
    entrypoint: str
    submission_mode: Literal["K8sJobMode", "HTTPMode"]
    backoff_limit: int
    active_deadline_seconds: int = Field(gt=0)
    shutdown_after_job_finishes: bool
    ttl_seconds_after_finished: int
    submitter_pod_template: Pod
    ray_cluster_spec: RayCluster


class Job(Strict):
    api_version: Literal["ray.io/v1"]
    kind: Literal["RayJob"]
    metadata: Metadata
    spec: RayJob


@pytest.fixture
def documents() -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))}


@pytest.fixture
def job(documents: dict[str, Any]) -> RayJob:
    return Job.model_validate(documents["RayJob"]).spec


def test_a_field_that_kuberay_does_not_know_is_found(documents: dict[str, Any]) -> None:
    documents["RayJob"]["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replica"] = 4
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Job.model_validate(documents["RayJob"])


def test_the_command_is_one_that_the_program_takes(job: RayJob) -> None:
    parsed(shlex.split(job.entrypoint)[1:], str(MANIFEST))


def test_a_worker_is_a_node_for_one_unit_and_the_head_for_none(job: RayJob) -> None:
    threads = re.search(r"--threads (\d+)", job.entrypoint)
    (workers,) = job.ray_cluster_spec.worker_group_specs
    (container,) = workers.template.spec.containers
    assert threads and workers.ray_start_params["num-cpus"] == threads[1]
    assert int(container.resources.limits["cpu"]) > int(threads[1]), "sandboxes need some, too"
    assert container.resources.limits["nvidia.com/gpu"] == "1"
    assert job.ray_cluster_spec.head_group_spec.ray_start_params["num-cpus"] == "0"
    assert workers.min_replicas == workers.max_replicas, "no autoscaler decides how long it takes"


def test_every_pod_has_the_same_code_and_the_same_folder_at_one_path(
    job: RayJob, documents: dict[str, Any]
) -> None:
    cluster = job.ray_cluster_spec
    pods = [cluster.head_group_spec.template, *(g.template for g in cluster.worker_group_specs)]
    containers = [one for pod in pods for one in pod.spec.containers]
    assert len({one.image for one in containers}) == 1
    assert {mount.mount_path for one in containers for mount in one.volume_mounts} == {"/shared"}
    claims = {one.persistent_volume_claim.claim_name for pod in pods for one in pod.spec.volumes}
    assert claims == {documents["PersistentVolumeClaim"]["metadata"]["name"]}
    assert documents["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]
    paths = re.findall(r"(?:--\w+ |hf:)(/\S+)", job.entrypoint)
    assert len(paths) == 3 and all(path.startswith("/shared/") for path in paths)


def test_ports_are_open_to_the_run_alone_and_workers_hold_no_key(
    job: RayJob, documents: dict[str, Any]
) -> None:
    cluster = job.ray_cluster_spec
    pods = [cluster.head_group_spec.template, job.submitter_pod_template]
    pods += [group.template for group in cluster.worker_group_specs]
    chosen = documents["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]
    assert [pod.metadata.labels for pod in pods] == [chosen] * len(pods)
    ours, operators = documents["NetworkPolicy"]["spec"]["ingress"]
    assert ours["from"] == [{"podSelector": {"matchLabels": chosen}}]
    assert [port["port"] for port in operators["ports"]] == [8265]
    for group in cluster.worker_group_specs:
        for one in group.template.spec.containers:
            assert {variable.name for variable in one.env} == {"RAY_worker_niceness"}


def test_a_stop_has_time_to_seal(job: RayJob) -> None:
    spec = job.ray_cluster_spec.head_group_spec.template.spec
    (head,) = spec.containers
    wait = next(int(one.value) for one in head.env if one.name == "RAY_JOB_STOP_WAIT_TIME_S")
    assert wait == spec.termination_grace_period_seconds
    assert job.backoff_limit > 0, "an end that can be resumed is one"
