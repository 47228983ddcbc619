"""One dialogue and the ways in which it ends; no sandbox, no run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from meta_agent.core.chat import ChatReply, ChatRequest, Usage
from meta_agent.core.errors import CandidateError, Interrupted, ProviderError
from meta_agent.proposers.team._dialogue import Dialogue, Line
from meta_agent.proposers.team._limits import DialogueLimits
from meta_agent.proposers.team._tools import TEXT, Done, Tool, ToolError, text_of, tool
from tests.agents._models import ScriptedModels, Turn

SMALL = DialogueLimits(turns=12, reply_tokens=50, total_tokens=10_000, context_tokens=4_000)


def say(arguments: Any) -> str:
    if "boom" in text_of(arguments, "text"):
        raise ToolError("it went off")
    return str(arguments["text"])


def end(arguments: Any) -> str:
    raise Done(arguments["text"])


def read(arguments: Any) -> str:
    return f"{arguments['text']} " * 1000


TOOLS: list[Tool] = [
    tool(name, "", {"text": TEXT}, run)
    for name, run in {"say": say, "end": end, "read": read}.items()
]


def talk(
    *turns: Turn, limits: DialogueLimits = SMALL, stopping: Callable[[], bool] = lambda: False
) -> tuple[Dialogue, ScriptedModels]:
    models = ScriptedModels({"d": turns})
    line = Line(models, "analyst", "m", limits, "r", "d", stopping=stopping)
    return Dialogue(line, "system", "opening", TOOLS), models


def call(name: str, **arguments: Any) -> Turn:
    return [(name, arguments)]


def reason(dialogue: Dialogue) -> str:
    with pytest.raises(CandidateError) as ending:
        dialogue.run()
    return ending.value.reason


def test_it_ends_with_what_a_tool_hands_over() -> None:
    dialogue, models = talk(call("say", text="a"), call("end", text="b"))
    assert dialogue.run() == "b"
    assert models.heard("d") == ["a"]
    assert dialogue.spend.to_json() == {"turns": 2, "tokens": 220, "usd": 0.02}


WRONG = {
    "shout": call("shout", text="a"),
    "loud": call("say", text="a", loud=True),
    "text": call("say"),
    "string": call("say", text=3),
    "it went off": call("say", text="boom"),
}


def test_wrong_calls_are_answered_and_the_dialogue_goes_on() -> None:
    dialogue, models = talk(*WRONG.values(), call("end", text="b"))
    assert dialogue.run() == "b"
    for name, answer in zip(WRONG, models.heard("d"), strict=True):
        assert answer.startswith("ERROR: ") and name in answer


def test_plain_talk_is_nudged_and_then_ended() -> None:
    dialogue, models = talk("Hm.", "Well.", call("end", text="b"))
    assert dialogue.run() == "b"
    last = models.requests["d", 2].messages[-1]
    assert last["role"] == "user" and "say, end, read" in last["content"]
    assert reason(talk("Hm.", "Well.", "So.")[0]) == "no_tool_calls"
    assert reason(talk(call("say", text="a"), "Hm.", "Well.", "So.")[0]) == "looped"


def test_the_last_turns_are_announced() -> None:
    dialogue, models = talk(*(call("say", text=str(n)) for n in range(12)))
    assert reason(dialogue) == "turn_limit"
    heard = models.heard("d")
    assert [at for at, said in enumerate(heard) if "turns are left" in said] == [1, 6, 9]


def test_the_same_call_is_a_loop_only_with_the_same_result() -> None:
    assert reason(talk(*[call("say", text="a")] * 12)[0]) == "looped"
    dialogue, _ = talk(*(call("say", text=str(n % 5)) for n in range(11)), call("end", text="b"))
    assert dialogue.run() == "b"


class Odd(ScriptedModels):
    """Replies that scripts of calls cannot say."""

    def _reply(self, request: ChatRequest, conversation: str, turn: int) -> ChatReply:
        said = self.script["d"][turn]
        if isinstance(said, str) and said in ("length", "refusal"):
            return ChatReply("...", said, Usage(10, 10), "m")  # type: ignore[arg-type]
        return super()._reply(request, conversation, turn)


@pytest.mark.parametrize(
    ("turns", "ending"), [(["refusal"], "model_refused"), (["length"] * 3, "no_tool_calls")]
)
def test_replies_that_lead_nowhere(turns: list[Turn], ending: str) -> None:
    dialogue, _ = talk()
    models = Odd({"d": turns})
    dialogue.line = replace(dialogue.line, client=models)
    assert reason(dialogue) == ending
    assert dialogue.spend.usd is None, "a price that is unknown stays unknown"


def test_a_prompt_that_the_model_cannot_hold_ends_the_dialogue() -> None:
    over = ProviderError("8192 tokens at most", kind="context")
    assert reason(talk(over)[0]) == "context_overflow"
    limits = replace(SMALL, context_tokens=10)
    assert reason(talk(call("say", text="a"), limits=limits)[0]) == "context_overflow"


def test_a_provider_that_fails_is_not_the_agents_failure_and_bad_replies_are() -> None:
    with pytest.raises(ProviderError):
        talk(ProviderError("x", kind="overloaded"))[0].run()
    wordy = ProviderError("no JSON in three replies", kind="malformed")
    assert reason(talk(wordy)[0]) == "malformed_replies"


def test_a_stop_takes_effect_before_the_next_question() -> None:
    dialogue, models = talk(call("say", text="a"), stopping=lambda: True)
    with pytest.raises(Interrupted):
        dialogue.run()
    assert models.live == []


def test_a_long_dialogue_is_compacted_and_remembers_what_was_read() -> None:
    turns = [call("read", text=str(n)) for n in range(10)]
    dialogue, models = talk(*turns, call("end", text="b"))
    assert dialogue.run() == "b"
    sizes = [len(json.dumps(list(models.requests["d", n].messages))) for n in range(11)]
    assert max(sizes) < 4_000 * 3.6 + 2_000
    told = models.heard("d")
    assert told[0].startswith('[result left out to save room: read(text="0")')
    assert told[-1].startswith("9 9 9")
