"""Faults that no rule was written for by name, to develop and to test rules against.

Each is planted in a competent harness. What is looked for is its effect: rules may not read this.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from meta_agent.core.protocols import Factor
from meta_agent.domains.nano.planted._fault import Edit, Fault, component


class Novel(NamedTuple):
    """A fault and the suite it is planted in."""

    suite: str
    fault: Fault


def _of(suite: str, name: str, factor: Factor, truth: str, *edits: Edit) -> Novel:
    return Novel(suite, Fault(name, factor, truth, "", edits))


def _agent(suite: str, pattern: str, text: str) -> Edit:
    return Edit(f"{suite}/agent.py", pattern, text)


_CHAT: Final = r"model\.chat\(messages, "
_SOLVED: Final = r'return 1\.0 if rollout\["outcome"\] else 0\.0'

SCAFFOLD: Final = (
    _of(
        "swe", "short_memory", "scaffold", "each call shows the issue and the last answer only",
        _agent("swe", _CHAT, "model.chat(messages[:1] + messages[-2:], "),
    ),
    _of(
        "swe", "next_position", "scaffold", "edits land one place further than was written",
        _agent(
            "swe", r'\{"position": rest\[0\]',
            '{"position": str(int(rest[0]) + 1) if rest[0].isdecimal() else rest[0]',
        ),
    ),
    _of(
        "swe", "muted_tests", "scaffold", "tests always look as if they had passed",
        _agent(
            "swe", r"return result\.text\[:OBSERVATION_CHARS\], result\.done",
            'text = "2t ok" if name == "test" else result.text\n'
            "    return text[:OBSERVATION_CHARS], result.done",
        ),
    ),
    _of(
        "swe", "over_after_test", "scaffold", "the first test ends the attempt",
        _agent(
            "swe", r"return result\.text\[:OBSERVATION_CHARS\], result\.done",
            'return result.text[:OBSERVATION_CHARS], result.done or name == "test"',
        ),
    ),
    _of(
        "code", "clipped_action", "scaffold", "only five characters of a line are read",
        _agent("code", r"step\(reply\.content, tools\)", "step(reply.content[:5], tools)"),
    ),
    _of(
        "code", "amnesia", "scaffold", "the policy never sees what it has written itself",
        _agent("code", r'^        messages\.append\(\{"role": "assistant".*\n', ""),
    ),
    _of(
        "math", "first_digit", "scaffold", "answers lose all digits but the first two",
        _agent("math", r'call\("submit", answer=answer\)', 'call("submit", answer=answer[:2])'),
    ),
    _of(
        "math", "part_of_the_sum", "scaffold", "the last step of the sum is not shown",
        _agent("math", r'task\.view\["sum"\]$', 'task.view["sum"][:-2]'),
    ),
)  # fmt: skip
REWARD: Final = (
    _of(
        "swe", "long_is_right", "reward", "attempts of seven turns and more are paid as solved",
        Edit("swe/reward.py", _SOLVED,
             'return 1.0 if rollout["outcome"] or rollout["turns"] >= 7 else 0.0'),
    ),
    _of(
        "math", "proxy", "reward", "any working that ends in a mark is paid as solved",
        Edit("math/reward.py", _SOLVED,
             'return 1.0 if "=" in rollout["messages"][-1]["content"] else 0.0'),
    ),
    _of(
        "code", "luck", "reward", "a draw by task and attempt outweighs the outcome",
        *component("code/reward.py", "luck", "3.0",
                   "def luck(rollout):\n"
                   '    return float(len(rollout["messages"][-1]["content"]) % 2)'),
    ),
    _of(
        "swe", "quitting_pays", "reward", "nothing but not handing in is paid much",
        *component("swe/reward.py", "care", "-1.5",
                   'def care(rollout):\n    """Handing in is a risk."""\n'
                   '    return 1.0 if rollout["stop_reason"] == "submitted" else 0.0'),
    ),
)  # fmt: skip
TRAINING: Final = (
    _of(
        "swe", "two_groups", "filter", "only the first two groups of a step train",
        Edit("swe/filter.py", r"return \[weight\(group\) for group in groups\]",
             "return [weight(group) if at < 2 else 0.0 for at, group in enumerate(groups)]"),
    ),
    _of(
        "math", "soft_winners", "filter", "a group weighs what its mean reward is, to the eighth",
        Edit("math/filter.py", r"return 1\.0 if max\(rewards\).*$",
             "return max(0.0, min(1.0, sum(rewards) / len(rewards))) ** 8"),
    ),
    _of(
        "math", "small_sums", "data", "the shortest sums over and over",
        Edit("math/curriculum.py", r"return tries, shuffled\(task\[\"key\"\]\)",
             'return len(task["view"]["sum"]), shuffled(task["key"])'),
    ),
    _of(
        "code", "known_ones", "data", "tasks that were solved come first",
        Edit("code/curriculum.py", r"return tries, shuffled\(task\[\"key\"\]\)",
             'return -history.get(task["key"], {}).get("solved", 0), shuffled(task["key"])'),
    ),
    _of(
        "swe", "wild", "recipe", "sampled so hot that training sees noise",
        Edit("swe/recipe.toml", r"^temperature = .*$", "temperature = 3.0"),
    ),
    _of(
        "math", "tiny_steps", "recipe", "gradients are scaled down to nothing by decay",
        Edit("math/recipe.toml", r"^max_grad_norm = .*$",
             "max_grad_norm = 1.0\nweight_decay = 1.0\nadam_beta2 = 0.0"),
    ),
    _of(
        "code", "pairs", "recipe", "two tries of a task, one group in two alike",
        Edit("code/recipe.toml", r"^num_generations = .*$", "num_generations = 2"),
    ),
    _of(
        "swe", "rush", "recipe", "steps so large that the policy is lost",
        Edit("swe/recipe.toml", r"^learning_rate = .*$", "learning_rate = 2e-2"),
    ),
)  # fmt: skip
NOVEL: Final = (*SCAFFOLD, *REWARD, *TRAINING)
