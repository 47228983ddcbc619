"""`meta-agent mcp` as an editor's agent meets it: the SDK's own client over stdio."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli._command import ANYWHERE, Runner
from tests.view._recorded_workspace import RUN, workspace

PACKAGE = "mcp"
Talk = Callable[[Any], Awaitable[Any]]


def talk(root: Path, *flags: str, what: Talk) -> Any:
    """Starts the server in the folder of a workspace and returns what the client came to."""
    sdk: Any = pytest.importorskip(PACKAGE, reason="needs the mcp extra (`make mcp`)")
    server = sdk.StdioServerParameters(
        command=sys.executable,
        args=["-m", "meta_agent", "mcp", "--workspace", str(root), *flags],
        env={**os.environ, **ANYWHERE},
    )

    async def session() -> Any:
        # The default is the stream that pytest had when the SDK was imported.
        async with sdk.Client(sdk.stdio_client(server, errlog=sys.__stderr__)) as client:
            return await what(client)

    return asyncio.run(session())


def text(result: Any) -> str:
    (content,) = result.content
    return str(content.text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return workspace(tmp_path / "w").root


def test_its_tools_return_the_documents_of_the_commands(root: Path, meta_agent: Runner) -> None:
    async def what(client: Any) -> dict[str, Any]:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["status", "report", "why", "diff"]
        assert all(tool.annotations.read_only_hint for tool in tools)
        asked = {"status": {}, "report": {"run": RUN}, "why": {"candidate": "g0/c0"}}
        return {
            name: json.loads(text(await client.call_tool(name, arguments)))
            for name, arguments in asked.items()
        }

    documents = talk(root, what=what)
    for words in (["status"], ["report"], ["why", "g0/c0"]):
        printed = meta_agent(*words, "--json", cwd=root).document
        assert documents[words[0]] == json.loads(json.dumps(printed)), words


def test_runs_are_started_only_if_that_was_allowed(root: Path) -> None:
    async def what(client: Any) -> list[Any]:
        flags = {"flags": ["--dry-run", "--generations", "0"]}
        return [(await client.list_tools()).tools, await client.call_tool("evolve", flags)]

    tools, refused = talk(root, what=what)
    assert "evolve" not in {tool.name for tool in tools} and refused.is_error
    tools, begun = talk(root, "--allow-runs", what=what)
    (evolve,) = [tool for tool in tools if tool.name == "evolve"]
    assert not (evolve.annotations and evolve.annotations.read_only_hint)
    log = Path(json.loads(text(begun))["log"])
    while "generations = 0" not in log.read_text():  # it was begun, and refused by the command
        time.sleep(0.1)


def test_without_the_package_it_names_the_command_that_installs_it(
    tmp_path: Path, meta_agent: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    done = meta_agent("mcp", cwd=tmp_path)
    assert done.returncode != 0
    assert "the Python package mcp is missing" in done.stderr and "[mcp]'" in done.stderr
