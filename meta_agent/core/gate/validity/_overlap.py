"""Finds evaluation tasks that repeat the text of training tasks, but for a few words.

Content hashes find the very same task. A task with changed wording is found by its word 13-grams,
the length that the decontamination of GPT-3 used (Brown et al. 2020, appendix C). Grams that occur
in many tasks are a common form and are left out. Memory is that of the evaluation texts; training
texts are streamed.

Not covered: paraphrases, translations, and texts below `SHORT` words, since the prompts of small
suites are alike by nature.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from meta_agent.core.gate._records import Finding, Severity
from meta_agent.core.gate.numbers._intervals import wilson
from meta_agent.core.gate.validity._shares import LEAK_SHARE, LINES_SHOWN

GRAM = 13
SHORT = 8
SHARED = 0.5
"""The share of an evaluation text's grams that must occur in training."""
FORM_TASKS = 3
FORM_SHARE = 0.01
FORM_IN_TRAINING = 20
"""A gram in more training tasks than this, and than `FORM_SHARE` of them, is a common form.

For evaluation tasks the number is `FORM_TASKS`. It is larger here, because a text that was trained
on several times is no common form.
"""
TELLING = 5
"""The number of grams outside the common form that a text needs before its share counts."""
_WORD = re.compile(r"\w+")


def near_overlap(train: Iterable[str], evaluation: Mapping[str, str]) -> list[Finding]:
    """Returns a finding if evaluation tasks occur almost word for word in training tasks, else [].

    `train` holds texts, and `evaluation` texts by task key. The finding is a warning, or a veto if
    the share of such tasks is surely above `LEAK_SHARE`.
    """
    evaluation_grams = {key: _grams(text) for key, text in evaluation.items()}
    trained = _trained_grams(evaluation_grams, train)
    shares: dict[str, float] = {}
    for key, grams in evaluation_grams.items():
        telling = [trained[gram] for gram in grams if gram in trained]
        enough = telling and len(telling) >= min(TELLING, len(grams))
        shares[key] = sum(telling) / len(telling) if enough else 0.0
    hits = sorted((key for key in shares if shares[key] >= SHARED), key=lambda key: -shares[key])
    if not hits:
        return []
    message = f"{len(hits)} of {len(evaluation)} evaluation tasks repeat the text of training tasks"
    lines = tuple(f"{key}: {shares[key]:.0%} of its text" for key in hits[:LINES_SHOWN])
    numbers = {"hits": len(hits), "n": len(evaluation)}
    certain = wilson(len(hits), len(evaluation)).low > LEAK_SHARE
    severity: Severity = "veto" if certain else "warn"
    return [Finding("overlap.near_duplicate", severity, message, lines, numbers, "both")]


def _trained_grams(
    evaluation_grams: Mapping[str, set[int]], train: Iterable[str]
) -> dict[int, bool]:
    """Returns, for every gram that is no common form, whether training texts hold it."""
    counts = Counter(gram for grams in evaluation_grams.values() for gram in grams)
    most = max(FORM_TASKS, FORM_SHARE * len(evaluation_grams))
    candidates = {gram: False for gram, count in counts.items() if count <= most}
    training_counts: Counter[int] = Counter()
    total = 0
    for total, text in enumerate(train if candidates else (), start=1):  # noqa: B007
        training_counts.update(_grams(text) & candidates.keys())
    most = max(FORM_IN_TRAINING, FORM_SHARE * total)
    return {gram: gram in training_counts for gram in candidates if training_counts[gram] <= most}


def _grams(text: str) -> set[int]:
    words = _WORD.findall(text.lower())
    if len(words) < SHORT:
        return set()
    size = min(GRAM, len(words))
    # Hashes of texts differ between processes; which of them are equal does not.
    return {hash(tuple(words[at : at + size])) for at in range(len(words) - size + 1)}
