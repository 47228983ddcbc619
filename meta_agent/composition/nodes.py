"""Prepares a cluster node to carry out parts of a run, with the same settings as the driver."""

from __future__ import annotations

from collections.abc import Mapping

from meta_agent.composition.inputs import load_run_domain
from meta_agent.composition.opening import lab_settings
from meta_agent.composition.placing import placing
from meta_agent.composition.root import sandboxes_of
from meta_agent.composition.served import policies_of
from meta_agent.core.config import RunConfig
from meta_agent.core.lab.units import Apparatus
from meta_agent.core.protocols import JSON
from meta_agent.core.workspace import open_workspace
from meta_agent.policies.engine_room import engines_for
from meta_agent.sandboxes import reap


def apparatus(run_settings: Mapping[str, JSON]) -> Apparatus:
    """Returns what a cluster node needs to train and evaluate in a run, opened on that node.

    `run_settings` holds the settings, the run's name, the sandbox backend and the image ids. Raises
    ConfigError if a training does not fit into the node's memory.
    """
    config = RunConfig.from_json(run_settings["config"])
    run, backend = run_settings["run"], run_settings["backend"]
    reap(backends=("docker", backend))
    domain = load_run_domain(config, sandbox=backend, run=run)
    placing(config.model_copy(update={"executor": "local", "jobs": 1}), domain)
    workspace = open_workspace(config.workspace)
    settings = lab_settings(config, run, workspace, 1)
    logs = workspace.root / "logs"
    engines = engines_for(config, settings.base_policy, domain, logs)
    policies = policies_of(config, None, engines=engines)
    return Apparatus(settings, domain, policies, sandboxes_of(backend, run, run_settings["images"]))
