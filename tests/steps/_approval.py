"""A person who is asked: gates of a run, and answers to the questions that park it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from meta_agent.core.display import PersonReply
from meta_agent.core.errors import Parked
from meta_agent.core.loop.verbs.approve import answer
from tests.steps._bench import Bench

T = TypeVar("T")


def decided(bench: Bench, ask: Callable[[], T], *replies: PersonReply) -> T:
    """What `ask` returns at last: each reply goes to the first question that parks the run."""
    for reply in replies:
        with pytest.raises(Parked) as parked:
            ask()
        answer(bench.run.ledger, "r", parked.value.subjects[:1], reply)
    return ask()


def gates(bench: Bench, approve: str) -> None:
    bench.run.config = bench.run.config.model_copy(update={"approve": approve})
