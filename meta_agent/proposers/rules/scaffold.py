"""Rules on the acting side: limits that cut attempts short, and the tools that are offered."""

from __future__ import annotations

import re
from typing import Any, Final

from meta_agent.core.evidence import Evidence
from meta_agent.core.protocols import HarnessTree
from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rule import Diagnosis, clamp, rule
from meta_agent.proposers.rules._source import Constant

_TURNS: Final = r"(MAX_|N_)?(TURNS?|STEPS?|ITERATIONS?)(_LIMIT|_MAX)?"
_OBSERVATION: Final = (
    r"(MAX_)?(OBSERVATION|OBS|OUTPUT|RESULT|TOOL_OUTPUT)_?(CHARS|LEN|LENGTH|LIMIT|MAX)?"
)
_REPLY: Final = r"(MAX_)?(NEW_|REPLY_|COMPLETION_)?TOKENS(_LIMIT|_MAX)?"
_TOOLS: Final = r"(\w+_)?TOOLS?(_NAMES)?"
_MANY: Final = 0.25  # of texts that are cut: then twice as much would hardly do
_RETRY: Final = "behaviour.retry_after_fail"

# --- limits -------------------------------------------------------------------------------------


@rule("more-turns", "scaffold")
def more_turns(case: Case) -> Diagnosis | None:
    """Suggests a higher limit of turns if attempts are cut off or give up early because of it."""
    ceiling = case.situation.ceilings.max_turns if case.situation.ceilings else None
    limit = _limit(case, _TURNS, ceiling)
    cut = case.over("behaviour.stop.returned") + case.over("behaviour.stop.turn_limit")
    cut = max(0.0, cut - case.over("conversation.ended_early"))
    if limit is None:
        return None
    # Training under a tight limit leaves few attempts that hit it: they submit a failing answer.
    gave_up = case.short(_RETRY, 1.0)
    hurry = min((1 - limit.value / ceiling) * gave_up, case.failing) if ceiling else 0.0
    if cut < 0.02 and hurry < 0.2:
        return None
    # A limit that is kept without being hit has to leave room for one more whole try.
    new = limit.value * 2 if hurry >= 0.2 else max(limit.value + 1, limit.value * 3 // 2)
    because = f"{cut:.1%} of attempts end at the turn limit without an answer"
    if hurry >= 0.2:
        because += f", and {gave_up:.0%} of failed tests are not followed up"
    return _longer(
        case, limit, min(new, ceiling or new), max(3 * cut, hurry),
        effect="attempts that are cut off or hurry now get to their end, and more are solved",
        because=because, delta=max(cut / 3, hurry / 10), metrics=(_RETRY, "behaviour.turns_mean"),
        risk="longer rollouts cost more a step",
    )  # fmt: skip


@rule("longer-observations", "scaffold")
def longer_observations(case: Case) -> Diagnosis | None:
    """Suggests a higher limit on the length of tool results if the policy sees them cut short."""
    limit = case.constant("scaffold", _OBSERVATION, int)
    names = ("conversation.result_cut", "cut_observation_share", "observation_truncation")
    cut = case.over(*names)
    if limit is None or cut < 0.005:
        return None
    return _longer(
        case, limit, limit.value * (2 if cut < _MANY else 4), 3 * cut,
        effect="the policy acts on whole tool results, and more is solved",
        because=f"{cut:.1%} of tool results reach it cut",
        delta=cut / 3, metrics=names, risk="a longer context",
    )  # fmt: skip


@rule("longer-replies", "scaffold")
def longer_replies(case: Case) -> Diagnosis | None:
    """Suggests a higher limit of tokens per reply if replies are cut off.

    Where references say how long an answer is, it becomes no higher than an answer needs.
    """
    ceiling = case.situation.ceilings.max_tokens_per_turn if case.situation.ceilings else None
    limit = _limit(case, _REPLY, ceiling)
    cut = case.over("behaviour.stop.length", "cut_reply_share", "behaviour.cut_replies")
    if limit is None or cut < 0.01:
        return None
    new = case.situation.reply_tokens() or limit.value * (2 if cut < _MANY else 4)
    if new <= limit.value:
        return None
    return _longer(
        case, limit, min(new, ceiling or new), 3 * cut,
        effect="actions are no longer cut in the middle",
        because=f"{cut:.1%} of replies or attempts end in the middle of a reply",
        delta=cut / 3, metrics=("behaviour.cut_replies", "behaviour.stop.length"),
        risk="rambling replies",
    )  # fmt: skip


def lower_reply_limit(tree: HarnessTree, tokens: int) -> dict[str, str]:
    """Returns an edit that lowers the scaffold's limit of tokens per reply to `tokens`.

    Returns {} if the limit is that low already, or if the scaffold has no such constant.
    """
    case = Case(Evidence({}, {}, {}), tree)
    limit = case.constant("scaffold", _REPLY, int)
    return case.set_constant(limit, tokens) if limit and limit.value > tokens else {}


def _limit(case: Case, pattern: str, ceiling: int | None) -> Constant | None:
    """Returns the scaffold's limit of that name if it can grow below the evaluator's ceiling."""
    limit = case.constant("scaffold", pattern, int)
    return limit if limit and (ceiling is None or limit.value < ceiling) else None


def _longer(
    case: Case, limit: Constant, new: int, strength: float, *, effect: str, because: str,
    delta: float, metrics: tuple[str, ...], risk: str,
) -> Diagnosis:  # fmt: skip
    """Returns a diagnosis that raises a limit."""
    return Diagnosis(
        strength=clamp(strength), change=f"{limit.name} grows from {limit.value} to {new}",
        effect=effect, because=because, delta=delta,
        edits=case.set_constant(limit, new),
        evidence=case.lines(*metrics), risk=risk,
    )  # fmt: skip


# --- options ------------------------------------------------------------------------------------


@rule("look-first", "scaffold")
def look_first(case: Case) -> Diagnosis | None:
    """Suggests switching on a scaffold option that shows files before the policy's first turn."""
    option = case.constant("scaffold", r"AUTO_\w+|PRELOAD_\w+|SHOW_\w+_FIRST", bool)
    blind = case.short("behaviour.view_before_edit", 1.0)
    if option is None or option.value:
        return None
    return Diagnosis(
        strength=clamp(0.08 + 0.5 * blind),
        change=f"{option.name} is switched on",
        effect="no turn is spent on looking and no edit is made blind",
        because=f"{blind:.1%} of editing attempts edit before they look",
        delta=0.02 + blind / 4,
        edits=case.set_constant(option, True),
        evidence=case.lines("behaviour.view_before_edit"),
        risk="the policy has never read a first message of this form",
    )


@rule("other-option", "scaffold")
def other_option(case: Case) -> Diagnosis | None:
    """Suggests another value of a scaffold option if an untrained policy solves too few tasks."""
    worse = 0.0 if case.trained else case.short("score.clean_success", 0.0)
    option = _option(case) if worse > 0.05 else None
    if option is None:
        return None
    constant, other = option
    return Diagnosis(
        strength=clamp(0.15 + worse),
        change=f"{constant.name} becomes {other!r} instead of {constant.value!r}",
        effect="the policy is asked for what it can do",
        because=f"the same policy solves {worse:.1%} more with a clean harness of this suite",
        delta=worse / 2,
        edits=case.set_constant(constant, other),
        evidence=case.lines("score.clean_success"),
        risk="the option was chosen for a reason",
    )


def _option(case: Case) -> tuple[Constant, str] | None:
    """Returns a text constant whose comment names its options, and the first other option."""
    for file in case.python("scaffold"):
        for constant in file.constants():
            pattern = rf"^{re.escape(constant.name)}\s*=.*?#(.*)$"
            comment = re.search(pattern, file.text, re.MULTILINE)
            options = re.findall(r'"([^"]*)"', comment[1]) if comment else []
            if isinstance(constant.value, str) and constant.value in options and len(options) > 1:
                return constant, next(text for text in options if text != constant.value)
    return None


@rule("drop-leaking-tool", "scaffold", repairs=True)
def drop_leaking_tool(case: Case) -> Diagnosis | None:
    """Suggests no longer offering a tool through which attempts read the answer."""
    leaks = {flag: share for flag, share in case.under("behaviour.flag.leak:").items() if share > 0}
    offer = case.constant("scaffold", _TOOLS, (str, list, tuple))
    tool = max(leaks, key=lambda name: leaks[name], default=None)
    if tool is None or offer is None or tool not in _names(case, offer):
        return None
    return Diagnosis(
        strength=clamp(0.8 + leaks[tool]),
        change=f"{offer.name} no longer offers {tool}",
        effect="flagged conduct disappears and clean success rises",
        because=f"{leaks[tool]:.1%} of attempts carry the flag leak:{tool}",
        metric="behaviour.leak_use",
        delta=-leaks[tool],
        edits=case.set_constant(offer, _without(case, offer, tool)),
        evidence=case.lines(f"behaviour.flag.leak:{tool}", "behaviour.leak_share_of_solved"),
        risk="raw success falls by what the leak was worth",
    )


def _letters(case: Case, offer: Constant) -> dict[str, str]:
    """Returns the scaffold's mapping from letter to tool, where an offer is a text of letters."""
    for constant in case.file(offer.path).constants() if isinstance(offer.value, str) else ():
        tools = constant.value if isinstance(constant.value, dict) else {}
        letters = all(isinstance(key, str) and len(key) == 1 for key in tools)
        if tools and letters and set(offer.value) <= tools.keys():
            return tools
    return {}


def _names(case: Case, offer: Constant) -> list[str]:
    if isinstance(offer.value, str):
        return [tool for c, tool in _letters(case, offer).items() if c in offer.value]
    return [name for name in offer.value if isinstance(name, str)]


def _without(case: Case, offer: Constant, tool: str) -> Any:
    if isinstance(offer.value, str):
        letters = _letters(case, offer)
        return "".join(c for c in offer.value if letters[c] != tool)
    return type(offer.value)(name for name in offer.value if name != tool)
