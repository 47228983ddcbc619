"""`approve` and `transcript`, on a recorded run and real files."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.chat import ChatReply, ToolCall, Usage
from meta_agent.core.ledger import Ledger
from meta_agent.core.workspace import init_workspace
from meta_agent.llm_clients.asking._digest import ModelQuestion
from meta_agent.llm_clients.asking.transcripts import Exchange, Transcripts

from ..view._sample import HOSTILE, write_sample
from ._command import Runner


@pytest.fixture
def parked(tmp_path: Path) -> Path:
    root = tmp_path / "w"
    init_workspace(root, domain="swe", create_repo=lambda path: path.mkdir())
    write_sample(root / "ledger.sqlite", waits_for="g1/c2")
    return root


def test_a_parked_run_shows_its_question_and_the_next_command(
    meta_agent: Runner, parked: Path
) -> None:
    assert "meta-agent approve g1/c2" in meta_agent("status", cwd=parked).stdout
    told = meta_agent("status", "--json", cwd=parked).document
    assert [(one["subject"], one["gate"]) for one in told["waiting"]] == [("g1/c2", "test")]
    shown = meta_agent("approve", cwd=parked).stdout
    assert "swe/recipe.py" in shown and "meta-agent approve g1/c2" in shown
    with Ledger.open(parked / "ledger.sqlite"):  # a live run asks its own terminal
        assert meta_agent("approve", "g1/c2", cwd=parked).returncode == 3


def test_an_answer_to_nothing_or_without_words_does_not_pass_for_given(
    meta_agent: Runner, parked: Path
) -> None:
    for words in (["--abort"], ["--revise", "keep it"], ["g1/c2", "--revise", " "]):
        done = meta_agent("approve", *words, cwd=parked)
        assert done.returncode == 2 and ("--abort" in done.stderr or "--revise" in done.stderr)
    waiting = meta_agent("approve", "--json", cwd=parked).document["waiting"]
    assert [one["answer"] for one in waiting] == [None]


ANSWERS = {
    "approve": ([], ("APPROVE", "")),
    "revise": (["--revise", "keep the old prompt"], ("REVISE", "keep the old prompt")),
    "abort": (["--abort"], ("ABORT", "")),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_is_recorded_and_shown_everywhere(
    meta_agent: Runner, parked: Path, case: str
) -> None:
    flags, said = ANSWERS[case]
    done = meta_agent("approve", "g1/c2", *flags, "--json", cwd=parked)
    (decision,) = done.document["decisions"]
    assert (decision["answer"], decision["feedback"]) == said
    report = meta_agent("report", "--json", cwd=parked).document
    assert report["decisions"][-1]["answer"] == said[0]
    assert said[0] in meta_agent("why", "g1/c2", cwd=parked).stdout
    assert meta_agent("approve", "g1/c2", cwd=parked).returncode == 2


# --- transcript ----------------------------------------------------------------------------------

LONG = "\n".join(f"line {number}" for number in range(100))


def exchange(
    conversation: str, turn: int, messages: list[dict[str, object]], reply: ChatReply
) -> Exchange:
    role = conversation.rpartition("/")[2]
    question = ModelQuestion({"model": "openai/some-model"}, messages, [])
    return Exchange(conversation, turn, role, question, reply, 1_800_000_000.0)  # type: ignore[arg-type]


@pytest.fixture
def told(parked: Path) -> Iterator[Path]:
    """A proposer that used a tool once, and an analyst of whom nobody knows the price."""
    transcripts = Transcripts(parked / "transcripts" / "r1")
    start: list[dict[str, object]] = [
        {"role": "system", "content": "You improve harnesses."},
        {"role": "user", "content": f"evidence {HOSTILE}"},
    ]
    call = ToolCall("c1", "shell", {"command": "ls"})
    first = ChatReply("I look first.", "tool_calls", Usage(1200, 30), "some-model", (call,), 0.01)
    second = ChatReply(f"Done. {LONG}", "stop", Usage(1300, 40), "some-model", (), 0.02)
    one = transcripts.append(exchange("g0/c0/proposer", 0, start, first))
    answer = {"role": "tool", "tool_call_id": "c1", "content": LONG}
    transcripts.append(exchange("g0/c0/proposer", 1, [*one.dialogue, answer], second))
    unpriced = ChatReply("The tests time out.", "stop", Usage(500, 20), "some-model", (), None)
    transcripts.append(exchange("g0/analyst", 0, start, unpriced))
    transcripts.append(exchange("policy/m/task-1/0", 0, start, unpriced))
    yield parked


def test_without_a_name_the_agents_conversations_are_listed(meta_agent: Runner, told: Path) -> None:
    rows = meta_agent("why", "--transcript", "--json", cwd=told).document["conversations"]
    assert [(one["conversation"], one["exchanges"], one["usd"]) for one in rows] == [
        ("g0/analyst", 1, None),
        ("g0/c0/proposer", 2, pytest.approx(0.03)),
    ]
    shown = meta_agent("why", "--transcript", cwd=told).stdout
    assert "g0/c0/proposer" in shown and "2570" in shown


def test_a_candidates_conversation_reads_once_through(meta_agent: Runner, told: Path) -> None:
    for name in ("g0/c0", "r1/g0/c0", "11abab", "proposer", "g0/c0/proposer"):
        shown = meta_agent("why", "--transcript", name, cwd=told).stdout
        assert shown.count("You improve harnesses.") == 1, name
        parts = ("system", "I look first.", 'calls: shell {"command": "ls"}')
        places = [shown.index(part) for part in parts]
        assert places == sorted(places)
        assert "\x1b" not in shown and "\u202e" not in shown
        assert shown.count("line 50") == 2, "long outputs are whole"


def test_the_document_has_each_message_once_and_everything(meta_agent: Runner, told: Path) -> None:
    document = meta_agent("why", "--transcript", "g0/c0", "--json", cwd=told).document
    first, second = document["conversations"][0]["exchanges"]
    assert [one["role"] for one in first["messages"]] == ["system", "user"]
    assert (second["kept_messages"], second["messages"][0]["content"]) == (3, LONG)
    assert json.loads(first["reply"]["tool_calls"][0]["function"]["arguments"]) == {"command": "ls"}
    policy = meta_agent("why", "--transcript", "policy", "--json", cwd=told).document
    assert [one["conversation"] for one in policy["conversations"]] == ["policy/m/task-1/0"]
    done = meta_agent("why", "--transcript", "g7/c7", cwd=told)
    assert done.returncode == 2 and "g0/analyst, g0/c0/proposer" in done.stderr
