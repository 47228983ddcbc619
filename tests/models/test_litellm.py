"""The litellm provider: what it must not do by itself, and replies in the one form."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from meta_agent.core.chat import ChatReply, ChatRequest, ToolSpec, Usage
from meta_agent.core.errors import ProviderError
from tests.loopback import Say, openai_server
from tests.models._providers import open_provider

pytestmark = [
    pytest.mark.filterwarnings("ignore:::litellm[.].*"),
    pytest.mark.filterwarnings("ignore:.*ReadOnly. qualifier"),
]
MODEL = "litellm/deepseek/m"
VIEW = ToolSpec("view", "Shows a file.", {"type": "object", "properties": {}})


def ask(url: str) -> ChatReply:
    provider = open_provider(MODEL, base_url=url)
    messages = [{"role": "user", "content": "hello"}]
    return provider.chat(ChatRequest("proposer", MODEL, messages, 64, [VIEW], temperature=0.5))


def test_a_whole_reply_with_tools() -> None:
    say = Say("two words", tool_calls=[("view", {"p": 1})], input_tokens=50, cached_tokens=9)
    with openai_server(lambda call: say) as url:
        reply = ask(url)
        body = url.calls[0].raw
    assert (reply.content, reply.stop) == ("two words", "tool_calls")
    assert reply.tool_calls[0].arguments == {"p": 1}
    assert reply.usage == Usage(50, reply.usage.output_tokens, cached_tokens=9)
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("m", 64, 0.5)


def test_a_server_of_ones_own_never_sees_the_providers_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-users-own")
    with openai_server(lambda call: Say("done")) as url:
        ask(url)
        assert url.calls[0].key == "none"
        assert "users-own" not in str(dict(url.calls[0].headers))


def test_a_key_in_the_environment_is_not_echoed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PROVIDER_TOKEN", "canary-value-0123456789")
    with (
        openai_server(lambda call: Say("x", tool_calls=[("canary-value-0123456789", {})])) as url,
        pytest.raises(ProviderError) as caught,
    ):
        ask(url)
    assert "canary" not in str(caught.value)


PROBE = """
import os, socket, sys

def no_network(self, address):
    raise AssertionError(f"litellm went to {address}")

socket.socket.connect = no_network
before = dict(os.environ)
from meta_agent.llm_clients.providers import _litellm
assert "litellm" not in sys.modules, "imported before it is wanted"
_litellm.LiteLLMProvider(base_url=None, api_key="none", timeouts=None, scrubber=None)
assert "litellm" in sys.modules
changed = {name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}
assert changed <= {"TIKTOKEN_CACHE_DIR"}, changed
"""


def test_importing_it_reads_no_dotenv_and_asks_no_network(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-of-somebody-else\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "sk-of-somebody-else" not in done.stdout + done.stderr


def test_a_proxy_that_it_cannot_read_is_named_before_the_first_call() -> None:
    program = (
        "from meta_agent.core.errors import PreflightError\n"
        "from tests.models._providers import open_provider\n"
        "try:\n    open_provider('litellm/deepseek/m', base_url='https://api.example/v1')\n"
        "except PreflightError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, "NO_PROXY": "[::1]", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "NO_PROXY" in done.stdout, done.stderr
