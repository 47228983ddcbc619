"""Prices: two places in one order; unknown stays unknown; the worst case is the worst."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_agent.core.chat import Usage
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.workspace import read_settings
from meta_agent.llm_clients.asking.client import prices_in_use
from meta_agent.llm_clients.asking.prices import Price, Rates, price_of, stated_prices

TIERED = Price((Rates(1.0, 8.0, 0.1, 1.25), Rates(2.0, 16.0, 0.2, 2.5, 1000)), "test")


def test_every_kind_of_token_has_its_rate() -> None:
    usage = Usage(1_000_000, 100_000, cached_tokens=600_000, cache_write_tokens=100_000)
    price = price_of("anthropic/claude-sonnet-4-5", stated={})
    assert price is not None
    assert price.usd(usage) == pytest.approx(0.3 * 3 + 0.6 * 0.3 + 0.1 * 3.75 + 0.1 * 15)


def test_long_prompts_may_be_dearer() -> None:
    assert TIERED.usd(Usage(999, 0)) == pytest.approx(999e-6)
    assert TIERED.usd(Usage(1000, 100)) == pytest.approx(2000e-6 + 1600e-6)


tokens = st.integers(0, 3000)


@given(tokens, tokens, st.floats(0, 1), st.floats(0, 1), tokens, tokens)
def test_worst_case_is_never_too_low(
    asked: int, said: int, cached: float, written: float, more_in: int, more_out: int
) -> None:
    hits = int(asked * cached)
    usage = Usage(asked, said, hits, int((asked - hits) * written))
    worst = TIERED.worst_usd(asked + more_in, said + more_out)
    assert TIERED.usd(usage) <= worst + 1e-12


def test_a_stated_price_comes_before_litellms() -> None:
    mine = stated_prices({"openai/gpt-5": {"input": 1, "output": 2}}, "here")
    found = [
        price_of("openai/gpt-5", stated=mine),
        price_of("openai/gpt-5", stated={}),
        price_of("gemini/gemini-2.5-pro", stated={}),
        price_of("litellm/gemini/gemini-2.5-pro", stated={}),
    ]
    sources = [price.source.split()[0] if price else None for price in found]
    assert sources == ["here", "litellm", "litellm", "litellm"]


@pytest.mark.parametrize(
    "model", ["openai/no-such-model", "ollama/llama3", "vllm:/models/x", "anthropic/gpt-5"]
)
def test_unknown_is_unknown_and_never_zero(model: str) -> None:
    assert price_of(model, stated={}) is None


@pytest.mark.parametrize(
    ("settings", "environment", "known"),
    [
        ({}, {}, True),
        ({"base_urls": {"policy": "http://127.0.0.1:8000/v1"}}, {}, False),
        ({"base_urls": {"policy": "https://api.openai.com/v1"}}, {}, True),
        ({}, {"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"}, False),
        ({}, {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8000/v1"}, True),
    ],
)
def test_name_says_nothing_about_a_server_of_ones_own(
    tmp_path: Path, settings: dict[str, Any], environment: dict[str, str], known: bool
) -> None:
    config = RunConfig(workspace=tmp_path, policy="openai/gpt-5", **settings)
    prices = prices_in_use(config, environment)
    assert list(prices) == ["policy"]
    assert (prices["policy"] is not None) == known


def test_roles_that_ask_nobody_need_no_price(tmp_path: Path) -> None:
    assert prices_in_use(RunConfig(workspace=tmp_path), {}) == {}
    team = prices_in_use(RunConfig(workspace=tmp_path, meta_model="openai/gpt-5"), {})
    assert set(team) == {"analyst", "proposer", "reviewer", "librarian"}


def test_own_server_may_cost_nothing_if_its_owner_says_so(tmp_path: Path) -> None:
    path = tmp_path / "meta-agent.toml"
    path.write_text('[prices."openai/mine"]\ninput = 0\noutput = 0\n')
    stated = stated_prices(read_settings(path)["prices"], str(path))
    price = price_of("openai/mine", stated=stated, own_server=True)
    assert price is not None
    assert (price.usd(Usage(10, 10)), price.source) == (0.0, str(path))


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"input": 1},
        {"input": 1, "output": -1},
        {"input": 1, "output": float("nan")},
        {"input": "1", "output": 1},
        {"input": True, "output": 1},
        {"input": 1, "output": 1, "inptu": 1},
        3,
    ],
)
def test_prices_that_are_none_are_refused_by_name(row: object) -> None:
    with pytest.raises(ConfigError, match=r'here: \[prices\."openai/x"\] is not a valid price'):
        stated_prices({"openai/x": row}, "here")


def test_stored_price_comes_back() -> None:
    assert Price.from_json(TIERED.to_json()) == TIERED
