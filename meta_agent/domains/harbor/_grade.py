"""What a verifier leaves behind, read as what it is: bytes that an agent may have had a hand in.

`reward.json` (an object of finite numbers) comes before `reward.txt` (one finite number). Nothing,
or something else, is no grade: a failure of the verifier, never a zero.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Final

from meta_agent.core.errors import MetaAgentError, SandboxError
from meta_agent.core.protocols import JSON, Outcome
from meta_agent.sandboxes import Box

FOLDER: Final = "/logs/verifier"
MAX_BYTES: Final = 64 << 10
MAX_NUMBERS: Final = 64
USUAL_THRESHOLD: Final = 1.0


class VerifierError(MetaAgentError):
    """Raised if a verifier, the program that grades a Harbor task, gives no valid reward."""


def rewards_of(box: Box) -> dict[str, float]:
    """Returns the rewards that a verifier wrote. Raises VerifierError if there is no valid one."""
    try:
        return _rewards(box)
    except SandboxError as error:
        if error.kind != "protocol":
            raise
        raise VerifierError(f"a reward file may have {MAX_BYTES} bytes: {error}") from error


def _rewards(box: Box) -> dict[str, float]:
    content = box.get(f"{FOLDER}/reward.json", MAX_BYTES)
    if content is not None:
        return _numbers(content)
    text = box.get(f"{FOLDER}/reward.txt", MAX_BYTES)
    if text is None:
        raise VerifierError(f"tests/test.sh must write reward.json or reward.txt in {FOLDER}")
    return {"reward": _number(text.decode("utf-8", "replace").strip())}


def _numbers(data: bytes) -> dict[str, float]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise VerifierError(f"reward.json must be JSON, not {data[:80]!r}") from error
    numbers = isinstance(document, dict) and all(map(_is_number, document.values()))
    if not numbers or not document or len(document) > MAX_NUMBERS:
        raise VerifierError(f"reward.json must be an object of finite numbers, not {data[:80]!r}")
    return {str(name)[:80]: float(value) for name, value in document.items()}


def _is_number(value: JSON) -> bool:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and abs(value) < 1e300 and math.isfinite(value)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise VerifierError(f"reward.txt must be a number, not {text[:80]!r}") from error
    if not math.isfinite(value):
        raise VerifierError(f"reward.txt must be a finite number, not {text[:80]!r}")
    return value


def outcome_of(rewards: Mapping[str, float], threshold: float | None) -> Outcome:
    """Returns the outcome: solved if the reward is at least `threshold` (None: 1).

    Raises VerifierError if there are several rewards and none has the name `reward`.
    """
    if "reward" not in rewards and len(rewards) > 1:
        raise VerifierError(
            f"reward.json has {', '.join(sorted(rewards))}; one number must be named reward"
        )
    score = rewards["reward"] if "reward" in rewards else next(iter(rewards.values()))
    limit = USUAL_THRESHOLD if threshold is None else threshold
    detail: dict[str, JSON] = {
        "verdict": "solved" if score >= limit else "not_solved",
        "score": score,
        "threshold": limit,
    }
    if len(rewards) > 1:
        detail["rewards"] = dict(rewards)
    return Outcome(score >= limit, detail)
