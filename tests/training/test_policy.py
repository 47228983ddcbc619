"""The policy child from the host's side: warm reuse, refusals, deaths."""

from __future__ import annotations

import dataclasses
import os
import re
import resource
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest

from meta_agent.core.errors import (
    CandidateError,
    ConfigError,
    InfrastructureError,
    IntegrityError,
    Interrupted,
    PreflightError,
    TrainingError,
)
from meta_agent.core.lab.training import kept_folder
from meta_agent.core.ledger import waiting
from meta_agent.core.processes import start
from meta_agent.core.sandbox.forks import ForkServer
from meta_agent.policies.training import (
    Advantages,
    PolicyChild,
    RolloutEvent,
    Row,
    StepMetrics,
    Timeouts,
    TrainJob,
    _spawn,
    open_checkpoint,
)
from meta_agent.policies.training.devices import Device
from tests.models import _bpe, _nano
from tests.training import _host

psutil = pytest.importorskip("psutil")
pytestmark = pytest.mark.train


def job(path: Path, **changes: Any) -> TrainJob:
    return TrainJob(_host.RECIPE | changes, steps=3, seed=5, output=path)


def test_loading_names_the_policy(child: PolicyChild, nano_policy: Path) -> None:
    assert child.policy == open_checkpoint(nano_policy).policy
    assert child.lock_step


def test_generation_is_the_same_after_every_load(child: PolicyChild, nano_policy: Path) -> None:
    event = RolloutEvent(0, 2, 4)
    first = _host.rows_of(child, event)
    child.load(nano_policy)
    assert _host.rows_of(child, event) == first


def test_training_streams_and_leaves_a_checkpoint(child: PolicyChild, tmp_path: Path) -> None:
    base = child.policy
    metrics: list[StepMetrics] = []
    advantages: list[Advantages] = []
    seen: list[str] = []

    def provide(event: RolloutEvent) -> list[Row]:
        seen.append(child.policy)
        return _host.rows_of(child, event)

    made = child.train(job(tmp_path / "out"), provide, metrics.append, advantages.append)
    assert [m.step for m in metrics] == [1, 2, 3]
    assert [(a.step, len(a.values)) for a in advantages] == [(0, 8), (1, 8), (2, 8)]
    assert seen == [f"{base}+{step}" for step in range(3)]
    opened = open_checkpoint(tmp_path / "out")
    assert opened.policy == made.policy == child.policy != base
    assert (made.steps, made.seed, opened.steps) == (3, 5, 3)


def test_a_checkpoint_on_the_way_is_where_a_shorter_training_ends(
    child: PolicyChild, nano_policy: Path, tmp_path: Path
) -> None:
    long = dataclasses.replace(job(tmp_path / "long"), keep_every=2)
    end = child.train(long, _host.provider(child))
    (kept,) = kept_folder(tmp_path / "long").iterdir()  # the last step is the training's own
    child.load(nano_policy)
    short = dataclasses.replace(job(tmp_path / "short"), steps=2)
    made = child.train(short, _host.provider(child))
    assert open_checkpoint(kept).policy == made.policy != end.policy
    assert open_checkpoint(kept).steps == 2


def test_training_learns_what_is_rewarded(child: PolicyChild, tmp_path: Path) -> None:
    rewards: list[float] = []
    wanted = {"learning_rate": 3e-3, "groups_per_step": 4, "num_generations": 8}
    child.train(
        dataclasses.replace(job(tmp_path / "out", **wanted), steps=20),
        _host.provider(child),
        lambda m: rewards.append(m.values["reward_mean"]),
    )
    assert sum(rewards[-4:]) / 4 > sum(rewards[:4]) / 4 + 0.15


def test_a_warm_a_forked_and_a_started_child_train_to_the_same_bits(
    child: PolicyChild, nano_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies, ours = [], []

    def train(trainer: PolicyChild, name: str) -> None:
        trainer.load(nano_policy)
        policies.append(trainer.train(job(tmp_path / name), _host.provider(trainer)).policy)
        ours.append(psutil.Process(trainer.pid).ppid() == os.getpid())

    train(child, "first")
    train(child, "second")
    with PolicyChild(threads=1) as forked:
        train(forked, "forked")
    monkeypatch.setattr(_spawn, "devices_here", lambda: [Device("0", 1)])
    with PolicyChild(threads=1) as started:
        train(started, "started")
    assert len(set(policies)) == 1
    assert ours == [False, False, False, True]


def test_a_child_is_started_where_the_process_that_forks_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def begin(orders: int, errors: IO[bytes]) -> Any:
        return start(["false"], stderr=errors, pass_fds=(orders,))

    gone = ForkServer(begin)
    monkeypatch.setattr(_spawn, "_fork_server", lambda variables: gone)
    with PolicyChild(threads=1) as started:
        assert psutil.Process(started.pid).ppid() == os.getpid()
        started._process.kill()


def test_a_recipe_that_trl_refuses_is_refused_before_any_rollout(
    child: PolicyChild, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="at least 2"):
        child.check_recipe({"num_generations": 1})
    with pytest.raises(ConfigError, match="lora"):
        child.train(job(tmp_path / "out", lora_r=4), pytest.fail)
    child.check_recipe(_host.RECIPE)


def test_an_exception_of_the_host_aborts_training_and_the_child_lives(
    child: PolicyChild, tmp_path: Path
) -> None:
    def fail(event: RolloutEvent) -> list[Row]:
        if event.step == 1:
            raise KeyError("the harness broke")
        return _host.rows_of(child, event)

    base, event = child.policy, RolloutEvent(7, 2, 4)
    before = _host.rows_of(child, event)
    with pytest.raises(KeyError, match="the harness broke"):
        child.train(job(tmp_path / "out", learning_rate=0.1), fail)
    assert not (tmp_path / "out").exists()
    assert child.policy == base
    assert _host.rows_of(child, event) == before  # half-trained weights are gone


def test_weights_that_are_no_numbers_end_the_training(child: PolicyChild, tmp_path: Path) -> None:
    def vast(event: RolloutEvent) -> list[Row]:
        rows = enumerate(_host.rows_of(child, event))
        return [Row(1e38 * n if event.step else n, row.tokens) for n, row in rows]

    asked = replace(job(tmp_path / "out", scale_rewards="none"), seal_every=1)
    with pytest.raises(CandidateError, match=r"at step 2 of 3 \S+ is (nan|inf)") as raised:
        child.train(asked, vast)
    assert "step 1 was saved last" in str(raised.value)
    assert raised.value.reason == "not_finite" and not (tmp_path / "out").exists()
    assert child.generate([_nano.request("k", "fox")])[0].completion_tokens > 0


def test_memory_that_runs_out_names_what_was_held(nano_policy: Path, tmp_path: Path) -> None:
    with PolicyChild(threads=1) as starved:
        starved.load(nano_policy)

        def many_rows(event: RolloutEvent) -> list[Row]:
            rows = _host.rows_of(starved, event)
            status = Path(f"/proc/{starved.pid}/statm").read_text().split()
            used = int(status[0]) * resource.getpagesize()
            resource.prlimit(starved.pid, resource.RLIMIT_AS, (used // 2, -1))
            return rows

        with pytest.raises(InfrastructureError, match=r"on 256 rows of .* passes of 1,536"):
            starved.train(job(tmp_path / "out", groups_per_step=64), many_rows)


def test_a_damaged_checkpoint_is_an_integrity_error_and_the_child_lives(
    child: PolicyChild, nano_policy: Path, tmp_path: Path
) -> None:
    child.train(job(tmp_path / "out"), _host.provider(child))
    (tmp_path / "out" / "config.json").write_text("{}")
    with pytest.raises(IntegrityError, match=r"config\.json has changed"):
        child.load(tmp_path / "out")
    child.load(nano_policy)


@pytest.mark.parametrize(
    ("policy", "error"),
    [("nowhere", ConfigError), ("vllm:model", ConfigError), ("nano:cobol", PreflightError)],
)
def test_policies_that_cannot_be_loaded(
    shared_child: PolicyChild, policy: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        shared_child.load(policy)


def test_commands_before_a_load_are_refused() -> None:
    with PolicyChild(threads=1) as fresh, pytest.raises(TrainingError, match="no policy is loaded"):
        fresh.finish(["k"])


def test_a_child_that_is_killed_while_training_is_a_training_error_and_ends_no_other(
    shared_child: PolicyChild, nano_policy: Path, tmp_path: Path
) -> None:
    with PolicyChild(threads=1) as victim:
        victim.load(nano_policy)

        def kill(event: RolloutEvent) -> list[Row]:
            os.kill(victim.pid, signal.SIGKILL)
            return _host.rows_of(victim, event)

        with pytest.raises(TrainingError, match="killed by SIGKILL"):
            victim.train(job(tmp_path / "out"), kill)
        with pytest.raises(TrainingError, match="has ended"):
            victim.generate([])
    assert not (tmp_path / "out").exists()
    assert shared_child.load(nano_policy), "the process that both were forked from lives on"


def test_a_child_that_hangs_is_killed_within_the_timeout(nano_policy: Path) -> None:
    with PolicyChild(threads=1, timeouts=Timeouts(generate_sec=0.5)) as victim:
        victim.load(nano_policy)
        os.kill(victim.pid, signal.SIGSTOP)
        with pytest.raises(TrainingError, match="hung"):
            victim.generate([_nano.request("k", "issue")])


def test_a_long_call_says_how_far_it_is_and_can_be_stopped_between_two_tokens(
    tmp_path: Path,
) -> None:
    sentences: list[str] = []

    def halfway() -> bool:
        waits = waiting.open_waits(time.time() + 9)
        sentences.extend(f"{wait.subject}: {wait.progress}" for wait in waits if wait.progress)
        return bool(sentences)

    requests = [
        _nano.request(
            str(i), "zebra", max_tokens=20_000, temperature=0.0, max_context_tokens=30_000
        )
        for i in range(8)
    ]
    with PolicyChild(threads=1) as patient:
        patient.load(f"hf:{_bpe.write(tmp_path / 'tiny', window=30_000)}")
        with pytest.raises(Interrupted):
            patient.generate_until(requests, halfway)
        patient.finish([request.key for request in requests])
        assert re.match(
            r"a model call of 8 attempts by .*: \d+ tokens so far, \d attempts", sentences[0]
        )
        (reply,) = patient.generate([_nano.request("next", "fox", max_tokens=3)])
        assert reply.completion_tokens == 3


def test_the_child_has_none_of_our_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HF_TOKEN", "hf-secret")
    with PolicyChild(threads=1) as made:
        environment = Path(f"/proc/{made.pid}/environ").read_bytes()
    assert b"secret" not in environment


def test_the_child_dies_with_its_parent(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import os\nfrom meta_agent.policies.training import PolicyChild\n"
        "print(PolicyChild(threads=1).pid, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    pid = int(out.stdout)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        if "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
            return
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()
