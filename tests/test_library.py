"""`meta_agent.optimize` as documented: five lines, callbacks, async, bad input."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import meta_agent
from meta_agent.composition.arguments import RunArguments
from meta_agent.composition.given import _harness, config_of, prompt_in, source_of
from meta_agent.core.config import FIELDS
from meta_agent.core.errors import ConfigError
from meta_agent.core.resources import shipped_harness
from tests._sums import ROWS, adds, grade, settings
from tests.loopback import FIRST_QUESTION, Call, Say, openai_server

LONG = "Answer with a number. " * 200  # longer than a file's name may be


@pytest.mark.slow
def test_five_lines_give_a_result_that_a_notebook_shows(tmp_path: Path) -> None:
    heard: list[meta_agent.Event] = []
    with openai_server(adds, serial=False) as url:
        result = meta_agent.optimize(
            tasks=ROWS, grade=grade, on_event=heard.append, **settings(tmp_path, url)
        )
    assert result.exit_reason == "done" and result.before is not None
    assert 0.5 < result.before < 1.0
    assert re.fullmatch(r"[0-9a-f]{40}", result.harness_commit) and result.weights is None
    assert result.to_json()["product"]["harness_commit"] == result.harness_commit
    assert result.prompt and result.prompt in result.files["agent/prompts.py"]
    assert all(line in str(result) for line in result.diff.splitlines())
    page = result._repr_html_()
    assert page.startswith("<table>") and result.run in page and "<script" not in page
    assert {event.kind for event in heard} >= {"begin", "phase", "note"}
    assert (tmp_path / "ws/given/grader.py").read_text().count("def ") == 2
    again = meta_agent.optimize(tasks=ROWS, grade=grade, **settings(tmp_path, url))
    assert again.run == result.run, "the same call reads the run that is done"


@pytest.mark.slow
def test_where_no_idea_was_tried_the_vault_stays_shut(tmp_path: Path) -> None:
    def talks(call: Call) -> Say:  # it never calls a tool
        return adds(call) if "What is " in str(call.messages[-1]["content"]) else Say("Hm.")

    with openai_server(talks, serial=False) as url:
        team = {
            "meta_model": "openai/m",
            "sandbox": "process",
            "allow_unsafe_process": True,
            "base_url": url,
        }
        given = {**settings(tmp_path, url), **team}
        result = meta_agent.optimize(tasks=ROWS, grade=grade, **given)
    assert "no_tool_calls" in {view.code for view in result.state.refused}
    assert result.state.nothing_tried and result.before is None and result.after is None
    assert "no idea was tried" in result.claim


@pytest.mark.slow
def test_async_code_awaits_it_while_its_own_loop_goes_on(tmp_path: Path) -> None:
    ticks: list[int] = []

    async def both(url: str) -> meta_agent.Result:
        async def tick() -> None:
            while True:
                ticks.append(1)
                await asyncio.sleep(0.05)

        ticking = asyncio.create_task(tick())
        try:
            return await meta_agent.optimize_async(
                tasks=ROWS, grade=grade, agent=LONG, **settings(tmp_path, url)
            )
        finally:
            ticking.cancel()

    with openai_server(adds, serial=False) as url:
        result = asyncio.run(both(url))
        systems = {str(call.messages[0]["content"]) for call in url.calls}
    assert result.exit_reason == "done" and len(ticks) > 5
    assert systems == {LONG, FIRST_QUESTION}, "the agent was given as its prompt"


def asks(prompt: str, base_url: str) -> str:
    """An agent that is a function: one request, no library."""
    import json
    import urllib.request

    messages = [{"role": "system", "content": "by hand"}, {"role": "user", "content": prompt}]
    request = urllib.request.Request(
        f"{base_url}/chat/completions",
        json.dumps({"model": "any", "messages": messages}).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as reply:
        return str(json.load(reply)["choices"][0]["message"]["content"])


def as_folder(tmp_path: Path) -> Path:
    for path, content in shipped_harness("chat/open").items():
        (tmp_path / "own" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / path).write_bytes(content)
    prompts = tmp_path / "own/agent/prompts.py"
    prompts.write_text(prompts.read_text() + '\nSYSTEM = "by hand"\n')
    return tmp_path / "own"


def as_command(tmp_path: Path) -> list[str]:
    script = tmp_path / "agent.py"
    script.write_text(source_of({"asks": asks}) + RUN_ASKS)
    return ["python3", "-c", script.read_text(), "{prompt}"]


RUN_ASKS = """
import os, pathlib, sys
pathlib.Path("answer.txt").write_text(asks(sys.argv[1], os.environ["OPENAI_BASE_URL"]))
"""
AGENTS: dict[str, Callable[[Path], Any]] = {
    "a folder": as_folder,
    "a command": as_command,
    "a function": lambda _: asks,
}


@pytest.mark.slow
@pytest.mark.parametrize("form", AGENTS)
def test_an_agent_in_any_form_acts_and_is_graded(tmp_path: Path, form: str) -> None:
    with openai_server(adds, serial=False) as url:
        result = meta_agent.optimize(
            tasks=ROWS, grade=grade, agent=AGENTS[form](tmp_path), **settings(tmp_path, url)
        )
        systems = {str(call.messages[0]["content"]) for call in url.calls}
    assert result.exit_reason == "done" and systems == {"by hand", FIRST_QUESTION}
    first = result.state.first
    assert first is not None and first.clean_success is not None
    assert 0 < first.clean_success < 1


MISSPELT = {
    "max_usdd": "max_usd",
    "max_token": "max_tokens",
    "budjet": "budget",
    "treshold": "threshold",
    "metamodel": "meta_model",
    "base_ulr": "base_url",
    "work_space": "workspace",
    "generation": "generations",
    "on_events": "on_event",
    "train_step": "train_steps",
}


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelt_argument_is_refused_with_the_right_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=name) as refused:
        meta_agent.optimize(ROWS, grade, workspace=tmp_path / "ws", **{name: 1})  # type: ignore[arg-type]
    assert f"{MISSPELT[name]}?" in str(refused.value.hint)
    assert not (tmp_path / "ws").exists(), "nothing was written"


def test_the_typed_arguments_are_the_settings_of_a_run() -> None:
    assert set(RunArguments.__annotations__) - {"tools", "agent", "base_url"} == set(FIELDS)


def test_a_server_answers_for_every_role(tmp_path: Path) -> None:
    url = "http://localhost:8000/v1"
    config = config_of(tasks=ROWS, grade=grade, workspace=tmp_path / "ws", base_url=url)
    assert set(config.base_urls.values()) == {url} and "proposer" in config.base_urls


@pytest.mark.parametrize(
    "prompt", ["One.", LONG, "One.\nTwo.\n", "\n", 'a"\nb"', 'a """\n', "a\\\n", "tab\t\r\nend"]
)
def test_a_prompt_that_is_given_is_the_prompt_that_is_read_back(
    tmp_path: Path, prompt: str
) -> None:
    config_of(tasks=ROWS, grade=grade, agent=prompt, workspace=tmp_path)
    files = {path.name: path.read_text() for path in (tmp_path / "given/agent/agent").glob("*.py")}
    assert prompt_in(files) == prompt
    assert prompt_in({"prompt.md": prompt}) == prompt
    assert prompt_in({"prompt.md": prompt, **files}) is None


def test_a_text_stands_for_the_folder_or_the_command_that_it_names(tmp_path: Path) -> None:
    folder, command = as_folder(tmp_path), as_command(tmp_path)
    assert _harness(str(folder), tmp_path) == _harness(folder, tmp_path)
    assert _harness(shlex.join(command), tmp_path) == _harness(command, tmp_path)


def test_a_folder_that_is_not_there_is_no_prompt(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        meta_agent.optimize(tasks=ROWS, grade=grade, agent="./my-agent", workspace=tmp_path / "ws")


def test_what_a_mode_does_not_use_is_refused_as_on_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--samples has no effect in this run"):
        meta_agent.optimize(workspace=tmp_path / "ws", samples=3)
    assert not (tmp_path / "ws/ledger.sqlite").exists()


def test_a_function_is_written_down_with_what_it_uses() -> None:
    text = source_of({"grade": grade})
    space: dict[str, Any] = {}
    exec(compile(text, "grader", "exec"), space)  # noqa: S102
    assert space["grade"]({"n": 2}, "it is 3") and "BONUS = 1" in text


def test_what_cannot_be_written_down_is_one_sentence() -> None:
    lock = threading.Lock()

    def closed(task: Any, answer: str) -> bool:
        return lock.locked()

    with pytest.raises(ConfigError, match="closed uses lock, a lock that cannot be copied"):
        source_of({"grade": closed})
    with pytest.raises(ConfigError, match="has no name"):
        source_of({"grade": lambda task, answer: True})


def test_a_task_that_is_no_json_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a task cannot be written as JSON"):
        meta_agent.optimize(tasks=[{"prompt": object()}], grade=grade, workspace=tmp_path / "ws")
    assert not (tmp_path / "ws").exists()


def test_a_grader_that_is_wrong_is_the_same_sentence_as_on_the_command_line(tmp_path: Path) -> None:
    def shouts(task: Any, answer: str) -> Any:
        return "yes"

    with pytest.raises(ConfigError, match="it returned 'yes'"):
        meta_agent.optimize(tasks=ROWS, grade=shouts, **settings(tmp_path, "http://localhost:9"))
    assert json.loads((tmp_path / "ws/given/tasks.jsonl").read_text().splitlines()[0])["n"] == 0
