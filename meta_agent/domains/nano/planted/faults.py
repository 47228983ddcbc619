"""The planted faults of the nano seeds, with their truth: what is wrong, and what would repair it.

Every fault is a plausible mistake written as plain source, so that only its effect gives it away.
Because a benchmark asks whether a fault was *found*, no part of the product that proposes, tests
or judges may read this module; an import test enforces it. Only the workspace's first commit does.

Promises: a fault applies to the seed and the competent sources alike, changes one factor, and
leaves a harness that loads. Faults with `ruled=False` have no rule of the rules agent, on purpose.

Not covered: what a fault costs. That is measured, see `docs/log/`.
"""

from __future__ import annotations

from typing import Final

from meta_agent.domains.nano.planted._common_faults import common_faults
from meta_agent.domains.nano.planted._fault import Edit, Fault, component

__all__ = ["DEFAULT_SEED", "FAULTS", "LEAK_OFFERED", "Edit", "Fault", "fault"]

AGENT: Final = "swe/agent.py"
REWARD: Final = "swe/reward.py"
CURRICULUM: Final = "swe/curriculum.py"
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

_COMMON: Final = common_faults("swe", read="resolved", paid="submitting", same_costs=False)
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
    _COMMON["dead_reward"],
    _COMMON["inverted_filter"],
    _COMMON["winners_only"],
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
    _COMMON["same_few_tasks"],
    _COMMON["tiny_learning_rate"],
    _COMMON["cold_sampling"],
    _COMMON["anchored"],
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
    """Returns the nano-swe fault called `name`. Raises StopIteration if there is none."""
    return next(each for each in FAULTS if each.name == name)
