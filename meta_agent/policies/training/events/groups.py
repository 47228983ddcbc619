"""The groups of a rollout event: which of them are trained on, and what their words tell.

A group that the harness's filter weights 0 is dropped. If the recipe has a `refill_factor`, further
prompts of the curriculum replace dropped groups (DAPO's dynamic sampling). The filter is called
once for the groups of each round. If all attempts are used up, dropped groups stay with weight 0.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from meta_agent.core.protocols import JSON, Rollout, StopReason

History = Mapping[str, Mapping[str, int]]
_MOST_WORDS: Final = 500  # of one attempt that `words_by_task` compares
_WORD: Final = re.compile(r"\w+|[^\w\s]")


class Batch(NamedTuple):
    """Rollouts for one request of the trainer, and the weights that the filter gave groups."""

    rollouts: list[Rollout]
    weights: list[float]
    """One weight for each group. There may be more groups than the trainer asked for."""
    filter_state: JSON
    """What the filter remembers after these groups."""

    def trained(self, groups: int, size: int) -> list[tuple[list[Rollout], float]]:
        """Returns `groups` groups, each of `size` rollouts, with their weights.

        Groups of weight 0 (dropped by the filter) are among them only if there are too few others.
        """
        chosen = sorted(range(len(self.weights)), key=lambda at: self.weights[at] == 0)[:groups]
        parts = in_groups(self.rollouts, size)
        return [(parts[at], self.weights[at]) for at in sorted(chosen)]

    def to_json(self) -> JSON:
        """Returns the group weights and the filter's state as JSON, without the rollouts."""
        return {"weights": self.weights, "filter_state": self.filter_state}


def in_groups(rollouts: Sequence[Rollout], size: int) -> list[list[Rollout]]:
    """Cuts a list of rollouts into consecutive groups of `size` rollouts."""
    return [list(rollouts[start : start + size]) for start in range(0, len(rollouts), size)]


def is_spoiled(rollout: Rollout) -> bool:
    """Returns True if the infrastructure or the grader failed in a rollout, and not the policy."""
    return rollout.error is not None and rollout.error.kind != "policy"


def group_facts(rollouts: Sequence[Rollout]) -> dict[str, JSON]:
    """Returns what the harness's filter sees of a group: its task key, rewards and outcomes."""
    return {
        "task_key": rollouts[0].task_key,
        "rewards": [rollout.total_reward for rollout in rollouts],
        "outcomes": [bool(rollout.outcome) for rollout in rollouts],
    }


def with_outcomes(history: History, rollouts: Sequence[Rollout]) -> dict[str, dict[str, int]]:
    """Returns a copy of `history` (tries and solutions by task) to which `rollouts` are added.

    Rollouts without an outcome are not counted.
    """
    counts = {task_key: dict(tally) for task_key, tally in history.items()}
    for rollout in rollouts:
        if rollout.outcome is not None:
            tally = counts.setdefault(rollout.task_key, {"tries": 0, "solved": 0})
            tally["tries"] += 1
            tally["solved"] += bool(rollout.outcome)
    return counts


def words_by_task(rollouts: Sequence[Rollout]) -> float | None:
    """Returns how well the words of attempts reveal their task: 0 as by chance, 1 always.

    Each attempt is assigned to the task whose other attempts use the most similar words (cosine,
    rare words count more). A low value is a sign of what RAGEN-2 calls template collapse: replies
    that do not depend on the prompt. Returns None with fewer than two tasks to tell apart.
    """
    texts = [(rollout.task_key, _words(rollout)) for rollout in rollouts if not is_spoiled(rollout)]
    sizes = Counter(task for task, _ in texts)
    texts = [(task, words) for task, words in texts if sizes[task] > 1]
    if len({task for task, _ in texts}) < 2:
        return None
    spread = Counter(word for _, words in texts for word in words)
    rarity = {word: math.log(len(texts) / count) for word, count in spread.items()}
    uses: dict[str, Counter[str]] = defaultdict(Counter)
    for task, words in texts:
        uses[task].update(words)
    norms = {task: _norm(counts, rarity) for task, counts in uses.items()}
    hits = sum(_hit(task, words, uses, norms, rarity) for task, words in texts) / len(texts)
    chance = 1 / len(uses)
    return (hits - chance) / (1 - chance)


def _words(rollout: Rollout) -> frozenset[str]:
    text = "\n".join(str(m.get("content")) for m in rollout.messages if m["role"] == "assistant")
    return frozenset(match.group() for match in islice(_WORD.finditer(text), _MOST_WORDS))


def _norm(counts: Mapping[str, int], rarity: Mapping[str, float]) -> float:
    return sum((count * rarity[word]) ** 2 for word, count in counts.items())


def _hit(
    task: str,
    words: frozenset[str],
    uses: Mapping[str, Mapping[str, int]],
    norms: Mapping[str, float],
    rarity: Mapping[str, float],
) -> float:
    """Returns 1 if the attempt's words are most like its task's, its share of a tie, or 0."""
    likeness = {}
    for other, counts in uses.items():
        is_its_task = other == task  # the attempt itself is no evidence of its task
        dot = sum(rarity[w] ** 2 * (counts[w] - is_its_task) for w in words if w in counts)
        norm = norms[other]
        if is_its_task:
            norm -= sum(rarity[w] ** 2 * (2 * counts[w] - 1) for w in words)
        likeness[other] = round(dot / math.sqrt(norm), 9) if norm > 1e-9 else 0.0
    best = max(likeness.values())
    return (likeness[task] == best) / sum(value == best for value in likeness.values())


def host_values(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Returns metrics of rollouts: shares by stop reason and outcome, `words_by_task`, turns."""
    count = len(rollouts)
    stops: Counter[StopReason] = Counter(rollout.stop_reason for rollout in rollouts)
    values = {f"stop_{reason}": stops[reason] / count for reason in sorted(stops)}
    dependence = words_by_task(rollouts)
    if dependence is not None:
        values["words_by_task"] = dependence
    return values | {
        "success": sum(bool(rollout.outcome) for rollout in rollouts) / count,
        "clean_success": sum(rollout.clean for rollout in rollouts) / count,
        "flagged_ratio": sum(bool(rollout.flags) for rollout in rollouts) / count,
        "turns_mean": sum(rollout.turns for rollout in rollouts) / count,
    }
