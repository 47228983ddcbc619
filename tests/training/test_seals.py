"""A training that is killed or stopped goes on and ends on the bits of one that was not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the train extra")

from meta_agent.core.harness import HarnessSession
from meta_agent.core.lab.training import TrainResult, kept_folder
from meta_agent.core.protocols import JSON
from meta_agent.policies.training import PolicyChild, TrainSettings, open_checkpoint
from meta_agent.policies.training._wire import seals_folder
from meta_agent.sandboxes import open_sandbox
from tests.models import _bpe
from tests.training import _loop
from tests.training._seals import STEPS, Stop, killed, same, stopped, train

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def whole(
    shared_child: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> TrainResult:
    """The undisturbed training."""
    out = tmp_path_factory.mktemp("whole") / "out"
    return train(shared_child, session, nano_policy, out, seal_every=0)


def test_a_killed_training_ends_like_an_undisturbed_one(
    whole: TrainResult,
    child: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    killed(session, nano_policy, out, 1)
    rows: list[JSON] = []
    went_on = train(child, session, nano_policy, out, on_metrics=rows.append)
    same(whole, went_on)
    assert rows == went_on.metrics, "the curve is whole"
    assert not seals_folder(out).exists()


STATEFUL = b"""
STATE = {"usual": 0.0}

def keep(groups, state):
    weights = []
    for group in groups:
        spread = max(group["rewards"]) - min(group["rewards"])
        weights.append(float(spread > state["usual"]))
        state["usual"] = 0.5 * (state["usual"] + spread)
    return weights, state
"""


def test_a_killed_training_with_a_filter_that_remembers_and_refill_ends_on_the_same_bits(
    child: PolicyChild, session: HarnessSession, nano_policy: Path, tmp_path: Path
) -> None:
    recipe = _loop.TINY | {"refill_factor": 2.0}
    files = {**session.tree.files, "swe/filter.py": STATEFUL}
    sandbox = open_sandbox("process", run="test")
    try:
        remembers = HarnessSession(sandbox, replace(session.tree, files=files))
        out = tmp_path / "whole"
        undisturbed = train(child, remembers, nano_policy, out, seal_every=0, recipe=recipe)
        assert undisturbed.rollouts_made > STEPS * 16, "some groups were refilled"
        killed(remembers, nano_policy, tmp_path / "out", 2, recipe=recipe)
        went_on = train(child, remembers, nano_policy, tmp_path / "out", recipe=recipe)
    finally:
        sandbox.close()
    same(undisturbed, went_on)


@pytest.mark.parametrize("more", [0, 1], ids=["between steps", "in rollouts"])
def test_a_stopped_training_is_sealed_after_the_step_it_made(
    more: int,
    whole: TrainResult,
    child: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    for stop in (Stop(2, more), Stop(2)):  # the second at once: it finds the first one's seal
        stopped(child, session, nano_policy, out, stop, seal_every=100)
        (sealed,) = seals_folder(out).glob("host-*.json")
        assert sealed.name == "host-2.json"
    same(whole, train(child, session, nano_policy, out, seal_every=100))


@pytest.mark.parametrize("lora_r", [None, 2])
def test_an_hf_policy_goes_on_too(
    lora_r: int | None, session: HarnessSession, tmp_path: Path
) -> None:
    base = f"hf:{_bpe.write(tmp_path / 'tiny')}"
    recipe = _loop.TINY | ({} if lora_r is None else {"lora_r": lora_r, "lora_dropout": 0.1})
    out = tmp_path / "out"
    with PolicyChild(threads=1) as child:
        whole = train(child, session, base, tmp_path / "whole", seal_every=0, recipe=recipe)
        if lora_r is None:
            killed(session, base, out, 3, recipe=recipe)
        else:
            stopped(child, session, base, out, Stop(2, 1), recipe=recipe, seal_every=100)
        same(whole, train(child, session, base, out, recipe=recipe))


@pytest.fixture(scope="module")
def pair() -> Iterator[PolicyChild]:
    with PolicyChild(threads=1, settings=TrainSettings(ranks=2)) as child:
        yield child


@pytest.fixture(scope="module")
def whole_of_two(
    pair: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> TrainResult:
    """The undisturbed training by two ranks."""
    out = tmp_path_factory.mktemp("two") / "out"
    return train(pair, session, nano_policy, out, seal_every=0)


def test_two_ranks_go_on_too(
    whole_of_two: TrainResult,
    pair: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    killed(session, nano_policy, out, 2, TrainSettings(ranks=2))
    same(whole_of_two, train(pair, session, nano_policy, out))


def test_parted_weights_are_sealed_whole(
    session: HarnessSession, nano_policy: Path, tmp_path: Path
) -> None:
    out, held = tmp_path / "out", TrainSettings(ranks=2, sharded=True)
    with PolicyChild(threads=1, settings=held) as child:
        stopped(child, session, nano_policy, out, Stop(2, 1), seal_every=100)
        gone_on = train(child, session, nano_policy, out)
        same(train(child, session, nano_policy, tmp_path / "whole", seal_every=0), gone_on)


def torn(folder: Path) -> None:
    (path,) = folder.glob("checkpoint-*/optimizer.pt")
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def unsealed(folder: Path) -> None:
    (path,) = folder.glob("host-*.json")
    path.unlink()


def no_json(folder: Path) -> None:
    (path,) = folder.glob("host-*.json")
    path.write_text("{")


@pytest.mark.parametrize("harm", [torn, unsealed, no_json])
def test_a_seal_that_is_not_whole_is_said_and_not_used(
    harm: Callable[[Path], None],
    whole: TrainResult,
    child: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    out = tmp_path / "out"
    stopped(child, session, nano_policy, out, Stop(2))
    (sealed,) = seals_folder(out).glob("host-*.json")
    assert sealed.name == "host-2.json", "earlier ones are forgotten"
    harm(seals_folder(out))
    again = train(child, session, nano_policy, out)
    assert "goes on" not in caplog.text
    assert ("is not used and is removed" in caplog.text) is (harm is not unsealed)
    same(whole, again)


def test_a_seal_of_another_training_is_not_gone_on_from(
    child: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    out = tmp_path / "out"
    stopped(child, session, nano_policy, out, Stop(2))
    made = train(child, session, nano_policy, out, seed=2)
    assert "of another training" in caplog.text
    assert open_checkpoint(made.checkpoint.path).seed == 2
    assert [int(path.name) for path in sorted(kept_folder(out).iterdir())] == [1, 2]


def test_rows_that_are_trained_on_twice_are_sealed_between_events_only(
    child: PolicyChild, session: HarnessSession, nano_policy: Path, tmp_path: Path
) -> None:
    recipe = _loop.TINY | {"num_iterations": 2}
    out = tmp_path / "out"
    whole = train(child, session, nano_policy, tmp_path / "whole", seal_every=0, recipe=recipe)
    stopped(child, session, nano_policy, out, Stop(2), recipe=recipe)
    (sealed,) = seals_folder(out).glob("host-*.json")
    assert sealed.name == "host-2.json"
    same(whole, train(child, session, nano_policy, out, recipe=recipe))
