"""Token rows of rollouts whose server reports token ids, marked exact or not.

The server reports for every call which ids it read and which it sampled. A call whose prompt begins
with all ids of the call before it extends the row. Any other call opens a new segment, as in
`_sessions`. After one call without ids the whole rollout has no row.

The lock guards the two dicts; a rollout has one call under way at a time.
"""

from __future__ import annotations

import threading

from meta_agent.core.chat import ReplyTokens
from meta_agent.core.protocols import TokenRecord
from meta_agent.policies.engines._sessions import Extension, TokenSession


class TokenRows:
    """The rows of all rollouts under way, by their key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, TokenSession] = {}
        self._unknown: set[str] = set()

    def add(self, key: str, tokens: ReplyTokens | None) -> None:
        """Adds one reply to its rollout's row."""
        with self._lock:
            if tokens is None:
                self._unknown.add(key)
            elif key not in self._unknown:
                _extend(self._rows.setdefault(key, TokenSession()), tokens)

    def finish(self, key: str) -> TokenRecord | None:
        """Returns the row of an ended rollout, or None if a call had no ids."""
        with self._lock:
            session = self._rows.pop(key, None)
            complete = key not in self._unknown
            self._unknown.discard(key)
        return session.record() if session and complete else None


def _extend(session: TokenSession, tokens: ReplyTokens) -> None:
    prompt, length = list(tokens.prompt_ids), len(session.ids)
    restart = not session.ids or prompt[:length] != session.ids
    new = prompt if restart else prompt[length:]
    session.apply(Extension("", new, len(prompt), restart))
    session.add_sampled(list(tokens.ids), list(tokens.logprobs), "")
