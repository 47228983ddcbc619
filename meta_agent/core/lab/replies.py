"""How long a reply may have to be, from references of training tasks.

References bound a reply only where nothing can stand beside the answer. So `reply_tokens` also
hands in references with words before them: where the grader accepts those, a reply may reason. It
bounds no reply where there are tools, whose calls are replies too.

Not covered: how a tokenizer counts. `tokens_at_most` is an upper estimate for any usual one.
"""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from typing import Final

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.protocols import Domain, Task

_REFERENCES: Final = 64
"""Training tasks whose references are read. Each is graded, which may be slow."""
_WITH_WORDS: Final = 4
_WORDS: Final = "Let me think about what is asked for.\n\n"
_ROOM: Final = 1.25
"""Other tasks may have longer answers, and other right answers be longer than a reference."""
_STEP: Final = 16


def reply_tokens(domain: Domain) -> int:
    """Returns a limit of tokens for replies that are nothing but an answer; 0 if none is known."""
    solve, tasks = Capabilities.of(domain).solution, domain.tasks("train")
    references = [
        (task, pair[1]) for task in islice(tasks, _REFERENCES) if (pair := solve(task.key))
    ]
    with_words = ((task, _WORDS + reply) for task, reply in references[:_WITH_WORDS])
    if not references or any(_may_reason(domain, task, reply) for task, reply in with_words):
        return 0
    longest = max(tokens_at_most(reply) for _, reply in references)
    return _STEP * -int(-_ROOM * longest // _STEP)


def tokens_at_most(text: str) -> int:
    """Returns an estimate of a text's tokens that is hardly ever too low.

    A token holds two letters or more, or one other character; beyond ASCII, a byte.
    """
    letters = sum(character.isascii() and character.isalpha() for character in text)
    return -(-letters // 2) + len(text.encode("utf-8", "replace")) - letters


def _may_reason(domain: Domain, task: Task, reply: str) -> bool:
    """Returns whether a reply solves the task, or True if an attempt may do more than reply."""
    with closing(domain.open(task)) as environment:
        if tuple(environment.tools) != ("submit",):
            return True
        environment.call("submit", {"answer": reply})
        return environment.grade().success
