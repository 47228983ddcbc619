"""Cuts rows into chunks that go through the model together: similar length, padded on the right.

Promises: every scored position is in exactly one chunk. Causal attention needs no mask.

Rows that share a prompt can be packed: the prompt once, then one branch for each row, which begins
with the prompt's last token. A mask hides the other branches, and positions count on from the
prompt, so that a branch is computed as its row would be alone. `can_pack` says for which models.

Not covered: who computes a chunk (`ranks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

_PACK_TOKENS: Final = 2048
"""A longer pack would cost more in attention and its mask than it saves in prompts."""


class Chunk(NamedTuple):
    """Rows that go through the model together; `scored` marks log-probabilities to compute."""

    ids: Tensor  # [rows, width], padded on the right
    labels: Tensor  # -100 where nothing is scored
    scored: Tensor  # bool [rows, width - 1]: the shifted positions that are scored
    places: tuple[Tensor, Tensor]  # where they go: (row, completion position)
    inputs: Mapping[str, Tensor] = {}  # what the model gets besides, if rows are packed


def chunks_of(
    ids: Tensor, attention: Tensor, score: Tensor, keep: int, tokens: int, ranks: int
) -> list[Chunk]:
    """Cuts rows into chunks of similar length, longest first; rows without marks are left out.

    `score` marks the tokens, in the last `keep` columns (completions), whose log-probabilities are
    needed. A chunk has at most `tokens` tokens with padding, or one longer row. If there are few
    tokens, chunks are smaller, so that each of `ranks` processes has one.
    """
    prompt_width = ids.shape[1] - keep
    prompt_lengths = attention[:, :prompt_width].sum(1)
    # Nothing after the last scored position can matter to it.
    reach = (score * torch.arange(1, keep + 1, device=ids.device)).amax(1)
    lengths = prompt_lengths + reach
    rows = torch.nonzero(reach)[:, 0]
    rows = rows[lengths[rows].argsort(stable=True, descending=True)]
    if ranks > 1:
        tokens = min(tokens, -(-int(lengths[rows].sum()) // ranks))
    chunks, start = [], 0
    widths = lengths[rows].tolist()
    while start < len(rows):
        stop = min(len(rows), start + max(1, tokens // widths[start]))
        chosen = rows[start:stop]
        chunks.append(
            _chunk(ids, score, chosen, prompt_width, prompt_lengths[chosen], lengths[chosen])
        )
        start = stop
    return chunks


def _chunk(
    ids: Tensor, score: Tensor, rows: Tensor, prompt_width: int, prompts: Tensor, lengths: Tensor
) -> Chunk:
    """Moves rows from 'prompt left-padded, completion right-padded' to right-padded."""
    width = int(lengths[0])
    columns = torch.arange(width, device=ids.device)
    inside = columns < lengths[:, None]
    source = ((prompt_width - prompts)[:, None] + columns).clamp(max=ids.shape[1] - 1)
    packed = ids[rows[:, None], source] * inside
    completion = columns - prompts[:, None]  # each column's completion position, if any
    is_scored = inside & (completion >= 0)
    is_scored = is_scored & score[rows[:, None], completion.clamp(0, score.shape[1] - 1)]
    scored = is_scored[:, 1:]
    places = torch.nonzero(scored)
    return Chunk(
        ids=packed,
        labels=packed.masked_fill(~is_scored, -100),
        scored=scored,
        places=(rows[places[:, 0]], completion[places[:, 0], places[:, 1] + 1]),
    )


def can_pack(model: Any) -> bool:
    """Returns True if rows with equal prompts can be packed into one sequence for a model.

    All its layers must use full attention by torch's `sdpa`, which takes a mask.
    """
    from transformers.cache_utils import get_layer_types_and_kwargs

    config = model.config.get_text_config()
    kinds, _ = get_layer_types_and_kwargs(config)
    return set(kinds) == {"full_attention"} and config._attn_implementation == "sdpa"


@dataclass(slots=True)
class _Pack:
    """Rows with the same prompt, as one sequence."""

    prompt: Sequence[int]
    rows: list[int] = field(default_factory=list)
    reaches: list[int] = field(default_factory=list)  # completion tokens of each row

    @property
    def width(self) -> int:
        return len(self.prompt) - 1 + sum(self.reaches) + len(self.rows)


def packed_chunks_of(
    ids: Tensor, attention: Tensor, score: Tensor, keep: int, tokens: int, ranks: int
) -> list[Chunk]:
    """Cuts rows into chunks in which equal prompts stand once; rows without marks are left out.

    The arguments are those of `chunks_of`.
    """
    prompt_width = ids.shape[1] - keep
    reaches = (score * torch.arange(1, keep + 1, device=ids.device)).amax(1).tolist()
    rows_of: dict[tuple[int, ...], list[int]] = {}
    for row, reach in enumerate(reaches):
        if reach:
            prompt = ids[row, :prompt_width][attention[row, :prompt_width].bool()]
            rows_of.setdefault(tuple(prompt.tolist()), []).append(row)
    if ranks > 1:
        total = sum(_Pack(p, r, [reaches[row] for row in r]).width for p, r in rows_of.items())
        tokens = min(tokens, -(-total // ranks))
    packs: list[_Pack] = []
    for prompt, rows in rows_of.items():
        packs.append(_Pack(prompt))
        for row in sorted(rows, key=lambda row: -reaches[row]):
            if packs[-1].rows and packs[-1].width + reaches[row] + 1 > min(tokens, _PACK_TOKENS):
                packs.append(_Pack(prompt))
            packs[-1].rows.append(row)
            packs[-1].reaches.append(reaches[row])
    chunks = []
    for alone in (True, False):  # a row alone may be long, and then a mask would be large
        alike = [pack for pack in packs if (len(pack.rows) == 1) is alone]
        alike.sort(key=lambda pack: -pack.width)
        while alike:
            count = max(1, tokens // alike[0].width)
            chunks.append(_packed(ids, score, alike[:count], prompt_width, masked=not alone))
            alike = alike[count:]
    return chunks


def _packed(
    ids: Tensor, score: Tensor, packs: Sequence[_Pack], prompt_width: int, *, masked: bool
) -> Chunk:
    shape = len(packs), packs[0].width
    packed, positions, branches = (ids.new_zeros(shape) for _ in range(3))
    labels = ids.new_full(shape, -100)
    rows, completions = [], []
    for number, pack in enumerate(packs):
        shared = len(pack.prompt) - 1
        packed[number, :shared] = torch.tensor(pack.prompt[:-1], device=ids.device)
        positions[number, :shared] = torch.arange(shared, device=ids.device)
        start = shared
        for branch, (row, reach) in enumerate(zip(pack.rows, pack.reaches, strict=True), 1):
            end = start + 1 + reach
            packed[number, start] = pack.prompt[-1]
            completion = ids[row, prompt_width : prompt_width + reach]
            packed[number, start + 1 : end] = completion
            positions[number, start:end] = shared + torch.arange(reach + 1, device=ids.device)
            branches[number, start:end] = branch
            scored = score[row, :reach]
            labels[number, start + 1 : end] = completion.masked_fill(~scored, -100)
            places = scored.nonzero()[:, 0]
            rows.append(torch.full_like(places, row))
            completions.append(places)
            start = end
        branches[number, start:] = -1  # padding
    inputs = {"position_ids": positions, "attention_mask": _visible(branches)} if masked else {}
    return Chunk(
        ids=packed,
        labels=labels,
        scored=labels[:, 1:] != -100,
        places=(torch.cat(rows), torch.cat(completions)),
        inputs=inputs,
    )


def _visible(branches: Tensor) -> Tensor:
    """Returns which tokens each token sees: earlier ones of the prompt and of its own branch."""
    of, by = branches[:, None, :], branches[:, :, None]
    return ((of == by) | (of == 0)).tril()[:, None]
