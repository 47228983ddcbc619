"""A run recorded by hand through the real ledger: every kind of step, and hostile text."""

import math
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

from meta_agent.core.errors import Parked
from meta_agent.core.ledger import Ledger

HOSTILE = "ends \x1b[2Jhere \u202eevil </pre><script>alert(1)</script> {{ 7*7 }} [bold]x[/bold]"
PATCH = """diff --git a/swe/reward.py b/swe/reward.py
--- a/swe/reward.py
+++ b/swe/reward.py
@@ -4,3 +4,5 @@ def reward(rollout):
-    return {"solved": 1.0}
+    solved = float(rollout["outcome"])
+    tested = 0.1 * min(1, rollout["tests_run"])
+    return {"solved": solved, "tested": tested}
"""


def write_sample(path: Path, *, finished: bool = True, waits_for: str = "") -> None:
    with Ledger.open(path) as ledger:
        ledger.start_run("r1", _config(path), config_hash="h")
        _record(ledger)
        if waits_for:
            _park(ledger, waits_for)
            return
        if finished:
            ledger.finish_run("r1", "done")


def _config(path: Path) -> dict[str, Any]:
    return {
        "domain": "swe",
        "policy": "nano",
        "meta_model": "rules",
        "seed": 0,
        "max_usd": None,
        "workspace": str(path.parent),
        "origin": {"seed": "META_AGENT_SEED", "domain": "command line"},
    }


def _record(ledger: Ledger) -> None:
    def step(key: str, kind: str, outcome: dict[str, Any]) -> None:
        ledger.once(f"r1/{key}", kind, {"key": key}, lambda: outcome)

    ledger.event("phase", {"name": "collect", "detail": "rolling v0 out"})
    step("baseline", "baseline", _measured("search", 0.482, 256, version="v0", rollouts=256))
    for generation in (0, 1):
        step(f"g{generation}/evidence", "evidence", _evidence(generation))
        ids = [f"r1/g{generation}/c{k}" for k in (0, 1, 2)]
        told = {"generation": generation, "candidates": ids, "refused": _refused(generation)}
        told["noted"] = "" if generation else "the filter drops what is hard"
        step(f"g{generation}/proposal", "proposal", told)
        for k in (0, 1, 2):
            _record_candidate(ledger, step, generation, k)
    step("skill/1", "skill", _skill("revive-dead-groups", "r1/g0/c0", negative=False))
    step("skill/2", "skill", _skill("log-leaks-the-fix", "r1/g0/c1", negative=True))
    step(
        "vault/0",
        "vault",
        {"which": "baseline", **_measured("vault", 0.476, 512, seed=0, steps=30)},
    )
    kept = _measured("vault", 0.613, 512, seed=102, steps=90)
    step("vault/1", "vault", {"which": "final", **kept})
    ledger.event("note", {"text": HOSTILE})
    _record_decisions(ledger)
    _record_spend(ledger)


def _refused(generation: int) -> list[dict[str, Any]]:
    if generation == 0:
        return []
    told = {"code": "path_outside_allowlist", "reason": f"tests/test_it.py {HOSTILE}"}
    return [{"statement": "if the tests are shorter then more pass", **told}]


def _record_decisions(ledger: Ledger) -> None:
    """One merge approved, one candidate sent back."""

    def decide(subject: str, gate: str, answer: str, feedback: str = "") -> None:
        intent = {"gate": gate, "subject": subject, "candidate": f"r1/{subject}"}
        outcome = {"answer": answer, "feedback": feedback, "by": "a person"}
        ledger.once(f"r1/{subject}/approve/{gate}", "decision", intent, lambda: outcome)

    decide("g0/c0", "merge", "APPROVE")
    decide("g1/c1", "test", "REVISE", HOSTILE)


def _record_spend(ledger: Ledger) -> None:
    """Settled with and without a price, and a call whose outcome nobody knows."""
    ledger.settle(ledger.reserve("proposer", 0.25, 5000), 0.1875, 4100)
    ledger.settle(ledger.reserve("analyst", 0.1, 90_000), 0.0312, 81_440)
    ledger.reserve("analyst", 0.02, 3000)


def _park(ledger: Ledger, candidate: str) -> None:
    """The question is there, the answer is not."""
    intent = {"gate": "test", "subject": candidate, "candidate": f"r1/{candidate}"}

    def nobody() -> Any:
        raise Parked("nobody is here", subjects=(candidate,))

    with suppress(Parked):
        ledger.once(f"r1/{candidate}/approve/test", "decision", intent, nobody)
    ledger.finish_run("r1", "parked")


def _measured(split: str, clean: float, n: int, **more: Any) -> dict[str, Any]:
    half = 1.96 * math.sqrt(clean * (1 - clean) / n)
    return {
        "split": split,
        "n": n,
        "success": clean + 0.02,
        "clean_success": clean,
        "ci": [clean - half, clean + half],
        **more,
    }


def _evidence(generation: int) -> dict[str, Any]:
    return {
        "generation": generation,
        "version": f"v{generation}",
        "layers": {
            "score": {"clean_success": 0.48, "success": 0.502},
            "signal": {"dead_group_ratio": 0.41, "reward_std": 0.213},
            "behaviour": {"turns": 4.52, "leak_use": 0.021, "self_test_rate": 0.37},
        },
        "alerts": [
            {
                "metric": "dead_group_ratio",
                "value": 0.41,
                "threshold": 0.3,
                "message": "above 0.3: four groups in ten teach nothing",
            }
        ],
        "exemplars": {
            "untested_edit": [
                {
                    "task_key": "swe-017",
                    "summary": HOSTILE,
                    "messages": [
                        {"role": "user", "content": "total() drops the last item"},
                        {"role": "assistant", "content": HOSTILE},
                    ],
                }
            ]
        },
    }


_VERDICTS = {
    (0, 0): ("PROMOTE", "lower bound +4.1 points is above the minimum of 0", (0.103, 0.041, 0.165)),
    (0, 1): ("INVALID", "answer leakage: 31 % of its wins read `log` first", (0.121, 0.06, 0.18)),
    (0, 2): ("REJECT", "ranked third on the search split", None),
    (1, 0): ("INCONCLUSIVE", "interval still holds 0 after four seeds", (0.021, -0.03, 0.072)),
    (1, 1): ("REJECT", HOSTILE, (-0.05, -0.11, 0.012)),
}


def _record_candidate(ledger: Ledger, step: Any, generation: int, k: int) -> None:
    name, run_id = f"g{generation}/c{k}", f"r1/g{generation}/c{k}"
    factor = ("reward", "scaffold", "recipe")[k]
    step(name, "candidate", _candidate(run_id, generation, k, factor))
    step(f"{name}/static", "screen", {"candidate": run_id, "stage": "static", "passed": True})
    if (generation, k) not in _VERDICTS:
        return
    kind, reason, effect = _VERDICTS[generation, k]
    for seed in (0, 1):
        _record_curve(ledger, f"{name}/s{seed}", lift=0.1 if kind == "PROMOTE" else 0.02)
    live = {"candidate": run_id, "split": "confirm", "seeds": 4}
    step(f"{name}/look0", "live", {**live, "train_steps": 60, "rollouts": 3840})
    verdict: dict[str, Any] = {"candidate": run_id, "kind": kind, "reasons": [reason]}
    verdict |= {"screened_out": effect is None, "evidence": {"p_value": 0.004, "looks": [2, 4]}}
    if effect:
        bounds = dict(zip(("delta", "ci_low", "ci_high"), effect, strict=True))
        verdict["effect"] = {**bounds, "pairs": 512, "training_seeds": 4}
    step(f"{name}/verdict", "verdict", verdict)
    if kind == "PROMOTE":
        merge = {"candidate": run_id, "commit": "d" * 40, "version": "v1", "generation": generation}
        step(f"{name}/merge", "merge", merge)


def _candidate(run_id: str, generation: int, k: int, factor: str) -> dict[str, Any]:
    return {
        "id": run_id,
        "generation": generation,
        "index": k,
        "ref": f"refs/heads/candidate/r1/g{generation}c{k}",
        "commit": f"{generation + 1}{k + 1}" + "ab" * 19,
        "base": "c" * 40,
        "factor": factor,
        "paths": [f"swe/{factor}.py"],
        "diff": PATCH,
        "hypothesis": {
            "factor": factor,
            "statement": f"if the {factor} counts tests then fewer groups are dead because "
            "rewards inside a group differ",
            "metric": "signal.dead_group_ratio",
            "direction": "down",
            "expected_delta": -0.1,
            "evidence": ["dead_group_ratio 0.41 above 0.3"],
            "skills": ["revive-dead-groups"] if generation == 1 else [],
        },
    }


def _record_curve(ledger: Ledger, series: str, *, lift: float) -> None:
    random_numbers = random.Random(series)
    for at in range(1, 16):
        grown = lift * (1 - math.exp(-at / 6))
        reward = 0.5 + grown + random_numbers.gauss(0, 0.012)
        values = {"reward": reward, "dead_group_ratio": 0.4 - grown, "entropy": 1.1 - at * 0.02}
        ledger.event("metrics", {"series": series, "step": at, **values})


def _skill(name: str, candidate: str, *, negative: bool) -> dict[str, Any]:
    return {
        "name": name,
        "path": f"skills_library/{name}",
        "candidate": candidate,
        "negative": negative,
        "description": "Shape the reward by tests run when more than a third of groups are dead.",
    }
