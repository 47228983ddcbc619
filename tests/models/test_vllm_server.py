"""`vllm:PATH` on the CPU: a real vLLM server with a tiny model, started and stopped by us."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.errors import ConfigError, PreflightError
from meta_agent.core.protocols import GenerateRequest, Message
from meta_agent.llm_clients.asking.client import Server
from meta_agent.policies.served.api_gateway import ApiGateway
from meta_agent.policies.served.vllm_server import (
    PYTHON_VARIABLE,
    VllmServer,
    require_vllm,
    served_name,
)
from tests.models import _clients, _tiny_qwen, _vllm


def test_a_python_without_vllm_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, "/bin/false")
    with pytest.raises(PreflightError, match="not a Python with vLLM"):
        require_vllm()


def test_a_folder_that_is_no_model_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meta_agent.policies.served.vllm_server.require_vllm", lambda: "/bin/false")
    with pytest.raises(ConfigError, match="not a model in Hugging Face format"):
        VllmServer(tmp_path, log=tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_a_folder_names_the_model_in_plain_characters() -> None:
    assert served_name(Path("/models/Qwen 3 (tiny)")) == "Qwen-3-tiny-"


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    python = _vllm.require_vllm()
    pytest.importorskip("torch", reason="makes its tiny model with torch")
    folder = tmp_path_factory.mktemp("vllm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PYTHON_VARIABLE, python)
        for name, value in _vllm.COMPILE_NOTHING.items():
            patch.setenv(name, value)
        model = _tiny_qwen.write(folder / "tiny")
        with VllmServer(model, log=folder / "vllm.log") as server:
            yield server


def call(turn: int, messages: list[Message], **changes: object) -> GenerateRequest:
    facts = {"key": "k", "task_key": "t", "sample_idx": 0, "seed": 1, "turn": turn}
    facts |= {"messages": messages, "max_tokens": 6, "temperature": 1.0, **changes}
    return GenerateRequest(**facts)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_asks_for_our_key(serving: VllmServer) -> None:
    url = f"{serving.endpoint.base_url}/models"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url, timeout=60)
    refused.value.close()
    assert refused.value.code == 401


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_its_replies_come_with_an_exact_token_row(serving: VllmServer, tmp_path: Path) -> None:
    at = serving.endpoint
    servers = {"policy": Server(f"openai/{at.model}", at.base_url, at.api_key)}
    with _clients.opened(tmp_path, policy="vllm:tiny", servers=servers) as opened:
        gateway = ApiGateway(opened.client, "vllm:tiny", label="l", logprobs=True)
        first: list[Message] = [{"role": "user", "content": "the quick brown fox"}]
        (reply,) = gateway.generate([call(0, first)])
        assert reply.failure is None and reply.completion_tokens <= 6
        gateway.generate([call(0, [{"role": "user", "content": "other"}], key="o", task_key="o")])
        (again,) = gateway.generate([call(0, first)])
        assert again.content == reply.content  # from the record
        row, other = gateway.finish(["k", "o"])
    assert row is not None and other is not None
    assert len(row.completion_ids) == reply.completion_tokens
    assert all(value <= 0 for value in row.logprobs) and any(row.logprobs)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_conversation_that_the_model_has_no_room_for_ends_as_context(
    serving: VllmServer, tmp_path: Path
) -> None:
    at = serving.endpoint
    servers = {"policy": Server(f"openai/{at.model}", at.base_url, at.api_key)}
    with _clients.opened(tmp_path, policy="vllm:tiny", servers=servers) as opened:
        gateway = ApiGateway(opened.client, "vllm:tiny", label="l", logprobs=True)
        long: list[Message] = [{"role": "user", "content": "Z9" * 40_000}]
        (reply,) = gateway.generate([call(0, long)])
    assert (reply.finish_reason, reply.failure) == ("context", None)
