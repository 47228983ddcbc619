"""The forecast: counts that follow from the plan, ranges, what a cap buys, what can be proven."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meta_agent.config import RunConfig
from meta_agent.gate import Pairs, effect, sign_flip_p
from meta_agent.models.asking._power import DISCORDANCE, Design, smallest_effect, tasks_needed
from meta_agent.models.asking.client import roles_in_use
from meta_agent.models.asking.estimate import (
    Estimate,
    Habits,
    Range,
    estimate,
    latest_transcripts,
    measured_in,
)
from meta_agent.models.asking.prices import price_of
from meta_agent.steps.plan import Plan, plan_for
from tests.models._clients import opened, request, script

GPT = price_of("openai/gpt-5", stated={})


@pytest.fixture
def frozen(tmp_path: Path) -> RunConfig:
    models = {"policy": "openai/gpt-5", "meta_model": "openai/gpt-5"}
    return RunConfig(workspace=tmp_path, candidates=3, **models)


def forecast(config: RunConfig, plan: Plan | None = None, **measured: Habits) -> Estimate:
    asks = ["analyst", "proposer", "reviewer", "librarian"]
    asks += [] if config.trainable else ["policy"]
    return estimate(config, plan or plan_for(config), dict.fromkeys(asks, GPT), measured)  # type: ignore[arg-type]


def test_counts_follow_from_the_plan(frozen: RunConfig) -> None:
    found = forecast(frozen)
    conversations = {role: one.conversations for role, one in found.roles.items()}
    assert conversations["analyst"] == Range(3, 3)
    assert conversations["proposer"] == conversations["reviewer"] == Range(9, 9)
    assert conversations["librarian"] == Range(3, 9)
    # 64 search, 128 confirm and vault tasks; a fifth of the race is 2 samples on either side.
    assert conversations["policy"] == Range(64 + 2 * 128, 5 * 2 * 2 * 128 + 2 * 128)


def test_a_search_by_score_tries_one_change_a_generation(frozen: RunConfig) -> None:
    found = forecast(frozen.model_copy(update={"strategy": "score-only"}))
    low, high = 64 + 128, 64 * (1 + 3) + 2 * 128
    assert found.roles["policy"].conversations == Range(low, high)


def test_ranges_are_ordered_and_priced(frozen: RunConfig) -> None:
    found = forecast(frozen)
    assert found.usd is not None
    assert 0 < found.usd.low < found.usd.high
    assert found.tokens.low < found.tokens.high
    total = sum(one.usd.high for one in found.roles.values() if one.usd)
    assert found.usd.high == pytest.approx(total)


def test_one_unknown_price_makes_the_total_unknown(frozen: RunConfig) -> None:
    prices = {"analyst": GPT, "policy": None}
    found = estimate(frozen, plan_for(frozen), prices)  # type: ignore[arg-type]
    assert found.usd is None
    assert found.roles["analyst"].usd is not None
    assert "price of openai/gpt-5 is unknown" in found.warnings[0]


@pytest.mark.parametrize("meta_model", ["rules", "replay:somewhere"])
def test_runs_that_ask_nobody_cost_nothing(tmp_path: Path, meta_model: str) -> None:
    config = RunConfig(workspace=tmp_path, meta_model=meta_model)
    found = estimate(config, plan_for(config), {} if meta_model == "rules" else {"analyst": GPT})
    assert (found.usd, found.calls, found.roles) == (Range(0, 0), Range(0, 0), {})


@pytest.mark.parametrize(
    ("settings", "idle"),
    [
        ({"meta_model": "openai/m", "models": {"judge": "a/b", "analyst": "a/c"}}, "judge"),
        ({"meta_model": "rules", "models": {"analyst": "a/c"}}, "analyst"),
    ],
)
def test_a_model_that_nobody_asks_is_named(settings: dict[str, Any], idle: str) -> None:
    config = RunConfig(**settings)
    told = estimate(config, plan_for(config), {}).warnings[0]
    assert told.startswith(f"nobody asks a model as {idle}")
    assert idle not in roles_in_use(config)


def test_cap_buys_fewer_candidates_and_says_so(frozen: RunConfig) -> None:
    free = forecast(frozen)
    assert free.usd is not None and free.bought_candidates is None
    cap = free.usd.high / 3
    found = forecast(frozen.model_copy(update={"max_usd": cap}))
    assert found.bought_candidates is not None
    assert found.bought_candidates.low == 3  # of 9, a third at the dear end
    assert found.bought_candidates.high >= 3
    assert any("may pay for only 3" in warning for warning in found.warnings)
    tokens = frozen.model_copy(update={"role_max_tokens": {"analyst": 1}})
    assert forecast(tokens).bought_candidates == Range(0, 0)


def test_earlier_run_takes_the_place_of_assumptions(frozen: RunConfig, tmp_path: Path) -> None:
    usage = {"input_tokens": 1000, "output_tokens": 10}
    model = script(tmp_path / "s.jsonl", *[("*", {"content": "x", "usage": usage})] * 4)
    with opened(tmp_path, meta_model=model) as run:
        for name, turns in (("g0/analyst", 4), ("g1/analyst", 2)):
            for turn in range(turns):
                run.client.chat(request(str(turn)), conversation=name, turn=turn)
    latest = latest_transcripts(tmp_path)
    assert latest is not None
    habits = measured_in(latest)
    assert habits["analyst"].input_tokens == Range(700, 1500)
    assert habits["analyst"].exchanges == Range(3 * 0.7, 3 * 1.5)
    found = forecast(frozen, **habits)  # type: ignore[arg-type]
    assert found.roles["analyst"].basis == "measured on swe-0123456789"
    assert found.roles["policy"].basis == "assumed"
    assert latest_transcripts(tmp_path / "elsewhere") is None


def test_forecast_is_json(frozen: RunConfig) -> None:
    told = forecast(frozen.model_copy(update={"max_usd": 1.0})).to_json()
    read = json.loads(json.dumps(told, allow_nan=False))
    assert read["roles"]["policy"]["usd"].keys() == {"low", "high"}


# --- what can be proven ------------------------------------------------------------------------


def test_more_tasks_samples_and_alpha_find_smaller_gains() -> None:
    base = Design(tasks=64, repeats=2, alpha=0.01, frozen=True)
    found = [
        smallest_effect(one)
        for one in (
            base,
            base._replace(tasks=256),
            base._replace(repeats=8),
            base._replace(alpha=0.05),
        )
    ]
    assert all(one is not None for one in found)
    assert found[0] is not None and all(one < found[0] for one in found[1:] if one is not None)


@pytest.mark.parametrize(
    "design",
    [
        Design(tasks=5, repeats=4, alpha=0.01, frozen=True),  # 2^-5 > 0.01
        Design(tasks=1, repeats=4, alpha=0.4, frozen=True),
        Design(tasks=512, repeats=1, alpha=0.01, frozen=False),  # one training seed
    ],
)
def test_what_can_prove_nothing_says_so(design: Design) -> None:
    assert smallest_effect(design) is None


def test_too_coarse_a_plan_warns_and_names_what_helps(frozen: RunConfig) -> None:
    small = replace(plan_for(frozen), confirm=16)
    found = forecast(frozen, small)
    assert found.smallest_effect is not None and found.smallest_effect > 0.2
    warning = next(one for one in found.warnings if "confirm tasks can prove" in one)
    assert "a larger --budget" in warning and "--generations" not in warning
    wanted = int(warning.split("what helps: ")[1].split()[0])
    assert forecast(frozen, replace(small, confirm=wanted)).warnings == ()
    nothing = forecast(frozen, replace(small, confirm=4))
    assert nothing.smallest_effect is None
    assert "can prove nothing" in nothing.warnings[-1]


def test_tasks_needed_is_an_answer_or_none() -> None:
    design = Design(tasks=8, repeats=1, alpha=0.01, frozen=True)
    enough = tasks_needed(design, 0.2)
    assert enough is not None
    assert (smallest_effect(design._replace(tasks=enough)) or 1) <= 0.2
    assert tasks_needed(design._replace(min_effect=0.5), 0.2) is None


def promoted(design: Design, gain: float, rng: np.random.Generator) -> bool:
    """One confirm look by the gate's own statistics, on tasks that are as the forecast assumes."""
    up, down = (DISCORDANCE + gain) / 2, (DISCORDANCE - gain) / 2
    row = rng.choice([1.0, -1.0, 0.0], p=[up, down, 1 - DISCORDANCE], size=design.tasks)
    found = effect(Pairs(row[None, :], design.tasks, 0, 1), alpha=design.alpha)
    return found.ci_low > 0 and sign_flip_p(row, 1).p <= design.alpha


def test_gain_of_the_forecast_is_found_four_times_in_five_by_the_gate() -> None:
    design = Design(tasks=256, repeats=1, alpha=0.01, frozen=True)
    gain = smallest_effect(design)
    assert gain is not None and gain < DISCORDANCE
    rng = np.random.default_rng(0)
    found = sum(promoted(design, gain, rng) for _ in range(400)) / 400
    none = sum(promoted(design, 0.0, rng) for _ in range(400)) / 400
    assert 0.72 < found < 0.88
    assert none < 0.03
