"""A module that a docstring, a comment or a page names in backticks exists under that name.

A dotted name counts if its head is a module or folder of the repository, and "Not covered: ...
(`word`)" always. The words after the module may be any that its source holds.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOTTED = re.compile(r"`([a-z_]\w*(?:\.(?![A-Z]+\b)[A-Za-z]\w*)+)(?:\([^`]*\))?`")
COVERING = re.compile(r"ot cover[^`]*\(`([a-z_.]+)`\)")
PAGES = [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/how-to/*.md"), ROOT / "ARCHITECTURE.md"]
MODULES = [
    file for top in ("meta_agent", "benchmarks", "tests") for file in ROOT.glob(f"{top}/**/*.py")
]
SUFFIXES = {"json", "jsonl", "md", "py", "toml", "txt"}
NAMED: dict[str, list[Path]] = defaultdict(list)
for module in MODULES:
    words = [word.lstrip("_") for word in module.relative_to(ROOT).with_suffix("").parts]
    words = words[:-1] if module.stem == "__init__" else words
    for first in range(len(words)):
        NAMED[".".join(words[first:])].append(module)


def exists(name: str, by: Path) -> bool:
    words = [word.lstrip("_") for word in name.split(".")]
    for count in range(len(words), 0, -1):
        for module in NAMED.get(".".join(words[:count]), []):
            is_seen = "tests" in by.parts or "tests" not in module.parts  # tests keep old folders
            if is_seen and {*words[count:]} <= {*re.findall(r"[^\W_]\w*", module.read_text())}:
                return True
    return name in re.sub(r"`.*?`", "", by.read_text())


def stale() -> Iterator[str]:
    for file in (*MODULES, *PAGES):
        text = file.read_text()
        names = [name for name in DOTTED.findall(text) if name.split(".")[0] in NAMED]
        for name in (*names, *COVERING.findall(text)):
            if name.rsplit(".", 1)[-1] not in SUFFIXES and not exists(name, file):
                yield f"{file.relative_to(ROOT)}: {name}"


def test_modules_that_are_named_exist() -> None:
    assert list(stale()) == []
