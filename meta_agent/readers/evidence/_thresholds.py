"""When a number deserves a look: one table.

Numbers marked EvoTrainer are those of its released playbook and health-report specification; the
rest are ours and say so. A limit is crossed strictly. Where EvoTrainer's number belongs to one
domain only (fewer than 5 turns is critical for SWE with 100 turns, absurd elsewhere) it is left
out; a harness's own diagnostics carry such limits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from meta_agent.core.evidence import Alert, Level


class Threshold(NamedTuple):
    """Alert when the metric is above or below the limit. `pattern` matches a whole full name."""

    pattern: str
    side: Literal["above", "below"]
    warn: float
    critical: float | None
    says: str
    source: str = "own"


_EVO: Final = "EvoTrainer"
_RAGEN: Final = "RAGEN-2"

THRESHOLDS: Final[tuple[Threshold, ...]] = (
    Threshold("signal.dead_group_ratio", "above", 0.30, 0.50, "groups carry no gradient", _EVO),
    Threshold("signal.reward_spread", "below", 0.05, None, "rewards hardly differ", _EVO),
    Threshold("signal.rv_std_over_mean", "below", 0.33, None, "groups are all alike", _RAGEN),
    Threshold(r"signal.component\..*\.constancy", "above", 0.99, None, "teaches nothing", _EVO),
    Threshold("signal.reward_turns_corr", "above", 0.30, None, "the reward pays for length", _EVO),
    Threshold("signal.reward_turns_corr_within", "below", -0.30, None, "equal endings: haste pays"),
    Threshold("signal.reward_corr_clean", "below", 0.20, 0.0, "the reward ignores clean success"),
    Threshold("signal.misordered", "above", 0.05, 0.20, "unclean rollouts outscore clean ones"),
    Threshold("signal.flagged_reward_gap", "above", 0.0, None, "flagged conduct pays"),
    Threshold("signal.reward_missing", "above", 0.02, 0.10, "rollouts without a reward"),
    Threshold("signal.train.entropy.last", "below", 0.05, None, "the policy hardly explores"),
    Threshold("signal.train.kl.last", "above", 0.50, None, "far from the reference policy"),
    Threshold("behaviour.self_test_rate", "below", 0.50, None, "attempts that test nothing", _EVO),
    Threshold("behaviour.edit_rate", "below", 0.60, None, "attempts that edit nothing", _EVO),
    Threshold("behaviour.edit_failure_rate", "above", 0.15, None, "edits are refused", _EVO),
    Threshold("behaviour.tool_failure_rate", "above", 0.30, None, "tool calls fail", _EVO),
    Threshold("behaviour.turns_mean", "above", 50.0, None, "attempts are long", _EVO),
    Threshold("behaviour.mean_logprob", "above", -0.10, -0.05, "nearly deterministic", _EVO),
    Threshold("behaviour.truncation", "above", 0.20, None, "attempts end at a ceiling", _EVO),
    Threshold("behaviour.repeated_action_rate", "above", 0.20, None, "actions are repeated"),
    Threshold("behaviour.submit_after_fail", "above", 0.30, None, "handed in with a failing test"),
    Threshold("behaviour.sequence_diversity", "below", 0.15, None, "attempts of a group are alike"),
    Threshold("behaviour.leak_use", "above", 0.0, 0.05, "answers are read from a leak"),
    Threshold("behaviour.tamper_use", "above", 0.0, 0.0, "the grader or its files were attacked"),
    Threshold("behaviour.cut_replies", "above", 0.05, 0.20, "replies end at their token limit"),
    Threshold("signal.reward_follows", "below", 0.80, 0.40, "the reward pays for something else"),
    Threshold(r"signal\.pay\..*", "above", 0.05, 0.50, "failing would pay as much as solving"),
    Threshold("signal.tied", "above", 0.20, 0.50, "solved and unsolved attempts are paid alike"),
    Threshold("signal.train.missing_reward_ratio.last", "above", 0.02, 0.10, "no reward"),
    Threshold("signal.train.inexact_ratio.last", "above", 0.05, None, "parts of attempts train"),
    Threshold("behaviour.inexact_share", "above", 0.05, None, "calls do not go on"),
    Threshold("signal.filter.lost", "above", 0.10, 0.30, "the filter drops groups that teach"),
    Threshold("signal.filter.idle", "above", 0.10, None, "the filter keeps groups that do not"),
    Threshold("signal.curriculum.covered", "below", 0.70, 0.30, "training sees few of the tasks"),
    Threshold("signal.curriculum.skew", "above", 0.40, 0.80, "training sees one kind of task"),
    Threshold("conversation.forgotten", "above", 0.02, 0.20, "earlier turns are not shown"),
    Threshold("conversation.reply_changed", "above", 0.02, 0.20, "replies are shown otherwise"),
    Threshold("conversation.reply_lost", "above", 0.02, 0.10, "the same words are a call, or none"),
    Threshold("conversation.argument_changed", "above", 0.05, 0.20, "asked was not written"),
    Threshold("conversation.argument_moved", "above", 0.10, 0.30, "arguments change their places"),
    Threshold("conversation.call_unwritten", "above", 0.02, 0.20, "calls that nobody wrote"),
    Threshold(r"conversation\.result_(altered|dropped|stale)", "above", 0.02, 0.20,
              "answers that the policy did not see"),
    Threshold("conversation.result_cut", "above", 0.05, 0.20, "answers are cut on the way"),
    Threshold("conversation.ended_early", "above", 0.05, 0.25, "the scaffold ends attempts"),
    Threshold("conversation.task_unseen", "above", 0.20, 0.50, "the task is not shown whole"),
    Threshold("score.infra_share", "above", 0.01, 0.05, "the machines failed"),
)  # fmt: skip


def threshold_alerts(metrics: Mapping[str, float]) -> list[Alert]:
    """Returns the alerts of the table, in its order and then by name."""
    alerts = []
    for row in THRESHOLDS:
        names = [name for name in sorted(metrics) if re.fullmatch(row.pattern, name)]
        alerts += [alert for name in names if (alert := _alert(row, name, metrics[name]))]
    return alerts


def _alert(row: Threshold, name: str, value: float) -> Alert | None:
    crossed = _level(row, value)
    if crossed is None:
        return None
    level, limit = crossed
    message = f"{row.says}: {value:.3g} is {row.side} {limit:g}"
    return Alert(name, value, level, limit, name.partition(".")[0], message, row.source)


def _level(row: Threshold, value: float) -> tuple[Level, float] | None:
    sign = 1 if row.side == "above" else -1
    if row.critical is not None and sign * (value - row.critical) > 0:
        return "CRITICAL", row.critical
    return ("WARN", row.warn) if sign * (value - row.warn) > 0 else None
