"""The conversation of a rollout so far, as one exact row of tokens.

Promises: the ids that the policy sampled are the ids that it is trained on; text is never
tokenised twice. If a call's conversation starts with everything rendered and sampled so far,
only its new text is added. Otherwise (a scaffold edits, trims or reorders the past, or a
chat template rewrites old turns) a new segment begins. The row then holds the last segment
alone, and its `exact` is False.
Not covered: where keys and values are cached; the engine decides that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from meta_agent.core.protocols import TokenRecord

Encode = Callable[[str], list[int]]


@dataclass(slots=True)
class TokenSession:
    """The token ids of a rollout's conversation so far, and which of them the policy sampled.

    If the harness changes earlier messages, the ids begin anew with a new prompt (a segment).
    """

    text: str = ""  # rendered and sampled text, in the order of `ids`
    ids: list[int] = field(default_factory=list)
    prompt_len: int = 0
    mask: list[int] = field(default_factory=list)  # over ids[prompt_len:]
    logprobs: list[float | None] = field(default_factory=list)  # over ids[prompt_len:]
    exact: bool = True
    lost: int = 0  # sampled ids of segments before this one
    cached: int = 0  # leading ids whose keys and values the engine holds

    def plan(self, rendered: str, encode: Encode) -> Extension:
        """Returns the tokens that extend or replace the ids so that their text is `rendered`."""
        fresh = not self.ids
        if not fresh and rendered.startswith(self.text):
            new_ids = encode(rendered[len(self.text) :])
            return Extension(rendered, new_ids, len(self.ids) + len(new_ids), restart=False)
        new_ids = encode(rendered)
        return Extension(rendered, new_ids, len(new_ids), restart=True)

    def apply(self, extension: Extension) -> None:
        """Appends tokens that the policy did not sample, or begins the token ids anew with them."""
        if extension.restart:
            self.exact = self.exact and not self.ids
            self.lost += sum(self.mask)
            self.ids = list(extension.new_ids)
            self.prompt_len = len(self.ids)
            self.mask, self.logprobs, self.cached = [], [], 0
        else:
            count = len(extension.new_ids)
            self.ids += extension.new_ids
            self.mask += [0] * count
            self.logprobs += [0.0] * count
        self.text = extension.rendered

    def add_sampled(self, ids: list[int], logprobs: Sequence[float | None], text: str) -> None:
        """Appends the ids that the policy sampled; `text` is their text, stop token included."""
        self.ids += ids
        self.mask += [1] * len(ids)
        self.logprobs += logprobs
        self.text += text

    def record(self) -> TokenRecord | None:
        """Returns the prompt and all ids up to the last sampled one; None if none was sampled."""
        end = _last_one(self.mask)
        if end == 0:
            return None
        return TokenRecord(
            prompt_ids=self.ids[: self.prompt_len],
            completion_ids=self.ids[self.prompt_len : self.prompt_len + end],
            mask=self.mask[:end],
            logprobs=self.logprobs[:end],
            exact=self.exact,
            lost=self.lost,
        )


@dataclass(frozen=True, slots=True)
class Extension:
    """The prompt tokens that one model call adds to a rollout's ids, or that replace the ids."""

    rendered: str
    new_ids: list[int]
    total: int  # length of the session's ids afterwards
    restart: bool


def _last_one(mask: list[int]) -> int:
    """Returns the length of `mask` up to and including its last 1."""
    end = len(mask)
    while end and not mask[end - 1]:
        end -= 1
    return end
