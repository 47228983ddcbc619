"""Cuts rows into chunks that go through the model together: similar length, padded on the right.

Promises: every scored position is in exactly one chunk. Causal attention needs no mask.

Not covered: who computes a chunk (`ranks`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Chunk(NamedTuple):
    """Rows that go through the model at once."""

    ids: Tensor  # [rows, width], padded on the right
    labels: Tensor  # -100 where nothing is scored
    scored: Tensor  # bool [rows, width - 1]: the shifted positions that are scored
    places: tuple[Tensor, Tensor]  # where they go: (row, completion position)


def chunks_of(
    ids: Tensor, attention: Tensor, score: Tensor, keep: int, tokens: int, ranks: int
) -> list[Chunk]:
    """Cuts the rows that are scored anywhere into chunks of similar length, longest first.

    A chunk has at most `tokens` tokens, padding included; a longer row is a chunk by itself. Few
    tokens are cut so that every rank has a part.
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
