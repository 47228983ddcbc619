"""Further training tasks that a recipe declares: made by the domain, trained on, never measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from meta_agent.core.capabilities import Capabilities, Generators
from meta_agent.core.errors import CandidateError, ConfigError
from meta_agent.core.harness import HarnessSession
from meta_agent.core.harness.recipe import parse_recipe
from meta_agent.core.lab.units import Apparatus
from meta_agent.core.protocols import SPLITS, Split, Task
from meta_agent.core.resources import shipped_harness
from meta_agent.core.rollouts import RolloutStore
from meta_agent.core.task_splits import Limited, Limits, WithGenerated
from meta_agent.domains import load_domain
from meta_agent.domains.nano import NanoSwe
from meta_agent.domains.nano.math_tasks import owner_of, semantic_key
from meta_agent.policies.training import PolicyChild
from meta_agent.policies.training.events.planned import training_tasks
from tests.evolve._cli import Cli
from tests.training import _loop, _seals

DECLARED = "sums:steps=2:size=64"


def test_a_declared_task_is_new_solvable_and_of_the_training_split() -> None:
    domain = load_domain("math")
    extended = WithGenerated(Limited(domain, Limits(max_turns=1)), f"{DECLARED},{DECLARED}")
    assert len(extended.generated) == 128
    others = {semantic_key(t.view["sum"]) for split in SPLITS for t in domain.tasks(split)}
    chains = [task.view["sum"] for task in extended.generated]
    assert not others & set(map(semantic_key, chains)), "none is a task that the domain has"
    assert len(set(map(semantic_key, chains))) == 128, "no two ask for the same computation"
    assert {len(chain) for chain in chains} == {5} and {*map(owner_of, chains)} == {"train"}
    for task in extended.generated[:8]:
        environment = extended.open(task)
        answer = environment.call("key", {}).text
        assert extended.regrade(task.key, {"answer": answer, "submitted": True}).success
    again = WithGenerated(domain, f"{DECLARED},{DECLARED}")
    assert [t.key for t in again.generated] == [t.key for t in extended.generated]


def test_only_the_training_split_grows_and_its_own_tasks_keep_their_order() -> None:
    domain = load_domain("math")
    extended = WithGenerated(domain, DECLARED)
    for split in SPLITS:
        grown = 64 if split == "train" else 0
        assert len(extended.tasks(split)) == len(domain.tasks(split)) + grown
    assert extended.evaluator_hash == domain.evaluator_hash
    before, after = list(training_tasks(domain, 3)), list(training_tasks(extended, 3))
    generated = {task.key for task in extended.generated}
    assert [key for key in after if key not in generated] == before
    places = [at for at, key in enumerate(after) if key in generated]
    assert len(places) == 64 and places[0] < 200 and places[-1] > 1300, "they are spread"


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ("sums", "sums.*cannot make"),
        ("stories:steps=2", "stories:steps=2.*cannot make"),
        ("sums:steps=7", "steps=7"),
        ("sums:steps=2:size=0", "size=0"),
        ("sums:steps=2:digits=3", "digits=3"),
    ],
)
def test_a_declaration_that_the_domain_cannot_make_is_refused(declared: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        WithGenerated(load_domain("math"), declared)
    assert "steps from 1 to 6" in (caught.value.hint or "")


@pytest.mark.parametrize("value", ['"a b"', "3", '"sums:steps"', '"; rm"', f'"{"x" * 4097}"'])
def test_a_recipe_whose_declaration_has_another_form_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"generate is .*must be NAME\[:PARAMETER=VALUE"):
        parse_recipe(f"generate = {value}")
    assert parse_recipe(f'generate = "{DECLARED}"').generate == DECLARED
    assert parse_recipe("").generate is None


def test_a_candidate_that_declares_tasks_is_refused_if_the_domain_makes_none() -> None:
    lab = SimpleNamespace(domain=NanoSwe())
    assert Apparatus._training_domain(lab, {}) is lab.domain  # type: ignore[arg-type]
    with pytest.raises(CandidateError, match="nano-swe makes no tasks") as caught:
        Apparatus._training_domain(lab, {"generate": DECLARED})  # type: ignore[arg-type]
    assert caught.value.reason == "no_generated_tasks"
    assert Capabilities.of(load_domain("math")).generators is not None


MANY = "sums:steps=4:size=2048"  # more than the suite has


def declaring(folder: Path, suite: str) -> Path:
    """Writes a shipped harness whose recipe declares further tasks; returns its folder."""
    for path, data in shipped_harness(f"nano/{suite}/seed").items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        declaration = f'\ngenerate = "{MANY}"\n'.encode()
        file.write_bytes(data + declaration * path.endswith("/recipe.toml"))
    return folder


@pytest.mark.train
def test_a_training_uses_them_and_no_measurement_does(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    argv = ["train", "--domain", "math", "--profile", "tiny", "--train-steps", "2"]
    argv += ["--harness", str(declaring(tmp_path / "harness", "math"))]
    done = cli(*argv, "--sandbox", "process", "--allow-unsafe")
    assert done.returncode == 0, done.stderr
    workspace = cli.folder / "meta-agent-workspace"
    store = RolloutStore(workspace / "rollouts")
    keys: dict[str, set[bool]] = {}
    for name in store.names():
        for rollout in store.iter(name):
            keys.setdefault(rollout.split, set()).add("/generated/" in rollout.task_key)
    assert True in keys.pop("train") and set().union(*keys.values()) == {False}
    words = " ".join(done.stderr.split())
    assert f"generate = '{MANY}' makes 2048 further training tasks" in words


class Held(NanoSwe):
    """The tasks of nano-swe's vault, as training tasks."""

    def tasks(self, split: Split) -> Sequence[Task]:
        held = super().tasks("vault") if split == "train" else ()
        return [replace(task, split="train") for task in held]


class Generating(NanoSwe):
    """nano-swe with a generator, in whose place the vault stands. It has few tasks of its own."""

    capabilities = Capabilities(generators=Generators(lambda _: Held()))

    def tasks(self, split: Split) -> Sequence[Task]:
        return list(super().tasks(split))[:8]


@pytest.mark.train
def test_a_killed_or_stopped_training_on_them_ends_on_the_same_bits(
    child: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_loop, "NanoSwe", lambda: WithGenerated(Generating(), "any"))
    whole = _seals.train(child, session, nano_policy, tmp_path / "whole", seal_every=0)
    assert any(rollout.task_key.startswith("nano-swe/vault/") for rollout in whole.rollouts)
    _seals.ends_alike_if_killed_or_stopped(whole, child, session, nano_policy, tmp_path)


def test_tasks_that_the_suite_cannot_make_are_refused_before_anything_trains(
    tmp_path: Path,
) -> None:
    argv = ["train", "--domain", "swe", "--profile", "tiny", "--train-steps", "1"]
    argv += ["--harness", str(declaring(tmp_path / "harness", "swe"))]
    refused = Cli(tmp_path)(*argv, "--sandbox", "process", "--allow-unsafe", check=False)
    assert refused.returncode == 2 and not list(tmp_path.rglob("*.safetensors"))
    words = " ".join(refused.stderr.split())
    assert "the domain nano-swe makes no tasks" in words and "remove generate from" in words
