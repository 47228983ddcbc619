"""Makes one self-contained HTML page of sections, which needs no script and no network.

Every text that is shown passes `element`, which spells out control characters and escapes markup;
only what this package drew itself is markup already. The page forbids scripts and remote content by
its own Content-Security-Policy. A page that follows its run is loaded anew every few seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from markupsafe import Markup

from meta_agent.core.durable import write_whole
from meta_agent.core.errors import ConfigError
from meta_agent.reports import run_sections
from meta_agent.reports._format import visible
from meta_agent.reports.pages._svg import css_of, interval_chart, line_chart
from meta_agent.reports.sections import (
    Block,
    Cell,
    Curves,
    Facts,
    Fold,
    Folds,
    Intervals,
    Message,
    Page,
    Patch,
    Section,
    Table,
    Words,
    filled,
)
from meta_agent.reports.state import RunState

_VOID: Final = frozenset({"meta", "br", "input", "link"})
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_LOAD_ANEW_SEC: Final = 5
_PATCH_CLASSES: Final = {"+": "add", "-": "del", "@": "hunk"}


def render_html(state: RunState, *, follow: bool = False) -> str:
    """Returns a run's report as one HTML page; with `follow`, one that is loaded anew by itself."""
    return rendered(run_sections.page(state), follow=follow)


def write_page(text: str, path: Path) -> None:
    """Writes text to the path that the user gave by `--html`.

    A file is written whole or not at all, and a link keeps pointing to it. A device or a FIFO is
    written into. Raises ConfigError on failure.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            write_whole(path.resolve(), text)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", hint="choose another path for --html"
        ) from error


def rendered(page: Page, *, follow: bool = False) -> str:
    """Returns a page as one HTML document; with `follow`, a browser loads it anew by itself."""
    lines = [element("p", line, class_="dim") for line in page.lines]
    index = [(part.anchor, part.title) for part in page.sections if part.anchor]
    links = [element("a", title, href=f"#{anchor}") for anchor, title in index]
    header = element("header", element("h1", page.headline), *lines, element("nav", *links))
    body = [_section(section) for section in page.sections]
    footer = element("footer", page.footer.text, " ", _code(page.footer.command))
    main = element("main", header, *body)
    return _document(page.title, main, footer, follow=follow)


def _document(title: str, *parts: Markup, follow: bool) -> str:
    """Returns an HTML document of these parts with the reports' style."""
    head = [
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=Markup(_POLICY)),
        element("title", f"meta-agent: {title}"),
        element("style", Markup(_style())),
    ]
    if follow:
        head.append(element("meta", http_equiv="refresh", content=_LOAD_ANEW_SEC))
    html = element("html", element("head", *head), element("body", *parts), lang="en")
    return f"<!doctype html>\n{html}\n"


@cache
def _style() -> str:
    return files("meta_agent.reports.pages").joinpath("page.css").read_text()


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """Returns an HTML element. Children and attributes are escaped unless they are `Markup`.

    Empty attributes are left out. `data_at` is written as `data-at`, and `class_` as `class`.
    """
    written = Markup().join(
        Markup(' {}="{}"').format(key.strip("_").replace("_", "-"), _safe(value))
        for key, value in attributes.items()
        if value not in ("", None, False)
    )
    start = Markup("<{}{}>").format(Markup(name), written)
    if name in _VOID:
        return start
    inner = Markup().join(map(_safe, children))
    return Markup("{}{}</{}>").format(start, inner, Markup(name))


def _safe(value: object) -> str:
    return value if isinstance(value, Markup) else visible(value)


def blocks_html(blocks: Iterable[Block]) -> Markup:
    """Returns the blocks of a section as HTML, one below the other."""
    return Markup("\n").join(part for block in filled(blocks) for part in _block(block))


def _section(section: Section) -> Markup:
    heading = element("h2", section.title, id=section.anchor) if section.title else Markup()
    return Markup("{}\n{}\n").format(heading, blocks_html(section.blocks))


def _block(block: Block) -> Iterator[Markup]:
    match block:
        case Words():
            yield element("p", _cell(block._replace(style="")), class_=block.style)
        case Facts():
            rows = [
                element("tr", element("td", name), element("td", _cell(value)))
                for name, value in block.rows
            ]
            yield element("table", *rows, class_="facts")
        case Table():
            yield _scrolled(_table(block))
        case Patch():
            lines = (
                element("span", line, class_=_PATCH_CLASSES.get(line[:1], ""))
                for line in block.text.splitlines()
            )
            yield element("pre", Markup("\n").join(lines))
        case Message():
            speaker = element("span", block.speaker, class_="dim")
            yield element("div", speaker, element("pre", block.text), class_="msg")
        case Folds():
            for fold in block.folds:
                yield _fold(fold)
        case Curves():
            yield from _curves(block)
        case Intervals():
            yield _scrolled(interval_chart(block))
            if block.caption:
                yield element("p", block.caption, class_="dim")


def _table(block: Table) -> Markup:
    head = element("tr", *(element("th", heading) for heading in block.headings))
    stiff = {*block.numbers, *block.whole}
    rows = [
        element(
            "tr",
            *(
                element("td", _cell(cell), class_="num" if column in stiff else "")
                for column, cell in enumerate(row)
            ),
        )
        for row in block.rows
    ]
    return element("table", head, *rows)


def _cell(cell: Cell) -> Markup:
    words = cell if isinstance(cell, Words) else Words(cell)
    css = f"tag {css_of(words.kind)}" if words.kind else words.style
    text = element("span", words.text, class_=css) if css else Markup.escape(visible(words.text))
    code = _code(words.command)
    return text + element("br") + code if words.text and words.command else text + code


def _code(command: str) -> Markup:
    return element("code", command) if command else Markup()


def _fold(fold: Fold) -> Markup:
    parts = [cell for cell in fold.cells if cell and cell != Words("")]
    summary = element("summary", Markup(" · ").join(map(_cell, parts)))
    inner = element("div", blocks_html(fold.blocks))
    return element("details", summary, inner, open="open" if fold.opened else "")


def _curves(block: Curves) -> Iterator[Markup]:
    yield element("p", block.caption, class_="dim")
    keys = (element("span", _key(colour), arm) for arm, colour in block.legend)
    yield element("p", *keys, class_="legend dim")
    charts = []
    for name, curves in block.charts:
        caption = element("figcaption", f"{name}, by step", class_="dim")
        charts.append(element("figure", caption, line_chart(f"{name} by step", curves)))
    yield element("div", *charts, class_="charts")


def _key(colour: int) -> Markup:
    line = Markup('<line class="curve c{}" x1="1" y1="4" x2="21" y2="4"/>').format(colour)
    return Markup('<svg width="22" height="8" viewBox="0 0 22 8">{}</svg>').format(line)


def _scrolled(part: Markup) -> Markup:
    return element("div", part, class_="scroll")
