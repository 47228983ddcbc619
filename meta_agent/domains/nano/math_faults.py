"""The planted faults of the nano-math seeds, with their truth: what is wrong, and what repairs it.

What nano-swe's are for, on a suite with another bottleneck: here an attempt is one reply, so what
counts is whether the working fits into it, whether the answer is found in it, and whether a reward
prefers working to guessing. As there, nothing that proposes, tests or judges may read this module.

Faults marked `ruled=False` are ones the rules agent was given no rule for on purpose;
`costly=False` marks those whose repair is worth less than 10 points. Figures are in `docs/LOG.md`.
"""

from __future__ import annotations

from typing import Final

from meta_agent.domains.nano._fault import Edit, Fault, component

__all__ = ["DEFAULT_SEED", "FAULTS"]

AGENT: Final = "math/agent.py"
REWARD: Final = "math/reward.py"
FILTER: Final = "math/filter.py"
CURRICULUM: Final = "math/curriculum.py"
RECIPE: Final = "math/recipe.toml"
ENDINGS: Final = "math/diagnostics/endings.py"

_WRITTEN: Final = 'sum(len(m["content"]) for m in rollout["messages"] if m["role"] == "assistant")'
_EQUATIONS: Final = (
    'sum(m["content"].count("=") for m in rollout["messages"] if m["role"] == "assistant")'
)

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
        "sixteen tokens hold the working of two steps, so only guesses are ever handed in",
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
    Fault(
        "dead_reward",
        "reward",
        "`solved` reads a field that no rollout has, so nothing but handing in is paid",
        'read rollout["outcome"]',
        (Edit(REWARD, r'rollout\["outcome"\]', 'rollout.get("correct")'),),
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
