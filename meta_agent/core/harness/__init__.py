"""The harness contract: `harness.toml`, its factors and recipe, and its code in a sandbox.

A harness is a `HarnessTree` (files by path) with a `harness.toml`:

    [harness]
    name = "nano-swe"
    entry = "swe/agent.py:run"      # or: command = ["python", "agent.py"]
    editable = ["swe/**"]
    protected = ["harness.toml", "tests/**"]
    [factors]
    scaffold = ["swe/agent.py"]
    reward = ["swe/reward.py"]
    filter = ["swe/filter.py"]
    data = ["swe/curriculum.py"]
    recipe = ["swe/recipe.toml"]
    diagnostics = ["swe/diagnostics/**"]

Its functions run in a sandbox, behind `HarnessSession`, which validates all that comes back:

    async def run(task, model, tools) -> None           # agent.py
        # task.key, task.view; await model.chat(messages, max_tokens=None)
        # -> Reply(content, finish_reason); await tools.call(name, **arguments)
        # -> Result(text, ok, done)
    def reward(rollout: dict) -> dict[str, float]       # reward.py, beside WEIGHTS
    def reward_group(rollouts: list[dict]) -> list[dict[str, float]]  # reward.py, if wanted:
                                                        # components relative to one group
    def judge(rollouts: list[dict]) -> list[str | None] # reward.py, if wanted: a question about
                                                        # each rollout; its "judged" is the reply
    def keep(groups: list[dict]) -> list[float]         # filter.py; a group has "task_key",
                                                        # "rewards" and "outcomes"
                                                        # With STATE = {...} in the file:
                                                        # keep(groups, state) -> (weights, state)
                                                        # It is asked again about groups that
                                                        # replace dropped ones (`refill_factor`).
    def order(tasks: list[dict], history: dict) -> list[str]         # curriculum.py; a task has
                                                        # "key", "view" and "labels"
    def measure(rollouts: list[dict]) -> dict[str, float]            # diagnostics/*.py

With `command` in place of `entry` any program is the agent (`CommandSession`). It runs once for
each task in a sandbox of its own. A server on that sandbox's loopback speaks OpenAI chat
completions and Anthropic messages, and each request becomes a model call of the host. The program
has no network and no key.

`HarnessContract.factor_of(paths)` returns the factor of an edit. It raises CandidateError for an
edit of several factors without a label; diagnostics always change alone.
"""

from meta_agent.core.harness._paths import matches, matches_any, safe_path
from meta_agent.core.harness._values import CheckResult, Measurement
from meta_agent.core.harness.command import CommandSession, Opener, open_session
from meta_agent.core.harness.contract import (
    CONTRACT_FILE,
    TRAINING_FOLDER,
    Entry,
    HarnessContract,
    parse_contract,
)
from meta_agent.core.harness.recipe import RECIPE_FILE, Recipe, no_recipe, parse_recipe, recipe_of
from meta_agent.core.harness.session import HarnessSession, Teaches

__all__ = [
    "CONTRACT_FILE",
    "RECIPE_FILE",
    "TRAINING_FOLDER",
    "CheckResult",
    "CommandSession",
    "Entry",
    "HarnessContract",
    "HarnessSession",
    "Measurement",
    "Opener",
    "Recipe",
    "Teaches",
    "matches",
    "matches_any",
    "no_recipe",
    "open_session",
    "parse_contract",
    "parse_recipe",
    "recipe_of",
    "safe_path",
]
