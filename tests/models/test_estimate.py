"""The forecast: counts that follow from the plan, ranges, what a cap buys, what can be proven."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meta_agent.core.chat import ChatReply, Usage
from meta_agent.core.config import RunConfig
from meta_agent.core.loop.plan import Plan, plan_for
from meta_agent.core.protocols import Message
from meta_agent.llm_clients.asking._digest import ModelQuestion
from meta_agent.llm_clients.asking.client import roles_in_use
from meta_agent.llm_clients.asking.estimate import CostForecast, Detectable, Range, estimate
from meta_agent.llm_clients.asking.measured import conversations_of, interval
from meta_agent.llm_clients.asking.prices import price_of
from meta_agent.llm_clients.asking.transcripts import Exchange, Transcripts

GPT = price_of("openai/gpt-5", stated={})
KNOWN = Detectable(0.05, "known")


@pytest.fixture
def frozen(tmp_path: Path) -> RunConfig:
    models = {"policy": "openai/gpt-5", "meta_model": "openai/gpt-5"}
    return RunConfig(workspace=tmp_path, candidates=3, **models)


def forecast(
    config: RunConfig, plan: Plan | None = None, *, least: Detectable = KNOWN
) -> CostForecast:
    asks = ["analyst", "proposer", "reviewer", "librarian"]
    asks += [] if config.trainable else ["policy"]
    return estimate(config, plan or plan_for(config), dict.fromkeys(asks, GPT), least)  # type: ignore[arg-type]


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
    found = estimate(frozen, plan_for(frozen), prices, KNOWN)  # type: ignore[arg-type]
    assert found.usd is None
    assert found.roles["analyst"].usd is not None
    assert "price of openai/gpt-5 is unknown" in found.warnings[0]


@pytest.mark.parametrize("meta_model", ["rules", "replay:somewhere"])
def test_runs_that_ask_nobody_cost_nothing(tmp_path: Path, meta_model: str) -> None:
    config = RunConfig(workspace=tmp_path, meta_model=meta_model)
    asked = {} if meta_model == "rules" else {"analyst": GPT}
    found = estimate(config, plan_for(config), asked, KNOWN)  # type: ignore[arg-type]
    assert (found.usd, found.calls, found.roles) == (Range(0, 0), Range(0, 0), {})


@pytest.mark.parametrize("role", ["judge", "reward"])
def test_a_judge_is_part_of_the_forecast(role: str) -> None:
    config = RunConfig(models={role: "openai/m"}, budget=100)
    forecast_of = estimate(config, plan_for(config), {role: GPT}, KNOWN)  # type: ignore[dict-item]
    assert list(forecast_of.roles) == [role] and forecast_of.usd is not None
    if role == "reward":
        assert forecast_of.calls == Range(0, 100)


@pytest.mark.parametrize(
    ("settings", "idle"),
    [
        ({"meta_model": "openai/m", "models": {"judge": "a/b", "analyst": "a/c"}}, "judge"),
        ({"meta_model": "rules", "models": {"analyst": "a/c"}}, "analyst"),
    ],
)
def test_a_model_that_nobody_asks_is_named(settings: dict[str, Any], idle: str) -> None:
    config = RunConfig(**settings)
    told = estimate(config, plan_for(config), {}, KNOWN).warnings[0]
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


def test_a_model_that_judges_answers_has_a_figure(frozen: RunConfig) -> None:
    found = estimate(frozen, plan_for(frozen), {"judge": GPT}, KNOWN)
    assert found.roles["judge"].calls == found.roles["judge"].conversations
    assert found.usd is not None and found.usd.low > 0


def test_forecast_is_json(frozen: RunConfig) -> None:
    told = forecast(frozen.model_copy(update={"max_usd": 1.0})).to_json()
    read = json.loads(json.dumps(told, allow_nan=False))
    assert read["roles"]["policy"]["usd"].keys() == {"low", "high"}


# --- what can be proven ------------------------------------------------------------------------


def test_too_coarse_a_plan_warns_and_names_what_helps(frozen: RunConfig) -> None:
    small = replace(plan_for(frozen), confirm=16)
    (warning,) = forecast(frozen, small, least=Detectable(0.29, "known", 48)).warnings
    told = "16 confirm tasks can prove only gains of 29 points and more; what helps: 48 confirm "
    assert warning == f"{told}tasks instead of 16, a larger --budget"
    assert forecast(frozen, small, least=Detectable(0.2, "known")).warnings == ()
    (nothing,) = forecast(frozen, small, least=Detectable(None, "known")).warnings
    assert "can prove nothing; what helps: more tasks" in nothing


# --- what was measured ---------------------------------------------------------------------------


def recorded(root: Path, lengths: Sequence[int], model: str = "openai/gpt-5") -> None:
    """Records attempts of so many replies each, of 1,000 tokens in and 100 out."""
    transcripts = Transcripts(root / "g0-run")
    transcripts.write_manifest({"run_id": "g0-run", "models": {"policy": model}})
    reply = ChatReply("ls", "stop", Usage(1000, 100, cached_tokens=500), model)
    for sample, turns in enumerate(lengths):
        messages: list[Message] = [{"role": "user", "content": "mend it"}]
        for turn in range(turns):
            question = ModelQuestion({"model": model}, messages, [])
            name = f"policy/v0/t1/{sample}"
            transcripts.append(Exchange(name, turn, "policy", question, reply, 1.0))
            messages = [*messages, reply.message, {"role": "user", "content": "go on"}]


def test_five_measured_attempts_narrow_the_forecast(frozen: RunConfig, tmp_path: Path) -> None:
    recorded(tmp_path, [6, 7, 8, 9, 10])
    taken = conversations_of(tmp_path, frozen.model_of, {"policy": GPT})
    plan = plan_for(frozen)
    assumed, measured = (
        estimate(frozen, plan, {"policy": GPT}, KNOWN, rows).roles["policy"] for rows in ({}, taken)
    )
    assert (assumed.measured, measured.measured) == (0, 5)
    assert measured.usd and assumed.usd
    assert measured.usd.high / measured.usd.low < assumed.usd.high / assumed.usd.low / 2
    most = measured.conversations.high
    assert 8 * most < measured.calls.high < 11 * most
    # 1.25 dollars a million tokens in, a tenth of that from the cache, 10 a million out.
    assert measured.usd.high / measured.calls.high == pytest.approx(
        (500 * 1.25 + 500 * 0.125 + 100 * 10) / 1e6
    )


@pytest.mark.parametrize(
    ("lengths", "model"), [([4, 4], "openai/gpt-5"), ([4, 4, 4, 4], "openai/other")]
)
def test_few_attempts_or_those_of_another_model_narrow_nothing(
    frozen: RunConfig, tmp_path: Path, lengths: list[int], model: str
) -> None:
    recorded(tmp_path, lengths, model)
    assert conversations_of(tmp_path, frozen.model_of, {"policy": GPT}) == {}


def test_nine_of_ten_runs_lie_in_the_interval() -> None:
    random = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        lengths = random.lognormal(2.0, 0.5, size=5 + 60)
        low, high = interval(lengths[:5].tolist(), 60)
        inside += low <= lengths[5:].sum() <= high
    assert 0.8 <= inside / 400 <= 0.98


def test_a_product_of_two_guesses_is_narrower_than_their_ends() -> None:
    product = Range(1, 4).times(Range(10, 40))
    assert product.low * product.high == pytest.approx(1 * 10 * 4 * 40)
    assert 10 < product.low < product.high < 160
    assert Range(3, 3).times(Range(2, 5)) == Range(pytest.approx(6), pytest.approx(15))  # type: ignore[arg-type]
    assert Range(0, 2).times(Range(3, 4)) == Range(0, 8)
    assert Range(2, 9).below(5) == Range(2, 5) and Range(2, 9).below(None) == Range(2, 9)
