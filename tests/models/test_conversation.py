"""Conversations of five turns under the chat templates that TRL ships: each sampled id, once."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

pytest.importorskip("trl", reason="needs the train extra")

from meta_agent.core.protocols import Message, TokenRecord
from meta_agent.policies.engines.conversation import ParsedReply, Rendering, Talk
from tests.models import _nano, _templates

pytestmark = pytest.mark.train

TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Looks at a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]
HEAD: Final[list[Message]] = [
    {"role": "system", "content": "You mend things."},
    {"role": "user", "content": "The clock is slow."},
]
CALLS: Final = {
    "qwen": '<tool_call>\n{"name": "look", "arguments": {"path": "a.py"}}\n</tool_call><|im_end|>',
    "qwen3_": "<tool_call>\n<function=look>\n<parameter=path>\na.py\n</parameter>\n</function>\n"
    "</tool_call><|im_end|>",
    "llama3": '{"name": "look", "parameters": {"path": "a.py"}}<|eot_id|>',
    "glm": "\n<think></think>\n<tool_call>look\n<arg_key>path</arg_key>\n"
    "<arg_value>a.py</arg_value>\n</tool_call><|observation|>",
    "gptoss": "<|channel|>analysis<|message|>Where?<|end|><|start|>assistant to=functions.look"
    '<|channel|>commentary json<|message|>{"path": "a.py"}<|call|>',
}
DEAF: Final = {"llama3", "qwen2_5_vl"}
"""Templates without tools: a call is text, and a result is a message of the user."""


SHIPPED: Final = [name for name in _templates.names() if not name.endswith("_training")]


class Turn(NamedTuple):
    reply: str  # as the policy samples it
    answer: Message  # what the scaffold says next


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def _said(name: str, text: str, *, thought: str = "", cut: bool = False) -> str:
    """A reply in the form that the template's model was trained on."""
    family = _templates.family(name)
    stop = "" if cut else _templates.STOPS[family][0]
    if family == "gptoss":
        head = f"<|channel|>analysis<|message|>{thought}" if thought else ""
        if cut:
            return head
        over = "<|end|><|start|>assistant" if thought else ""
        return f"{head}{over}<|channel|>final<|message|>{text}{stop}"
    opened = "" if _opens(name) else "<think>\n"
    if cut:
        return f"{opened}{thought}" if thought else text
    if thought:
        return f"{opened}{thought}\n</think>\n\n{text}{stop}"
    return f"</think>\n\n{text}{stop}" if _opens(name) else text + stop


def _opens(name: str) -> bool:
    """Whether the header of a reply opens a thought."""
    made = _templates.tokenizer(name)
    header = made.apply_chat_template(HEAD, tokenize=False, add_generation_prompt=True)
    return bool(header.rstrip().endswith("<think>"))


def _call(name: str) -> str:
    modern = name.startswith(("qwen3_5", "qwen3_6", "qwen3_8"))
    form = CALLS["qwen3_" if modern else _templates.family(name)]
    return f"I look.\n</think>\n\n{form}" if _opens(name) else form


def thoughts(name: str) -> list[Turn]:
    return [Turn(_said(name, f"Step {i}.", thought=f"Hm {i}."), user(f"ok {i}")) for i in range(5)]


def none(name: str) -> list[Turn]:
    return [Turn(_said(name, f"Step {i}."), user(f"ok {i}")) for i in range(5)]


def cut(name: str) -> list[Turn]:
    shown = [
        _said(name, "", thought="I was about", cut=True),
        _said(name, "Done.", thought="So."),
        _said(name, "half an ans", cut=True) or "half",
        _said(name, "Done.", thought="So."),
        _said(name, "", thought="again", cut=True),
    ]
    return [Turn(one, user("go on")) for one in shown]


def mixed(name: str) -> list[Turn]:
    """Plain text, and results both as the tool's messages and as the user's."""
    tool: Message = {"role": "tool", "tool_call_id": "", "content": "x = 1\n"}
    return [
        Turn(_call(name), tool),
        Turn(_said(name, "I see."), user("and?")),
        Turn(_call(name), tool),
        Turn(_call(name), tool),
        Turn(_said(name, "Done.", thought="It is done."), user("thanks")),
    ]


SHAPES: Final = {"thoughts": thoughts, "none": none, "cut": cut, "native tools": mixed}


class Played(NamedTuple):
    record: TokenRecord
    sampled: list[int]
    written: str  # by the environment, after the first prompt
    calls: list[Any]


@cache
def rendering_of(name: str) -> Rendering:
    return Rendering(_templates.tokenizer(name), _templates.stop_ids(name))


def play(name: str, shape: str, *, strip: bool = False) -> Played:
    """Plays a script as an engine would. `strip`: the scaffold hands replies back unthought."""
    tokenizer, stops = _templates.tokenizer(name), _templates.stop_ids(name)
    rendering, talk = rendering_of(name), Talk()
    messages, sampled, calls = list(HEAD), [], []
    tools = TOOLS if shape == "native tools" else None
    for at, turn in enumerate(SHAPES[shape](name)):
        request = _nano.request("k", turn=at, messages=list(messages), tools=tools)
        talk.apply(request, rendering.plan(talk, request))
        ids = tokenizer.encode(turn.reply, add_special_tokens=False)
        talk.reply = rendering.parse_reply(talk.session.ids, ids, tools)
        talk.session.add_sampled(ids, [-1.0] * len(ids), "")
        talk.stop = ids[-1] if ids[-1] in stops else None
        sampled += ids
        calls += talk.reply.calls
        reply: Message = {"role": "assistant", "content": talk.reply.content}
        if strip:
            reply["content"] = talk.reply.answer or "(nothing)"
        if talk.reply.calls:
            reply["tool_calls"] = json.loads(json.dumps(talk.reply.calls))
        answer = dict(turn.answer)
        if answer["role"] == "tool":
            answer |= {"tool_call_id": talk.reply.calls[0]["id"]} if talk.reply.calls else user("x")
        messages += [reply, answer]
    record = talk.session.record()
    assert record is not None
    row = zip(record.completion_ids, record.mask, strict=True)
    return Played(record, sampled, tokenizer.decode([i for i, m in row if not m]), calls)


@pytest.mark.parametrize("name", _templates.names())
@pytest.mark.parametrize("strip", [False, True], ids=["as told", "thoughts stripped"])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_sampled_id_is_in_the_row_once(name: str, shape: str, strip: bool) -> None:
    played = play(name, shape, strip=strip)
    record = played.record
    mine = [i for i, m in zip(record.completion_ids, record.mask, strict=True) if m]
    assert mine == played.sampled
    assert record.exact and record.lost == 0


@pytest.mark.parametrize("name", SHIPPED)
def test_calls_are_parsed_and_their_results_follow_as_the_template_says(name: str) -> None:
    played = play(name, "native tools")
    told = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in played.calls]
    assert told == ([] if name in DEAF else [("look", {"path": "a.py"})] * 3)
    assert len({call["id"] for call in played.calls}) == len(played.calls)
    assert played.written.count("x = 1") == (0 if name in DEAF else 3)


PLAIN: Final = [n for n in SHIPPED if n not in DEAF and not _templates.thinks(n)]


@pytest.mark.parametrize("name", PLAIN)
def test_where_a_template_rewrites_nothing_appending_reads_like_all_of_it(name: str) -> None:
    tokenizer, messages = _templates.tokenizer(name), list(HEAD)
    for turn in none(name):
        said = turn.reply.removesuffix(_templates.STOPS[_templates.family(name)][0])
        messages += [{"role": "assistant", "content": said}, turn.answer]
    whole = tokenizer.apply_chat_template(messages[:-1], tokenize=False)
    record = play(name, "none").record
    assert tokenizer.decode(record.prompt_ids + record.completion_ids) == whole.rstrip("\n")


def test_a_thought_that_a_template_would_drop_is_still_read() -> None:
    tokenizer, record = _templates.tokenizer("qwen3"), play("qwen3", "thoughts").record
    row = tokenizer.decode(record.prompt_ids + record.completion_ids)
    assert all(f"<think>\nHm {i}.\n</think>\n\nStep {i}." in row for i in range(5))


def test_a_reply_that_was_cut_keeps_its_ids_and_its_turn_is_ended_by_us() -> None:
    played = play("qwen3", "cut")
    assert "<think>\nI was about" in _templates.tokenizer("qwen3").decode(played.sampled)
    assert played.written.startswith("<|im_end|>\n<|im_start|>user\ngo on<|im_end|>\n")


@pytest.mark.parametrize("shape", ["thoughts", "cut"])
def test_a_scaffold_is_told_thoughts_in_one_form(shape: str) -> None:
    """Whatever the template's own form is: here channels, which decoding alone would run on."""
    tokenizer = _templates.tokenizer("gptoss")
    ids = tokenizer.encode(SHAPES[shape]("gptoss")[0].reply, add_special_tokens=False)
    prompt = tokenizer.encode("<|start|>assistant", add_special_tokens=False)
    said = rendering_of("gptoss").parse_reply(prompt, ids, None)
    whole = ParsedReply("<think>\nHm 0.\n</think>\n\nStep 0.", [], "Step 0.")
    assert said == (whole if shape == "thoughts" else ParsedReply("<think>\nI was about", [], ""))


def test_what_is_needed_to_parse_is_not_saved_with_the_tokenizer(tmp_path: Path) -> None:
    play("qwen3", "native tools")
    _templates.tokenizer("qwen3").save_pretrained(tmp_path)
    assert "tool_call>" not in (tmp_path / "tokenizer_config.json").read_text()


def test_what_a_template_leaves_out_is_refused() -> None:
    deaf = copy.copy(_templates.tokenizer("qwen2_5"))
    deaf.chat_template = deaf.chat_template.replace("message.content", "''")
    with pytest.raises(ValueError, match="the chat template omits"):
        Rendering(deaf, _templates.stop_ids("qwen2_5")).require("user")


@pytest.mark.parametrize(("tools", "again"), [(None, False), (TOOLS, False), ([{}], True)])
def test_only_tools_that_it_has_not_read_open_a_new_segment(tools: Any, again: bool) -> None:
    tokenizer, rendering, talk = _templates.tokenizer("qwen3"), rendering_of("qwen3"), Talk()
    first = _nano.request("k", messages=HEAD, tools=TOOLS)
    talk.apply(first, rendering.plan(talk, first))
    ids = tokenizer.encode("Hello.<|im_end|>", add_special_tokens=False)
    talk.reply, talk.stop = rendering.parse_reply(talk.session.ids, ids, TOOLS), ids[-1]
    talk.session.add_sampled(ids, [-1.0] * len(ids), "")
    said = [*HEAD, {"role": "assistant", "content": "Hello."}, user("last one")]
    assert rendering.plan(talk, _nano.request("k", messages=said, tools=tools)).restart == again
