"""How numbers and untrusted text appear on a screen.

Harness code, models and repositories write text that we print. Control characters in it could move
the cursor or recolour the screen and so forge our own output; bidirectional and zero-width ones
could make a diff read as something else. `visible` shows them as escapes instead.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from meta_agent.core.protocols import Effect
from meta_agent.reports._parts import Measured, parse_effect

_HARMLESS: Final = "\n\t"
# Cc: control, Cf: format (bidi, zero-width), Cs: lone surrogates, Co: private use,
# Zl and Zp: line and paragraph separators.
_ODD_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def visible(text: object) -> str:
    """Returns the text with characters that could act on a terminal written as escapes."""
    raw = str(text)
    if raw.isascii() and raw.isprintable():
        return raw
    return "".join(_spelled(character) for character in raw)


def one_line(text: object, limit: int = 200) -> str:
    """Returns the text on one line, control characters escaped, cut at `limit` characters."""
    flat = " ".join(visible(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _spelled(character: str) -> str:
    if character in _HARMLESS or unicodedata.category(character) not in _ODD_CATEGORIES:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def within_run(text: object, run: str | None) -> str:
    """Returns the text without the run's name: `g0/c2` for `RUN/g0/c2`; for None, unchanged."""
    return str(text).replace(f"{run}/", "") if run else str(text)


def percent(share: float | None) -> str:
    """Returns a share from 0 to 1 as text in percent: `61.3 %`; a dash for None."""
    return "–" if share is None else f"{100 * share:.1f} %"


def points(share: float) -> str:
    """Returns a difference of two shares as text in percentage points: `+10.3`."""
    return f"{100 * share:+.1f}"


def points_text(effect: Effect) -> str:
    """Returns an effect and its interval as `+10.3 points [+4.1, +16.5]`."""
    return f"{points(effect.delta)} points [{points(effect.ci_low)}, {points(effect.ci_high)}]"


def share_text(middle: float, low: float, high: float) -> str:
    """Returns a share and its interval, each from 0 to 1, as `61.3 % [57.0, 65.5]`."""
    return f"{100 * middle:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def measured_text(measured: Measured | None) -> str:
    """Returns clean success with its interval: `61.3 % [57.0, 65.5]`, or `not measured`."""
    if measured is None:
        return "not measured"
    interval = ""
    if measured.ci:
        interval = f" [{100 * measured.ci[0]:.1f}, {100 * measured.ci[1]:.1f}]"
    return f"{percent(measured.clean_success)}{interval}"


def bounded(effect: Effect) -> bool:
    """Returns False if the effect's interval is [-1, 1]: all possible differences of two shares."""
    return effect.ci_low > -1 or effect.ci_high < 1


def effect_text(effect: Effect | None) -> str:
    """Returns an effect as `+10.3 [+4.1, +16.5]` or `+4.3 [no bound yet]`; a dash for None."""
    if effect is None:
        return "–"
    if not bounded(effect):
        return f"{points(effect.delta)} [no bound yet]"
    ends = f"[{points(effect.ci_low)}, {points(effect.ci_high)}]"
    return f"{points(effect.delta)} {ends}{effect.selected}"


def finding_text(finding: Mapping[str, Any]) -> str:
    """Returns a validity check's finding as text: its code, its message, and a note's lines."""
    side = " (of the baseline)" if finding.get("side") == "baseline" else ""
    table = finding.get("lines") or () if finding.get("severity") == "note" else ()
    text = "; ".join((f"{finding.get('message')}", *map(str, table)))
    return visible(f"{finding.get('code')}{side}: {text}")


def prediction_text(hypothesis: Mapping[str, Any]) -> str:
    """Returns a predicted change of a metric as text: `signal.dead_group_ratio down by 0.1`."""
    delta = hypothesis.get("expected_delta")
    size = f" by {number(abs(delta))}" if isinstance(delta, int | float) else ""
    return visible(f"{hypothesis.get('metric', '?')} {hypothesis.get('direction', '?')}{size}")


def unit_text(training_seeds: int) -> str:
    """Returns `3 training seeds` for 3, and `one policy` for 1 or less."""
    return f"{training_seeds} training seeds" if training_seeds > 1 else "one policy"


def test_text(evidence: Mapping[str, Any]) -> str:
    """Returns a sequential test's e-values and limits in words; empty if `evidence` has no test."""
    inputs, numbers = evidence.get("inputs"), evidence.get("numbers")
    course = inputs.get("course") if isinstance(inputs, dict) else None
    if not (isinstance(course, dict) and isinstance(numbers, dict)):
        return ""
    target = course.get("target")
    gain = points(target) if isinstance(target, float) else "?"
    figures = {name: number(value) for name, value in numbers.items()}
    return visible(_TEST.format_map(defaultdict(lambda: "?", figures, wanted=gain)))


_TEST = (
    "e-value for a gain {wealth} (bar {bar}), against one of {wanted} points {wealth_against} "
    "(bar {bar_against}), after {units} of at most {maximum} pairs of training runs: {saved} saved"
)


def live_text(live: Mapping[str, Any]) -> str:
    """Returns a candidate's recorded measurement on one line: seeds and verdict."""
    parts = [f"{live['seeds']} training seeds"] if "seeds" in live else []
    if isinstance(verdict := live.get("verdict"), dict):
        parts.append(f"{verdict.get('kind')} {effect_text(parse_effect(verdict.get('effect')))}")
    return visible(", ".join(parts))


def dollars(usd: float | None) -> str:
    """Returns an amount in US$ as text, such as `$1.23`; `unknown price` for None."""
    return "unknown price" if usd is None else f"${usd:.4f}" if 0 < usd < 1 else f"${usd:.2f}"


def duration(seconds: float) -> str:
    """Returns a number of seconds as text: `45 s`, `12 min 05 s` or `3 h 02 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def plain_leaves(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Yields (dotted name, text) for each value but None in nested mappings and lists.

    A list of mappings or lists is shown as its length.
    """
    if isinstance(value, Mapping):
        for inner, part in value.items():
            yield from plain_leaves(f"{name}.{inner}", part)
    elif isinstance(value, list) and any(isinstance(part, dict | list) for part in value):
        yield name, f"{len(value)} entries (--json shows them)"
    elif isinstance(value, list):
        yield name, ", ".join(map(_leaf, value)) or "none"
    elif value is not None:
        yield name, _leaf(value)


def _leaf(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, int | float) else " ".join(visible(value).split())


def number(value: object) -> str:
    """Returns a float in at most four significant digits, an int in full, others on one line."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return one_line(value, 60)
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def value_text(value: object) -> str:
    """Returns a metric or setting on one line: a mapping as names and values, None as a dash."""
    if isinstance(value, dict):
        leaves = (f"{name.removeprefix('.')} {text}" for name, text in plain_leaves("", value))
        return ", ".join(leaves) or "none"
    return next((text for _, text in plain_leaves("", value)), "–")
