"""Folders of Harbor tasks (Terminal-Bench 2 and what Harbor's adapters write) as a domain."""

from meta_agent.core.errors import ConfigError
from meta_agent.domains._options import DomainOptions
from meta_agent.domains.harbor._domain import HarborDomain, VerifierError, make_images, task_folders
from meta_agent.domains.harbor._task import read_task
from meta_agent.domains.harbor._trial import image_of
from meta_agent.sandboxes import CONTAINERS

__all__ = [
    "HarborDomain",
    "VerifierError",
    "image_of",
    "make_images",
    "open_domain",
    "read_task",
    "task_folders",
]


def open_domain(options: DomainOptions) -> HarborDomain:
    """Opens a folder of Harbor tasks. Raises ConfigError without containers or usable tasks."""
    assert options.tasks is not None, "a domain that needs a file is not opened without one"
    if options.sandbox not in CONTAINERS:
        raise ConfigError(
            f"Harbor tasks run in containers, which --sandbox {options.sandbox} cannot start",
            hint="start Docker, and give --sandbox docker or podman",
        )
    return HarborDomain(
        options.tasks, run=options.run, engine=options.sandbox, threshold=options.threshold
    )
