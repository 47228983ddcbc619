"""How sure the policy is of the tokens it samples: near 0 it explores no longer."""

NAME = "confidence"
LAYER = "signal"
THRESHOLDS = {"mean_logprob": {"warn": -0.03, "critical": -0.005, "direction": "above"}}


def own_logprobs(rollout):
    """Returns the log probabilities of the tokens that the policy generated."""
    tokens = rollout.get("tokens") or {}
    return [p for p, mine in zip(tokens.get("logprobs", []), tokens.get("mask", [])) if mine]


def measure(rollouts):
    values = [value for rollout in rollouts for value in own_logprobs(rollout)]
    return {"mean_logprob": sum(values) / len(values)} if values else {}
