"""Makes one self-contained HTML page of sections, which needs no script and no network.

The templates in `templates/` draw; every text that they show is escaped, and control characters in
it are spelled out. Only the style sheet is markup already. The page forbids scripts and remote
content by its own Content-Security-Policy. A page that follows its run is loaded anew every few
seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from meta_agent.core.durable import write_whole
from meta_agent.core.errors import ConfigError
from meta_agent.reports import run_sections
from meta_agent.reports._format import visible
from meta_agent.reports.attempts import attempts_of
from meta_agent.reports.pages._charts import css_of, interval_chart, line_chart, way_chart
from meta_agent.reports.sections import Attempt, Attempts, Page, TaskRow, filled
from meta_agent.reports.state import RunState

_PATCH_CLASSES: Final = {"+": "add", "-": "del", "@": "hunk"}
_SPEAKERS: Final = {"user": "user", "assistant": "assistant", "system": "system", "tool": "tool"}
_GLYPHS: Final = {"solved": "✓", "some": "◐", "failed": "·", "flagged": "!", "lost": "?"}


def render_html(state: RunState, *, follow: bool = False) -> str:
    """Returns a run's report as one HTML page; with `follow`, one that is loaded anew by itself."""
    return rendered(run_sections.page(state, attempts=attempts_of(state)), follow=follow)


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
    template = _environment().get_template("page.html")
    return template.render(page=page, follow=follow, style=Markup(_text("page.css")))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_text),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else visible(value),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        css_of=css_of,
        filled=filled,
        interval_chart=interval_chart,
        kind_of=lambda block: type(block).__name__,
        line_chart=line_chart,
        way_chart=way_chart,
        patch_classes=_PATCH_CLASSES,
        speakers=_SPEAKERS,
        glyphs=_GLYPHS,
        statuses=tuple(_GLYPHS),
        count=_count,
        count_of=_count_of,
        shows=_shows,
        row_shows=_row_shows,
        status_of=_status_of,
    )
    return environment


@cache
def _text(name: str) -> str:
    return files("meta_agent.reports.pages").joinpath("templates", name).read_text("utf-8")


def _status_of(attempts: Sequence[Attempt]) -> str:
    """Returns how a version did at a task; the worst that happened, `some` if part is solved."""
    statuses = {attempt.status for attempt in attempts}
    if not statuses:
        return "not tried"
    for status in ("flagged", "lost"):
        if status in statuses:
            return status
    return "some" if len(statuses) > 1 else statuses.pop()


def _shows(attempts: Sequence[Attempt]) -> bool:
    return any(attempt.messages for attempt in attempts)


def _row_shows(row: TaskRow) -> bool:
    return any(map(_shows, row.attempts))


def _count(block: Attempts, column: int) -> str:
    every = [attempt for row in block.rows for attempt in row.attempts[column]]
    return f"{sum(attempt.status == 'solved' for attempt in every)} of {len(every)}"


def _count_of(items: Sequence[object], word: str) -> str:
    return f"{len(items)} {word}s" if len(items) != 1 else word
