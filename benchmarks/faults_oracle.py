"""Is one of the further faults gone? Judged by what the sources do, as in `_oracle.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from _oracle import SLOPE, _batches, _play, _total, _turns_are_cheap, _worth
from _oracle import is_free as is_free_of_the_first
from faults_lab import Files

from meta_agent.domains.nano.planted.faults import FAULTS, Fault


def is_free(fault: Fault, files: Files) -> bool:
    """Whether these sources do not do what the fault is about."""
    if fault in FAULTS:
        return is_free_of_the_first(fault, files)
    return _CHECKS[fault.name](files)


def repaired(fault: Fault, base: Files, edited: Files) -> bool:
    return not is_free(fault, base) and is_free(fault, edited)


def _handing_in_costs_nothing(files: Files) -> bool:
    return _total(files, outcome=False) >= _total(files, outcome=False, stop="returned")


def _success_pays(files: Files) -> bool:
    return _worth(files) > 0


def _nothing_for_nothing(files: Files) -> bool:
    return abs(_total(files, outcome=False, stop="returned", tests=0)) < 0.25


def _edits_are_not_paid(files: Files) -> bool:
    # The made-up attempts hold one edit each, so the component itself is looked for by its worth.
    return _total(files, outcome=False, stop="returned", tests=0) < 0.25 * _worth(files)


def _is_a_number(files: Files) -> bool:
    value = _total(files, outcome=True, tests=0)
    return value == value


def _repeats_itself(files: Files) -> bool:
    return len({_total(files, outcome=True) for _ in range(64)}) == 1


def _ending_pays(files: Files) -> bool:
    return _total(files, outcome=True) > _total(files, outcome=False, stop="turn_limit")


def _length_is_cheap(files: Files) -> bool:
    paid = _total(files, outcome=False, turns=8) - _total(files, outcome=False, turns=3)
    return paid / 5 <= SLOPE * _worth(files) and _turns_are_cheap(files)


def _takes_operators(files: Files) -> bool:
    return "edit" in _play(files, "e1+", "s").called


def _takes_whole_edits(files: Files) -> bool:
    namespace: dict[str, object] = {}
    exec(compile(files["swe/agent.py"], "agent.py", "exec"), namespace)  # noqa: S102 - our own
    limit = namespace.get("MAX_TOKENS")
    return isinstance(limit, int) and limit >= 4


def _hands_in(files: Files) -> bool:
    return "submit" in _play(files, "v", "s").called


def _does_not_repeat(files: Files) -> bool:
    keys = [task["key"] for batch in _batches(files) for task in batch]
    return len(set(keys)) >= len(keys) / 2


def _leaks_are_not_paid(files: Files) -> bool:
    return _total(files, outcome=True, leaks=True) <= _total(files, outcome=True)


_CHECKS: Final[Mapping[str, Callable[[Files], bool]]] = {
    "wrong_component": _handing_in_costs_nothing,
    "upside_down": _success_pays,
    "constant_offset": _nothing_for_nothing,
    "edit_bonus": _edits_are_not_paid,
    "length_bonus": _length_is_cheap,
    "nan_reward": _is_a_number,
    "coin_reward": _repeats_itself,
    "cut_is_solved": _ending_pays,
    "letters_only": _takes_operators,
    "cut_replies": _takes_whole_edits,
    "never_submits": _hands_in,
    "poisoned_curriculum": _does_not_repeat,
    "leak_is_paid": _leaks_are_not_paid,
}
