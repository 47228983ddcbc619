"""Token rows of several model calls, joined to one where each call extends the one before.

A call whose prompt does not begin with everything before it starts a new segment. Then only the
last segment is kept and marked inexact, as for rollouts of our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from meta_agent.core.protocols import JSON, TokenRecord


class CallTokens(NamedTuple):
    """One model call: token ids of its whole prompt, of its reply, and the reply's logprobs."""

    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]


def joined(calls: Iterable[CallTokens]) -> TokenRecord | None:
    """Returns the tokens of consecutive calls as one record, or None if there are no calls.

    If a prompt does not extend the call before it, the record restarts there as not `exact`.
    """
    record: TokenRecord | None = None
    for call in calls:
        before = record.prompt_ids + record.completion_ids if record else []
        if record is None or call.prompt_ids[: len(before)] != before:
            record = TokenRecord(list(call.prompt_ids), [], [], [], exact=record is None)
        between = call.prompt_ids[len(record.prompt_ids) + len(record.completion_ids) :]
        record.completion_ids += between + call.completion_ids
        record.mask += [0] * len(between) + [1] * len(call.completion_ids)
        record.logprobs += [0.0] * len(between) + call.logprobs
    return record


def calls_of(rows: Iterable[JSON], names: tuple[str, str, str]) -> Iterator[CallTokens]:
    """Yields a call for each row whose fields `names` hold prompt ids, reply ids and logprobs."""
    for row in rows:
        if isinstance(row, Mapping):
            call = _call(*(row.get(name) for name in names))
            if call is not None:
                yield call


def _call(prompt: JSON, completion: JSON, logprobs: JSON) -> CallTokens | None:
    lists = (prompt, completion, logprobs)
    if not all(isinstance(value, list) for value in lists):
        return None
    if not all(type(i) is int for i in (*prompt, *completion)):
        return None
    numbers = all(type(x) in (int, float) and abs(x) < float("inf") for x in logprobs)
    if not completion or len(logprobs) != len(completion) or not numbers:
        return None
    return CallTokens(prompt, completion, [float(x) for x in logprobs])
