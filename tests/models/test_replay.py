"""A recording in the place of a provider: the same answers, nothing asked, misses explained."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError, IntegrityError, ProviderError
from meta_agent.core.protocols import GenerateRequest, Message
from meta_agent.core.settings import resolve
from meta_agent.llm_clients.asking.client import Client, Recording, recording_of
from meta_agent.llm_clients.asking.transcripts import Transcripts
from meta_agent.policies.opening import FrozenPolicy
from tests.loopback import Call, Fault, Say, openai_server
from tests.models._clients import RUN, SHELL, opened, request, user

SETTINGS: dict[str, Any] = {"meta_model": "openai/any", "generations": 2, "seed": 7}


def brain(call: Call) -> Say | Fault:
    if call.last == "too much":
        return Fault.context_too_long()
    if call.tools:
        return Say(tool_calls=[("shell", {"cmd": "ls"})], input_tokens=5, output_tokens=2)
    return Say(f"answer to {call.last}", input_tokens=5, output_tokens=2)


def dialogue(client: Client, first: str = "look\nat line two", **more: Any) -> list[Message]:
    messages: list[Message] = [user(first)]
    for turn in range(3):
        asked = request(messages, tools=(SHELL,), **more)
        reply = client.chat(asked, conversation="g0/analyst", turn=turn)
        call_id = reply.tool_calls[0].id
        result = {"role": "tool", "tool_call_id": call_id, "content": f"file {turn}"}
        messages = [*messages, reply.message, result]
    return messages


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a recorded run; its server is gone."""
    workspace = tmp_path_factory.mktemp("recorded")
    with openai_server(brain) as url:
        settings = {**SETTINGS, "base_urls": {"all": url}, "policy": "openai/small"}
        with opened(workspace, labels={"model": "loopback"}, **settings) as run:
            dialogue(run.client)
            run.client.chat(request("hello"), conversation="g1/analyst", turn=0)
            with pytest.raises(ProviderError):
                run.client.chat(request("too much"), conversation="g2/analyst", turn=0)
            run.client.chat(request("solve", "policy"), conversation="policy/m/t1/0", turn=0)
    yield workspace / "transcripts" / RUN


def replayed(recorded: Path, workspace: Path, **settings: Any) -> Any:
    given = {"workspace": workspace, "meta_model": f"replay:{recorded}", **settings}
    config = recording_of(f"replay:{recorded}", workspace).effective(RunConfig(**given))
    return opened(workspace, config=config)


def test_replay_gives_the_recorded_dialogue_for_nothing(recorded: Path, tmp_path: Path) -> None:
    original = Transcripts(recorded)
    with replayed(recorded, tmp_path) as run:
        assert run.client.replaying
        messages = dialogue(run.client)
        assert messages[:-2] == list(original.read("g0/analyst")[-1].messages)
        assert run.client.model_of("analyst") == "openai/any"
        assert run.ledger.spend() == {}
        assert run.client.drifted == 0


def test_policy_is_not_asked_either(recorded: Path, tmp_path: Path) -> None:
    with replayed(recorded, tmp_path) as run:
        asked = request("solve", "policy")
        reply = run.client.chat(asked, conversation="policy/m/t1/0", turn=0)
        assert (reply.content, reply.replayed) == ("answer to solve", True)
        assert run.client.model_of("policy") == "openai/small"


def test_failure_is_repeated_as_it_was(recorded: Path, tmp_path: Path) -> None:
    with replayed(recorded, tmp_path) as run, pytest.raises(ProviderError) as failed:
        run.client.chat(request("too much"), conversation="g2/analyst", turn=0)
    assert failed.value.kind == "context"
    assert Transcripts(tmp_path / "transcripts" / RUN).failures("g2/analyst")


def test_what_a_server_refuses_is_found_out_once_and_replayed_in_any_order(tmp_path: Path) -> None:

    def picky(call: Call) -> Say | Fault:
        return Fault.status(400, "no temperature") if "temperature" in call.raw else brain(call)

    def ask(client: Client, *samples: int) -> list[str]:
        policy = FrozenPolicy(client, "openai/small", policy="openai/small")
        with policy.acting("", "m") as gateway, policy.acting("", "m"):
            replies = [gateway.generate([rollout_call(at)])[0] for at in samples]
        return [reply.content for reply in replies]

    for name in ("original", "again"):
        (tmp_path / name).mkdir()
    with openai_server(picky) as url:
        settings = {**SETTINGS, "base_urls": {"all": url}, "policy": "openai/small"}
        with opened(tmp_path / "original", **settings) as run:
            said = ask(run.client, 0, 1)
    with replayed(tmp_path / "original" / "transcripts" / RUN, tmp_path / "again") as run:
        assert ask(run.client, 1, 0) == said == ["answer to solve"] * 2


def rollout_call(sample: int) -> GenerateRequest:
    return GenerateRequest(
        key=f"k{sample}", task_key="t", sample_idx=sample, seed=0, turn=0,
        messages=[user("solve")], tools=None, max_tokens=50, max_context_tokens=1000,
        temperature=0.5, top_p=1.0,
    )  # fmt: skip


def test_record_of_a_replay_is_a_recording_again(recorded: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with replayed(recorded, tmp_path / "a") as run:
        dialogue(run.client)
    again = tmp_path / "a" / "transcripts" / RUN
    assert Transcripts(again).manifest() == Transcripts(recorded).manifest()
    with replayed(again, tmp_path / "b") as run:
        dialogue(run.client)


def test_somebodys_own_harness_has_to_be_named_again(tmp_path: Path) -> None:
    agent = RunConfig(meta_model="openai/any", harness=str(tmp_path / "agent"))
    record = Recording(Transcripts(tmp_path), RUN, 1, agent.hashed, {})
    with pytest.raises(ConfigError, match="somebody brought") as refused:
        record.effective(RunConfig(meta_model="replay:x"))
    assert "--harness" in str(refused.value.hint)
    named = RunConfig(meta_model="replay:x", harness=str(tmp_path / "elsewhere"))
    assert record.effective(named).harness == named.harness


def test_replay_that_was_cut_short_goes_on(recorded: Path, tmp_path: Path) -> None:
    for _ in range(2):
        with replayed(recorded, tmp_path) as run:
            dialogue(run.client)
    assert len(Transcripts(tmp_path / "transcripts" / RUN).read("g0/analyst")) == 3


def test_other_words_are_a_miss_that_shows_the_line(recorded: Path, tmp_path: Path) -> None:
    with replayed(recorded, tmp_path) as run, pytest.raises(IntegrityError) as miss:
        dialogue(run.client, "look\nat line TWO")
    said = str(miss.value)
    assert "turn 0 of g0/analyst is not the recorded question" in said
    assert "message 0 (user), content, line 2" in said
    assert "recorded: 'at line two'" in said
    assert "asked:    'at line TWO'" in said
    assert "--replay-match position" in str(miss.value.hint)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"max_tokens": 7}, "max_tokens\n  recorded: '100'\n  asked:    '7'"),
        ({"temperature": 0.5}, "temperature"),
        ({"messages": [user("hello"), user("more")]}, r"message 1 \(user\)"),
        ({"messages": [{"role": "system", "content": "hello"}]}, r"0 \(system\).* 0 \(user"),
        ({"tools": (SHELL,)}, "a tool"),
    ],
    ids=["parameter", "new parameter", "count", "role", "tools"],
)
def test_difference_is_named(
    recorded: Path, tmp_path: Path, asked: dict[str, Any], words: str
) -> None:
    question = request(**{"messages": [user("hello")], **asked})
    with replayed(recorded, tmp_path) as run, pytest.raises(IntegrityError, match=words):
        run.client.chat(question, conversation="g1/analyst", turn=0)


@pytest.mark.parametrize(
    ("conversation", "turn", "words"),
    [
        ("g1/analyst", 5, "has no turn 5 of g1/analyst: it has 1 of them"),
        ("g1/analist", 0, "no such conversation (there is g1/analyst)"),
    ],
)
def test_place_that_was_never_recorded_is_a_miss_in_both_modes(
    recorded: Path, tmp_path: Path, conversation: str, turn: int, words: str
) -> None:
    for mode in ("exact", "position"):
        workspace = tmp_path / mode
        workspace.mkdir()
        with replayed(recorded, workspace, replay_match=mode) as run:
            with pytest.raises(IntegrityError) as miss:
                run.client.chat(request("hello"), conversation=conversation, turn=turn)
            assert words in str(miss.value)


def test_position_takes_the_recorded_reply_and_counts_the_drift(
    recorded: Path, tmp_path: Path
) -> None:
    with replayed(recorded, tmp_path, replay_match="position") as run:
        messages = dialogue(run.client, "quite another question")
        assert messages[1]["tool_calls"]
        assert run.client.drifted == 3
        drifted = run.transcripts.read("g0/analyst")[0]
        assert drifted.messages[0]["content"] == "quite another question"


# --- settings ----------------------------------------------------------------------------------


def test_replay_takes_settings_from_the_recording(recorded: Path, tmp_path: Path) -> None:
    config = resolve({"workspace": tmp_path, "meta_model": f"replay:{recorded}", "seed": 7})
    recording = recording_of(config.meta_model, config.workspace)
    effective = recording.effective(config)
    assert (effective.generations, effective.seed, effective.policy) == (2, 7, "openai/small")
    assert effective.meta_model == config.meta_model
    assert effective.origin["generations"] == f"recording {RUN}"
    assert (recording.run_id, recording.clock) == (RUN, 1_700_000_000)
    assert recording.labels == {"model": "loopback"}
    assert recording.effective(effective).to_json() == effective.to_json()


def test_settings_that_the_user_gave_must_agree(recorded: Path, tmp_path: Path) -> None:
    given = {"workspace": tmp_path, "meta_model": f"replay:{recorded}", "seed": 8}
    config = resolve({**given, "candidates": 5, "max_usd": 3.0, "sandbox": "process"})
    with pytest.raises(ConfigError) as refused:
        recording_of(config.meta_model, tmp_path).effective(config)
    said = str(refused.value)
    assert "candidates = 5 (from command line; recorded: 6)" in said
    assert "seed = 8 (from command line; recorded: 7)" in said
    assert "max_usd" not in said


def test_other_task_file_is_refused(recorded: Path, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("{}\n")
    config = RunConfig(workspace=tmp_path, meta_model=f"replay:{recorded}", tasks=tasks)
    with pytest.raises(ConfigError, match="content is not the recorded one"):
        recording_of(config.meta_model, tmp_path).effective(config)


def test_recording_is_found_by_run_id_in_its_workspace(recorded: Path) -> None:
    workspace = recorded.parents[1]
    assert recording_of(f"replay:{RUN}", workspace).run_id == RUN
    with pytest.raises(ConfigError, match="no recorded run 'nothing'") as missing:
        recording_of("replay:nothing", workspace)
    assert RUN in str(missing.value.hint)


def test_replay_under_another_run_id_is_refused(recorded: Path, tmp_path: Path) -> None:
    config = RunConfig(workspace=tmp_path, meta_model=f"replay:{recorded}")
    with (
        pytest.raises(ConfigError, match="this run is named other"),
        opened(tmp_path, run="other", config=config),
    ):
        pass


def test_damaged_manifest_is_named(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"schema_version": 1, "run_id": "x"}')
    with pytest.raises(IntegrityError, match="clock"):
        recording_of(f"replay:{tmp_path}", tmp_path)
