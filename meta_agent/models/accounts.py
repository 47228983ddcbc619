"""Which models a run would ask, where, and with the key of which variable: looked up, not used.

For `doctor` and for people: names of variables, never their values. A server of one's own gets the
key of the variable that the settings name and no other; without one it gets none.

Does not cover: whether a key works. Only asking could tell, and asking may cost money.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from meta_agent.config import RunConfig
from meta_agent.models.client import roles_in_use
from meta_agent.protocols import Role

Via = Literal["openai", "anthropic", "litellm", "vllm", "script", "recording"]

# By the names that the providers gave them. Of a provider that is not here we know no name.
_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "together_ai": ("TOGETHER_API_KEY", "TOGETHERAI_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "azure": ("AZURE_API_KEY",),
    "huggingface": ("HF_TOKEN",),
}


@dataclass(frozen=True, slots=True)
class Account:
    """One model on one server, for the roles that share it."""

    model: str
    via: Via
    roles: tuple[Role, ...]
    base_url: str | None  # None: the provider's own
    variables: tuple[str, ...]  # any of these may hold the key
    found: str | None  # the one that does

    @property
    def lacks_key(self) -> bool:
        """A variable is known to be needed, and none is set."""
        return bool(self.variables) and self.found is None


def accounts(config: RunConfig, environment: Mapping[str, str] | None = None) -> list[Account]:
    """Every account of a run with these settings, in the order of its roles."""
    found = os.environ if environment is None else environment
    by_account: dict[tuple[str, str | None, tuple[str, ...]], list[Role]] = {}
    for role in roles_in_use(config):
        url = config.base_urls.get(role)
        key = (config.model_of(role), url, _variables(config, role))
        by_account.setdefault(key, []).append(role)
    return [
        Account(
            model,
            _via(model, url),
            tuple(roles),
            url,
            variables,
            next((name for name in variables if found.get(name)), None),
        )
        for (model, url, variables), roles in by_account.items()
    ]


def _variables(config: RunConfig, role: Role) -> tuple[str, ...]:
    if named := config.key_env.get(role):
        return (named,)
    provider, slash, _ = config.model_of(role).partition("/")
    if role in config.base_urls or not slash or ":" in provider:
        return ()
    return _VARIABLES.get(provider, ())


def _via(model: str, base_url: str | None) -> Via:
    for prefix, via in _LOCAL.items():
        if model.startswith(prefix):
            return via
    provider = model.partition("/")[0]
    if provider == "anthropic":
        return "anthropic"
    return "openai" if provider == "openai" or base_url else "litellm"


_LOCAL: Final[Mapping[str, Via]] = {
    "scripted:": "script",
    "replay:": "recording",
    "vllm:": "vllm",
}
