"""Every command in the documents is carried out, or only read where its fence says why.

The fence is the one place for that: ```` ```bash key ````. What is only read goes through the
parser of the command line, settings and their values included, and so do commands and flags in
running text. Not covered: whether a setting's value exists where it names a file or a model.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maintain import pictures
from maintain.reference import PAGE, reference
from meta_agent import cli
from tests.docs._blocks import ROOT, Block, Shell, blocks, parsed

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if page.name != "reference.md" and page.parent != ROOT / "docs/log"]
RUN = [
    page for page in PAGES if any(one.language == "bash" and not one.needs for one in blocks(page))
]
MAY_NEED = {"files", "key", "gpu", "docker", "network", "terminal", "train"}
_LINK = re.compile(r"\]\(([^)\s#]+)[^)]*\)")
_INLINE = re.compile(r"`([^`\n]+)`")
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
GROUPS = ("tasks", "sandbox", "skills", "models")
_ENDS = {"&&", "||", ";", "|", "&", ">", ">>", "<"}


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_the_reference_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "python -m maintain.reference"


def test_the_drawn_pictures_are_those_that_the_script_makes() -> None:
    for name, drawn in (("loop.svg", pictures.loop()), ("run.svg", pictures.seconds())):
        kept = (ROOT / "docs/pictures" / name).read_text(encoding="utf-8")
        assert kept == drawn, f"python -m maintain.pictures: {name}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_is_one_that_our_parsers_take(
    page: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        assert block.needs <= MAY_NEED, f"{named(page)}:{block.line}"
        for words in commands(block):
            parsed(words, f"{named(page)}:{block.line}: {shlex.join(words)}")
    for words in inline(page):
        parsed(words, f"{named(page)}: `{shlex.join(words)}`")


@pytest.mark.parametrize(
    "words",
    [
        "evolve --strategy cleverest",
        "evolve --generation 2",
        "evolve --max-usd nobody=5",
        "evolv",
        "make evolv",
        "--colour red",
    ],
)
def test_a_command_that_the_program_would_refuse_is_found(words: str) -> None:
    with pytest.raises(AssertionError):
        parsed(shlex.split(words), "here")


def test_how_many_commands_are_only_read_is_said() -> None:
    every = [(one, block.needs) for page in PAGES for block in blocks(page) for one in ours(block)]
    why = Counter(need for _, needs in every for need in needs)
    read = ", ".join(f"{count} `{need}`" for need, count in sorted(why.items()))
    carried = sum(not needs for _, needs in every)
    said = f"Of {len(every)} commands {carried} are run; the others are only read: {read}."
    assert said in " ".join((ROOT / "docs/README.md").read_text(encoding="utf-8").split()), said


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_what_a_page_shows_and_links_to_is_there(page: Path) -> None:
    readers: dict[str, Any] = {"python": ast.parse, "toml": tomllib.loads, "json": json.loads}
    for block in blocks(page):
        readers.get(block.language, str)(block.text)
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{named(page)}: {target}"


def test_every_page_stands_in_the_navigation_of_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = (page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md"))
    assert sorted(pages) == sorted(re.findall(r": (\S+\.md)$", navigation, re.MULTILINE))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", RUN, ids=named)
def test_a_page_is_carried_out_from_an_empty_folder(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    shell = Shell(
        folder,
        OPENAI_API_KEY="none-that-anybody-takes",
        META_AGENT_SANDBOX="process",
        META_AGENT_ALLOW_UNSAFE_PROCESS="1",
    )
    output = ""
    for block in blocks(page):
        if block.language == "bash":
            output = "" if block.needs else shell(block.text)
        elif block.language == "text" and output:
            require_printed(output, block.text, f"{named(page)}:{block.line}")


def require_printed(output: str, excerpt: str, where: str) -> None:
    """Raises AssertionError unless the lines stand in the output in this order.

    Spaces do not count. A line `...` stands for anything.
    """
    lines = (line.split() for line in output.splitlines())
    for line in excerpt.splitlines():
        assert line == "..." or line.split() in lines, f"{where}: not printed: {line}\n{output}"


def test_an_excerpt_that_is_not_printed_is_refused() -> None:
    require_printed("a  1\nb\nc\n", "a 1\n...\nc\n", "here")
    with pytest.raises(AssertionError):
        require_printed("b\na\n", "b\na\na\n", "here")


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each command of ours and of `make`; what a here-document holds is none."""
    text = re.sub(r"<<'END'\n.*?\nEND\n", "\n", block.text, flags=re.DOTALL).replace("\\\n", " ")
    lines = text.splitlines()
    if block.language != "bash":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in lines:
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        parts: list[list[str]] = [[]]
        for word in words:
            parts.append([]) if word in _ENDS else parts[-1].append(word)
        for part in parts:
            if part[:1] == ["meta-agent"]:
                yield part[1:]
            elif part[:1] == ["make"]:
                yield part


def ours(block: Block) -> list[list[str]]:
    """The commands that a reader types: a console's are shown with what they print."""
    return [one for one in commands(block) if one[0] != "make"] if block.language == "bash" else []


def inline(page: Path) -> Iterator[list[str]]:
    """Commands and flags that stand in running text."""
    known = cli.command()
    for span in _INLINE.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        first, _, rest = span.partition(" ")
        if first == "meta-agent" and rest not in ("", *GROUPS):
            yield shlex.split(rest)
        elif (
            first in ("make",)
            or first.startswith("--")
            or (first in known.commands and "--" in rest)
        ):
            yield shlex.split(span)


@pytest.mark.parametrize("page", sorted((ROOT / "docs/how-to").glob("*.md")), ids=lambda p: p.stem)
def test_a_how_to_page_begins_with_what_to_type_or_write(page: Path) -> None:
    first = next(blocks(page))
    assert first.line <= 14 and first.language in {"bash", "python", "toml"}, first
