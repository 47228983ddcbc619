"""A question to a person, and who can reach one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from meta_agent.reports._decisions import DecisionView, Reply
from meta_agent.reports.state import RunState


class Question(NamedTuple):
    """A decision to be made, with the run around it."""

    state: RunState
    decision: DecisionView


class Asks(Protocol):
    """The part of a display that can reach a person."""

    def ask(self, question: Question, stopping: Callable[[], bool]) -> Reply | None:
        """The person's answer; None where no person can be reached. Raises nothing of its own.

        `stopping` is looked at while it waits: where it turns true, None is returned.
        """
        ...
