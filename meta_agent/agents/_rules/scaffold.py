"""Rules on the acting side: limits that cut attempts short, and the tools on offer."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from meta_agent.agents._rules._case import Case
from meta_agent.agents._rules._rule import Finding, clamp, line
from meta_agent.agents._rules._source import Constant
from meta_agent.protocols import Factor

_TURNS = r"(MAX_|N_)?(TURNS?|STEPS?|ITERATIONS?)(_LIMIT|_MAX)?"
_OBSERVATION = r"(MAX_)?(OBSERVATION|OBS|OUTPUT|RESULT|TOOL_OUTPUT)_?(CHARS|LEN|LENGTH|LIMIT|MAX)?"
_REPLY = r"(MAX_)?(NEW_|REPLY_|COMPLETION_)?TOKENS(_LIMIT|_MAX)?"
_TOOLS = r"(\w+_)?TOOLS?(_NAMES)?"


class MoreTurns:
    """The turn limit cuts attempts off, or has taught them to hand in early: raise it."""

    name: ClassVar[str] = "more-turns"
    factor: ClassVar[Factor] = "scaffold"
    repairs: ClassVar[bool] = False

    def diagnose(self, case: Case) -> Finding | None:
        limit = case.constant("scaffold", _TURNS, int)
        cut = case.value("behaviour.stop.returned") + case.value("behaviour.stop.turn_limit")
        ceiling = case.situation.ceilings.max_turns if case.situation.ceilings else None
        if limit is None or (ceiling is not None and limit.value >= ceiling):
            return None
        hurry = _hurry(case, limit.value / ceiling) if ceiling else 0.0
        if cut < 0.02 and hurry < 0.2:
            return None
        # A limit that is kept without being hit has to leave room for one more whole try.
        new = limit.value * 2 if hurry >= 0.2 else max(limit.value + 1, limit.value * 3 // 2)
        new = new if ceiling is None else min(new, ceiling)
        gave_up = 1 - case.value("behaviour.retry_after_fail", default=1.0)
        return Finding(
            strength=clamp(max(3 * cut, hurry)),
            subject=f"allow {new} turns instead of {limit.value}",
            change=f"{limit.name} grows from {limit.value} to {new}",
            effect="attempts that are cut off or hurry now get to their end, and more are solved",
            because=f"{cut:.1%} of attempts end at the turn limit without an answer"
            + (f", and {gave_up:.0%} of failed tests are not followed up" if hurry >= 0.2 else ""),
            metric="clean_success",
            direction="up",
            expected_delta=max(cut / 3, hurry / 10),
            edits=case.set_constant(limit, new),
            evidence=(
                f"{cut:.1%} of attempts stop unfinished",
                line(case, "behaviour.retry_after_fail"),
                line(case, "behaviour.turns_mean"),
            ),
            risks=("longer rollouts cost more per step",),
        )


class LongerObservations:
    """What tools say is cut before the policy reads it: show more."""

    name: ClassVar[str] = "longer-observations"
    factor: ClassVar[Factor] = "scaffold"
    repairs: ClassVar[bool] = False

    def diagnose(self, case: Case) -> Finding | None:
        limit = case.constant("scaffold", _OBSERVATION, int)
        cut = case.value("cut_observation_share", "observation_truncation")
        if limit is None or cut < 0.005:
            return None
        new = limit.value * 2
        return Finding(
            strength=clamp(3 * cut),
            subject=f"show {new} characters of tool output instead of {limit.value}",
            change=f"{limit.name} grows from {limit.value} to {new}",
            effect="the policy acts on whole tool results, and more is solved",
            because=f"{cut:.1%} of tool results reach it cut",
            metric="clean_success",
            direction="up",
            expected_delta=cut / 3,
            edits=case.set_constant(limit, new),
            evidence=(line(case, "cut_observation_share"),),
            risks=("a longer context",),
        )


class LongerReplies:
    """Replies run into their token limit: raise it."""

    name: ClassVar[str] = "longer-replies"
    factor: ClassVar[Factor] = "scaffold"
    repairs: ClassVar[bool] = False

    def diagnose(self, case: Case) -> Finding | None:
        limit = case.constant("scaffold", _REPLY, int)
        cut = max(case.value("behaviour.stop.length"), case.value("cut_reply_share"))
        ceiling = case.situation.ceilings.max_tokens_per_turn if case.situation.ceilings else None
        if limit is None or cut < 0.01 or (ceiling is not None and limit.value >= ceiling):
            return None
        new = limit.value * 2 if ceiling is None else min(limit.value * 2, ceiling)
        return Finding(
            strength=clamp(3 * cut),
            subject=f"allow {new} tokens a reply instead of {limit.value}",
            change=f"{limit.name} grows from {limit.value} to {new}",
            effect="actions are no longer cut in the middle",
            because=f"{cut:.1%} of attempts end in a cut reply",
            metric="clean_success",
            direction="up",
            expected_delta=cut / 3,
            edits=case.set_constant(limit, new),
            evidence=(f"{cut:.1%} of attempts end in a cut reply",),
            risks=("rambling replies",),
        )


class DropLeakingTool:
    """Attempts are flagged for reading the answer through a tool that the scaffold offers."""

    name: ClassVar[str] = "drop-leaking-tool"
    factor: ClassVar[Factor] = "scaffold"
    repairs: ClassVar[bool] = True

    def diagnose(self, case: Case) -> Finding | None:
        leaks = {
            flag: share for flag, share in case.under("behaviour.flag.leak:").items() if share > 0
        }
        offered = _offered(case)
        tool = max(leaks, key=lambda name: leaks[name], default=None)
        if tool is None or offered is None or tool not in _names(case, offered):
            return None
        rest = _without(case, offered, tool)
        return Finding(
            strength=clamp(0.8 + leaks[tool]),
            subject=f"no longer offer {tool}",
            change=f"{offered.name} no longer offers {tool}",
            effect="flagged conduct disappears and clean success rises",
            because=f"{leaks[tool]:.1%} of attempts read the answer through it",
            metric="behaviour.leak_use",
            direction="down",
            expected_delta=-leaks[tool],
            edits=case.set_constant(offered, rest),
            evidence=(
                f"{leaks[tool]:.1%} of attempts carry the flag leak:{tool}",
                line(case, "behaviour.leak_share_of_solved"),
            ),
            risks=("raw success falls by what the leak was worth",),
        )


class OfferTool:
    """The environment has a tool that the scaffold does not offer: people offer it."""

    name: ClassVar[str] = "offer-tool"
    factor: ClassVar[Factor] = "scaffold"
    repairs: ClassVar[bool] = False

    def diagnose(self, case: Case) -> Finding | None:
        offered = _offered(case)
        missing = [] if offered is None else _missing(case, offered)
        if offered is None or not missing:
            return None
        tool, failing = missing[0], 1 - case.value("clean_success", default=1.0)
        return Finding(
            strength=clamp(0.7 * failing),
            subject=f"offer {tool} as well",
            change=f"{offered.name} also offers {tool}",
            effect="the policy finds what it now has to guess, and more is solved",
            because=f"the environment documents {tool}, attempts fail {failing:.1%} of the time, "
            "and nothing says that it does harm",
            metric="clean_success",
            direction="up",
            expected_delta=failing / 5,
            edits=case.set_constant(offered, _with(case, offered, tool)),
            evidence=(f"{tool} is documented and not on offer", line(case, "clean_success")),
            risks=("the tool may give away more than it should",),
        )


class ShowFirst:
    """An option that gives the policy its usual first look for free."""

    name: ClassVar[str] = "look-first"
    factor: ClassVar[Factor] = "scaffold"
    repairs: ClassVar[bool] = False

    def diagnose(self, case: Case) -> Finding | None:
        option = case.constant("scaffold", r"AUTO_\w+|PRELOAD_\w+|SHOW_\w+_FIRST", bool)
        unseen = 1 - case.value("behaviour.view_before_edit", default=1.0)
        if option is None or option.value:
            return None
        return Finding(
            strength=clamp(0.08 + unseen),
            subject=f"switch {option.name} on",
            change=f"{option.name} is switched on",
            effect="no turn is spent on looking and no edit is made blind",
            because=f"{unseen:.1%} of editing attempts edit before they look",
            metric="clean_success",
            direction="up",
            expected_delta=0.02 + unseen / 4,
            edits=case.set_constant(option, True),
            evidence=(line(case, "behaviour.view_before_edit"),),
            risks=("the policy has never read a first message of this form",),
        )


def _hurry(case: Case, used: float) -> float:
    """How far a limit below the evaluator's may have taught attempts not to try again.

    Training under a tight limit leaves few attempts that hit it: they submit a failing answer.
    """
    gave_up = 1 - case.value("behaviour.retry_after_fail", default=1.0)
    return min((1 - used) * gave_up, 1 - case.value("clean_success", default=1.0))


def _offered(case: Case) -> Constant | None:
    return case.constant("scaffold", _TOOLS, (str, list, tuple))


def _letters(case: Case, offered: Constant) -> dict[str, str]:
    """Where tools are letters of a string, the scaffold's own mapping from letter to name."""
    if not isinstance(offered.value, str):
        return {}
    mappings = (c.value for c in case.file(offered.path).constants() if isinstance(c.value, dict))
    return next((m for m in mappings if m and set(offered.value) <= m.keys() and _short(m)), {})


def _short(mapping: dict[Any, Any]) -> bool:
    return all(
        isinstance(k, str) and len(k) == 1 and isinstance(v, str) for k, v in mapping.items()
    )


def _names(case: Case, offered: Constant) -> list[str]:
    """The names of the tools on offer."""
    if isinstance(offered.value, str):
        letters = _letters(case, offered)
        return [letters[c] for c in offered.value] if letters else _words(offered.value)
    return [name for name in offered.value if isinstance(name, str)]


def _missing(case: Case, offered: Constant) -> list[str]:
    """Documented tools that are not on offer and that no evidence speaks against."""
    documented = [*_letters(case, offered).values(), *case.situation.tools]
    known_bad = case.under("behaviour.flag.leak:")
    have = {*_names(case, offered), *known_bad}
    usable = (
        documented if not isinstance(offered.value, str) else list(_letters(case, offered).values())
    )
    return [tool for tool in dict.fromkeys(usable) if tool not in have]


def _without(case: Case, offered: Constant, tool: str) -> Any:
    if isinstance(offered.value, str):
        letters = _letters(case, offered)
        if letters:
            return "".join(c for c in offered.value if letters[c] != tool)
        return re.sub(rf"[\s,]*\b{re.escape(tool)}\b", "", offered.value).strip(" ,")
    return type(offered.value)(name for name in offered.value if name != tool)


def _with(case: Case, offered: Constant, tool: str) -> Any:
    """Adds a tool where the scaffold's own mapping has it, else at the end."""
    if isinstance(offered.value, str):
        chosen = {*_names(case, offered), tool}
        return "".join(c for c, name in _letters(case, offered).items() if name in chosen)
    return type(offered.value)([*offered.value, tool])


def _words(text: str) -> list[str]:
    return re.findall(r"[\w-]+", text)
