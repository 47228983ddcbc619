"""Random numbers and sampling that do not depend on who asked first.

Promises: the uniform behind token `i` of a call is a pure function of (seed, task_key, sample_idx,
turn, i), so a rollout draws the same numbers alone or in a batch of a thousand. Log-probabilities
are those of the distribution at the sampling temperature, before any top-p cut, which is what the
trainer recomputes. Temperature 0 takes the most likely token, with its log-probability at 1.

Not covered: cryptographic quality (splitmix64 passes the usual statistical batteries, no more).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray

from meta_agent.core.protocols import GenerateRequest

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_MANTISSA_BITS = 53
_BLOCK = 256
"""Tokens of a large vocabulary whose probabilities are first added up in float32."""
_BELOW_ONE = 1 - 1e-12


class Sampled(NamedTuple):
    """One token per row: its id and its log-probability."""

    ids: torch.Tensor  # int64 [rows]
    logprobs: torch.Tensor  # float32 [rows]


class Knobs(NamedTuple):
    """The sampling settings (temperature, top-p) of each row of a batch."""

    temperature: torch.Tensor  # float32 [rows, 1]; 0 means greedy
    top_p: torch.Tensor  # float32 [rows, 1]
    truncates: bool  # some row has top_p < 1
    greedy: bool  # some row has temperature 0

    @classmethod
    def of(cls, requests: Sequence[GenerateRequest]) -> Knobs:
        """Returns the sampling settings that the requests state, one row for each request."""
        temperature = torch.tensor([[r.temperature] for r in requests], dtype=torch.float32)
        top_p = torch.tensor([[r.top_p] for r in requests], dtype=torch.float32)
        truncates, greedy = bool((top_p < 1).any()), bool((temperature <= 0).any())
        return cls(temperature, top_p, truncates, greedy)

    def rows(self, index: torch.Tensor) -> Knobs:
        """Returns the sampling settings of the rows at `index` alone."""
        return self._replace(temperature=self.temperature[index], top_p=self.top_p[index])

    def to(self, device: torch.device) -> Knobs:
        """Returns the sampling settings with their tensors on the device `device`."""
        return self._replace(temperature=self.temperature.to(device), top_p=self.top_p.to(device))


Watch = Callable[[int, int], None]
"""Called between two tokens with how many rows still sample and how many tokens each has.

It ends the model call by raising an exception.
"""


def watch_nothing(rows: int, tokens: int) -> None:
    """Does nothing: the default callback between two tokens, which never ends a model call."""


class Draws:
    """Samples the replies to a batch of requests, one token for every live row in each step.

    A row is live until it samples a stop token or has as many tokens as its budget allows.
    """

    def __init__(
        self,
        requests: Sequence[GenerateRequest],
        budgets: Sequence[int],
        stops: frozenset[int],
        device: torch.device,
        watch: Watch,
    ) -> None:
        self.rows = np.arange(len(requests))  # of the live rows: their places in `requests`
        self.step = 0
        self._watch = watch
        self._keys, self._knobs = stream_keys(requests), Knobs.of(requests).to(device)
        self._budgets, self._stops = np.array(budgets), list(stops)
        self._ids: list[list[int]] = [[] for _ in requests]
        self._logprobs: list[list[float]] = [[] for _ in requests]

    @property
    def sampled(self) -> list[tuple[list[int], list[float]]]:
        """Returns each row's sampled token ids and their log-probabilities."""
        return list(zip(self._ids, self._logprobs, strict=True))

    def take(self, logits: torch.Tensor) -> torch.Tensor:
        """Samples one token for each live row from `logits`, `[live rows, vocabulary]`.

        Returns the token ids and sets `going`, a boolean array of which of these rows stay live.
        """
        self._watch(len(self.rows), self.step)
        tokens = sample(logits, self._knobs, uniforms(self._keys, self.step))
        ids = tokens.ids.tolist()
        for row, token, logprob in zip(self.rows, ids, tokens.logprobs.tolist(), strict=True):
            self._ids[row].append(token)
            self._logprobs[row].append(logprob)
        self.step += 1
        self.going = ~np.isin(ids, self._stops) & (self._budgets > self.step)
        return tokens.ids

    def keep(self, order: NDArray[np.int64]) -> torch.Tensor:
        """Keeps only the live rows at the indices `order`, and returns `order` as a tensor."""
        index = torch.from_numpy(order).to(self._knobs.top_p.device)
        self.rows, self._keys = self.rows[order], self._keys[order]
        self._budgets, self._knobs = self._budgets[order], self._knobs.rows(index)
        return index


def stream_keys(requests: Sequence[GenerateRequest]) -> NDArray[np.uint64]:
    """Returns the 64-bit key of each request's random stream: its seed, task, attempt, turn."""
    names = (f"{r.seed}\0{r.sample_idx}\0{r.turn}\0{r.task_key}" for r in requests)
    digests = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def uniforms(keys: NDArray[np.uint64], token_index: int) -> NDArray[np.float64]:
    """Returns each stream's random number for token `token_index`, in [0, 1), one for each key."""
    with np.errstate(over="ignore"):
        z = keys + np.uint64(token_index + 1) * _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * _MIX_1
        z = (z ^ (z >> np.uint64(27))) * _MIX_2
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(64 - _MANTISSA_BITS)).astype(np.float64) * 2.0**-_MANTISSA_BITS


def sample(logits: torch.Tensor, knobs: Knobs, draws: NDArray[np.float64]) -> Sampled:
    """Draws one token for each row of float32 `logits`, `[rows, vocabulary]`.

    `draws` holds a uniform random number in [0, 1) for each row. Temperature 0 takes the maximum.
    """
    if knobs.greedy:
        scale = torch.where(knobs.temperature <= 0, 1.0, knobs.temperature)
    else:
        scale = knobs.temperature
    logprobs = torch.log_softmax(logits / scale, dim=-1)
    ids = _invert(logprobs, knobs, torch.from_numpy(draws).to(logits.device))
    if knobs.greedy:
        ids = torch.where(knobs.temperature[:, 0] <= 0, logits.argmax(-1), ids)
    return Sampled(ids, logprobs.gather(1, ids[:, None])[:, 0])


def _invert(logprobs: torch.Tensor, knobs: Knobs, draws: torch.Tensor) -> torch.Tensor:
    """Returns the first token whose cumulative probability exceeds the draw.

    Sums are in float64, because a float32 sum over a vocabulary of 150,000 loses the tail. A large
    vocabulary is searched by blocks, and then inside the block of each row.
    """
    if knobs.truncates:
        return _first_above(_nucleus(logprobs.double().exp_(), knobs.top_p), draws)[0]
    if logprobs.shape[1] <= _BLOCK:
        return _first_above(logprobs.double().exp_(), draws)[0]
    probabilities = functional.pad(logprobs.exp(), (0, -logprobs.shape[1] % _BLOCK))
    blocks = probabilities.unflatten(1, (-1, _BLOCK))
    block, draws = _first_above(blocks.sum(-1).double(), draws)
    inside = blocks[torch.arange(len(block), device=block.device), block].double()
    return block * _BLOCK + _first_above(inside, draws)[0]


def _first_above(masses: torch.Tensor, draws: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns each row's first place where the cumulative mass exceeds the draw, a share of all.

    Also returns the share of that place's mass which lies below the draw.
    """
    cumulative = masses.cumsum(-1)
    target = draws[:, None] * cumulative[:, -1:]
    places = torch.searchsorted(cumulative, target, right=True).clamp_(max=masses.shape[1] - 1)
    mass = masses.gather(1, places)
    share = (target - cumulative.gather(1, places)) / mass + 1
    return places[:, 0], share.clamp_(0, _BELOW_ONE)[:, 0]


def _nucleus(probabilities: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Zeroes what lies outside the smallest set of tokens that holds `top_p` of the mass."""
    ordered, index = probabilities.sort(dim=-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    ordered = ordered.masked_fill(before >= top_p, 0.0)
    return torch.zeros_like(probabilities).scatter_(-1, index, ordered)
