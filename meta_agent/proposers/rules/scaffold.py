"""Rules on the acting side: limits that cut attempts short, and the tools on offer."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from meta_agent.proposers.rules._asked import plain_limits
from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rule import Diagnosis, clamp, line, rule
from meta_agent.proposers.rules._source import Constant, renewed
from meta_agent.proposers.rules._surgery import Surgery
from meta_agent.readers.evidence import ROLE_WORDS

_TURNS = r"(MAX_|N_)?(TURNS?|STEPS?|ITERATIONS?)(_LIMIT|_MAX)?"
_OBSERVATION = r"(MAX_)?(OBSERVATION|OBS|OUTPUT|RESULT|TOOL_OUTPUT)_?(CHARS|LEN|LENGTH|LIMIT|MAX)?"
_REPLY = r"(MAX_)?(NEW_|REPLY_|COMPLETION_)?TOKENS(_LIMIT|_MAX)?"
_KNOWN_TOOLS = frozenset(
    word for role in ("submit", "edit", "test", "view") for word in ROLE_WORDS[role]
)
_MANY = 0.25  # of texts that are cut: then twice as much would hardly do
_TOOLS = r"(\w+_)?TOOLS?(_NAMES)?"


@rule("more-turns", "scaffold")
def more_turns(case: Case) -> Diagnosis | None:
    """The turn limit cuts attempts off, or has taught them to hand in early: raise it."""
    limit = case.constant("scaffold", _TURNS, int)
    cut = case.over("behaviour.stop.returned") + case.over("behaviour.stop.turn_limit")
    cut = max(0.0, cut - case.over("conversation.ended_early"))
    ceiling = case.situation.ceilings.max_turns if case.situation.ceilings else None
    if limit is None:
        return None
    cut_off = _without_discount(case, {})
    if not cut_off and ceiling is not None and limit.value >= ceiling:
        return None
    hurry = _hurry(case, limit.value / ceiling) if ceiling else 0.0
    if cut < 0.02 and hurry < 0.2:
        return None
    # A limit that is kept without being hit has to leave room for one more whole try.
    new = limit.value * 2 if hurry >= 0.2 else max(limit.value + 1, limit.value * 3 // 2)
    new = new if ceiling is None else min(new, ceiling)
    gave_up = case.short("behaviour.retry_after_fail", 1.0)
    return Diagnosis(
        strength=clamp(max(3 * cut, hurry)),
        subject=f"allow {new} turns instead of {limit.value}",
        change=f"{limit.name} grows from {limit.value} to {new}",
        effect="attempts that are cut off or hurry now get to their end, and more are solved",
        because=f"{cut:.1%} of attempts end at the turn limit without an answer"
        + (f", and {gave_up:.0%} of failed tests are not followed up" if hurry >= 0.2 else ""),
        expected_delta=max(cut / 3, hurry / 10),
        edits=_without_discount(case, case.set_constant(limit, new)),
        evidence=(
            f"{cut:.1%} of attempts stop unfinished",
            line(case, "behaviour.retry_after_fail"),
            line(case, "behaviour.turns_mean"),
        ),
        risks=("longer rollouts cost more per step",),
    )


@rule("longer-observations", "scaffold")
def longer_observations(case: Case) -> Diagnosis | None:
    """What tools say is cut before the policy reads it: show more."""
    limit = case.constant("scaffold", _OBSERVATION, int)
    told = ("conversation.result_cut", "cut_observation_share", "observation_truncation")
    cut = case.over(*told)
    if limit is None or cut < 0.005:
        return None
    new = limit.value * (2 if cut < _MANY else 4)
    return Diagnosis(
        strength=clamp(3 * cut),
        subject=f"show {new} characters of tool output instead of {limit.value}",
        change=f"{limit.name} grows from {limit.value} to {new}",
        effect="the policy acts on whole tool results, and more is solved",
        because=f"{cut:.1%} of tool results reach it cut",
        expected_delta=cut / 3,
        edits=case.set_constant(limit, new),
        evidence=tuple(line(case, name) for name in told if case.find(name)),
        risks=("a longer context",),
    )


@rule("longer-replies", "scaffold")
def longer_replies(case: Case) -> Diagnosis | None:
    """Replies run into their token limit: raise it."""
    limit = case.constant("scaffold", _REPLY, int)
    cut = case.over("behaviour.stop.length", "cut_reply_share", "behaviour.cut_replies")
    ceiling = case.situation.ceilings.max_tokens_per_turn if case.situation.ceilings else None
    if limit is None or cut < 0.01:
        return None
    if not _without_discount(case, {}) and ceiling is not None and limit.value >= ceiling:
        return None
    new = limit.value * (2 if cut < _MANY else 4)
    new = new if ceiling is None else min(new, ceiling)
    return Diagnosis(
        strength=clamp(3 * cut),
        subject=f"allow {new} tokens a reply instead of {limit.value}",
        change=f"{limit.name} grows from {limit.value} to {new}",
        effect="actions are no longer cut in the middle",
        because=f"{cut:.1%} of replies or attempts end in the middle of a reply",
        expected_delta=cut / 3,
        edits=_without_discount(case, case.set_constant(limit, new)),
        evidence=(line(case, "behaviour.cut_replies"), line(case, "behaviour.stop.length")),
        risks=("rambling replies",),
    )


@rule("drop-leaking-tool", "scaffold", repairs=True)
def drop_leaking_tool(case: Case) -> Diagnosis | None:
    """Attempts are flagged for reading the answer through a tool that the scaffold offers."""
    leaks = {flag: share for flag, share in case.under("behaviour.flag.leak:").items() if share > 0}
    offered = _offered(case)
    tool = max(leaks, key=lambda name: leaks[name], default=None)
    if tool is None or offered is None or tool not in _names(case, offered):
        return None
    rest = _without(case, offered, tool)
    return Diagnosis(
        strength=clamp(0.8 + leaks[tool]),
        subject=f"no longer offer {tool}",
        change=f"{offered.name} no longer offers {tool}",
        effect="flagged conduct disappears and clean success rises",
        because=f"{leaks[tool]:.1%} of attempts read the answer through it",
        metric="behaviour.leak_use",
        expected_delta=-leaks[tool],
        edits=case.set_constant(offered, rest),
        evidence=(
            f"{leaks[tool]:.1%} of attempts carry the flag leak:{tool}",
            line(case, "behaviour.leak_share_of_solved"),
        ),
        risks=("raw success falls by what the leak was worth",),
    )


@rule("offer-tool", "scaffold")
def offer_tool(case: Case) -> Diagnosis | None:
    """The environment has a tool that the scaffold does not offer: people offer it."""
    offered = _offered(case)
    missing = [] if offered is None else _missing(case, offered)
    if offered is None or not missing:
        return None
    failing = 1 - case.value("clean_success", default=1.0)
    used = {tool: case.reference.low(f"behaviour.tool_share.{tool}") for tool in missing}
    tool = max(missing, key=lambda name: used[name])
    # A tool that nobody offers is often one that leaks, unless a clean harness lives on it.
    strength = 0.5 + used[tool] if used[tool] > 0 else 0.1 * failing
    return Diagnosis(
        strength=clamp(strength),
        subject=f"offer {tool} as well",
        change=f"{offered.name} also offers {tool}",
        effect="the policy finds what it now has to guess, and more is solved",
        because=f"the environment documents {tool}, attempts fail {failing:.1%} of the time, "
        "and nothing says that it does harm",
        expected_delta=failing / 5,
        edits=case.set_constant(offered, _with(case, offered, tool)),
        evidence=(f"{tool} is documented and not on offer", line(case, "clean_success")),
        risks=("the tool may give away more than it should",),
    )


@rule("look-first", "scaffold")
def show_first(case: Case) -> Diagnosis | None:
    """An option that gives the policy its usual first look for free."""
    option = case.constant("scaffold", r"AUTO_\w+|PRELOAD_\w+|SHOW_\w+_FIRST", bool)
    unseen = case.short("behaviour.view_before_edit", 1.0)
    if option is None or option.value:
        return None
    return Diagnosis(
        strength=clamp(0.08 + 0.5 * unseen),
        subject=f"switch {option.name} on",
        change=f"{option.name} is switched on",
        effect="no turn is spent on looking and no edit is made blind",
        because=f"{unseen:.1%} of editing attempts edit before they look",
        expected_delta=0.02 + unseen / 4,
        edits=case.set_constant(option, True),
        evidence=(line(case, "behaviour.view_before_edit"),),
        risks=("the policy has never read a first message of this form",),
    )


def _without_discount(case: Case, edits: Mapping[str, str]) -> dict[str, str]:
    """The edits, and limits that are less than their constants made equal to them."""
    found = dict(edits)
    for file in case.python("scaffold"):
        surgery = Surgery(renewed(file, found.get(file.path)))
        plain_limits(surgery)
        if surgery.text is not None:
            found[file.path] = surgery.text
    return found


@rule("other-option", "scaffold")
def other_option(case: Case) -> Diagnosis | None:
    """Less is solved than with a clean harness before any training: take another written option."""
    trained = getattr(case.evidence, "trained", False)
    worse = 0.0 if trained else case.short("score.clean_success", 0.0)
    found = _option(case) if worse > 0.05 else None
    if found is None:
        return None
    constant, other = found
    return Diagnosis(
        strength=clamp(0.15 + worse),
        subject=f"{constant.name} {other!r} instead of {constant.value!r}",
        change=f"{constant.name} becomes {other!r}, another of its options",
        effect="the policy is asked for what it can do",
        because=f"the same policy solves {worse:.1%} more with a clean harness of this suite",
        expected_delta=worse / 2,
        edits=case.set_constant(constant, other),
        evidence=(line(case, "score.clean_success"),),
        risks=("the option was chosen for a reason",),
    )


def _option(case: Case) -> tuple[Constant, str] | None:
    """A text constant whose comment names its options, and the first one that it is not."""
    for file in case.python("scaffold"):
        for constant in file.constants():
            if not isinstance(constant.value, str):
                continue
            pattern = rf"^{re.escape(constant.name)}\s*=.*?#(.*)$"
            told = re.search(pattern, file.text, re.MULTILINE)
            options = re.findall(r'"([^"]*)"', told[1]) if told else []
            if len(options) > 1 and constant.value in options:
                return constant, next(one for one in options if one != constant.value)
    return None


def _hurry(case: Case, used: float) -> float:
    """How far a limit below the evaluator's may have taught attempts not to try again.

    Training under a tight limit leaves few attempts that hit it: they submit a failing answer.
    """
    gave_up = case.short("behaviour.retry_after_fail", 1.0)
    return min((1 - used) * gave_up, 1 - case.value("clean_success", default=1.0))


def _offered(case: Case) -> Constant | None:
    return case.constant("scaffold", _TOOLS, (str, list, tuple))


def _letters(case: Case, offered: Constant) -> dict[str, str]:
    """Where tools are letters of a string, the scaffold's own mapping from letter to name."""
    if not isinstance(offered.value, str):
        return {}
    mappings = (c.value for c in case.file(offered.path).constants() if isinstance(c.value, dict))
    return next((m for m in mappings if m and set(offered.value) <= m.keys() and _short(m)), {})


def offered_letters(case: Case) -> dict[str, str]:
    """The edit that gives every letter on offer a tool of its own."""
    offered = _offered(case)
    if offered is None or not isinstance(offered.value, str):
        return {}
    file, known = case.file(offered.path), [*case.situation.tools, *sorted(_KNOWN_TOOLS)]
    for constant in file.constants():
        if not (isinstance(constant.value, dict) and constant.value and _short(constant.value)):
            continue
        have = constant.value
        twice = [c for c, tool in have.items() if list(have.values()).count(tool) > 1]
        wrong = [c for c in twice if not have[c].startswith(c)]
        lacking = [*wrong, *(c for c in offered.value if c not in have)]
        found = {c: _beginning(c, known, have.values()) for c in lacking}
        text: str | None = None
        for letter, tool in found.items():
            if tool:
                now = renewed(file, text)
                text = now.with_entry(constant.name, letter, f'"{tool}"') or text
        if text is not None:
            return {file.path: text}
    return {}


def _beginning(letter: str, known: Iterable[str], taken: Collection[str]) -> str | None:
    return next((tool for tool in known if tool.startswith(letter) and tool not in taken), None)


def _short(mapping: dict[Any, Any]) -> bool:
    return all(
        isinstance(k, str) and len(k) == 1 and isinstance(v, str) for k, v in mapping.items()
    )


def _names(case: Case, offered: Constant) -> list[str]:
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
