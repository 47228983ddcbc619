"""The record: whole dialogues come back, a torn end is dropped, a damaged middle is named."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_agent.core.chat import ChatReply, ReplyTokens, ToolCall, Usage
from meta_agent.core.errors import InfrastructureError, IntegrityError
from meta_agent.core.protocols import Message
from meta_agent.llm_clients.asking._digest import ModelQuestion
from meta_agent.llm_clients.asking.transcripts import Exchange, FailedRequest, Transcripts, file_of

NAME = "g0/c1/proposer"


def reply(text: str = "", **more: object) -> ChatReply:
    whole = ChatReply(text, "stop", Usage(10, 5, cached_tokens=2), "m-1", usd=0.25, seconds=1.5)
    return replace(whole, **more)  # type: ignore[arg-type]


def exchange(turn: int, messages: list[Message], answer: ChatReply, name: str = NAME) -> Exchange:
    tools = [{"name": "shell", "description": "", "parameters": {"type": "object"}}]
    question = ModelQuestion({"model": "p/m", "max_tokens": 9}, messages, tools)
    return Exchange(name, turn, "proposer", question, answer, 1_700_000_000.5, 1, 7)


def dialogue(turns: int, name: str = NAME) -> list[Exchange]:
    messages: list[Message] = [{"role": "user", "content": "mend it " + "x" * 500}]
    made = []
    for turn in range(turns):
        call = ToolCall(f"call_{turn}", "shell", {"cmd": f"ls {turn}"})
        answer = reply(f"turn {turn}", tool_calls=(call,), stop="tool_calls")
        made.append(exchange(turn, messages, answer, name))
        result = {"role": "tool", "tool_call_id": call.id, "content": f"file{turn}"}
        messages = [*messages, answer.message, result]
    return made


def path_of(transcripts: Transcripts, name: str = NAME) -> Path:
    return transcripts.root / file_of(name)


def test_dialogue_comes_back_whole_and_takes_little_room(tmp_path: Path) -> None:
    written = Transcripts(tmp_path)
    made = dialogue(20)
    for one in made:
        assert written.append(one) == one
    assert Transcripts(tmp_path).read(NAME) == made
    lines = path_of(written).read_text().splitlines()
    assert [len(json.loads(line)["new"]) for line in lines[1:]] == [1] + [1] * 19
    assert sum("x" * 500 in line for line in lines) == 1


def test_everything_of_a_reply_is_kept(tmp_path: Path) -> None:
    tokens = ReplyTokens((1, 2, 3), (4, 5), (-0.5, float("-inf")))
    answer = reply(
        "né\ud800",  # a lone surrogate: models write them
        reasoning="because",
        tokens=tokens,
        request_id="req_1",
    )
    Transcripts(tmp_path).append(exchange(0, [{"role": "user", "content": "?"}], answer))
    (read,) = Transcripts(tmp_path).read(NAME)
    finite = replace(tokens, logprobs=(-0.5, -1e9))
    assert read.reply == replace(answer, tokens=finite)
    assert read.reply.request_id == "req_1"


def test_token_ids_of_a_growing_prompt_are_kept_once(tmp_path: Path) -> None:
    transcripts = Transcripts(tmp_path)
    prompt: tuple[int, ...] = tuple(range(1000))
    messages: list[Message] = [{"role": "user", "content": "?"}]
    for turn in range(3):
        answer = reply(str(turn), tokens=ReplyTokens(prompt, (turn,), (-0.1,)))
        transcripts.append(exchange(turn, messages, answer))
        prompt = (*prompt, turn, 77)
        messages = [*messages, answer.message, {"role": "user", "content": "on"}]
    read = Transcripts(tmp_path).read(NAME)
    assert [len(one.reply.tokens.prompt_ids) for one in read if one.reply.tokens] == [
        1000,
        1002,
        1004,
    ]
    assert path_of(transcripts).read_text().count("998,999") == 1


def test_compacted_dialogue_keeps_what_was_really_asked(tmp_path: Path) -> None:
    transcripts = Transcripts(tmp_path)
    first, second, third = dialogue(3)
    for one in (first, second, third):
        transcripts.append(one)
    shortened = [first.messages[0], {"role": "user", "content": "a summary"}]
    transcripts.append(exchange(3, list(shortened), reply("on")))
    assert list(Transcripts(tmp_path).read(NAME)[3].messages) == shortened


def test_turn_asked_again_replaces_it_and_what_came_after(tmp_path: Path) -> None:
    transcripts = Transcripts(tmp_path)
    made = dialogue(4)
    for one in made:
        transcripts.append(one)
    other = replace(made[1], reply=reply("another way"))
    transcripts.append(other)
    for reader in (transcripts, Transcripts(tmp_path)):
        assert reader.read(NAME) == [made[0], other]


def test_callers_may_change_their_messages_afterwards(tmp_path: Path) -> None:
    transcripts = Transcripts(tmp_path)
    messages: list[Message] = [{"role": "user", "content": "first"}]
    transcripts.append(exchange(0, messages, reply("a")))
    messages[0]["content"] = "changed in place"
    transcripts.append(exchange(1, messages, reply("b")))
    contents = [one.messages[0]["content"] for one in Transcripts(tmp_path).read(NAME)]
    assert contents == ["first", "changed in place"]


@pytest.mark.parametrize(
    "tail",
    [b'{"turn":2,"role":"pro', b"\x00" * 64, b"\x00" * 63 + b"\n"],
    ids=["cut", "zeros", "zeros with an end"],
)
def test_torn_end_is_dropped_and_cut_off_before_the_next_line(tmp_path: Path, tail: bytes) -> None:
    made = dialogue(4)
    transcripts = Transcripts(tmp_path)
    for one in made[:2]:
        transcripts.append(one)
    path = path_of(transcripts)
    path.write_bytes(path.read_bytes() + tail)
    again = Transcripts(tmp_path)
    assert again.read(NAME) == made[:2]
    again.append(made[2])
    again.append(made[3])  # twice: a first append onto a torn tail may look right
    assert Transcripts(tmp_path).read(NAME) == made


def test_file_cut_at_any_byte_reads_as_what_was_whole(tmp_path: Path) -> None:
    made = dialogue(3)
    transcripts = Transcripts(tmp_path / "whole")
    for one in made:
        transcripts.append(one)
    data = path_of(transcripts).read_bytes()
    path = path_of(Transcripts(tmp_path / "cut"))
    path.parent.mkdir(parents=True)
    counts = []
    for size in [*range(0, len(data) - 1, 9), len(data) - 1, len(data)]:
        path.write_bytes(data[:size])
        read = Transcripts(tmp_path / "cut").read(NAME)
        assert read == made[: len(read)]
        counts.append(len(read))
    assert counts == sorted(counts)
    assert (counts[0], counts[-2], counts[-1]) == (0, 2, 3)


def test_file_torn_inside_its_first_line_starts_anew(tmp_path: Path) -> None:
    (made,) = dialogue(1)
    path = path_of(Transcripts(tmp_path))
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"schema_ver')
    assert Transcripts(tmp_path).conversations() == []
    Transcripts(tmp_path).append(made)
    assert Transcripts(tmp_path).read(NAME) == [made]


def test_signed_blocks_of_an_older_recording_make_no_other_question() -> None:
    said: Message = {"role": "assistant", "content": "x"}
    signed: Message = {**said, "provider_blocks": {"anthropic": [{"signature": "s"}]}}
    assert ModelQuestion({}, [said], []).digest == ModelQuestion({}, [signed], []).digest


def test_manifest_is_whole_whatever_a_crash_left_of_the_one_before(tmp_path: Path) -> None:
    (tmp_path / ".manifest.json.part").write_text('{"run_id": "' + "x" * 5000)
    Transcripts(tmp_path).write_manifest({"run_id": "r"})
    assert Transcripts(tmp_path).manifest() == {"schema_version": 1, "run_id": "r"}


def test_damaged_middle_is_named_never_skipped(tmp_path: Path) -> None:
    transcripts = Transcripts(tmp_path)
    for one in dialogue(3):
        transcripts.append(one)
    path = path_of(transcripts)
    text = path.read_text().replace('"ls 1"', '"rm 1"')  # what the next question builds on
    path.write_text(text)
    with pytest.raises(IntegrityError, match=r"line 4.*digest"):
        Transcripts(tmp_path).read(NAME)
    path.write_text(text[: len(text) // 2] + "\n" + text[len(text) // 2 :])
    with pytest.raises(IntegrityError, match=r"line 2: JSONDecodeError"):
        Transcripts(tmp_path).read(NAME)


def test_failures_are_kept_beside_the_exchanges(tmp_path: Path) -> None:
    made = dialogue(2)
    failure = FailedRequest(NAME, 1, "d" * 64, "overloaded", "HTTP 529", 1_700_000_001.0)
    transcripts = Transcripts(tmp_path)
    transcripts.append(made[0])
    transcripts.append_failure(failure)
    transcripts.append(made[1])
    again = Transcripts(tmp_path)
    assert again.read(NAME) == made
    assert again.failures(NAME) == [failure]
    assert again.failure(NAME, 1, "d" * 64) == failure
    assert again.failure(NAME, 1, "e" * 64) is None
    assert again.failure(NAME, 0) is None


def test_conversations_are_listed_by_number(tmp_path: Path) -> None:
    transcripts = Transcripts(tmp_path)
    for name in ("g10/analyst", "g2/analyst", "policy/m/Ta sk/0", "policy/m/ta sk/0"):
        for one in dialogue(1, name):
            transcripts.append(one)
    assert Transcripts(tmp_path).conversations() == [
        "g2/analyst",
        "g10/analyst",
        "policy/m/Ta sk/0",
        "policy/m/ta sk/0",
    ]


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/../b", "/root", "a//b", ".", "x" * 400])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    transcripts = Transcripts(tmp_path / "run")
    for one in dialogue(1, name):
        transcripts.append(one)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.is_relative_to(tmp_path / "run") for path in files] == [True]
    assert Transcripts(tmp_path / "run").read(name)[0].conversation == name


@given(st.lists(st.text(max_size=30), min_size=2, max_size=6, unique=True))
def test_no_two_names_share_a_file(names: list[str]) -> None:
    files = [str(file_of(name)).lower() for name in names]
    assert len(set(files)) == len(names)


def test_many_conversations_are_read_from_disk_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meta_agent.llm_clients.asking.transcripts._MOST_OPEN", 2)
    transcripts = Transcripts(tmp_path)
    names = [f"policy/m/t{n}/0" for n in range(5)]
    made = {name: dialogue(3, name) for name in names}
    for turn in range(3):
        for name in names:
            transcripts.append(made[name][turn])
    assert {name: transcripts.read(name) for name in names} == made


def test_manifest_is_replaced_whole(tmp_path: Path) -> None:
    transcripts = Transcripts(tmp_path / "run")
    assert transcripts.manifest() is None
    transcripts.write_manifest({"run_id": "a", "labels": {}})
    transcripts.write_manifest({"run_id": "b"})
    assert transcripts.manifest() == {"schema_version": 1, "run_id": "b"}
    (tmp_path / "run" / "manifest.json").write_text('{"schema_version": 99}')
    with pytest.raises(IntegrityError, match="schema_version is 99"):
        transcripts.manifest()


def test_record_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (made,) = dialogue(1)
    path = path_of(Transcripts(tmp_path))
    path.mkdir(parents=True)  # a folder in the file's place
    with pytest.raises(InfrastructureError, match="writing"):
        Transcripts(tmp_path).append(made)
