"""The skills that come with the product are valid, and their checks say what is true."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.protocols import Rollout, RolloutFailure, ToolEvent
from meta_agent.readers.evidence import read_foreign
from meta_agent.readers.formats._draft import Draft, Numbering, to_rollout
from meta_agent.skills import SkillLibrary, check_script, trigger_in, validate
from meta_agent.skills.looking import checked
from tests.evidence._rollouts import rollout, tokens

LIBRARY = Path(__file__).parents[2] / "skills_library"
NAMES = sorted(path.name for path in LIBRARY.iterdir() if (path / "scripts").is_dir())
Made = list[Rollout]


def check(name: str, path: Path, *more: str) -> tuple[int, dict[str, Any]]:
    script = str(LIBRARY / name / "scripts/check.py")
    command = [sys.executable, script, str(path), *more]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.returncode, json.loads(ran.stdout)


def rows(path: Path, made: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    return path


def attempt(task: int, sample: int, **more: Any) -> dict[str, Any]:
    """A row of chat messages, as other tools write them."""
    said = [
        {"role": "user", "content": f"do {task}"},
        {"role": "assistant", "content": f"{sample}"},
    ]
    return {"messages": said, "task_id": f"t{task}", "sample_idx": sample, **more}


def test_no_skill_that_ships_claims_what_trials_alone_can_show() -> None:
    """`global` needs trials in two domains; none of these has had one."""
    shipped = SkillLibrary(LIBRARY).all()
    assert {skill.status for skill in shipped if skill.kind != "guide"} == {"general"}
    assert not (LIBRARY / "trials.jsonl").exists()


@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_valid_and_apply_everywhere(name: str) -> None:
    assert validate(LIBRARY / name) == []
    assert name in {s.name for s in SkillLibrary(LIBRARY).find("math", None, "x", limit=20)}
    table, beside = trigger_in(LIBRARY / name)
    assert table and (LIBRARY / name / "scripts/check.py").read_text() == check_script(
        table, beside
    )


@pytest.mark.parametrize("folder", sorted(LIBRARY.iterdir()), ids=lambda folder: folder.name)
def test_the_public_reference_library_accepts_what_ships(folder: Path) -> None:
    reference = pytest.importorskip("skills_ref", reason="pip install skills-ref")
    assert reference.validate(folder) == []
    assert reference.read_properties(folder).name == folder.name


# --- planted and clean ---------------------------------------------------------------------------


def made(each: Callable[[int, int], dict[str, Any]], tasks: int = 12, samples: int = 4) -> Made:
    """Attempts of which all is known; `each` says what is special of one."""
    return [
        rollout(t, s, **{"messages": talk(f"reply {t} {s} " + LONG), **FAIR(t, s), **each(t, s)})
        for t in range(tasks)
        for s in range(samples)
    ]


def talk(*said: str, calls: bool = False, answers: bool = True) -> list[dict[str, Any]]:
    """A question, and what the model said; with `calls`, a call before each reply but the last."""
    found: list[dict[str, Any]] = [{"role": "user", "content": "do it"}]
    for n, words in enumerate(said):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "view", "arguments": "{}"}}
        found.append({"role": "assistant", "content": words})
        if calls and n < len(said) - 1:
            found[-1]["tool_calls"] = [call]
            if answers or n == 0:
                found.append({"role": "tool", "tool_call_id": f"c{n}", "content": "so"})
    return found


LONG = "of words that are not those of any other attempt"


def FAIR(task: int, sample: int) -> dict[str, Any]:  # noqa: N802
    """Every second attempt solves, and is paid for it."""
    solved = sample % 2 == 0
    spread = [-0.5, -0.7] if solved else [-0.9, -0.4]
    return {
        "outcome": solved,
        "rewards": {"solved": float(solved)},
        "tokens": tokens(spread),
        "flags": [],
        "story": ("v e35 t:ok s", "e1 t:lo s", "v t:lo e3 s", "l v s")[sample % 4],
    }


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


def looked(name: str, rollouts: Made) -> tuple[int, dict[str, Any]]:
    """What the skill's own script says of them, in this process."""
    return checked(*trigger_in(LIBRARY / name), read_foreign(rollouts).to_json())


@pytest.mark.parametrize(("name", "how"), ROWS)
def test_what_is_planted_shows(name: str, how: str) -> None:
    status, told = looked(name, made(PLANTED[name][how]))
    assert status == 1 and told["shows"], told


@pytest.mark.parametrize("name", NAMES)
def test_clean_rollouts_are_all_clear(name: str) -> None:
    status, told = looked(name, made(CLEAN.get(name, nothing)))
    assert (status, told["not_looked_at"]) == (0, []), told


BARE: dict[str, Callable[[], Made]] = {
    "nothing but patches": lambda: [
        to_rollout(
            Draft(task_key=f"t{n % 6}"), Numbering(), run="r", place=f"a:{n}", format_name="x"
        )
        for n in range(24)
    ],
    "no attempt": list,
    "three attempts": lambda: made(nothing, tasks=1, samples=3),
}


@pytest.mark.parametrize("how", BARE)
@pytest.mark.parametrize("name", NAMES)
def test_rollouts_that_do_not_say_are_never_all_clear(name: str, how: str) -> None:
    status, told = looked(name, BARE[how]())
    assert status == 3 and told["answer"] == "it could not be looked at"
    assert told["shows"] == {} and told["not_looked_at"]


def test_a_file_that_nobody_can_read_is_none_either(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("not json\n")
    status, told = check("read-a-leak", tmp_path / "a.jsonl")
    assert status == 3 and told["not_looked_at"]


def test_a_python_without_meta_agent_is_told_what_to_install(tmp_path: Path) -> None:
    script = str(LIBRARY / "read-a-leak/scripts/check.py")
    ran = subprocess.run(
        [sys.executable, "-I", "-S", script, "x"], capture_output=True, check=False
    )
    project = tomllib.loads((LIBRARY.parent / "pyproject.toml").read_text())["project"]
    assert ran.returncode == 3
    (why,) = json.loads(ran.stdout)["not_looked_at"]
    assert why.endswith(f"pip install {project['name']}")


def test_few_attempts_are_none_either(tmp_path: Path) -> None:
    few = [{**attempt(0, n), "flags": [], "outcome": True} for n in range(3)]
    status, told = check("read-a-leak", rows(tmp_path / "a.jsonl", few))
    assert status == 3 and "fewer than 10" in told["not_looked_at"][0]


def test_a_leak_shows_with_what_it_is_worth(tmp_path: Path) -> None:
    flagged = [
        {**row, "outcome": n % 2 == 0}
        for n, row in enumerate([attempt(n % 6, n // 6, flags=["leak:log"]) for n in range(24)])
    ]
    honest = [{**attempt(n, 9), "outcome": False, "flags": []} for n in range(24)]
    status, told = check("read-a-leak", rows(tmp_path / "a.jsonl", [*flagged, *honest]))
    assert status == 1 and told["shows"] == {"behaviour.leak_use": 0.5}
    assert told["beside"]["score.success"] == 0.25


def dead(spread: float) -> list[dict[str, Any]]:
    return [
        attempt(
            n % 6, n // 6, outcome=False, rewards={"r": spread * (n // 6)}, group_id=f"g{n % 6}"
        )
        for n in range(24)
    ]


def test_dead_groups_show_and_living_ones_are_all_clear(tmp_path: Path) -> None:
    status, told = check("revive-dead-groups", rows(tmp_path / "a.jsonl", dead(0.0)))
    assert status == 1 and told["shows"]["signal.dead_group_ratio"] == 1.0
    assert told["beside"]["signal.dead_unsolved_ratio"] == 1.0
    status, told = check("revive-dead-groups", rows(tmp_path / "b.jsonl", dead(0.5)))
    assert (status, told["answer"]) == (0, "it does not show")
