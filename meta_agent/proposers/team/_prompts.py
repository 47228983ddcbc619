"""Prompts: jinja2 files in `proposers/prompts/`, any of which a workspace may replace.

`<workspace>/prompts/NAME.md` wins over ours and may build on it: `{% extends "builtin/NAME.md" %}`
replaces single blocks. Every prompt has the blocks `system` and `opening`. A variable that does not
exist is an error that names it.

Untrusted text enters as values, already fenced; a value is never rendered as a template.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from meta_agent.core.errors import ConfigError

_BUILT_IN = Path(__file__).parents[1] / "prompts"


class Prompt(NamedTuple):
    """The first two messages of a dialogue with a model: a system message and a request."""

    system: str
    opening: str


class Prompts:
    """The prompt templates of a workspace, or built-in ones where the workspace has none."""

    def __init__(self, override: Path | None = None) -> None:
        built_in = jinja2.FileSystemLoader(_BUILT_IN)
        loaders: list[jinja2.BaseLoader] = [built_in, jinja2.PrefixLoader({"builtin": built_in})]
        if override is not None:
            loaders.insert(0, jinja2.FileSystemLoader(override))
        self._environment = SandboxedEnvironment(
            loader=jinja2.ChoiceLoader(loaders),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
        )

    def render(self, name: str, values: Mapping[str, Any]) -> Prompt:
        """Returns the prompt `name`, filled with `values`. Raises ConfigError on a bad template."""
        try:
            template = self._environment.get_template(f"{name}.md")
            return Prompt(*(_block(template, part, values) for part in Prompt._fields))
        except jinja2.TemplateError as error:
            where = f"prompts/{name}.md"
            line = f" line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
            raise ConfigError(
                f"{where}{line}: {error.message or type(error).__name__}",
                hint="correct that file in the workspace, or remove it: then the built-in "
                f"{name}.md is used",
            ) from error


def _block(template: jinja2.Template, part: str, values: Mapping[str, Any]) -> str:
    """Renders a block with its own overrides; that of the most derived template counts."""
    context = template.new_context(dict(values))
    # Rendering the root resolves `extends`, which registers every parent's blocks.
    "".join(template.root_render_func(context))
    blocks = context.blocks.get(part)
    if not blocks:
        raise jinja2.TemplateRuntimeError(f"the prompt lacks a block; add {{% block {part} %}}")
    text = "".join(blocks[0](context))
    return text.strip() + "\n"
