from __future__ import annotations

from typing import Any

import pytest

from meta_agent.core.evidence import Evidence
from meta_agent.readers.evidence import build_evidence
from meta_agent.readers.evidence._metrics import limit_alerts
from meta_agent.readers.evidence._rules import rule_alerts

from ._rollouts import rollout


@pytest.mark.parametrize(
    ("metric", "value", "level"),
    [
        ("signal.dead_group_ratio", 0.30, None),
        ("signal.dead_group_ratio", 0.31, "WARN"),
        ("signal.dead_group_ratio", 0.51, "CRITICAL"),
        ("behaviour.edit_rate", 0.59, "WARN"),
        ("behaviour.mean_logprob", -0.04, "CRITICAL"),
        ("signal.component.any name.constancy", 1.0, "WARN"),
        ("behaviour.leak_use", 0.06, "CRITICAL"),
        ("score.infra_share", 0.06, "CRITICAL"),
        ("signal.reward_corr_clean", -0.1, "CRITICAL"),
    ],
)
def test_thresholds(metric: str, value: float, level: str | None) -> None:
    alerts = limit_alerts({metric: value})
    assert [alert.level for alert in alerts] == ([level] if level else [])


def test_an_alert_says_value_limit_layer_and_whose_number_it_is() -> None:
    (alert,) = limit_alerts({"signal.dead_group_ratio": 0.6})
    assert (alert.layer, alert.threshold, alert.source) == ("signal", 0.5, "EvoTrainer")
    assert "0.6" in alert.message


def _evidence(comparability: Any = "comparable", **metrics: float) -> Evidence:
    layers: dict[str, Any] = {"score": {}, "signal": {}, "behaviour": {}}
    for name, value in metrics.items():
        layer, _, rest = name.partition("__")
        layers[layer][rest.replace("__", ".")] = value
    return Evidence(**layers, comparability=comparability)


BASE = _evidence(
    score__clean_success=0.5,
    signal__reward_mean=0.5,
    behaviour__turns_mean=5.0,
    behaviour__repeated_action_rate=0.05,
    behaviour__sequence_diversity=0.6,
    behaviour__mean_logprob=-0.8,
    behaviour__tool_calls_mean=5.0,
    behaviour__self_test_rate=0.9,
)

FIRES: dict[str, dict[str, float]] = {
    "low_signal": {"signal__dead_group_ratio": 0.4, "signal__dead_unsolved_ratio": 0.35},
    "echo_trap": {"behaviour__turns_mean": 7.0, "behaviour__repeated_action_rate": 0.2},
    "exploration_collapse": {"behaviour__sequence_diversity": 0.4, "behaviour__mean_logprob": -0.3},
    "reward_hacking": {"signal__reward_mean": 0.7, "score__clean_success": 0.48},
    "laziness": {"behaviour__tool_calls_mean": 3.0, "behaviour__self_test_rate": 0.5},
    "edit_failure": {"behaviour__edit_failure_rate": 0.2},
    "leak": {"behaviour__leak_share_of_solved": 0.2},
}


@pytest.mark.parametrize("rule", FIRES)
def test_each_rule_fires_on_its_pattern_and_on_no_other(rule: str) -> None:
    evidence = _evidence(**{"score__clean_success": 0.5, **FIRES[rule]})
    assert [alert.metric for alert in rule_alerts(evidence, BASE)] == [f"rule.{rule}"]


@pytest.mark.parametrize(
    "rule", ["echo_trap", "exploration_collapse", "reward_hacking", "laziness"]
)
def test_what_pays_off_is_no_fault(rule: str) -> None:
    if rule == "exploration_collapse":
        better = {"behaviour__sequence_diversity": 0.4, "behaviour__mean_logprob": -0.7}
    else:
        better = {**FIRES[rule], "score__clean_success": 0.6}
    assert rule_alerts(_evidence(**better), BASE) == []


@pytest.mark.parametrize("rule", ["echo_trap", "exploration_collapse", "laziness"])
def test_rules_of_change_are_silent_without_a_comparable_baseline(rule: str) -> None:
    assert rule_alerts(_evidence("no-baseline", **FIRES[rule]), None) == []
    assert rule_alerts(_evidence("incomparable", **FIRES[rule]), BASE) == []


def test_paid_conduct_is_hacking_within_one_version() -> None:
    seen = [rollout(i, flags=["leak:log"] * (i < 5), rewards={"x": 1 + (i < 5)}) for i in range(20)]
    rows = [{"reward_mean": 0.1 * i} for i in range(6)]
    alert = build_evidence(seen, train_metrics=rows).alert("rule.reward_hacking")
    assert alert is not None
    assert alert.level == "CRITICAL"
