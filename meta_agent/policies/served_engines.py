"""Policies that the run's own engines (vLLM servers) sample, during training and after it.

Engines stay up from one unit of work to the next and load its policy. Each unit of work in
progress has engines for itself.
Not covered: how engines start (`fleet.launch`), and how many there are (`composition.placing`).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, LifoQueue
from tempfile import TemporaryDirectory, mkdtemp
from typing import NamedTuple

from meta_agent.core.errors import InfrastructureError
from meta_agent.core.protocols import Gateway
from meta_agent.policies.engines.talks import NanoTalks, Talks
from meta_agent.policies.fleet import EngineGateway, Fleet, Launch, Served
from meta_agent.policies.opening import ChildPolicies
from meta_agent.policies.training import PolicyChild, TrainSettings
from meta_agent.policies.training.checkpoint import open_checkpoint
from meta_agent.policies.training.events.overlap import Publisher
from meta_agent.policies.training.policy import place_of
from meta_agent.policies.training.serving.publishing import EnginePublisher, served_as
from meta_agent.policies.training.serving.speaker import Speaker


@dataclass(frozen=True, slots=True)
class Engines:
    """The settings that start the engines (vLLM servers) of one training or evaluation."""

    launch: Launch
    count: int
    context_tokens: int
    rank: int = 0  # the largest rank of adapters that engines reserve room for; 0: none


class _Post(NamedTuple):
    """A fleet of engines, and the child process that holds the conversations with its policy."""

    fleet: Fleet
    speaker: Speaker | None
    scratch: Path
    """The folder of files that its engines may still have to read."""

    @property
    def sound(self) -> bool:
        return not self.fleet.failed and (self.speaker is None or self.speaker.alive)

    def close(self) -> None:
        self.fleet.close()
        if self.speaker is not None:
            self.speaker.close()


class EnginePolicies(ChildPolicies):
    """A pool of engines (vLLM servers) that sample policies, and of processes that train them."""

    lock_step = False

    def __init__(
        self,
        engines: Engines,
        threads: int,
        settings: TrainSettings | None = None,
        devices: Sequence[str] = (),
    ) -> None:
        super().__init__(threads, settings, devices)
        self._engines = engines
        self._free: LifoQueue[_Post] = LifoQueue()
        self._posts: list[_Post] = []
        self._scratch = TemporaryDirectory(prefix="meta-agent-weights-")

    @contextmanager
    def acting(self, path: str, label: str) -> Iterator[Gateway]:
        with self._serving(path) as (gateway, _):
            yield gateway

    @contextmanager
    def sampling(
        self, child: PolicyChild, path: str, output: Path
    ) -> Iterator[tuple[Gateway, Publisher | None]]:
        with self._serving(path) as (gateway, fleet):
            before = fleet.served
            yield gateway, EnginePublisher(child, fleet, gateway, output)
            fleet.publish(before)  # since the files of later versions are removed

    def close(self) -> None:
        """Ends all engines and child processes."""
        for post in self._posts:
            post.close()
        self._scratch.cleanup()
        super().close()

    @contextmanager
    def _serving(self, path: str) -> Iterator[tuple[EngineGateway, Fleet]]:
        """Lends engines that serve the policy at `path`, and the gateway that asks them."""
        folder, foreign = place_of(path)
        opened = open_checkpoint(folder, foreign=foreign)
        place = post.scratch if (post := self._take()) else Path(mkdtemp(dir=self._scratch.name))
        weights = served_as(
            opened.policy, folder, adapters=self._engines.rank > 0, scratch=place / opened.policy
        )
        post = post or self._open(weights, place, speaks=opened.kind == "hf")
        try:
            served = post.fleet.publish(weights)
            if served.name != weights.name:
                raise InfrastructureError(
                    f"the inference engines could not load the model {weights.name}",
                    hint="read the workspace's logs/engine-N.log, then run the same command again",
                )
            for old in set(place.iterdir()) - {place / opened.policy}:
                shutil.rmtree(old, ignore_errors=True)
            talks = self._talks(post, path)
            yield (
                EngineGateway(post.fleet, talks, weights.name, self._engines.context_tokens),
                post.fleet,
            )
        finally:
            if post.sound:
                self._free.put(post)
            else:  # the next unit begins with others
                self._posts.remove(post)
                post.close()

    def _take(self) -> _Post | None:
        try:
            return self._free.get_nowait()
        except Empty:
            return None

    def _open(self, weights: Served, scratch: Path, *, speaks: bool) -> _Post:
        engines = self._engines
        begin = weights._replace(adapter=None, rank=0)
        fleet = Fleet(engines.launch, engines.count, begin, rank=max(engines.rank, weights.rank))
        post = _Post(fleet, Speaker(threads=1) if speaks else None, scratch)
        self._posts.append(post)
        return post

    def _talks(self, post: _Post, path: str) -> Talks:
        if post.speaker is None:
            return NanoTalks(self._engines.context_tokens)
        post.speaker.load(path)
        return post.speaker
