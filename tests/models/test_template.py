"""Chat templates that came with a model: a harmful one is named, in time and in little memory."""

from __future__ import annotations

import os
from typing import Any

import jinja2
import jinja2.sandbox
import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.policies.engines._template import ChatTemplate


class Tokenizer:
    """What `transformers` does with a template; compiling it may do harm, too."""

    def __init__(self, template: str) -> None:
        self._text = template

    def apply_chat_template(self, messages: Any, *, tools: Any, **options: Any) -> str:
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment()
        return environment.from_string(self._text).render(messages=messages, tools=tools)


SAID: list[dict[str, Any]] = [{"role": "user", "content": "hello \u00e9"}]
HARMFUL = {
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "a long string": "{{ ('x' * 3000000000) | length }}",
    "doubles": "{% set n = namespace(x='xxxxxxxx') %}{% for i in range(40) %}"
    "{% set n.x = n.x ~ n.x %}{% endfor %}",
    "a long reply": "{{ 'x' * 40000000 }}",
    "a large number": "{{ 7 ** (messages | length * 7 ** 12) }}",
}


def test_an_honest_template_is_rendered_again_and_again() -> None:
    template = ChatTemplate(Tokenizer("{% for m in messages %}<{{ m.content }}>{% endfor %}"))
    assert [template.render(SAID * n, None) for n in (1, 2)] == [
        "<hello \u00e9>",
        "<hello \u00e9><hello \u00e9>",
    ]


def test_a_template_may_refuse_a_conversation() -> None:
    template = ChatTemplate(Tokenizer("{{ messages[0].content / 2 }}"))
    for _ in range(2):
        with pytest.raises(ValueError, match="refuses this conversation"):
            template.render(SAID, None)


@pytest.mark.parametrize("harm", HARMFUL)
def test_a_harmful_template_is_named(harm: str) -> None:
    template = ChatTemplate(Tokenizer(HARMFUL[harm]), patience_sec=2.0)
    with pytest.raises(ConfigError, match="chat template"):
        template.render(SAID, None)
    with pytest.raises(ChildProcessError):
        os.waitpid(template._pid, os.WNOHANG)


def test_its_process_ends_with_it() -> None:
    template = ChatTemplate(Tokenizer("x"))
    pid = template._pid
    del template
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
