"""Which provider keys this environment holds: their names, never their values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

# By provider, as model strings name it; the first one set counts. Providers that take more than a
# key (Bedrock, Vertex) are not here: litellm reads what they need by their own names.
KEYS_OF: Final[Mapping[str, tuple[str, ...]]] = {
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
    "huggingface": ("HF_TOKEN", "HUGGINGFACE_API_KEY"),
    "fireworks_ai": ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"),
    "cerebras": ("CEREBRAS_API_KEY",),
    "moonshot": ("MOONSHOT_API_KEY",),
    "dashscope": ("DASHSCOPE_API_KEY",),
    "zai": ("ZAI_API_KEY",),
}

KEY_VARIABLES: Final = tuple(name for names in KEYS_OF.values() for name in names)


def keys_found(environment: Mapping[str, str] | None = None) -> list[str]:
    """The names of provider variables that are set and not empty."""
    found = os.environ if environment is None else environment
    return [name for name in KEY_VARIABLES if found.get(name)]
