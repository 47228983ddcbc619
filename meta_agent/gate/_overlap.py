"""Training text in evaluation tasks, where hashes no longer agree: a blank, a case, a sentence.

Content hashes find the very same task. A task whose wording was touched is found by its word
13-grams, the length that the decontamination of GPT-3 used (Brown et al. 2020, appendix C).

Not covered: paraphrases, translations, and short texts (below `SHORT` words nothing is said: the
prompts of small suites are alike by nature).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from meta_agent.gate._records import Finding

GRAM = 13
SHORT = 8
SHARED = 0.5
"""Share of an evaluation text's grams that must be known from training."""
_WORD = re.compile(r"\w+")


def near_overlap(train: Mapping[str, str], evaluation: Mapping[str, str]) -> list[Finding]:
    """Evaluation tasks whose text stands, more or less, in the training tasks (texts by key)."""
    known = {gram for text in train.values() for gram in _grams(text)}
    shares = {key: _share(text, known) for key, text in evaluation.items()}
    hits = sorted((key for key in shares if shares[key] >= SHARED), key=lambda key: -shares[key])
    if not hits:
        return []
    message = f"{len(hits)} of {len(evaluation)} evaluation tasks repeat the text of training tasks"
    lines = tuple(f"{key}: {shares[key]:.0%} of its text" for key in hits[:5])
    numbers = {"hits": len(hits), "n": len(evaluation)}
    return [Finding("overlap.near_duplicate", "veto", message, lines, numbers, "both")]


def _grams(text: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    if len(words) < SHORT:
        return set()
    size = min(GRAM, len(words))
    return {tuple(words[at : at + size]) for at in range(len(words) - size + 1)}


def _share(text: str, known: set[tuple[str, ...]]) -> float:
    grams = _grams(text)
    return len(grams & known) / len(grams) if grams else 0.0
