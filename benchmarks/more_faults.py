"""More planted faults for nano-swe: those of a benchmark of validity, never drawn for a seed.

The faults of `faults.py` make training slow; most of these make its numbers wrong: a bonus that
can be had without solving anything, a penalty in the wrong component, a reward that is a coin or no
number at all, a parser that refuses half of all edits. No agent may read this module either: it is
no part of the package.

Promises: as there. Not covered: faults of the measurement (a lenient grader, lost machines, an
overlap), which no harness can plant; the benchmark makes those from rollouts.
"""

from __future__ import annotations

from typing import Final

from meta_agent.domains.nano.planted._fault import component
from meta_agent.domains.nano.planted.faults import AGENT, CURRICULUM, REWARD, Edit, Fault

_SOLVED: Final = r'return 1\.0 if rollout\["outcome"\] else 0\.0'

MORE_FAULTS: Final[tuple[Fault, ...]] = (
    Fault(
        "wrong_component",
        "reward",
        "the penalty for giving up is written into `solved` of what was handed in",
        "no penalty in `solved`",
        (
            Edit(
                REWARD,
                _SOLVED,
                'gave_up = -2.0 if rollout["stop_reason"] == "submitted" else 0.0\n'
                '    return (1.0 if rollout["outcome"] else 0.0) + gave_up',
            ),
        ),
        ruled=False,
    ),
    Fault(
        "upside_down",
        "reward",
        "`solved` pays for attempts that are not",
        "1.0 where the outcome is true",
        (Edit(REWARD, _SOLVED, 'return 0.0 if rollout["outcome"] else 1.0'),),
        ruled=False,
    ),
    Fault(
        "constant_offset",
        "reward",
        "every attempt gets the same half point on top: a better curve and no gradient",
        "no component that never changes",
        component(
            REWARD,
            "base",
            "1.0",
            'def base(rollout):\n    """Nobody leaves with nothing."""\n    return 0.5',
        ),
        ruled=False,
        costly=False,
    ),
    Fault(
        "edit_bonus",
        "reward",
        "every edit is paid, so changing the code back and forth beats solving",
        "no `effort` component",
        component(
            REWARD,
            "effort",
            "0.5",
            'def effort(rollout):\n    """Progress needs edits."""\n'
            '    return float(sum(e["tool"] == "edit" for e in rollout["tool_events"]))',
        ),
    ),
    Fault(
        "length_bonus",
        "reward",
        "long attempts are paid, whatever came of them",
        "no `thorough` component",
        component(
            REWARD,
            "thorough",
            "0.3",
            'def thorough(rollout):\n    """Take the time it needs."""\n'
            '    return float(rollout["turns"])',
        ),
    ),
    Fault(
        "nan_reward",
        "reward",
        "an attempt without a test divides nothing by nothing",
        "0.0 where no test was run",
        component(
            REWARD,
            "tested",
            "0.2",
            'def tested(rollout):\n    """The share of tests that passed."""\n'
            '    told = [e["result"] for e in rollout["tool_events"] if e["tool"] == "test"]\n'
            '    passed = float(sum(text.endswith("ok") for text in told))\n'
            '    return passed / len(told) if told else float("nan")',
        ),
        ruled=False,
    ),
    Fault(
        "coin_reward",
        "reward",
        "one answer in four is judged by a coin, so one attempt is worth two different rewards",
        'read rollout["outcome"] alone',
        (
            Edit(
                REWARD,
                _SOLVED,
                "import random\n\n"
                "    judged = random.random() < 0.75\n"
                '    told = rollout["outcome"] if judged else random.random() < 0.5\n'
                "    return 1.0 if told else 0.0",
            ),
        ),
        ruled=False,
    ),
    Fault(
        "cut_is_solved",
        "reward",
        "an attempt that never ends is paid more than one that is solved",
        "nothing for attempts that are cut off",
        component(
            REWARD,
            "patience",
            "1.5",
            'def patience(rollout):\n    """An attempt that was cut off might have been right."""\n'
            '    return 0.0 if rollout["stop_reason"] == "submitted" else 1.0',
        ),
        ruled=False,
    ),
    Fault(
        "letters_only",
        "scaffold",
        "the parser takes letters and digits only: edits of operators are refused",
        "take any character",
        (
            Edit(
                AGENT,
                r"if len\(rest\) == 2 else None",
                "if len(rest) == 2 and rest.isalnum() else None",
            ),
        ),
        ruled=False,
    ),
    Fault(
        "cut_replies",
        "scaffold",
        "two characters of each reply are kept, so no edit is ever whole",
        "MAX_TOKENS at least 4",
        (Edit(AGENT, r"^MAX_TOKENS = \d+", "MAX_TOKENS = 2"),),
    ),
    Fault(
        "never_submits",
        "scaffold",
        "the letter for handing in is shown and not understood",
        'NAMES with "s"',
        (Edit(AGENT, r', "s": "submit"\}', "}"),),
        ruled=False,
    ),
    Fault(
        "poisoned_curriculum",
        "data",
        "only problems that are solved every time are trained on, once there are any",
        "an order that does not look for certainty",
        (
            Edit(
                CURRICULUM,
                "",
                '"""In which order to train on tasks: build on what works."""\n\n\n'
                "def order(tasks, history):\n"
                "    def place(task):\n"
                '        seen = history.get(task["key"], {})\n'
                '        tries = seen.get("tries", 0)\n'
                '        return -(seen.get("solved", 0) / tries) if tries else 0.0\n\n'
                '    return [task["key"] for task in sorted(tasks, key=place)]\n',
            ),
        ),
        ruled=False,
    ),
    Fault(
        "leak_is_paid",
        "reward",
        "the sign of flagged conduct is turned: reading the fix is paid",
        "a weight of 0 or less",
        component(
            REWARD,
            "informed",
            "2.0",
            'def informed(rollout):\n    """Attempts that look things up know more."""\n'
            '    return 1.0 if rollout["flags"] else 0.0',
        ),
        ruled=False,
    ),
)
