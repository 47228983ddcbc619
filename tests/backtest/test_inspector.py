"""From stored arms to findings: every detector is asked, and `verify` asks the same ones."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.errors import SandboxError
from meta_agent.core.gate import Finding
from meta_agent.core.lab.arms import ArmRef
from meta_agent.core.lab.inspector import Inspector
from meta_agent.core.protocols import JSON, Outcome, Rollout, Split, Task
from meta_agent.core.rollouts import RolloutStore

from ._harness import rollout

TASKS = 60
PACKAGE = Path(__file__).parents[2] / "meta_agent"


class Tasks:
    """As much of a domain as an inspector asks for; its grader reads the answer off."""

    def __init__(self, view: Callable[[Split, int], JSON] | None = None) -> None:
        self._view = view or (lambda split, number: {})

    def tasks(self, split: Split) -> Sequence[Task]:
        made = range(5 if split == "train" else 20)
        return [Task("t", f"{split}/{n}", split, f"{split}{n}", self._view(split, n)) for n in made]

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        return Outcome(bool(verifier_inputs["right"]))


class Costly(Tasks):
    """One that starts a container for every grading, and says so."""

    capabilities = Capabilities(open_at_once=2, regrade_at_most=4)

    def __init__(self, *, broken: bool = False) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.broken = broken

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        self.asked.append(task_key)
        if self.broken:
            raise SandboxError("no container", kind="start")
        return Outcome(bool(verifier_inputs.get("right")))


def made(change: Callable[[int], dict[str, Any]], seed: int) -> list[Rollout]:
    def one(task: int) -> Rollout:
        right = task % 2 == 0
        plain = {
            "outcome": right,
            "verifier_inputs": {"right": right, "code": f"answer {task} of {seed}"},
            "messages": [{"role": "assistant", "content": f"{task} {seed}"}],
            "turns": 4 + task % 3,
            "stop_reason": "submitted",
        }
        return rollout(task, 0, seed=seed, split="confirm", **{**plain, **change(task)})

    return [one(task) for task in range(TASKS)]


def arm(store: RolloutStore, name: str, change: Any = None, *, parts: int = 1) -> ArmRef:
    rows = made(change or (lambda task: {}), seed=len(name))
    step = TASKS // parts
    shards = [store.write(f"{name}{at}", rows[at : at + step]) for at in range(0, TASKS, step)]
    named = [{"name": shard.name, "sha256": shard.sha256} for shard in shards]
    return ArmRef(name, TASKS, "h", {0: named if parts > 1 else named[0]})


def inspector(store: RolloutStore, domain: Any) -> Inspector:
    return Inspector(store, domain)


def between(folder: Path, change: Any, domain: Any = None, *, parts: int = 1) -> Sequence[Finding]:
    store = RolloutStore(folder)
    refs = arm(store, "before"), arm(store, "candidate", change, parts=parts)
    return inspector(store, domain or Tasks()).between(refs)


FORGED = "import os\nos._exit(0)\n"
CHANGES: dict[str, Callable[[int], dict[str, Any]]] = {
    "conduct.leak": lambda t: {"flags": ["leak:log"]},
    "conduct.forgery": lambda t: {"verifier_inputs": {"right": t % 2 == 0, "code": FORGED}},
    "grader.disagrees": lambda t: {"outcome": t < 50, "rewards": {}},
    "artefact.not_finite": lambda t: {"rewards": {"all": 1e308}, "weights": {"all": 1e308}},
    "divergence.inverted": lambda t: {
        "rewards": {"wrong": float(t % 2) + t % 5 / 10}, "weights": {"wrong": 1.0}
    },
}  # fmt: skip


@pytest.mark.parametrize("code", CHANGES)
def test_each_kind_of_detector_is_asked_and_names_its_rollouts(code: str, tmp_path: Path) -> None:
    found = {finding.code: finding for finding in between(tmp_path, CHANGES[code])}
    assert code in found
    assert any("t" in line and "seed" in line for line in found[code].lines)


def test_an_ordinary_comparison_has_no_finding(tmp_path: Path) -> None:
    assert between(tmp_path, None) == ()


def test_where_an_arm_is_stored_in_parts_the_findings_are_the_same(tmp_path: Path) -> None:
    change = CHANGES["grader.disagrees"]
    assert between(tmp_path / "a", change) == between(tmp_path / "b", change, parts=4)


def test_costly_graders_are_asked_a_few_times_and_once_a_submission(tmp_path: Path) -> None:
    store, domain = RolloutStore(tmp_path), Costly()
    forged = {"outcome": True, "rewards": {}}
    refs = arm(store, "before"), arm(store, "candidate", lambda t: forged)
    looking = inspector(store, domain)
    first = looking.between(refs)
    assert "grader.disagrees" in {finding.code for finding in first}
    asked = len(domain.asked)
    assert asked <= 8
    assert looking.between(refs) == first
    assert len(domain.asked) == asked


def test_a_machine_that_fails_while_grading_again_accuses_nobody(tmp_path: Path) -> None:
    found = between(tmp_path, CHANGES["grader.disagrees"], Costly(broken=True))
    assert "grader.disagrees" not in {finding.code for finding in found}


def test_one_submission_graded_differently_in_the_two_arms_is_seen(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    same = {"verifier_inputs": {"code": "x"}}
    before = arm(store, "before", lambda t: same)
    after = arm(store, "candidate", lambda t: {**same, "outcome": t % 2 == 0 or t < 30})
    found = inspector(store, Costly()).between((before, after))
    assert "grader.flaky" in {f.code for f in found if f.severity == "veto"}


# --- what the tasks themselves show ---------------------------------------------------------------


def _view(share: float) -> Callable[[Split, int], JSON]:
    """The issue of `share` of the confirm tasks is that of a training task."""

    def view(split: Split, number: int) -> JSON:
        copied = split == "train" or number < share * 20
        words = " ".join(f"{'' if copied else split}{number}w{at}" for at in range(30))
        return {"issue": {"text": words}, "files": ["a", number]}

    return view


@pytest.mark.parametrize(
    ("share", "severities"), [(0.0, set()), (0.05, {"warn"}), (0.25, {"veto"})]
)
def test_evaluation_texts_that_were_trained_on(
    share: float, severities: set[str], tmp_path: Path
) -> None:
    found = between(tmp_path, None, Tasks(_view(share)))
    assert {f.severity for f in found if f.code == "overlap.near_duplicate"} == severities


# --- one place ------------------------------------------------------------------------------------


def test_nobody_else_calls_the_detectors() -> None:
    asked = {"find_all", "near_overlap"}
    callers = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(name in (source := path.read_text(encoding="utf-8")) for name in asked)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in asked
    }
    assert callers == {"core/lab/inspector.py"}


class Sorted(Tasks):
    """Tasks that say how hard they are: the first twenty are."""

    def tasks(self, split: Split) -> Sequence[Task]:
        if split != "confirm":
            return super().tasks(split)
        keys = [rollout(n, 0).task_key for n in range(TASKS)]
        view = [{"level": "hard" if n < 20 else "easy"} for n in range(TASKS)]
        return [Task("t", key, split, key, view[n]) for n, key in enumerate(keys)]


def test_a_slice_that_is_harmed_is_found_by_what_tasks_say_of_themselves(tmp_path: Path) -> None:
    """All hard tasks are lost, all easy ones are solved."""
    solved = lambda t: {"outcome": t >= 20, "verifier_inputs": {"right": t >= 20}}  # noqa: E731
    found = {finding.code: finding for finding in between(tmp_path, solved, Sorted())}
    assert "level hard" in found["slice.harm"].message
    assert len(found["slice.effects"].lines) == 2


def test_a_form_that_all_tasks_share_is_no_overlap(tmp_path: Path) -> None:
    form = "You are given a repository in which one function is wrong, find it and repair it: f{} "
    domain = Tasks(lambda split, n: {"issue": form.format(f"{split}{n}")})
    assert between(tmp_path, None, domain) == ()
