"""Hooks of MkDocs for `make docs`; `mkdocs.yml` has the rest.

A file outside `docs/` that a page links to is published under `repository/`, so that every link of
the repository works on the site too. A recording is published as the page that `meta-agent report
--html` makes of it. `llms.txt` lists the pages for language models, and `llms-full.txt` holds their
text. Does not cover: links that are written in HTML.
"""

from __future__ import annotations

import posixpath
import re
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from meta_agent.cli._rollouts import report_on_files
from meta_agent.core.ledger import Ledger
from meta_agent.reports import reduce
from meta_agent.reports.pages.html import render_html
from meta_agent.studies.demo import SUFFIX, unpacked

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
NEEDS: Final = {
    "docker": "needs Docker",
    "files": "needs files of your own",
    "gpu": "needs a GPU",
    "key": "needs the key of a provider",
    "network": "needs a network",
    "terminal": "opens a browser",
    "train": "needs the extra train",
}
"""The words that a fence may have after its language, and what the site says of them."""
_LINK: Final = re.compile(r"(?<=\]\()[^)\s#]+")
_FENCE: Final = re.compile(r"^( *```\w+) ([\w ]+)$", re.MULTILINE)
_LINKED_WORDS: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Adds the files outside `docs/` that pages link to, and those that these link to."""
    for path in _linked_files():
        if path in RECORDINGS:
            added = File.generated(config, site_uri(path), content=RECORDINGS[path]())
        else:
            added = File.generated(config, site_uri(path), abs_src_path=str(path))
        files.append(added)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: Any, files: Files) -> str:
    """Returns the text with links and fences as MkDocs reads them."""
    folder = Path(str(page.file.abs_src_path)).parent
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]

    def relinked(link: re.Match[str]) -> str:
        path = _target(folder, link[0])
        if path is None:
            return link[0]
        return posixpath.relpath(site_uri(path), posixpath.dirname(page.file.src_uri) or ".")

    return _FENCE.sub(_titled, _LINK.sub(relinked, markdown))


def on_env(env: Any, *, config: Any, files: Files) -> None:
    """Adds `llms.txt` and `llms-full.txt`."""
    pages = list(_in_reading_order(files))
    index = [f"# {config.site_name}\n\n> {config.site_description}\n"]
    section = ""
    for page in pages:
        title = str(page.parent.title) if page.parent else section
        if title != section:
            index.append(f"\n## {title}\n")
        section = title
        index.append(f"- [{page.title}]({page.url or './'}){_summary(page)}")
    text = (f"<!-- {page.url or './'} -->\n{page.markdown}" for page in pages)
    for name, content in (("llms.txt", "\n".join(index)), ("llms-full.txt", "\n\n".join(text))):
        files.append(File.generated(config, name, content=content + "\n"))


def site_uri(path: Path) -> str:
    """Returns where a file of the repository lies on the site, before MkDocs renders it."""
    if path in RECORDINGS:
        path = path.with_name(path.name.partition(".")[0] + ".html")
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return f"repository/{path.relative_to(ROOT).as_posix()}"


def _linked_files() -> Iterator[Path]:
    pages = list(DOCS.rglob("*.md"))
    visited = set(pages)
    while pages:
        page = pages.pop()
        for link in _LINK.findall(page.read_text(encoding="utf-8")):
            path = _target(page.parent, link)
            if path is None or path in visited or path.is_relative_to(DOCS):
                continue
            visited.add(path)
            yield path
            if path.suffix == ".md":
                pages.append(path)


def _target(folder: Path, link: str) -> Path | None:
    """Returns the file that a link names. A folder stands for the README in it."""
    path = (folder / link).resolve()
    path = path / "README.md" if path.is_dir() else path
    return path if path.is_file() and path.is_relative_to(ROOT) else None


def _titled(fence: re.Match[str]) -> str:
    return f'{fence[1]} title="{", ".join(NEEDS[word] for word in fence[2].split())}"'


def _in_reading_order(files: Files) -> Iterator[Page]:
    page = next(file.page for file in files.documentation_pages() if file.src_uri == "README.md")
    while page is not None:
        yield page
        page = page.next_page


def _summary(page: Page) -> str:
    """Returns the first sentence below a page's title, after a colon, or nothing."""
    _, _, text = (page.markdown or "").partition("\n\n")
    words = _LINKED_WORDS.sub(r"\1", " ".join(text.partition("\n\n")[0].split()))
    return f": {words.partition('. ')[0].rstrip('.:')}" if words[:1].isalpha() else ""


def _recorded_run(name: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        workspace = unpacked(Path(folder) / name, name)
        with Ledger.open(workspace.ledger_file, owner_lock=False) as ledger:
            return render_html(reduce(ledger))


def _attempts() -> str:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        attempts = ROOT / "examples/extraction/attempts.jsonl"
        report_on_files([attempts], None, False, page)
        return page.read_text(encoding="utf-8")


RECORDINGS: Final[dict[Path, Callable[[], str]]] = {
    **{
        path: partial(_recorded_run, path.name.removesuffix(SUFFIX))
        for path in ROOT.glob(f"examples/recorded-run/*{SUFFIX}")
    },
    ROOT / "examples/extraction/attempts.jsonl": _attempts,
}
"""Recordings, and what makes the page of each."""
