"""Which SDK, which address, which key."""

import subprocess
import sys
from typing import Any

import pytest

from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError, PreflightError
from meta_agent.llm_clients.providers._connection import proxy_for
from meta_agent.llm_clients.providers._endpoints import endpoint_for, resolve_endpoint
from tests.models._providers import open_provider

KEYS = {
    "OPENAI_API_KEY": "sk-openai",
    "ANTHROPIC_API_KEY": "sk-ant",
    "GOOGLE_API_KEY": "sk-google",
    "MY_KEY": "sk-mine",
}
HERE = "http://127.0.0.1:8000/v1"


def config(**fields: Any) -> RunConfig:
    return RunConfig(**{"meta_model": "openai/gpt-5", **fields})


def test_an_sdk_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    monkeypatch.delitem(sys.modules, "meta_agent.llm_clients.providers._anthropic", raising=False)
    with pytest.raises(PreflightError, match="needs the package anthropic") as told:
        open_provider("anthropic/claude-opus-5", environment=KEYS)
    assert told.value.hint == "pip install anthropic"


@pytest.mark.parametrize(
    ("model", "base_url", "sdk", "key"),
    [
        ("openai/gpt-5", None, "openai", "sk-openai"),
        ("anthropic/claude-opus-5", None, "anthropic", "sk-ant"),
        ("gemini/gemini-3-pro", None, "litellm", "sk-google"),
        ("bedrock/some-model", None, "litellm", None),
        ("openai/gpt-5", HERE, "openai", "none"),
        ("anthropic/claude-opus-5", HERE, "anthropic", "none"),
        ("gemini/gemini-3-pro", HERE, "openai", "none"),
        ("litellm/gemini/gemini-3-pro", HERE, "litellm", "none"),
        ("openai/gpt-5", "https://api.openai.com/v1", "openai", "none"),
    ],
)
def test_a_model_string_and_a_base_url_say_it_all(
    model: str, base_url: str | None, sdk: str, key: str | None
) -> None:
    found = resolve_endpoint(model, base_url, None, KEYS)
    assert (found.provider, found.base_url, found.api_key) == (sdk, base_url, key)


def test_a_server_of_ones_own_gets_the_key_that_is_named_for_it() -> None:
    settings = config(base_urls={"proposer": HERE}, key_env={"proposer": "MY_KEY"})
    assert endpoint_for("proposer", settings, KEYS).api_key == "sk-mine"
    assert endpoint_for("analyst", settings, KEYS).api_key == "sk-openai"
    assert endpoint_for("analyst", settings, KEYS).base_url is None


def test_address_and_key_of_the_environment_belong_together() -> None:
    elsewhere = {**KEYS, "OPENAI_BASE_URL": HERE, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    found = resolve_endpoint("openai/gpt-5", None, None, elsewhere)
    assert (found.base_url, found.api_key) == (HERE, "sk-openai")
    found = resolve_endpoint("openai/gpt-5", "http://127.0.0.1:7", None, elsewhere)
    assert (found.base_url, found.api_key) == ("http://127.0.0.1:7", "none")
    found = resolve_endpoint("gemini/x", None, None, elsewhere)
    assert found.base_url is None


def test_an_address_of_the_environment_needs_no_key() -> None:
    found = resolve_endpoint("openai/m", None, None, {"OPENAI_BASE_URL": HERE})
    assert (found.base_url, found.api_key) == (HERE, "none")


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai/gpt-5", "OPENAI_API_KEY"),
        ("anthropic/claude-opus-5", "ANTHROPIC_API_KEY"),
        ("gemini/gemini-3-pro", "GEMINI_API_KEY or GOOGLE_API_KEY"),
    ],
)
def test_a_missing_key_is_named_before_anything_is_asked(model: str, variable: str) -> None:
    with pytest.raises(PreflightError, match=variable) as caught:
        open_provider(model, environment={})
    assert caught.value.hint and caught.value.hint.startswith("export ")


def test_a_variable_that_is_named_must_be_set() -> None:
    settings = config(base_urls={"proposer": HERE}, key_env={"proposer": "NO_SUCH_KEY"})
    with pytest.raises(PreflightError, match="NO_SUCH_KEY"):
        endpoint_for("proposer", settings, KEYS)


@pytest.mark.parametrize("around", ["{}\n", " {} ", "{}\r\n", "\t{}"])
def test_blanks_around_a_key_or_an_address_are_left_out(around: str) -> None:
    environment = {"OPENAI_API_KEY": around.format("sk-1"), "OPENAI_BASE_URL": around.format(HERE)}
    found = resolve_endpoint("openai/m", None, None, environment)
    assert (found.api_key, found.base_url) == ("sk-1", HERE)
    named = config(base_urls={"proposer": around.format(HERE)}, key_env={"proposer": "MY_KEY"})
    endpoint = endpoint_for("proposer", named, {"MY_KEY": around.format("sk-2")})
    assert (endpoint.api_key, endpoint.base_url) == ("sk-2", HERE)


@pytest.mark.parametrize("key", ["sk-1\nsk-2", "sk 1", "sk-\u200b1", "\ufeffsk-1", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_named_before_the_first_call(key: str) -> None:
    with pytest.raises(PreflightError, match="OPENAI_API_KEY") as caught:
        resolve_endpoint("openai/m", None, None, {"OPENAI_API_KEY": key})
    assert key not in str(caught.value)


@pytest.mark.parametrize("key", ["", " ", "\n"])
def test_a_key_of_blanks_is_none(key: str) -> None:
    with pytest.raises(PreflightError, match="not set"):
        resolve_endpoint("openai/m", None, None, {"OPENAI_API_KEY": key})


BAD_URLS = [
    *("localhost:8000", "ftp://host/x", "http://", "http://u:p@host/v1", "http://u:p@host:x"),
    *("http://host:99999/v1", "http://host:x/v1", "http://[::1/v1"),
    *("http://ho st/v1", "http://host/v1\n/more", "http://host/\tv1"),
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_base_url_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_endpoint("openai/m", url, None, KEYS)
    assert "u:p" not in str(caught.value)


# --- proxies and certificates -------------------------------------------------------------------

PROXY = "http://127.0.0.1:9"
ROUTES = [  # NO_PROXY, URL, whether the proxy is asked
    ("", "https://api.example/v1", True),
    ("api.example", "https://api.example/v1", False),
    ("example", "https://api.example/v1", False),
    (".example", "https://api.example/v1", False),
    ("*.example", "https://api.example/v1", False),
    ("ample", "https://api.example/v1", True),
    ("other, api.example:443", "https://api.example:443/v1", False),
    ("api.example:8080", "https://api.example:443/v1", True),
    ("*", "https://api.example/v1", False),
    ("[::1]", "https://api.example/v1", True),
    ("fd00::/8", "https://[fd00::5]:8000/v1", False),
    ("[fd00::5]:8000", "https://[fd00::5]:8000/v1", False),
    ("fd00::/8", "https://[fe00::5]/v1", True),
    ("10.0.0.0/8", "http://10.1.2.3:8000/v1", False),
    ("10.0.0.0/8", "http://11.1.2.3:8000/v1", True),
    ("localhost,::1,http://x:y z,,[", "http://10.1.2.3:8000/v1", True),
    ("", "http://127.0.0.1:8000/v1", False),
    ("", "http://[::1]:8000/v1", False),
]


@pytest.mark.parametrize(("exceptions", "url", "asked"), ROUTES)
@pytest.mark.parametrize("variables", [("ALL_PROXY",), ("HTTP_PROXY", "HTTPS_PROXY")])
def test_no_proxy_is_read_by_name_address_and_range(
    exceptions: str, url: str, asked: bool, variables: tuple[str, ...], monkeypatch: Any
) -> None:
    for name in (*variables, "NO_PROXY"):
        monkeypatch.setenv(name, exceptions if name == "NO_PROXY" else PROXY)
    assert proxy_for(url) == (PROXY if asked else None)
    for model in ("openai/m", "anthropic/m"):
        open_provider(model, base_url=url, environment={}).close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPS_PROXY", "socks4://127.0.0.1:9"),
        ("HTTPS_PROXY", "http://[::1"),
        ("HTTPS_PROXY", "http://host:99999"),
        ("HTTPS_PROXY", "http://me:se cret@host:9"),
        ("ALL_PROXY", "ftp://host"),
        ("SSL_CERT_FILE", "/no/such/file.pem"),
        ("SSL_CERT_FILE", "/etc/passwd"),
    ],
)
@pytest.mark.parametrize("model", ["openai/m", "anthropic/m"])
def test_a_proxy_or_certificate_that_is_none_is_named_before_the_first_call(
    model: str, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(PreflightError, match=name) as caught:
        open_provider(model, base_url="https://api.example/v1", environment={})
    assert "se cret" not in str(caught.value)


@pytest.mark.parametrize("model", ["nano", "rules", "vllm:some/path", "replay:r1/x"])
def test_a_model_that_is_behind_no_server_is_refused(model: str) -> None:
    with pytest.raises(ConfigError, match="does not name a model behind a server"):
        resolve_endpoint(model, None, None, KEYS)


@pytest.mark.parametrize("model", ["litellm/openai/gpt-5", "litellm/anthropic/claude-opus-5"])
def test_the_two_sdks_of_our_own_do_not_go_through_litellm(model: str) -> None:
    with pytest.raises(ConfigError):
        resolve_endpoint(model, HERE, None, KEYS)


def test_a_key_is_not_shown() -> None:
    assert "sk-mine" not in repr(resolve_endpoint("openai/m", HERE, "sk-mine", KEYS))


def test_opening_one_sdk_imports_no_other() -> None:
    code = (
        "import sys; from meta_agent.llm_clients.providers import _endpoints as e;"
        "assert not {'openai', 'anthropic', 'litellm'} & set(sys.modules);"
        "e.open_endpoint(e.resolve_endpoint('openai/m', 'http://127.0.0.1:9', None, {})).close();"
        "assert not {'anthropic', 'litellm'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
