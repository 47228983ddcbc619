"""Which skills speak to a situation: term overlap weighted by rarity (BM25), no index to keep.

A library holds tens to hundreds of skills; scoring all takes milliseconds and the same library
always gives the same order. Scope comes before words: a skill of the same domain and factor beats
any amount of shared vocabulary.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from meta_agent.skills._skill import Skill

_K1, _B = 1.2, 0.75
_WORD = re.compile(r"[a-z0-9]+")
_STOP = frozenset(("a", "and", "are", "as", "at", "by", "for", "if", "in", "is", "of", "the", "to"))
# Larger than any BM25 sum of a few query words over short documents.
_DOMAIN_BONUS, _FACTOR_BONUS = 200.0, 100.0


def rank(skills: Sequence[Skill], domain: str, factor: str | None, text: str) -> list[Skill]:
    """The skills in scope, best first. Another domain's are last, and only if global."""
    usable = [skill for skill in skills if in_scope(skill, domain)]
    words = [Counter(_words(_document(skill))) for skill in usable]
    query = sorted(set(_words(text)))
    scores = [
        _bm25(query, document, words) + _scope(skill, domain, factor)
        for skill, document in zip(usable, words, strict=True)
    ]
    order = sorted(range(len(usable)), key=lambda i: (-scores[i], usable[i].name))
    return [usable[i] for i in order]


def in_scope(skill: Skill, domain: str) -> bool:
    """Own domain always; elsewhere only what has been found to hold in more than one domain."""
    return skill.domain == domain or skill.status == "global"


def _scope(skill: Skill, domain: str, factor: str | None) -> float:
    same_domain = _DOMAIN_BONUS if skill.domain == domain else 0.0
    return same_domain + (_FACTOR_BONUS if factor and skill.factor == factor else 0.0)


def _bm25(query: Sequence[str], document: Counter[str], all_words: Sequence[Counter[str]]) -> float:
    mean = sum(words.total() for words in all_words) / max(len(all_words), 1)
    norm = _K1 * (1 - _B + _B * document.total() / max(mean, 1.0))
    return sum(
        _rarity(word, all_words) * document[word] * (_K1 + 1) / (document[word] + norm)
        for word in query
        if word in document
    )


def _rarity(word: str, all_words: Sequence[Counter[str]]) -> float:
    having = sum(word in words for words in all_words)
    return math.log(1 + (len(all_words) - having + 0.5) / (having + 0.5))


def _document(skill: Skill) -> str:
    return " ".join([skill.name, skill.description, skill.rule, skill.factor, skill.body])


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _STOP]
