"""Engines from one unit to the next, spoken to over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import GenerateReply
from meta_agent.policies.served_engines import EnginePolicies, Engines
from tests.loopback._engine import LoopbackEngine
from tests.models import _nano


class Launcher:
    def __init__(self, place: Path) -> None:
        self._place = place
        self.started: list[LoopbackEngine] = []
        self.doomed = False

    def __call__(self, number: int, weights: Path, rank: int) -> LoopbackEngine:
        engine = LoopbackEngine(self._place / f"{len(self.started)}.sock", weights)
        engine.ended = "it was killed" if self.doomed else None
        self.started.append(engine)
        return engine


@pytest.fixture
def launcher(tmp_path: Path) -> Launcher:
    return Launcher(tmp_path)


@pytest.fixture
def policies(launcher: Launcher) -> Iterator[EnginePolicies]:
    made = EnginePolicies(Engines(launcher, 1, 256), threads=1)
    yield made
    made.close()


def ask(policies: EnginePolicies, path: str, key: str) -> tuple[str, GenerateReply]:
    with policies.acting(path, "measurement") as gateway:
        (reply,) = gateway.generate([_nano.request(key, key)])
        gateway.finish([key])
        return gateway.policy, reply


def test_engines_are_kept_and_given_the_policy_of_each_unit(
    policies: EnginePolicies, launcher: Launcher
) -> None:
    told = [ask(policies, path, path) for path in ("nano", "nano:math", "nano")]
    assert [reply.content for _, reply in told] == ["swe", "math", "swe"]
    assert told[0][0].startswith("nano@") and told[0][0] == told[2][0] != told[1][0]
    assert len(launcher.started) == 1


def test_engines_that_were_given_up_are_not_used_again(
    policies: EnginePolicies, launcher: Launcher
) -> None:
    ask(policies, "nano", "first")
    launcher.doomed = True
    launcher.started[0].die()
    with pytest.raises(ProviderError):
        while ask(policies, "nano", "second")[1].failure:
            pass
    launcher.doomed = False
    assert ask(policies, "nano", "third")[1].content == "swe"


def test_a_conversation_ends_where_the_engines_context_does(launcher: Launcher) -> None:
    policies = EnginePolicies(Engines(launcher, 1, 8), threads=1)
    assert ask(policies, "nano", "longer than that")[1].finish_reason == "context"
    policies.close()
