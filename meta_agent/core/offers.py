"""What a domain, an environment or a gateway may offer beyond its Protocol, and what holds without.

They offer by having an attribute of the name: no other is ever asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from meta_agent.core.protocols import Domain, Message, Sandbox


@dataclass(frozen=True, slots=True)
class Offered:
    """The offers of a domain; each field says what is done where it makes none."""

    open_at_once: int | None = None
    """How many environments a lock-step batch holds, where they are costly."""
    regrade_at_most: int | None = None
    """How many stored attempts of an arm a comparison grades again."""
    rows: Mapping[str, Any] = field(default_factory=dict)
    """What its tasks say of themselves, by key: slices are read off it."""
    notes: Sequence[str] = ()
    """What a reader of a run has to know of its tasks."""
    splits_stated: bool = True
    """Whether the tasks came with splits of their own."""
    path: Path | None = None
    """The file that its tasks came from."""
    judge: str | None = None
    """The model that grades, where one does."""
    judge_by: Callable[[Any], str] | None = None
    """Gives it the run's client; says how the judge did when it was tried."""
    close: Callable[[], None] = lambda: None
    """Ends what it holds, such as a worker."""

    @classmethod
    def by(cls, domain: Domain) -> Self:
        names = (one.name for one in fields(cls))
        return cls(**{name: getattr(domain, name) for name in names if hasattr(domain, name)})


@runtime_checkable
class AwayEnvironment(Protocol):
    """An environment whose task can also be worked on elsewhere, by an agent with its own tools."""

    def start_files(self) -> Mapping[str, bytes]:
        """What the agent finds in its working folder."""
        ...

    def collect(self, sandbox: Sandbox) -> bool:
        """Takes what is graded from `repo/` in that sandbox; False where nothing was done."""
        ...


@runtime_checkable
class WitnessEnvironment(Protocol):
    """An environment that grades what was said, too."""

    def saw(self, messages: Sequence[Message]) -> None:
        """The conversation as the policy saw it; told once, before it is graded."""
        ...


@runtime_checkable
class PatientGateway(Protocol):
    """A gateway to engines of the run's own: how long they take counts against no attempt."""

    patience_sec: float
    """The longest that one call may take."""
