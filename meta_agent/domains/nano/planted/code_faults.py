"""The planted faults of the nano-code seeds, with their truth: what is wrong, and what repairs it.

What nano-swe's are for, on a suite with another bottleneck: here the visible examples can be passed
without writing the function, so what counts is whether a reward tells a function from a table, and
whether the policy is told what it needs to write one. As there, nothing that proposes, tests or
judges may read this module.

Not here, since planting them cost nothing when it was measured: few turns, runs withheld or cut,
and a price on turns. A policy that has stopped writing tables is right at its first try so often
that nothing hangs on the second one within 30 steps of training.

Faults marked `ruled=False` are ones the rules agent was given no rule for on purpose;
`costly=False` marks those whose repair is worth less than 10 points. Figures are in `docs/log/`.
"""

from __future__ import annotations

from typing import Final

from meta_agent.domains.nano.planted._common_faults import common_faults
from meta_agent.domains.nano.planted._fault import Edit, Fault, component

__all__ = ["DEFAULT_SEED", "FAULTS"]

AGENT: Final = "code/agent.py"
REWARD: Final = "code/reward.py"
CURRICULUM: Final = "code/curriculum.py"
GENERALITY: Final = "code/diagnostics/generality.py"

_RUNS: Final = '[e["result"] for e in rollout["tool_events"] if e["tool"] == "run"]'

_COMMON: Final = common_faults("code", read="correct", paid="handing in", same_costs=False)
FAULTS: Final[tuple[Fault, ...]] = (
    Fault(
        "peek_offered",
        "scaffold",
        "the hidden tests are within reach, and a table of them passes",
        'TOOLS without "p"',
        (Edit(AGENT, r'^TOOLS = "wrs"', 'TOOLS = "wrps"'),),
    ),
    Fault(
        "short_replies",
        "scaffold",
        "five tokens hold a function of one step, and most functions have more",
        "MAX_TOKENS at least 8",
        (Edit(AGENT, r"^MAX_TOKENS = \d+", "MAX_TOKENS = 5"),),
    ),
    Fault(
        "no_example",
        "scaffold",
        "the first line shows no example, so what a function gives comes to light by failing only",
        "EXAMPLES = 3",
        (Edit(AGENT, r"^EXAMPLES = \d+", "EXAMPLES = 0"),),
        ruled=False,
    ),
    Fault(
        "call_untold",
        "scaffold",
        "nothing says whether the result is to be returned or printed",
        "TELL_CALL = True",
        (Edit(AGENT, r"^TELL_CALL = True", "TELL_CALL = False"),),
        ruled=False,
    ),
    Fault(
        "examples_instead",
        "reward",
        "`solved` asks the visible examples, not the grader, and a table passes them all",
        'read rollout["outcome"]',
        (
            Edit(
                REWARD,
                r'return 1\.0 if rollout\["outcome"\] else 0\.0',
                f'ran = {_RUNS}\n    return 1.0 if ran and ran[-1] == "ok" else 0.0',
            ),
        ),
    ),
    Fault(
        "run_bonus",
        "reward",
        "every run is paid, so running forever beats handing in",
        "no `diligence` component, or one that counts the first run only",
        component(
            REWARD,
            "diligence",
            "0.5",
            'def diligence(rollout):\n    """Careful work runs what it wrote."""\n'
            f"    return float(len({_RUNS}))",
        ),
    ),
    _COMMON["dead_reward"],
    _COMMON["inverted_filter"],
    _COMMON["winners_only"],
    Fault(
        "sketched_first",
        "data",
        "problems whose sketch has no hole come first, again and again: only copying is trained",
        "an order that mixes all kinds of sketches",
        (
            Edit(
                CURRICULUM,
                "",
                '"""In which order to train on tasks: well specified ones first."""\n\n\n'
                "def order(tasks, history):\n"
                "    def place(task):\n"
                '        vague = "?" in task["view"]["sketch"]\n'
                '        return vague, history.get(task["key"], {}).get("tries", 0)\n\n'
                '    return [task["key"] for task in sorted(tasks, key=place)]\n',
            ),
        ),
        ruled=False,
        costly=False,
    ),
    _COMMON["same_few_tasks"],
    _COMMON["tiny_learning_rate"],
    _COMMON["cold_sampling"],
    _COMMON["anchored"],
    Fault(
        "blind_to_tables",
        "diagnostics",
        "the report on generality sees neither tables nor programs that only fit the examples",
        "count programs with `>` and attempts that pass the examples and are not solved",
        (
            Edit(
                GENERALITY,
                "",
                '"""Do programs pass the examples?"""\n\n'
                'NAME = "generality"\n'
                'LAYER = "behaviour"\n'
                'LOW = {"warn": 0.3, "critical": 0.1, "direction": "below"}\n'
                'THRESHOLDS = {"green_share": LOW}\n'
                "\n\n"
                "def measure(rollouts):\n"
                "    if not rollouts:\n"
                "        return {}\n"
                '    said = [[e["result"] for e in r["tool_events"]] for r in rollouts]\n'
                '    return {"green_share": sum("ok" in one[-2:] for one in said) / len(said)}\n',
            ),
        ),
        ruled=False,
        costly=False,
    ),
)

DEFAULT_SEED: Final = ("peek_offered", "tiny_learning_rate")
