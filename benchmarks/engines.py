"""Trainings whose rollouts engines sample (`--engines`), beside the policy child's own engine.

    export META_AGENT_VLLM_PYTHON=PYTHON
    python benchmarks/engines.py seeds [--seeds 6] [--first 0] [--steps 12] [--groups 4]
    python benchmarks/engines.py load [--calls 512] [--at-once 32] [--engines 1]

* `seeds`: for each seed nano-swe is trained twice from the same warm start, sampled by the policy
  child (`nano`) and by a vLLM server that serves the weights of each step (`vllm`, corrected). Of
  each: clean success of what was trained, by the policy child, on the search and confirm splits
  (one attempt a task), and seconds a step. Last the mean difference, its 95 % interval by t.
* `load`: the same calls to one server, by a bare HTTP client that keeps its connections and through
  the gateway, by turns: tokens a second. And seconds until all servers serve other weights.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import socket
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from threading import local
from typing import Any

from _nano import STAMP, clean_success, competent
from scipy import stats

from meta_agent.backtest._rows import Again
from meta_agent.backtest.engines import EnginePolicies, Engines
from meta_agent.backtest.policies import ChildPolicies
from meta_agent.domains.nano import NanoSwe
from meta_agent.models.engines.talks import Asked, NanoTalks
from meta_agent.models.fleet import EngineGateway, Fleet, Served
from meta_agent.models.fleet.launch import VllmLaunch
from meta_agent.protocols import GenerateRequest
from meta_agent.training import TrainSettings, train_policy
from meta_agent.training.policy import place_of
from meta_agent.training.run import settings_of
from meta_agent.training.serving.untied import untied

CONTEXT = 256


def by_engine(logs: Path) -> EnginePolicies:
    engines = Engines(VllmLaunch(logs, context_tokens=CONTEXT), 1, CONTEXT)
    return EnginePolicies(engines, 1, TrainSettings(corrected=True))


def trained(
    policies: ChildPolicies, given: argparse.Namespace, seed: int, out: Path
) -> dict[str, Any]:
    """One training; what came of it is measured by the policy child."""
    domain, ends = NanoSwe(), list[float]()
    with competent() as session, policies.training() as child:
        child.load("nano")
        with policies.sampling(child, "nano", out) as (gateway, publisher):
            rows = train_policy(
                child, Again(domain, session, gateway, STAMP), session, domain,
                {**settings_of(session.recipe), "groups_per_step": given.groups},
                seed=seed, steps=given.steps, base_policy="nano", out_dir=out,
                publisher=publisher, on_metrics=lambda _: ends.append(time.monotonic()),
            ).metrics  # fmt: skip
        clean = clean_success(child, session, "search", "confirm")
    return {
        "clean": clean,
        "step_sec": statistics.median(after - before for before, after in pairwise(ends)),
        "mismatch_max": max(float(row.get("mismatch_max", 0.0)) for row in rows),
        "publish_sec": statistics.median(float(row.get("publish_sec", 0.0)) for row in rows),
        "steps": len(rows),
    }


def seeds(given: argparse.Namespace, folder: Path) -> None:
    sources = {"nano": ChildPolicies(1), "vllm": by_engine(folder)}
    made: dict[str, list[float]] = {name: [] for name in sources}
    try:
        for seed in range(given.first, given.first + given.seeds):
            for name in sorted(sources, reverse=bool(seed % 2)):
                told = trained(sources[name], given, seed, folder / f"{seed}-{name}")
                made[name].append(told["clean"])
                say({"seed": seed, "engine": name, **told})
    finally:
        for policies in sources.values():
            policies.close()
    differences = [b - a for a, b in zip(made["nano"], made["vllm"], strict=True)]
    mean = statistics.fmean(differences)
    half = stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
    say({"differences": differences, "mean": mean, "interval": [mean - half, mean + half]})


class Bare:
    """What anybody would write: the same question over connections that are kept."""

    def __init__(self, at: Path, key: str, stops: Sequence[int]) -> None:
        self._at, self._stops, self._mine = at, list(stops), local()
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def tokens(self, ids: Sequence[int], most: int, seed: int) -> int:
        if not hasattr(self._mine, "connection"):
            connection = self._mine.connection = http.client.HTTPConnection("engine")
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(str(self._at))
        told = {
            "model": "policy", "prompt": list(ids), "max_tokens": most, "temperature": 1.0,
            "seed": seed, "stop_token_ids": self._stops, "logprobs": 0, "return_token_ids": True,
        }  # fmt: skip
        connection = self._mine.connection
        connection.request("POST", "/v1/completions", json.dumps(told), self._headers)
        return len(json.loads(connection.getresponse().read())["choices"][0]["token_ids"])


def load(given: argparse.Namespace, folder: Path) -> None:
    base = untied(place_of("nano")[0], folder / "untied")
    launch = VllmLaunch(folder, context_tokens=CONTEXT)
    fleet = Fleet(launch, given.engines, Served("base", base))
    try:
        if given.engines == 1:
            rates: dict[str, list[float]] = {"bare": [], "gateway": []}
            for turn in range(given.rounds):
                for name in sorted(rates, reverse=bool(turn % 2)):
                    rates[name].append(rate(name, given, fleet, turn))
                    say({"round": turn, "by": name, "tokens_per_sec": rates[name][-1]})
            told = {name: statistics.median(one) for name, one in rates.items()}
            say({**told, "share": told["gateway"] / told["bare"]})
        spent = []
        for turn in range(given.rounds):
            copy = shutil.copytree(base, folder / f"again-{turn}")
            began = time.monotonic()
            fleet.publish(Served(f"again-{turn}", copy))
            spent.append(time.monotonic() - began)
        size = sum(one.stat().st_size for one in base.iterdir())
        say({"engines": given.engines, "publish_sec": spent, "bytes": size})
    finally:
        fleet.close()


def rate(by: str, given: argparse.Namespace, fleet: Fleet, turn: int) -> float:
    talks = NanoTalks(CONTEXT)
    gateway = EngineGateway(fleet, talks, "bench", CONTEXT)
    routes = fleet.replicas[0].routes()
    assert routes is not None
    bare = Bare(routes._at, routes._key, sorted(talks.stops))
    words = [f"task {turn} {number} of {by}\n" for number in range(given.calls)]

    def ask(number: int) -> int:
        request = GenerateRequest(
            key=f"{by}{turn}/{number}", task_key=f"{by}{number}", sample_idx=0, turn=0, seed=turn,
            messages=[{"role": "user", "content": words[number].strip()}], max_tokens=64,
            max_context_tokens=CONTEXT, temperature=1.0, top_p=1.0,
        )  # fmt: skip
        if by == "gateway":
            (reply,) = gateway.generate([request])
            assert reply.failure is None, reply.failure
            return reply.completion_tokens
        asked = NanoTalks(CONTEXT).ask(request)
        assert isinstance(asked, Asked)
        return bare.tokens(asked.ids, asked.budget, number)

    began = time.monotonic()
    with ThreadPoolExecutor(given.at_once) as pool:
        total = sum(pool.map(ask, range(given.calls)))
    return total / (time.monotonic() - began)


def say(told: dict[str, Any]) -> None:
    print(json.dumps({**told, "load": round(os.getloadavg()[0], 1)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["seeds", "load"])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--engines", type=int, default=1)
    parser.add_argument("--calls", type=int, default=512)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        {"seeds": seeds, "load": load}[given.what](given, Path(folder))


if __name__ == "__main__":
    main()
