"""vLLM on the same rollouts: the peer of `rollouts.py`, run by the interpreter of vLLM's own venv.

The scaffold and the environment run in this process, and each rollout asks for its next turn the
moment the last one is answered (continuous batching, prefix caching), which is vLLM at its best.
Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from maintain.drive import Attempt, Scaffold, search_plans
from meta_agent.core.protocols import GenerateReply, PlannedRollout
from meta_agent.policies.engines import nano_tokenizer as tokenizer


def settings() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--rollouts", type=int, required=True)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--dtype", default="float32")
    return parser.parse_args()


def engine_of(given: argparse.Namespace) -> Any:
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{given.threads - 1}")
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from vllm import EngineArgs, LLMEngine

    return LLMEngine.from_engine_args(
        EngineArgs(
            model=str(given.checkpoint),
            dtype=given.dtype,
            max_model_len=256,
            max_num_seqs=given.slots,
            max_num_batched_tokens=max(4096, given.slots * 16),
            enable_prefix_caching=True,
            disable_log_stats=True,
        )
    )


class Streaming:
    """Keeps `slots` rollouts in flight."""

    def __init__(self, engine: Any, slots: int) -> None:
        self._engine, self._slots = engine, slots
        self.scaffold = Scaffold("swe")
        self._flying: dict[str, Attempt] = {}
        self._names: Iterable[int] = iter(range(1 << 40))
        self.tokens = 0

    def run(self, planned: list[PlannedRollout]) -> list[Attempt]:
        waiting = list(reversed(planned))
        attempts = []
        while waiting or self._flying:
            while waiting and len(self._flying) < self._slots:
                attempts.append(Attempt(self.scaffold, waiting.pop()))
                self._ask(attempts[-1])
            for output in self._engine.step():
                if output.finished:
                    self._land(output)
        return attempts

    def _ask(self, attempt: Attempt) -> None:
        from vllm import SamplingParams

        request = attempt.request
        if request is None:
            return
        ids = tokenizer.encode(tokenizer.render(request.messages))
        params = SamplingParams(
            temperature=request.temperature,
            max_tokens=min(request.max_tokens, max(1, request.max_context_tokens - len(ids))),
            stop_token_ids=[tokenizer.EOS_ID],
            logprobs=0,  # the sampled token's, which training needs
            detokenize=False,
        )
        name = f"r{next(self._names)}"  # type: ignore[call-overload]
        self._flying[name] = attempt
        self._engine.add_request(name, {"prompt_token_ids": ids}, params)

    def _land(self, output: Any) -> None:
        attempt = self._flying.pop(output.request_id.split("-")[0])
        ids = list(output.outputs[0].token_ids)
        self.tokens += len(ids)
        stopped = ids[-1:] == [tokenizer.EOS_ID]
        text = tokenizer.decode(ids[:-1] if stopped else ids)
        attempt.answer(GenerateReply(text, "stop" if stopped else "length", 0, len(ids)))
        self._ask(attempt)


def main() -> None:
    given = settings()
    streaming = Streaming(engine_of(given), given.slots)
    rates, wins = [], []
    for repeat in range(given.repeats + 1):  # the first one warms up
        planned = search_plans(streaming.scaffold, given.rollouts, repeat)
        started = time.perf_counter()
        attempts = streaming.run(planned)
        rates.append(given.rollouts / (time.perf_counter() - started))
        wins += [attempt.environment.grade().success for attempt in attempts]
    print(
        json.dumps(
            {
                "rollouts_per_sec": [round(rate, 1) for rate in rates[1:]],
                "tokens_per_rollout": round(streaming.tokens / len(wins), 2),
                "success": round(sum(wins) / len(wins), 3),
            }
        )
    )


if __name__ == "__main__":
    main()
