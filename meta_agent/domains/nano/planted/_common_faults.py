"""Planted faults that every nano seed can carry, since they say nothing of what a task is.

Each is made for the folder of a suite's sources. As the tables that use them, nothing that
proposes, tests or judges may read this module.
"""

from __future__ import annotations

from meta_agent.domains.nano.planted._fault import Edit, Fault

_WINNERS = '''"""Which groups to train on: those that show how it is done."""

MIN_SOLVED = 0.85  # of the attempts in a group


def weight(group):
    """Returns 1.0 to train on this group, 0.0 to drop it."""
    outcomes = [bool(outcome) for outcome in group["outcomes"]]
    return 1.0 if sum(outcomes) >= MIN_SOLVED * len(outcomes) else 0.0


def keep(groups):
    return [weight(group) for group in groups]
'''
_SAME_FEW = '''"""In which order to train on tasks: go on with what has been begun."""


def order(tasks, history):
    def place(task):
        return -history.get(task["key"], {}).get("tries", 0)

    return [task["key"] for task in sorted(tasks, key=place)]
'''


def common_faults(folder: str, *, read: str, paid: str, same_costs: bool) -> dict[str, Fault]:
    """Returns, by name, the faults that every suite shares, as edits of the harness in `folder`.

    `read`: a field that no rollout has, which `dead_reward` reads. `paid`: what that reward still
    pays for. `same_costs`: whether repairing `same_few_tasks` is worth ten points after training.
    """
    faults = (
        Fault(
            "dead_reward",
            "reward",
            f"`solved` reads a field that no rollout has, so nothing but {paid} is paid",
            'read rollout["outcome"]',
            (Edit(f"{folder}/reward.py", r'rollout\["outcome"\]', f'rollout.get("{read}")'),),
        ),
        Fault(
            "inverted_filter",
            "filter",
            "groups with differing rewards are dropped and dead ones are kept: no gradient is left",
            "keep groups whose rewards differ",
            (Edit(f"{folder}/filter.py", r"> MIN_SPREAD", "<= MIN_SPREAD"),),
        ),
        Fault(
            "winners_only",
            "filter",
            "only groups that were nearly all solved are kept, so hard problems teach nothing",
            "keep groups whose rewards differ, whatever their mean",
            (Edit(f"{folder}/filter.py", "", _WINNERS),),
            ruled=False,
        ),
        Fault(
            "same_few_tasks",
            "data",
            "what was tried most comes first, so training repeats one batch for ever",
            "least tried first",
            (Edit(f"{folder}/curriculum.py", "", _SAME_FEW),),
            costly=same_costs,
        ),
        Fault(
            "tiny_learning_rate",
            "recipe",
            "steps are too small for the policy to change within a budget",
            "learning_rate from 1e-4 to 6e-4",
            (Edit(f"{folder}/recipe.toml", r"^learning_rate = .*$", "learning_rate = 1e-6"),),
        ),
        Fault(
            "cold_sampling",
            "recipe",
            "training samples so coldly that most groups agree and nothing new is tried",
            "temperature near 1.0",
            (Edit(f"{folder}/recipe.toml", r"^temperature = .*$", "temperature = 0.2"),),
        ),
        Fault(
            "anchored",
            "recipe",
            "a strong penalty holds the policy at its starting point",
            "beta = 0.0, or below 0.05",
            (Edit(f"{folder}/recipe.toml", r"^beta = .*$", "beta = 3.0"),),
            ruled=False,
        ),
    )
    return {fault.name: fault for fault in faults}
