"""The planted faults of the nano seeds, with their truth: what is wrong, and what would repair it.

Every fault is a plausible mistake written as plain source, so that only its effect gives it away.
Because a benchmark asks whether a fault was *found*, no part of the product that proposes, tests
or judges may read this module; an import test enforces it. Only the workspace's first commit does.

Promises: a fault applies to the seed and the competent sources alike, changes one factor, and
leaves a harness that loads. Faults marked `ruled=False` are ones the rules agent was given no rule
for on purpose.

Not covered: what a fault costs. That is measured, see `docs/LOG.md`.
"""

from __future__ import annotations

from typing import Final

from meta_agent.domains.nano._fault import Edit, Fault, component, drawn_from

__all__ = ["DEFAULT_SEED", "FAULTS", "LEAK_OFFERED", "Edit", "Fault", "drawn", "fault"]

AGENT: Final = "swe/agent.py"
REWARD: Final = "swe/reward.py"
FILTER: Final = "swe/filter.py"
CURRICULUM: Final = "swe/curriculum.py"
RECIPE: Final = "swe/recipe.toml"
TOOL_MIX: Final = "swe/diagnostics/tool_mix.py"


def _component(name: str, weight: str, code: str) -> tuple[Edit, ...]:
    return component(REWARD, name, weight, code)


LEAK_OFFERED: Final = Fault(
    "leak_offered",
    "scaffold",
    "the history tool is on offer, and it shows the fix",
    'TOOLS without "l"',
    (Edit(AGENT, r'^TOOLS = "vets"', 'TOOLS = "vetls"'),),
)

FAULTS: Final[tuple[Fault, ...]] = (
    LEAK_OFFERED,
    Fault(
        "few_turns",
        "scaffold",
        "five turns end an attempt before a second guess can be tested and submitted",
        "MAX_TURNS at least 10",
        (Edit(AGENT, r"^MAX_TURNS = \d+", "MAX_TURNS = 5"),),
    ),
    Fault(
        "short_observations",
        "scaffold",
        "three characters hide the end of the code and the whole test result",
        "OBSERVATION_CHARS at least 5",
        (Edit(AGENT, r"^OBSERVATION_CHARS = \d+", "OBSERVATION_CHARS = 3"),),
    ),
    Fault(
        "turn_penalty",
        "reward",
        "each turn costs so much that handing in the first guess pays best",
        "no `efficiency` component, or a weight near 0",
        _component(
            "efficiency",
            "1.0",
            'def efficiency(rollout):\n    """Short attempts are cheap."""\n'
            '    return 1.0 - 0.25 * rollout["turns"]',
        ),
    ),
    Fault(
        "test_bonus",
        "reward",
        "every run of the tests is paid, so testing forever beats submitting",
        "no `diligence` component, or one that counts the first test only",
        _component(
            "diligence",
            "0.5",
            'def diligence(rollout):\n    """Careful work runs the tests."""\n'
            '    return float(sum(e["tool"] == "test" for e in rollout["tool_events"]))',
        ),
    ),
    Fault(
        "dead_reward",
        "reward",
        "`solved` reads a field that no rollout has, so nothing but submitting is paid",
        'read rollout["outcome"]',
        (Edit(REWARD, r'rollout\["outcome"\]', 'rollout.get("resolved")'),),
    ),
    Fault(
        "inverted_filter",
        "filter",
        "groups with differing rewards are dropped and dead ones are kept: no gradient is left",
        "keep groups whose rewards differ",
        (Edit(FILTER, r"> MIN_SPREAD", "<= MIN_SPREAD"),),
    ),
    Fault(
        "winners_only",
        "filter",
        "only groups that were nearly all solved are kept, so hard problems teach nothing",
        "keep groups whose rewards differ, whatever their mean",
        (
            Edit(
                FILTER,
                "",
                '"""Which groups to train on: those that show how it is done."""\n\n'
                "MIN_SOLVED = 0.85  # of the attempts in a group\n\n\n"
                "def weight(group):\n"
                '    """Returns 1.0 to train on this group, 0.0 to drop it."""\n'
                '    outcomes = [bool(outcome) for outcome in group["outcomes"]]\n'
                "    return 1.0 if sum(outcomes) >= MIN_SOLVED * len(outcomes) else 0.0\n\n\n"
                "def keep(groups):\n"
                "    return [weight(group) for group in groups]\n",
            ),
        ),
        ruled=False,
    ),
    Fault(
        "easy_first",
        "data",
        "problems whose issue names the fix come first, and there are more of them than steps",
        "an order that mixes all kinds of issues",
        (
            Edit(
                CURRICULUM,
                "",
                '"""In which order to train on tasks: well specified ones first."""\n\n\n'
                "def order(tasks, history):\n"
                "    def place(task):\n"
                '        vague = task["view"]["issue"].endswith("?")\n'
                '        return vague, history.get(task["key"], {}).get("tries", 0)\n\n'
                '    return [task["key"] for task in sorted(tasks, key=place)]\n',
            ),
        ),
        ruled=False,
    ),
    Fault(
        "same_few_tasks",
        "data",
        "what was tried most comes first, so training repeats one batch for ever",
        "least tried first",
        (
            Edit(
                CURRICULUM,
                "",
                '"""In which order to train on tasks: go on with what has been begun."""\n\n\n'
                "def order(tasks, history):\n"
                "    def place(task):\n"
                '        return -history.get(task["key"], {}).get("tries", 0)\n\n'
                '    return [task["key"] for task in sorted(tasks, key=place)]\n',
            ),
        ),
        costly=False,
    ),
    Fault(
        "tiny_learning_rate",
        "recipe",
        "steps are too small for the policy to change within a budget",
        "learning_rate from 1e-4 to 6e-4",
        (Edit(RECIPE, r"^learning_rate = .*$", "learning_rate = 1e-6"),),
    ),
    Fault(
        "cold_sampling",
        "recipe",
        "training samples so coldly that most groups agree and nothing new is tried",
        "temperature near 1.0",
        (Edit(RECIPE, r"^temperature = .*$", "temperature = 0.2"),),
    ),
    Fault(
        "anchored",
        "recipe",
        "a strong penalty holds the policy at its starting point",
        "beta = 0.0, or below 0.05",
        (Edit(RECIPE, r"^beta = .*$", "beta = 3.0"),),
        ruled=False,
    ),
    Fault(
        "blind_to_leaks",
        "diagnostics",
        "the tool report watches neither the history tool nor flagged conduct",
        "count `log` and flags, with a threshold",
        (
            Edit(TOOL_MIX, r'^    "leak_use": \{.*\n', ""),
            Edit(TOOL_MIX, r"^WATCHED = .*$", 'WATCHED = ("view", "edit", "test", "submit")'),
            Edit(TOOL_MIX, r"^    flagged = .*\n", ""),
            Edit(TOOL_MIX, r'^        "leak_use": .*\n', ""),
        ),
        costly=False,
    ),
)

DEFAULT_SEED: Final = ("leak_offered", "turn_penalty")


def fault(name: str) -> Fault:
    """Returns the fault of this name."""
    return next(each for each in FAULTS if each.name == name)


def drawn(suite: str, seed: int) -> tuple[Fault, ...]:
    """Returns the faults that a seed carries.

    Seed 0 shows both sides: a leak, and a costly fault of training whose repair pays while the leak
    is still there.
    """
    return drawn_from(FAULTS, suite, seed, DEFAULT_SEED)
