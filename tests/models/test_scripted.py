"""Replies from a file: by pattern and turn, however often the run is resumed."""

from pathlib import Path

import pytest

from meta_agent.core.errors import BudgetError, ConfigError
from tests.models._clients import opened, request, script


def test_turns_take_the_fitting_lines_in_order(tmp_path: Path) -> None:
    model = script(
        tmp_path / "s.jsonl",
        ("g*/analyst", {"content": "first"}),
        ("g0/c*/reviewer", {"content": "fine"}),
        ("g*/analyst", {"tool_calls": [{"name": "finish", "arguments": {"a": 1}}]}),
    )
    with opened(tmp_path, meta_model=model) as run:
        for name in ("g0/analyst", "g1/analyst"):  # each conversation from the start
            first = run.client.chat(request("?"), conversation=name, turn=0)
            second = run.client.chat(request("?"), conversation=name, turn=1)
            assert (first.content, first.stop) == ("first", "stop")
            assert (second.tool_calls[0].name, second.stop) == ("finish", "tool_calls")
        assert (
            run.client.chat(request("?", "reviewer"), conversation="g0/c2/reviewer", turn=0).content
            == "fine"
        )
    with opened(tmp_path, meta_model=model) as run:  # resumed: turn 1 is still the second line
        assert run.client.chat(request("?"), conversation="g0/analyst", turn=0).replayed
        assert run.client.chat(request("new"), conversation="g0/analyst", turn=1).tool_calls


def test_running_out_is_an_error_with_the_line_to_add(tmp_path: Path) -> None:
    model = script(tmp_path / "s.jsonl", ("g0/*", {"content": "only"}))
    with opened(tmp_path, meta_model=model) as run:
        run.client.chat(request("?"), conversation="g0/analyst", turn=0)
        with pytest.raises(ConfigError, match="has 1 replies for the conversation g0/analyst") as e:
            run.client.chat(request("?"), conversation="g0/analyst", turn=1)
        assert '"conversation": "g0/analyst"' in str(e.value.hint)
        assert run.ledger.spend()["analyst"].open_tokens == 0  # nothing was asked


def test_scripts_cost_nothing_but_count_tokens(tmp_path: Path) -> None:
    model = script(
        tmp_path / "s.jsonl",
        ("*", {"content": "x", "usage": {"input_tokens": 30, "output_tokens": 3}}),
        ("*", {"content": "x"}),
    )
    with opened(tmp_path, meta_model=model, max_usd=0.0, max_tokens=500) as run:
        run.client.chat(request("?"), conversation="c", turn=0)
        spent = run.ledger.spend()["analyst"]
        assert (spent.usd, spent.tokens, spent.unpriced_calls) == (0.0, 33, 0)
        with pytest.raises(BudgetError):
            run.client.chat(request("?", max_tokens=500), conversation="c", turn=1)


def test_roles_may_have_scripts_of_their_own(tmp_path: Path) -> None:
    team = script(tmp_path / "team.jsonl", ("*", {"content": "team"}))
    one = script(tmp_path / "one.jsonl", ("*", {"content": "one", "reasoning": "because"}))
    with opened(tmp_path, meta_model=team, models={"reviewer": one}) as run:
        reply = run.client.chat(request("?", "reviewer"), conversation="r", turn=0)
        assert (reply.content, reply.reasoning) == ("one", "because")
        assert run.client.chat(request("?"), conversation="a", turn=0).content == "team"


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[]",
        '{"conversation": "x"}',
        '{"conversation": 3, "reply": {}}',
        '{"conversation": "x", "reply": {"contents": "typo"}}',
        '{"conversation": "x", "reply": {"stop": "maybe"}}',
        '{"conversation": "x", "reply": {"tool_calls": [{"name": "f"}]}}',
        '{"conversation": "x", "reply": {"usage": {"tokens": 3}}}',
    ],
)
def test_bad_lines_are_named_before_anything_starts(tmp_path: Path, line: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"conversation": "x", "reply": {}}\n\n' + line + "\n")
    with (
        pytest.raises(ConfigError, match=r"line 3 of .*s\.jsonl"),
        opened(tmp_path, meta_model=f"scripted:{path}"),
    ):
        pass


def test_missing_script_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="the scripted replies"),
        opened(tmp_path, meta_model=f"scripted:{tmp_path / 'none.jsonl'}"),
    ):
        pass
