"""One client for all roles, over real HTTP: nothing recorded is asked again, keys stay out."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError, IntegrityError, PreflightError, ProviderError
from meta_agent.llm_clients.asking.client import Server
from meta_agent.llm_clients.asking.transcripts import Transcripts
from tests.loopback import Call, Fault, Say, anthropic_server, openai_server, say_each
from tests.models._clients import AT_ONCE, RUN, SHELL, opened, request, user

CANARY = "sk-canary-0123456789abcdef"
UNRELATED = "tok-0123-another-secret"
OURS = "openai/any"


def echo(call: Call) -> Say:
    return Say(f"you said {call.last}", input_tokens=10, output_tokens=4)


def test_reply_is_priced_recorded_and_settled(tmp_path: Path) -> None:
    with anthropic_server(lambda _: Say("hi", input_tokens=1000, output_tokens=100)) as url:
        (tmp_path / "meta-agent.toml").write_text(
            '[prices."anthropic/claude-sonnet-4-5"]\ninput = 3.0\noutput = 15.0\n'
        )
        environment = {"ANTHROPIC_API_KEY": CANARY, "ANTHROPIC_BASE_URL": url}
        model = "anthropic/claude-sonnet-4-5"
        with opened(tmp_path, environment=environment, meta_model=model) as run:
            reply = run.client.chat(request("hello"), conversation="g0/analyst", turn=0)
            spent = run.ledger.spend()["analyst"]
    assert reply.usd == pytest.approx((1000 * 3 + 100 * 15) / 1e6)
    assert (spent.tokens, spent.open_usd) == (1100, 0)
    assert spent.usd == pytest.approx((1000 * 3 + 100 * 15) / 1e6)
    (recorded,) = Transcripts(tmp_path / "transcripts" / RUN).read("g0/analyst")
    assert recorded.reply == reply
    assert recorded.at == 1_700_000_123.0


def test_what_serves_the_model_is_recorded_with_the_reply(tmp_path: Path) -> None:
    say = Say("hi", model="m-2026", fingerprint="fp_1")
    with (
        openai_server(lambda _: say) as url,
        opened(tmp_path, meta_model=OURS, base_urls={"all": url}) as run,
    ):
        reply = run.client.chat(request("hello"), conversation="g0/analyst", turn=0)
    (recorded,) = Transcripts(tmp_path / "transcripts" / RUN).read("g0/analyst")
    assert (reply.model, reply.fingerprint) == ("m-2026", "fp_1")
    assert recorded.reply == reply


def test_each_role_has_its_own_model_server_and_key(tmp_path: Path) -> None:
    with openai_server(echo, key="key-of-a") as a, anthropic_server(echo, key="key-of-b") as b:
        with opened(
            tmp_path,
            meta_model="openai/one",
            models={"reviewer": "anthropic/two"},
            policy="openai/three",
            base_urls={"analyst": a, "proposer": a, "librarian": a, "policy": a, "reviewer": b},
            key_env=dict.fromkeys(("analyst", "proposer", "librarian", "policy"), "KEY_A")
            | {"reviewer": "KEY_B"},
            environment={"KEY_A": "key-of-a", "KEY_B": "key-of-b", "OPENAI_API_KEY": CANARY},
        ) as run:
            for role in ("analyst", "reviewer", "policy"):
                run.client.chat(request("?", role), conversation=f"g0/{role}", turn=0)
            assert run.client.model_of("reviewer") == "anthropic/two"
            assert set(run.ledger.spend()) == {"analyst", "reviewer", "policy"}
        assert [call.model for call in a.calls] == ["one", "three"]
        assert [call.model for call in b.calls] == ["two"]
        assert CANARY not in str([dict(call.headers) for call in (*a.calls, *b.calls)])


def test_recorded_exchange_is_not_asked_again(tmp_path: Path) -> None:
    with openai_server(echo) as url:
        settings: dict[str, Any] = {"meta_model": OURS, "base_urls": {"all": url}}
        first, second = [user("one")], [user("one"), user("two")]
        with opened(tmp_path, **settings) as run:
            said = run.client.chat(request(first), conversation="g0/analyst", turn=0)
            again = run.client.chat(request(first), conversation="g0/analyst", turn=0)
        with opened(tmp_path, **settings) as run:
            resumed = run.client.chat(request(first), conversation="g0/analyst", turn=0)
            run.client.chat(request(second), conversation="g0/analyst", turn=1)
            assert run.ledger.spend()["analyst"].calls == 2
        assert len(url.calls) == 2
    assert (said.replayed, again.replayed, resumed.replayed) == (False, True, True)
    assert said.content == again.content == resumed.content


def test_another_question_in_the_same_place_is_asked(tmp_path: Path) -> None:
    with (
        openai_server(echo) as url,
        opened(tmp_path, meta_model=OURS, base_urls={"all": url}) as run,
    ):
        for text in ("one", "two"):
            run.client.chat(request(text), conversation="g0/analyst", turn=0)
        assert [call.last for call in url.calls] == ["one", "two"]
        (kept,) = run.transcripts.read("g0/analyst")
        assert kept.reply.content == "you said two"


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.0},
        {"seed": 0},
        {"max_tokens": 7},
        {"tools": (SHELL,)},
        {"messages": [user("one ")]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_makes_another_question(tmp_path: Path, change: dict[str, Any]) -> None:
    with (
        openai_server(echo) as url,
        opened(tmp_path, meta_model=OURS, base_urls={"all": url}) as run,
    ):
        plain: dict[str, Any] = {"messages": [user("one")]}
        for asked in (plain, plain, plain | change):
            run.client.chat(request(**asked), conversation="c", turn=0)
        assert len(url.calls) == 2


def test_tool_calls_go_out_and_come_back(tmp_path: Path) -> None:
    brain = say_each([Say(tool_calls=[("shell", {"cmd": "ls"})]), Say("done")])
    with (
        openai_server(brain) as url,
        opened(tmp_path, meta_model=OURS, base_urls={"all": url}) as run,
    ):
        messages = [user("look")]
        reply = run.client.chat(request(messages, tools=(SHELL,)), conversation="c", turn=0)
        (call,) = reply.tool_calls
        assert (call.name, call.arguments) == ("shell", {"cmd": "ls"})
        result = {"role": "tool", "tool_call_id": call.id, "content": "setup.py"}
        messages = [*messages, reply.message, result]
        run.client.chat(request(messages, tools=(SHELL,)), conversation="c", turn=1)
        assert url.calls[1].last == "setup.py"
        assert [len(one.messages) for one in run.transcripts.read("c")] == [1, 3]


def test_revoked_key_loses_nothing_that_was_recorded(tmp_path: Path) -> None:
    def brain(call: Call) -> Say | Fault:
        return Fault.status(401, "revoked") if call.key == "old-key-0001" else echo(call)

    with openai_server(brain) as url:
        settings: dict[str, Any] = {
            "meta_model": OURS,
            "base_urls": {"all": url},
            "key_env": {"all": "KEY"},
        }
        with opened(tmp_path, environment={"KEY": "new-key-0002"}, **settings) as run:
            run.client.chat(request("one"), conversation="c", turn=0)
        with opened(tmp_path, environment={"KEY": "old-key-0001"}, **settings) as run:
            assert run.client.chat(request("one"), conversation="c", turn=0).replayed
            with pytest.raises(ProviderError) as refused:
                run.client.chat(request("two"), conversation="c", turn=1)
            assert refused.value.kind == "auth"
            spent = run.ledger.spend()["analyst"]
            assert (spent.calls, spent.open_tokens) == (1, 0)
        with opened(tmp_path, environment={"KEY": "new-key-0002"}, **settings) as run:
            assert run.client.chat(request("one"), conversation="c", turn=0).replayed
            assert not run.client.chat(request("two"), conversation="c", turn=1).replayed


def test_no_key_gets_into_any_file_or_out_in_a_prompt(tmp_path: Path) -> None:
    def blabbing(call: Call) -> Say | Fault:
        if call.number == 0:
            return Say(f"your key is {call.key}", tool_calls=[("shell", {"cmd": call.key})])
        return Fault.status(400, f"bad header Authorization: Bearer {call.key}")

    with (
        openai_server(blabbing, key=CANARY) as url,
        opened(
            tmp_path,
            meta_model=OURS,
            base_urls={"all": url},
            key_env={"all": "MY_SERVER"},
            environment={"MY_SERVER": CANARY, "CI_TOKEN": UNRELATED, "SORT_KEY": "evidence"},
        ) as run,
    ):
        leaked = f"the evidence holds {CANARY} and {UNRELATED}"
        asked = request(leaked, tools=(SHELL,))
        reply = run.client.chat(asked, conversation="c", turn=0)
        assert reply.content == "your key is [secret]"
        assert reply.tool_calls[0].arguments == {"cmd": "[secret]"}
        assert url.calls[0].last == "the evidence holds [secret] and [secret]"
        again = run.client.chat(asked, conversation="c", turn=0)
        assert again.replayed
        with pytest.raises(ProviderError) as refused:
            run.client.chat(request("more"), conversation="c", turn=1)
        assert CANARY not in str(refused.value)
        chain = [refused.value.__cause__, refused.value.__context__]
        assert CANARY not in repr(chain) or refused.value.__suppress_context__
        run.ledger.event("note", {"error": str(refused.value)})
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".sqlite", ".jsonl", ".json"}
    for secret in (CANARY, UNRELATED):
        assert [path.name for path in files if secret.encode() in path.read_bytes()] == []


def test_server_of_our_own_is_recorded_under_the_models_name(tmp_path: Path) -> None:
    with openai_server(echo, key="made-up-here") as url:
        server = Server("openai/served", url, "made-up-here")
        with opened(tmp_path, policy="vllm:/models/tiny", servers={"policy": server}) as run:
            reply = run.client.chat(request("?", "policy"), conversation="policy/m/t/0", turn=0)
            assert (reply.usd, url.calls[0].model) == (None, "served")
            (kept,) = run.transcripts.read("policy/m/t/0")
            assert kept.question.parameters["model"] == "vllm:/models/tiny"
            assert run.ledger.spend()["policy"].unpriced_calls == 1


def test_role_without_a_model_is_named(tmp_path: Path) -> None:
    with opened(tmp_path) as run, pytest.raises(ConfigError, match="role analyst needs a model"):
        run.client.chat(request("?"), conversation="c", turn=0)


def test_missing_key_is_found_before_anything_starts(tmp_path: Path) -> None:
    with (
        pytest.raises(PreflightError, match="OPENAI_API_KEY"),
        opened(tmp_path, meta_model="openai/gpt-5"),
    ):
        pass


def test_manifest_says_what_a_replay_needs(tmp_path: Path) -> None:
    with openai_server(echo) as url:
        settings: dict[str, Any] = {"meta_model": OURS, "base_urls": {"all": url}, "generations": 2}
        for labels in ({"model": "a small one"}, {"relayed": "by hand"}):
            with opened(tmp_path, labels=labels, **settings) as run:
                manifest = run.transcripts.manifest() or {}
    assert manifest["labels"] == {"model": "a small one", "relayed": "by hand"}
    assert (manifest["run_id"], manifest["clock"]) == (RUN, 1_700_000_000)
    assert manifest["settings"]["generations"] == 2
    assert manifest["models"]["proposer"] == OURS
    assert str(tmp_path) not in str(manifest)
    assert "127.0.0.1" not in str(manifest)


def test_record_of_another_run_is_not_written_over(tmp_path: Path) -> None:
    with openai_server(echo) as url:
        settings: dict[str, Any] = {"meta_model": OURS, "base_urls": {"all": url}}
        with opened(tmp_path, **settings) as run:
            run.transcripts.write_manifest({**(run.transcripts.manifest() or {}), "run_id": "x"})
        with pytest.raises(IntegrityError, match="records the run x"), opened(tmp_path, **settings):
            pass


def test_importing_the_client_loads_no_sdk() -> None:
    program = (
        "import sys, meta_agent.llm_clients.asking.client, meta_agent.llm_clients.asking.estimate; "
        + ("print([n for n in ('openai','anthropic','litellm','torch') if n in sys.modules])")
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_retries_are_counted_in_the_record(tmp_path: Path) -> None:
    brain = say_each([Fault.status(503), Fault.status(429), Say("third", output_tokens=1)])
    with (
        openai_server(brain) as url,
        opened(tmp_path, meta_model=OURS, base_urls={"all": url}, retry=AT_ONCE) as run,
    ):
        run.client.chat(request("?"), conversation="c", turn=0)
        (kept,) = run.transcripts.read("c")
        spent = run.ledger.spend()["analyst"]
    assert (kept.attempts, len(url.calls)) == (3, 3)
    assert (spent.calls, spent.open_tokens) == (1, 0)  # refused requests cost nothing


@pytest.mark.parametrize("status", [401, 404])
def test_a_wrong_key_or_model_names_role_server_and_variable(tmp_path: Path, status: int) -> None:
    with openai_server(lambda _: Fault.status(status, "no")) as url:
        settings = {"meta_model": OURS, "base_urls": {"all": url}, "key_env": {"judge": "UNUSED"}}
        own = {**settings, "key_env": {"analyst": "SOME_KEY"}}
        for said, variables in ((settings, "no key: name its variable"), (own, "SOME_KEY")):
            with (
                opened(tmp_path, environment={"SOME_KEY": "tok-9876"}, **said) as run,
                pytest.raises(ProviderError) as refused,
            ):
                run.client.chat(request("one"), conversation="c", turn=0)
            told = str(refused.value)
            assert "the analyst's model any" in told.replace("openai/", "") and str(url) in told
            assert variables in told and f"HTTP {status}: no" in told
            assert refused.value.halts and "tok-9876" not in told
