"""Asks a model what a harness's reward wants to know: the judge of a training.

Harness code has no network and no key. So its `judge(rollouts)` returns questions as data, and this
file asks them on the host, as the role `reward`. A conversation is named after its question. So a
question that was answered is never asked or paid again, in this run or after a crash.

An empty or refused reply is a typed failure of that rollout, never a reward of zero. If no question
is answered, InfrastructureError stops the training. Not covered: what the reply means, which the
reward decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from meta_agent.core.chat import ChatRequest, ModelClient
from meta_agent.core.errors import InfrastructureError, ProviderError
from meta_agent.core.protocols import RolloutFailure

MAX_TOKENS: Final = 1024
THREADS: Final = 8


class RewardJudge:
    """Asks a model the questions that a harness's reward function has about rollouts.

    A call of the object takes the questions and returns a reply, or a failure, for each.
    """

    def __init__(self, client: ModelClient, model: str) -> None:
        self._client, self._model = client, model

    def __call__(self, questions: Sequence[str]) -> list[str | RolloutFailure]:
        """Returns the reply to each question, or a failure that says why there is none.

        Raises InfrastructureError if there is no reply at all, and ProviderError if no further
        question can be answered.
        """
        with ThreadPoolExecutor(THREADS, thread_name_prefix="judge") as pool:
            answers = list(pool.map(self._answer, questions))
        failures = [answer for answer in answers if isinstance(answer, RolloutFailure)]
        if failures and len(failures) == len(answers):
            raise InfrastructureError(
                f"the model that judges for the reward function answered none of {len(answers)} "
                f"questions: {failures[0].detail}",
                hint="run the same command again, or name another model: --model reward=MODEL",
            )
        return answers

    def _answer(self, question: str) -> str | RolloutFailure:
        name = hashlib.sha256(f"{self._model}\0{question}".encode("utf-8", "replace")).hexdigest()
        request = ChatRequest(
            role="reward",
            model=self._model,
            messages=[{"role": "user", "content": question}],
            max_tokens=MAX_TOKENS,
        )
        try:
            reply = self._client.chat(request, conversation=f"reward/{name[:24]}", turn=0)
        except ProviderError as error:
            if error.halts:
                raise
            return RolloutFailure("verifier", f"the judge {self._model}: {error.kind}: {error}")
        if reply.stop == "refusal" or not reply.content.strip():
            return RolloutFailure("verifier", f"the judge model {self._model} gave an empty answer")
        return reply.content
