"""The table of model providers, and the names of their keys: never a value."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, NamedTuple


class Maker(NamedTuple):
    """A model provider: the environment variables for its key and address, and its SDK."""

    keys: tuple[str, ...]
    """Variables that may hold its key; the first that is set counts."""
    url: str = ""
    """The variable that may hold its address, or empty."""
    sdk: str = "_litellm:LiteLLMProvider"
    """The file in `llm_clients/providers` that uses its SDK, and the `Provider` there."""


# Providers that need more than a key (Bedrock, Vertex) have no row: litellm reads what they need
# under their own names, and speaks to every maker without a row.
MAKERS: Final[Mapping[str, Maker]] = {
    "openai": Maker(("OPENAI_API_KEY",), "OPENAI_BASE_URL", "_openai:OpenAIProvider"),
    "anthropic": Maker(
        ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL", "_anthropic:AnthropicProvider"
    ),
    "gemini": Maker(("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    "openrouter": Maker(("OPENROUTER_API_KEY",)),
    "deepseek": Maker(("DEEPSEEK_API_KEY",)),
    "mistral": Maker(("MISTRAL_API_KEY",)),
    "xai": Maker(("XAI_API_KEY",)),
    "together_ai": Maker(("TOGETHER_API_KEY", "TOGETHERAI_API_KEY")),
    "groq": Maker(("GROQ_API_KEY",)),
    "azure": Maker(("AZURE_API_KEY",)),
    "huggingface": Maker(("HF_TOKEN", "HUGGINGFACE_API_KEY")),
    "fireworks_ai": Maker(("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY")),
    "cerebras": Maker(("CEREBRAS_API_KEY",)),
    "moonshot": Maker(("MOONSHOT_API_KEY",)),
    "dashscope": Maker(("DASHSCOPE_API_KEY",)),
    "zai": Maker(("ZAI_API_KEY",)),
}
KEY_VARIABLES: Final = tuple(name for maker in MAKERS.values() for name in maker.keys)


def keys_found() -> list[str]:
    """Returns the environment variables for providers' API keys that are set and not empty."""
    return [name for name in KEY_VARIABLES if os.environ.get(name)]
