"""A batched engine for nano policies: many short multi-turn rollouts, on a CPU.

Promises: a call extends its rollout's exact token prefix, so only new text is computed; results do
not depend on the order of requests; for a fixed batch and thread count they are bit-identical.
Equal first prompts are computed once. Generation stops at the newline, at `max_tokens`, or where
the context is full (`context` when there is no room at all).

How it is fast: rows are packed, so ragged prompts cost no padding in the linear layers; live
sessions sit densely in the cache, so it is read in place; q/k/v and gate/up are one product each.

Not covered: other architectures (see `hf_engine`), continuous batching, GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from meta_agent.core.protocols import GenerateReply, GenerateRequest, TokenRecord
from meta_agent.policies.engines import nano_tokenizer as tokenizer
from meta_agent.policies.engines._nano_net import Batch, NanoNet
from meta_agent.policies.engines._sampling import Draws, Watch, watch_nothing
from meta_agent.policies.engines._sessions import TokenSession
from meta_agent.policies.engines.talks import NanoTalks


@dataclass(slots=True)
class _Call:
    """One request that is being answered, with its conversation and place in the cache."""

    index: int  # in the caller's list
    request: GenerateRequest
    session: TokenSession
    slot: int
    budget: int  # tokens it may sample


class NanoEngine:
    """Samples replies from a nano policy (a tiny model), and holds all rollouts' conversations."""

    def __init__(self, model: Any) -> None:
        self._net = NanoNet(model)
        self._cache = self._net.new_cache()
        self.talks = NanoTalks(self._net.max_positions)
        self._slots: dict[str, int] = {}

    def refresh(self) -> None:
        """Reads the model's parameters again if a trainer replaced their storage."""
        self._net.refresh()

    def generate(
        self, requests: Sequence[GenerateRequest], watch: Watch = watch_nothing
    ) -> list[GenerateReply]:
        """Returns the next reply of each request's rollout, in the order of the requests.

        `watch` is called between two tokens; if `watch` raises an error, the call ends with it.
        """
        replies: list[GenerateReply | None] = [None] * len(requests)
        calls = []
        for index, request in enumerate(requests):
            call = self._admit(index, request)
            if isinstance(call, GenerateReply):
                replies[index] = call
            else:
                calls.append(call)
        calls.sort(key=lambda call: call.slot)
        for call, drawn in zip(calls, self._decode(calls, watch), strict=True):
            replies[call.index] = self.talks.settle(call.request, *drawn)
            # The last sampled token was never fed back: the next call computes it first.
            call.session.cached = len(call.session.ids) - 1
        return [reply for reply in replies if reply is not None]

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        """Ends the rollouts `keys`; returns each one's tokens, or None if none were sampled."""
        self._release([key for key in dict.fromkeys(keys) if key in self._slots])
        return self.talks.finish(keys)

    def _admit(self, index: int, request: GenerateRequest) -> _Call | GenerateReply:
        """Adds the request's new text to its session, or returns a reply if no token would fit."""
        slot = self._slots.setdefault(request.key, len(self._slots))
        prompt = self.talks.ask(request)
        if isinstance(prompt, GenerateReply):
            return prompt
        session = self.talks.sessions[request.key]
        # Without new text the last token is computed again, since sampling needs its logits.
        session.cached = min(session.cached, len(prompt.ids) - 1)
        return _Call(index, request, session, slot, prompt.budget)

    def _decode(self, calls: list[_Call], watch: Watch) -> list[tuple[list[int], list[float]]]:
        """Prefills and samples until every call has stopped."""
        if not calls:
            return []
        longest = max(len(call.session.ids) + call.budget for call in calls)
        self._cache.reserve(len(self._slots), longest)
        decoding = _Decoding(calls, len(self._slots), watch)
        decoding.take(self._prefill(calls))
        while decoding.live:
            decoding.take(self._net.forward(decoding.batch(), self._cache))
        return decoding.draws.sampled

    def _prefill(self, calls: list[_Call]) -> torch.Tensor:
        """Computes the new tokens of each session. Equal new prompts are computed once."""
        leaders, leader_of = _leaders(calls)
        chosen = [calls[index] for index in leaders]
        logits = self._net.forward(_prefill_batch(chosen), self._cache)
        if len(leaders) < len(calls):
            self._share(calls, leaders, leader_of)
            logits = logits[torch.tensor(leader_of)]
        for call in calls:
            call.session.cached = len(call.session.ids)
        return logits

    def _share(self, calls: list[_Call], leaders: list[int], leader_of: list[int]) -> None:
        """Copies the cache of each leader to the calls that follow it."""
        pairs = [
            (calls[leaders[lead]].slot, call.slot)
            for call, lead in zip(calls, leader_of, strict=True)
            if calls[leaders[lead]] is not call
        ]
        sources, targets = torch.tensor(pairs).unbind(1)
        self._cache.copy_prefix(sources, targets, max(len(call.session.ids) for call in calls))

    def _release(self, keys: list[str]) -> None:
        """Frees slots and moves the last live ones into the holes, so that they stay dense."""
        holes = {self._slots.pop(key) for key in keys}
        count = len(self._slots)
        movers = sorted((slot, key) for key, slot in self._slots.items() if slot >= count)
        targets = sorted(hole for hole in holes if hole < count)
        if movers and self._cache.keys[0].shape[0] > movers[-1][0]:
            self._cache.move([slot for slot, _ in movers], targets)
        for (_, key), target in zip(movers, targets, strict=True):
            self._slots[key] = target


class _Decoding:
    """The state of one lock-step decode: which rows still run, and what they have sampled."""

    def __init__(self, calls: list[_Call], dense_slots: int, watch: Watch) -> None:
        self._dense_slots = dense_slots
        self.draws = Draws(
            [call.request for call in calls],
            [call.budget for call in calls],
            frozenset({tokenizer.EOS_ID}),
            torch.device("cpu"),
            watch,
        )
        self._lengths = torch.tensor([len(call.session.ids) for call in calls])
        self._slots = torch.tensor([call.slot for call in calls])
        self._last = torch.empty(0, dtype=torch.int64)

    @property
    def live(self) -> bool:
        return len(self.draws.rows) > 0

    def take(self, logits: torch.Tensor) -> None:
        """Samples one token for each row that has not stopped, and removes the rows that stop."""
        self._last = self.draws.take(logits)
        if not self.draws.going.all():
            index = self.draws.keep(np.flatnonzero(self.draws.going))
            self._lengths, self._slots = self._lengths[index], self._slots[index]
            self._last = self._last[index]

    def batch(self) -> Batch:
        """Returns the batch that feeds back the token which each remaining row sampled last."""
        starts = self._lengths + (self.draws.step - 1)
        rows = len(starts)
        dense = rows == self._dense_slots
        lengths = torch.ones(rows, dtype=torch.int64)
        return Batch(self._last, self._slots, starts, lengths, dense, int(starts.max()) + 1, 1)


def _leaders(calls: list[_Call]) -> tuple[list[int], list[int]]:
    """Groups calls whose whole context is new and equal: (leaders, each call's leader)."""
    place_of: dict[tuple[int, ...], int] = {}
    leaders: list[int] = []
    leader_of = []
    for index, call in enumerate(calls):
        name = tuple(call.session.ids) if call.session.cached == 0 else (-1, index)
        if name not in place_of:
            place_of[name] = len(leaders)
            leaders.append(index)
        leader_of.append(place_of[name])
    return leaders, leader_of


def _prefill_batch(calls: list[_Call]) -> Batch:
    starts = [call.session.cached for call in calls]
    ends = [len(call.session.ids) for call in calls]
    counts = [end - start for start, end in zip(starts, ends, strict=True)]
    ids = [
        token
        for call, start in zip(calls, starts, strict=True)
        for token in call.session.ids[start:]
    ]
    slots = [call.slot for call in calls]
    dense = slots == list(range(len(slots)))
    return Batch(
        ids=torch.tensor(ids),
        slots=torch.tensor(slots),
        starts=torch.tensor(starts),
        counts=torch.tensor(counts),
        dense=dense,
        longest=max(ends),
        widest=max(counts),
    )
