"""The skills that come with the product are valid, and their checks say what is true."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.protocols import Rollout, RolloutFailure, ToolEvent
from meta_agent.readers.foreign import read_foreign
from meta_agent.readers.formats._draft import AttemptDraft, Numbering, to_rollout
from meta_agent.skills import SkillLibrary, load_skill, validate
from meta_agent.skills.looking import checked, watches_of
from tests.evidence._rollouts import tokens

from ._kit import LIBRARY, LONG, NAMES, made, talk


def test_no_skill_that_ships_claims_what_trials_alone_can_show() -> None:
    """`global` needs trials in two domains; none of these has had one."""
    shipped = SkillLibrary(LIBRARY).all()
    assert {skill.status for skill in shipped if skill.kind != "guide"} == {"general"}
    assert not (LIBRARY / "trials.jsonl").exists()


def test_seeds_are_valid_and_apply_everywhere() -> None:
    reference = pytest.importorskip("skills_ref", reason="pip install skills-ref")
    for folder in LIBRARY.iterdir():
        assert reference.validate(folder) == [] == validate(folder)
        assert reference.read_properties(folder).name == folder.name
    offered = {skill.name for skill in SkillLibrary(LIBRARY).find("math", None, "x", limit=20)}
    assert set(NAMES) <= offered
    for name in NAMES:
        skill = load_skill(LIBRARY / name)
        assert skill and watches_of(skill)
        script = (LIBRARY / name / "scripts/check.py").read_text()
        assert script == files("meta_agent.skills").joinpath("check.py").read_text()


# --- planted and clean ---------------------------------------------------------------------------


def nothing(task: int, sample: int) -> dict[str, Any]:
    return {}


def lost_one(task: int, sample: int) -> dict[str, Any]:
    gone = RolloutFailure("infra", "the machine went away")
    own: dict[str, Any] = {"outcome": None, "rewards": {}, "error": gone, "stop_reason": "error"}
    return own if (task, sample) == (0, 0) else {}


PLANTED: dict[str, dict[str, Callable[[int, int], dict[str, Any]]]] = {
    "read-a-leak": {
        "a flag": lambda t, s: {"flags": ["leak:log"]} if s == 0 else {},
        "a call": lambda t, s: {
            "tool_events": [ToolEvent(0, "bash", {"c": "git log -p"}, "", True)]
        },
    },
    "revive-dead-groups": {
        "none solved": lambda t, s: {"outcome": False, "rewards": {"solved": 0.0}},
        "no spread": lambda t, s: {"rewards": {"solved": 0.5 + s / 1000}},
    },
    "stop-a-reward-hack": {
        "format pays": lambda t, s: {"rewards": {"format": float(s % 2)}},
        "a judge that is fooled": lambda t, s: {"rewards": {"judge": (0.5, 0.9, 0.6, 0.1)[s]}},
    },
    "end-truncation": {
        "turns": lambda t, s: {"stop_reason": "turn_limit"} if s == 1 else {},
        "replies": lambda t, s: {"cut_replies": 1},
    },
    "pay-for-outcome-not-length": {
        "long is paid": lambda t, s: {
            "messages": talk("word " * (10 + 5 * s) + f"{t} {s}"), "rewards": {"r": s / 4}
        },
        "haste pays": lambda t, s: {
            "messages": talk("word " * (10 + 5 * s) + f"{t} {s}"), "rewards": {"r": -s / 4}
        },
    },
    "show-the-whole-conversation": {
        "answers are dropped": lambda t, s: {
            "messages": talk(f"a{t}{s}", "b", "c", calls=True, answers=False)
        },
        "turns are rewritten": lambda t, s: {"tokens": tokens([-0.5, -0.7], exact=s > 1)},
    },
    "fit-the-curriculum": {
        "too hard": lambda t, s: {"outcome": False, "rewards": {"r": 0.0}} if t < 6 else {},
        "too easy": lambda t, s: {"outcome": True, "rewards": {"r": 1.0}} if t < 6 else {},
    },
    "catch-a-learning-rate-collapse": {
        "loops": lambda t, s: {"messages": talk(f"{t} {s} " + "and so it goes on for ever, " * 9)},
        "silence": lambda t, s: {"messages": talk("" if s == 0 else f"reply {t} {s} " + LONG)},
        "copies": lambda t, s: {"messages": talk("the same words " + LONG)},
    },
    "restore-exploration": {
        "certain": lambda t, s: {"tokens": tokens([-0.01, -0.02])},
        "copies": lambda t, s: {"messages": talk(f"one reply to {t} " + LONG)},
    },
    "mend-refused-actions": {
        "refused": lambda t, s: {"story": "v e1! e2! e3 s"},
        "repeated": lambda t, s: {"story": "v v v v s"},
    },
    "guard-the-grader": {
        "a flag": lambda t, s: {"flags": ["tamper:protocol"]} if s == 0 else {},
        "a call": lambda t, s: {
            "tool_events": [ToolEvent(0, "bash", {"c": "sed -i s/1/2/ tests/test_a.py"}, "", True)]
        },
    },
    "keep-lost-attempts-apart": {"machines": lost_one},
}  # fmt: skip
ROWS = [(name, how) for name, ways in PLANTED.items() for how in ways]


CLEAN: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "show-the-whole-conversation": lambda t, s: {"messages": talk(f"{t}{s}", "b", "c", calls=True)},
    "pay-for-outcome-not-length": lambda t, s: {
        "messages": talk("word " * (9 + 3 * (s // 2)) + f"{t} {s}")
    },
}


def looked(name: str, report: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """What the skill's own script says of a report, in this process."""
    return checked(SkillLibrary(LIBRARY).skill(name), report)


@pytest.mark.parametrize(("name", "how"), ROWS)
def test_what_is_planted_shows(name: str, how: str) -> None:
    status, told = looked(name, read_foreign(made(PLANTED[name][how])).to_json())
    assert status == 1 and told["shows"], told


def test_clean_rollouts_are_all_clear() -> None:
    usual = read_foreign(made(nothing)).to_json()
    for name in NAMES:
        report = read_foreign(made(CLEAN[name])).to_json() if name in CLEAN else usual
        status, told = looked(name, report)
        assert (status, told["not_looked_at"]) == (0, []), told


BARE: dict[str, Callable[[], list[Rollout]]] = {
    "nothing but patches": lambda: [
        to_rollout(
            AttemptDraft(task_key=f"t{n % 6}"),
            Numbering(),
            run="r",
            place=f"a:{n}",
            format_name="x",
        )
        for n in range(24)
    ],
    "no attempt": list,
    "three attempts": lambda: made(nothing, tasks=1, samples=3),
}


@pytest.mark.parametrize("how", BARE)
def test_rollouts_that_do_not_say_are_never_all_clear(how: str) -> None:
    report = read_foreign(BARE[how]()).to_json()
    for name in NAMES:
        status, told = looked(name, report)
        assert (status, told["shows"]) == (3, {}) and told["not_looked_at"]


# --- the script of a skill ------------------------------------------------------------------------


def test_a_python_without_meta_agent_is_told_what_to_install() -> None:
    script = str(LIBRARY / "read-a-leak/scripts/check.py")
    command = [sys.executable, "-I", "-S", script, "x"]
    ran = subprocess.run(command, capture_output=True, check=False)
    project = tomllib.loads((LIBRARY.parent / "pyproject.toml").read_text())["project"]
    assert ran.returncode == 3
    (why,) = json.loads(ran.stdout)["not_looked_at"]
    assert why.endswith(f"pip install {project['name']}")


def test_a_script_says_what_shows_what_does_not_and_what_nobody_can_tell(tmp_path: Path) -> None:
    def check(text: str) -> tuple[int, dict[str, Any]]:
        (tmp_path / "a.jsonl").write_text(text)
        script = str(LIBRARY / "read-a-leak/scripts/check.py")
        command = [sys.executable, script, str(tmp_path / "a.jsonl")]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        return ran.returncode, json.loads(ran.stdout)

    def rows(count: int, **more: Any) -> str:
        said = {"role": "user", "content": "do it"}, {"role": "assistant", "content": "done"}
        shared = {"messages": said, "flags": [], "outcome": False, **more}
        return "".join(json.dumps({**shared, "task_id": f"t{n}"}) + "\n" for n in range(count))

    leaks = rows(24, flags=["leak:log"], outcome=True)
    status, told = check(leaks + rows(24))
    assert (status, told["shows"]) == (1, {"behaviour.leak_use": 0.5})
    assert told["beside"]["score.success"] == 0.5
    assert check(rows(24))[0] == 0
    for text in (rows(3), "not json\n"):
        status, told = check(text)
        assert status == 3 and told["not_looked_at"]
