"""Which provider keys this environment holds: their names, never their values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

KEY_VARIABLES: Final = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
    "DEEPSEEK_API_KEY",
    "MISTRAL_API_KEY",
    "XAI_API_KEY",
    "TOGETHER_API_KEY",
    "GROQ_API_KEY",
    "AZURE_API_KEY",
    "HF_TOKEN",
)


def keys_found(environment: Mapping[str, str] | None = None) -> list[str]:
    """The names of provider variables that are set and not empty."""
    found = os.environ if environment is None else environment
    return [name for name in KEY_VARIABLES if found.get(name)]
