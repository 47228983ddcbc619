"""What tests of skills share: a lesson and its skill, texts of skills, planted rollouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from meta_agent.core.protocols import Candidate, Effect, Hypothesis, Rollout, Verdict, VerdictKind
from meta_agent.core.skills import SkillDraft
from meta_agent.skills import distil
from meta_agent.skills.worth import Trial
from tests.evidence._rollouts import rollout, tokens

LIBRARY = Path(__file__).parents[2] / "skills_library"
NAMES = sorted(path.name for path in LIBRARY.iterdir() if (path / "scripts").is_dir())

HYPOTHESIS = Hypothesis(
    factor="scaffold",
    statement="if MAX_TURNS grows from 4 to 8 then more attempts submit, because 42 % run out",
    metric="clean_success",
    direction="up",
    expected_delta=0.05,
    risks=("rollouts get longer",),
    evidence=("42 % of attempts stop at the turn limit (alert at > 20 %)",),
    rule="turn-limit",
)
CANDIDATE = Candidate(
    id="r1/g0/c0",
    run="r1",
    generation=0,
    index=0,
    ref="refs/heads/candidate/r1/0",
    base="a" * 40,
    commit="b" * 40,
    tree_hash="c" * 40,
    factor="scaffold",
    hypothesis=HYPOTHESIS,
    paths=("swe/agent.py",),
)
PROMOTE = Verdict(
    VerdictKind.PROMOTE, ("the interval is above zero",), Effect(0.1, 0.04, 0.16, 512, 4)
)
DIFF = """diff --git a/swe/agent.py b/swe/agent.py
index 1..2 100644
--- a/swe/agent.py
+++ b/swe/agent.py
@@ -1,3 +1,3 @@
 TOOLS = ["view"]
-MAX_TURNS = 4
+MAX_TURNS = 8
 OBSERVATION_CHARS = 80
"""
EVIDENCE = {"signal": {"turn_limit_share": 0.42}, "score": {"clean_success": 0.5}}


def draft(
    verdict: Verdict = PROMOTE, candidate: Candidate = CANDIDATE, diff: str = DIFF
) -> SkillDraft:
    made = distil(candidate, verdict, diff, EVIDENCE, domain="swe")
    assert made is not None
    return made


WORSE = Verdict(VerdictKind.REJECT, ("it lost",), Effect(-0.1, -0.16, -0.04, 512, 2))


GOOD = "---\nname: demo\ndescription: Does a thing. Use when asked.\n---\n\n# Demo\n"


def folder_with(tmp_path: Path, text: str | bytes, name: str = "demo") -> Path:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


INVALID = {
    "flow metadata": GOOD.replace("---\n\n", "metadata: {a: b}\n---\n\n"),
    "flow tools": GOOD.replace("---\n\n", "allowed-tools: [A, B]\n---\n\n"),
    "angle bracket": GOOD.replace("a thing", "<a thing>"),
    "letter outside ASCII": GOOD.replace("name: demo", "name: café"),
    "upper case": GOOD.replace("name: demo", "name: Demo"),
    "double hyphen": GOOD.replace("name: demo", "name: de--mo"),
    "another folder's name": GOOD.replace("name: demo", "name: other"),
    "no name": GOOD.replace("name: demo\n", ""),
    "empty description": GOOD.replace("Does a thing. Use when asked.", '""'),
    "long description": GOOD.replace("a thing", "a thing " * 200),
    "repeated key": GOOD.replace("name: demo", "name: demo\nname: demo"),
    "version field": GOOD.replace("---\n\n", "version: 1\n---\n\n"),
    "unquoted colon": GOOD.replace("a thing.", "this: a thing."),
    "unquoted hash": GOOD.replace("a thing.", "issue #12 of a thing."),
    "byte order mark": "\ufeff" + GOOD,
    "CR line ends": GOOD.replace("\n", "\r\n"),
    "list of tools": GOOD.replace("---\n\n", "allowed-tools:\n  - A\n---\n\n"),
    "nested metadata": GOOD.replace("---\n\n", "metadata:\n  a:\n    b: c\n---\n\n"),
    "list as metadata": GOOD.replace("---\n\n", "metadata:\n  - a\n---\n\n"),
    "empty body": GOOD.replace("# Demo\n", ""),
    "long body": GOOD + "line\n" * 600,
    "dead link": GOOD + "[x](references/none.md)\n",
    "link that leaves": GOOD + "[x](../other/SKILL.md)\n",
    "anchor": GOOD.replace("Does a thing. Use when asked.", "&a Does"),
    "alias": "---\nname: demo\ndescription: &a x\nlicense: *a\n---\nbody\n",
    "no frontmatter": "# Demo\n",
    "not UTF-8": GOOD.encode() + b"\xff",
    "a key": GOOD + "token sk-" + "a1B2" * 8 + "\n",
}


def made(
    each: Callable[[int, int], dict[str, Any]], tasks: int = 12, samples: int = 4
) -> list[Rollout]:
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


Interval = tuple[float, float, float]
BETTER, HARM, OPEN = (0.10, 0.04, 0.16), (-0.10, -0.16, -0.04), (0.02, -0.04, 0.08)


def gain(name: str = "demo") -> Trial:
    """A trial that shows that a skill does good."""
    return replace(trial(BETTER), skill=name)


def trial(effect: Interval, domain: str = "swe", pairs: int = 5, first: int = 0) -> Trial:
    proof: dict[str, list[int | None]] = {"with": [900, None], "without": [None, None]}
    return Trial("demo", domain, list(range(first, first + pairs)), 6000, *effect, proof)
