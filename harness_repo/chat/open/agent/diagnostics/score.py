"""The grader's own numbers, where it gives any: how good attempts are, and how near failed ones come."""

NAME = "score"
LAYER = "score"
THRESHOLDS = {}


def number(rollout):
    return rollout.get("outcome_detail", {}).get("score")


def mean(values):
    return sum(values) / len(values)


def measure(rollouts):
    graded = [(number(r), bool(r["outcome"])) for r in rollouts if isinstance(number(r), (int, float))]
    if not graded:
        return {}
    metrics = {"score_mean": mean([value for value, _ in graded])}
    failed = [value for value, solved in graded if not solved]
    if failed:
        metrics["score_mean_of_failed"] = mean(failed)
    return metrics
