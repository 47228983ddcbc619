"""Every block of commands in the documents is carried out, or at the least read by our parsers."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from benchmarks import pictures
from maintain.reference import PAGE, reference
from meta_agent.cli import app
from tests.docs._blocks import ROOT, Block, Shell, blocks

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if page.name not in ("LOG.md", "reference.md")]
RUN = [
    page for page in PAGES if any(one.language == "bash" and not one.needs for one in blocks(page))
]
MAY_NEED = {"key", "gpu", "docker", "network", "terminal", "train"}
_LINK = re.compile(r"\]\(([^)\s#]+)[^)]*\)")


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_the_reference_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "python -m maintain.reference"


def test_the_drawn_pictures_are_those_that_the_script_makes() -> None:
    for name, drawn in (("loop.svg", pictures.loop()), ("run.svg", pictures.seconds())):
        kept = (ROOT / "docs/pictures" / name).read_text(encoding="utf-8")
        assert kept == drawn, f"python benchmarks/pictures.py: {name}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_is_one_that_our_parsers_take(page: Path) -> None:
    for block in blocks(page):
        assert block.needs <= MAY_NEED, f"{named(page)}:{block.line}"
        if block.language == "bash":
            for words in commands(block):
                parsed(words, f"{named(page)}:{block.line}: {shlex.join(words)}")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_what_a_page_shows_and_links_to_is_there(page: Path) -> None:
    readers: dict[str, Any] = {"python": ast.parse, "toml": tomllib.loads, "json": json.loads}
    for block in blocks(page):
        readers.get(block.language, str)(block.text)
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{named(page)}: {target}"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", RUN, ids=named)
def test_a_page_is_carried_out_from_an_empty_folder(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    shell = Shell(folder, META_AGENT_SANDBOX="process", META_AGENT_ALLOW_UNSAFE_PROCESS="1")
    for block in blocks(page):
        if block.language == "bash" and not block.needs:
            shell(block.text)


@pytest.mark.slow
@pytest.mark.train
@pytest.mark.timeout(1200)
def test_the_run_of_the_tutorial_is_carried_out(tmp_path: Path) -> None:
    folder = tmp_path / "here/first"
    folder.mkdir(parents=True)
    (block,) = (one for one in blocks(ROOT / "docs/tutorial.md") if one.needs == {"train"})
    Shell(folder.parent, META_AGENT_SANDBOX="process")(
        f"rmdir first; mkdir old; cd old; {block.text}"
    )
    assert (folder / "report.html").is_file()


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each `meta-agent` command; what a here-document holds is none."""
    text = re.sub(r"<<'END'\n.*?\nEND\n", "\n", block.text, flags=re.DOTALL).replace("\\\n", " ")
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["meta-agent"]:
            yield [word for word in words[1:] if word != "..."]


def parsed(words: list[str], where: str) -> None:
    """Raises AssertionError where the command line would refuse them."""
    command: Any = get_command(app)
    while hasattr(command, "commands"):
        assert words and words[0] in command.commands, where
        command = command.commands[words.pop(0)]
    try:
        command.make_context(command.name, words)
    except Exception as refused:  # whatever a parser says
        raise AssertionError(f"{where}: {refused}") from refused
