"""What `doctor` says of keys is what opening the models would do."""

from typing import Any

import pytest

from meta_agent.core.config import RunConfig
from meta_agent.core.errors import PreflightError
from meta_agent.llm_clients.asking.accounts import Account, accounts
from meta_agent.llm_clients.providers._endpoints import endpoint_for

HERE = "http://127.0.0.1:8000/v1"
KEY = {"OPENAI_API_KEY": "sk-0"}


def only(environment: dict[str, str], model: str, **settings: Any) -> Account:
    (found,) = accounts(RunConfig(meta_model=model, **settings), environment)
    return found


CASES = [
    ("openai/m", {}, {}),
    ("openai/m", KEY, {}),
    ("openai/m", {"OPENAI_BASE_URL": HERE}, {}),
    ("openai/m", {**KEY, "OPENAI_BASE_URL": HERE}, {}),
    ("openai/m", {**KEY, "OPENAI_BASE_URL": HERE}, {"base_urls": {"all": "http://127.0.0.1:9"}}),
    ("openai/m", {}, {"base_urls": {"all": HERE}, "key_env": {"all": "MY_KEY"}}),
    ("openai/m", {"MY_KEY": "k"}, {"base_urls": {"all": HERE}, "key_env": {"all": "MY_KEY"}}),
    ("litellm/cerebras/m", {}, {}),
    ("moonshot/m", {"MOONSHOT_API_KEY": "k"}, {}),
    ("bedrock/m", {}, {}),
    ("openai/m", {"OPENAI_API_KEY": "sk 0"}, {}),
]


@pytest.mark.parametrize(("model", "environment", "settings"), CASES)
def test_an_account_says_what_opening_it_would_say(
    model: str, environment: dict[str, str], settings: dict[str, Any]
) -> None:
    account = only(environment, model, **settings)
    try:
        endpoint = endpoint_for("analyst", RunConfig(meta_model=model, **settings), environment)
    except PreflightError as refused:
        assert (account.refusal, account.hint) == (str(refused), refused.hint)
    else:
        assert not account.refusal
        assert (account.via, account.base_url) == (endpoint.provider, endpoint.base_url)
        assert not account.key_name or environment[account.key_name] == endpoint.api_key


def test_a_model_that_is_served_by_us_needs_no_key() -> None:
    account = only({}, "vllm:/models/tiny")
    assert (account.via, account.refusal) == ("vllm", "")
