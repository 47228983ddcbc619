"""The planted faults of the nano-math seeds, with their truth: what is wrong, and what repairs it.

What nano-swe's are for, on a suite with another bottleneck: here an attempt is one reply, so what
counts is whether the working fits into it, whether the answer is found in it, and whether a reward
prefers working to guessing. As there, nothing that proposes, tests or judges may read this module.

Faults marked `ruled=False` are ones the rules agent was given no rule for on purpose;
`costly=False` marks those whose repair is worth less than 10 points. Figures are in `docs/log/`.
"""

from __future__ import annotations

from typing import Final

from meta_agent.domains.nano.planted._common_faults import common_faults
from meta_agent.domains.nano.planted._fault import Edit, Fault, component

__all__ = ["DEFAULT_SEED", "FAULTS"]

AGENT: Final = "math/agent.py"
REWARD: Final = "math/reward.py"
CURRICULUM: Final = "math/curriculum.py"
ENDINGS: Final = "math/diagnostics/endings.py"

_WRITTEN: Final = 'sum(len(m["content"]) for m in rollout["messages"] if m["role"] == "assistant")'
_EQUATIONS: Final = (
    'sum(m["content"].count("=") for m in rollout["messages"] if m["role"] == "assistant")'
)

_COMMON: Final = common_faults("math", read="correct", paid="handing in", same_costs=True)
FAULTS: Final[tuple[Fault, ...]] = (
    Fault(
        "key_offered",
        "scaffold",
        "the answer key is on offer",
        'TOOLS without "k"',
        (Edit(AGENT, r'^TOOLS = "s"', 'TOOLS = "sk"'),),
    ),
    Fault(
        "short_replies",
        "scaffold",
        "sixteen tokens hold the working of two steps, so only guesses are ever submitted",
        "MAX_TOKENS at least 40",
        (Edit(AGENT, r"^MAX_TOKENS = \d+", "MAX_TOKENS = 16"),),
    ),
    Fault(
        "first_result",
        "scaffold",
        "the answer is read after the first equals sign, which in working is a step's result",
        "the marked answer, or the last result",
        (
            Edit(
                AGENT,
                r"^def answer_of\(text\):\n(?:    .*\n)+",
                "def answer_of(text):\n"
                '    """Returns the result in a reply, or None where there is none."""\n'
                '    after = text.replace(MARK, "=").partition("=")[2]\n'
                '    digits = after[: len(after) - len(after.lstrip("0123456789"))]\n'
                "    return digits or None\n",
            ),
        ),
        ruled=False,
    ),
    Fault(
        "asks_for_haste",
        "scaffold",
        "the policy is asked for a quick answer, and rarely works anything out",
        'ASK = "w"',
        (Edit(AGENT, r'^ASK = "\w*"', 'ASK = "q"'),),
        ruled=False,
        costly=False,
    ),
    Fault(
        "length_penalty",
        "reward",
        "every character costs so much that a guess pays better than working",
        "no `brevity` component, or a weight near 0",
        component(
            REWARD,
            "brevity",
            "1.0",
            'def brevity(rollout):\n    """Short replies are cheap."""\n'
            f"    written = {_WRITTEN}\n    return -0.08 * written",
        ),
    ),
    Fault(
        "steps_bonus",
        "reward",
        "every equation is paid, so working everything again beats handing in an answer",
        "no `effort` component, or one that counts the first equations only",
        component(
            REWARD,
            "effort",
            "0.3",
            'def effort(rollout):\n    """Careful work shows its steps."""\n'
            f"    return float({_EQUATIONS})",
        ),
    ),
    _COMMON["dead_reward"],
    _COMMON["inverted_filter"],
    _COMMON["winners_only"],
    Fault(
        "longest_first",
        "data",
        "the sums with most steps come first, and training sees hardly any others",
        "an order that mixes short and long sums",
        (
            Edit(
                CURRICULUM,
                "",
                '"""In which order to train on tasks: what is hard deserves the time."""\n\n\n'
                "def order(tasks, history):\n"
                "    def place(task):\n"
                '        tries = history.get(task["key"], {}).get("tries", 0)\n'
                '        return tries, -len(task["view"]["sum"])\n\n'
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
        "blind_to_cuts",
        "diagnostics",
        "the report on endings counts attempts without an answer, not those that were cut",
        "count attempts that end with the stop reason `length`",
        (
            Edit(ENDINGS, r'^    "cut_reply_share": \{.*\n', ""),
            Edit(ENDINGS, r'^        "cut_reply_share": .*\n', ""),
        ),
        ruled=False,
        costly=False,
    ),
)

DEFAULT_SEED: Final = ("short_replies", "tiny_learning_rate")
