"""Optional capabilities of a domain, an environment or a gateway, and what holds without them.

A domain declares its capabilities in one object (`CapableDomain`). An environment or a gateway has
a capability if it implements the Protocol of that capability.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from meta_agent.core.protocols import Domain, GenerateReply, GenerateRequest, Message, Sandbox


@dataclass(frozen=True, slots=True)
class Generators:
    """How a domain makes further training tasks. `generate` in a recipe asks for them."""

    make: Callable[[str], Domain]
    """Returns a domain of new training tasks for a text NAME[:PARAMETER=VALUE...][,NAME...].

    Their answers pass the grader, and none of them is a task of the first domain. Equal texts give
    equal tasks. Raises ConfigError for a generator or a parameter that does not exist.
    """
    easier: str = ""
    """The text for tasks that are easier than those of the domain, if it knows some."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The optional features of a domain (a set of tasks with a grader), and their defaults."""

    open_at_once: int | None = None
    """How many environments a lock-step batch opens at a time. Set it if they are costly."""
    regrade_at_most: int | None = None
    """How many stored attempts of an arm are graded again in a comparison."""
    rows: Mapping[str, Any] = field(default_factory=dict)
    """The row of each task in its file, by task key. Slices read their labels from it."""
    notes: Sequence[str] = ()
    """What a reader of a run should know about the tasks."""
    splits_stated: bool = True
    """Whether the task file states the split of each task."""
    path: Path | None = None
    """The file that the tasks were read from."""
    solution: Callable[[str], tuple[str, str] | None] = lambda _: None
    """Returns a task's request and a reply that its grader accepts, or None if none is known.

    It is asked for training tasks only: their solutions may be in a harness as worked examples.
    """
    generators: Generators | None = None
    """Makes further training tasks."""
    judge: str | None = None
    """The model that grades, if a model does."""
    judge_by: Callable[[Any], str] | None = None
    """Hands the run's client to the judge. Returns a sentence on how a trial of the judge went."""
    close: Callable[[], None] = lambda: None
    """Frees what the domain holds, such as a worker process."""

    @staticmethod
    def of(domain: Domain) -> Capabilities:
        """Returns the capabilities that a domain declares, or the defaults if it declares none."""
        return domain.capabilities if isinstance(domain, CapableDomain) else Capabilities()


@runtime_checkable
class CapableDomain(Protocol):
    """A domain (a set of tasks with a grader) that states its optional features."""

    @property
    def capabilities(self) -> Capabilities:
        """Returns the optional features that the domain declares."""
        ...


@runtime_checkable
class AwayEnvironment(Protocol):
    """A task's environment for agents that work in a separate sandbox, with tools of their own."""

    def start_files(self) -> Mapping[str, bytes]:
        """Returns the files that the agent finds in its working folder."""
        ...

    def collect(self, sandbox: Sandbox) -> bool:
        """Reads the agent's work from its sandbox for grading. Returns False if there is none."""
        ...


@runtime_checkable
class WitnessEnvironment(Protocol):
    """A task's environment whose grader also reads the conversation of agent and model."""

    def saw(self, messages: Sequence[Message]) -> None:
        """Receives the conversation as the policy saw it. Called once, before the grading."""
        ...


@runtime_checkable
class StoppableGateway(Protocol):
    """A gateway (the way to a policy's model) whose calls can be broken off."""

    def generate_until(
        self, requests: Sequence[GenerateRequest], stopping: Callable[[], bool]
    ) -> Sequence[GenerateReply]:
        """Returns a reply to each request. Raises Interrupted once `stopping` returns True."""
        ...


@runtime_checkable
class PatientGateway(Protocol):
    """A gateway to model servers that the run started. Their time is not charged to an attempt."""

    patience_sec: float
    """The longest time that one call may take."""
