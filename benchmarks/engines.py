"""Trainings whose rollouts engines sample (`--engines`), beside the policy child's own engine.

    export META_AGENT_VLLM_PYTHON=PYTHON
    python benchmarks/engines.py seeds [--seeds 6] [--first 0] [--steps 12] [--groups 4]
    python benchmarks/engines.py load [--calls 256] [--at-once 32] [--rounds 6]
    python benchmarks/engines.py publish [--engines 4] [--rank 128] [--rounds 6]

* `seeds`: for each seed nano-swe is trained twice from the same warm start, sampled by the policy
  child (`nano`) and by a vLLM server that serves the weights of each step (`vllm`, corrected). Of
  each: clean success of what was trained, by the policy child, on the search and confirm splits
  (one attempt a task), and seconds a step. Last the mean difference, its 95 % interval by t.
* `load`: the same calls to one server, by a bare HTTP client that keeps its connections and through
  the gateway. The server writes `REPLY` tokens to each, whatever the client, and begins each round
  without what it computed before; the order turns from round to round. Tokens a second, processor
  time of this process a token (looking at the engine included, for both), and last the ratio of
  geometric means with its 95 % interval (t on the logarithms of the rounds).
* `publish`: what a policy child trains is published to all servers by the code of a training, from
  a rollout event, again and again. `write_sec` is the child's, `load_sec` the servers', and
  `first_sec` until each has answered a call under the new name, `warm_sec` for one more of each.
  `tokens_per_sec` is of `--calls` calls at once, and `--precision` is the servers'. The adapter has
  33M numbers in 504 tensors, as one of rank 16 for 4B weights has; so that several servers fit
  here, its rank is 128 and the base small. `--rank 0`: nano's whole weights.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import local
from typing import Any, NoReturn

from _nano import STAMP, clean_success, competent
from _pairs import ratio
from scipy import stats

from meta_agent.core.lab._rows import Again
from meta_agent.core.lab.training import settings_of
from meta_agent.core.protocols import JSON, GenerateRequest
from meta_agent.domains.nano import NanoSwe
from meta_agent.policies.engines.talks import Asked, NanoTalks, server_seed
from meta_agent.policies.fleet import EngineGateway, Fleet, Routes, Served
from meta_agent.policies.fleet.launch import VllmEngine, VllmLaunch
from meta_agent.policies.opening import ChildPolicies
from meta_agent.policies.served_engines import EnginePolicies, Engines
from meta_agent.policies.training import (
    PolicyChild,
    RolloutEvent,
    TrainJob,
    TrainSettings,
    train_policy,
)
from meta_agent.policies.training._wire import published_folder
from meta_agent.policies.training.policy import place_of
from meta_agent.policies.training.serving.publishing import EnginePublisher
from meta_agent.policies.training.serving.untied import untied

CONTEXT, REPLY = 256, 64
COMPLETIONS = "/v1/completions"


def by_engine(logs: Path) -> EnginePolicies:
    engines = Engines(VllmLaunch(logs, context_tokens=CONTEXT), 1, CONTEXT)
    return EnginePolicies(engines, 1, TrainSettings(corrected=True))


def trained(
    policies: ChildPolicies, given: argparse.Namespace, seed: int, out: Path
) -> dict[str, Any]:
    """One training; what came of it is measured by the policy child."""
    domain, ends = NanoSwe(), list[float]()
    with competent() as session, policies.child() as child:
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


class Fixed(Routes):
    """Replies of one length, whoever asks."""

    def _ask(self, method: str, path: str, told: JSON, timeout_sec: float) -> bytes:
        told = lengthened(told) if path == COMPLETIONS else told
        return super()._ask(method, path, told, timeout_sec)


def lengthened(told: dict[str, Any]) -> dict[str, Any]:
    return {**told, "min_tokens": told["max_tokens"], "ignore_eos": True}


class Bare:
    """What anybody would write: the same question over connections that are kept."""

    def __init__(self, at: Path, key: str) -> None:
        self._at, self._mine = at, local()
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def tokens(self, request: GenerateRequest) -> int:
        if not hasattr(self._mine, "connection"):
            connection = self._mine.connection = http.client.HTTPConnection("engine")
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(str(self._at))
        talks = NanoTalks(CONTEXT)
        asked = talks.ask(request)
        assert isinstance(asked, Asked)
        told = {
            "model": "policy", "prompt": asked.ids, "max_tokens": asked.budget, "temperature": 1.0,
            "top_p": 1.0, "seed": server_seed(request), "stop_token_ids": sorted(talks.stops),
            "logprobs": 0, "return_token_ids": True,
        }  # fmt: skip
        connection = self._mine.connection
        connection.request("POST", COMPLETIONS, json.dumps(lengthened(told)), self._headers)
        return len(json.loads(connection.getresponse().read())["choices"][0]["token_ids"])


def load(given: argparse.Namespace, folder: Path) -> None:
    base = untied(place_of("nano")[0], folder / "untied")
    launch = VllmLaunch(folder, context_tokens=CONTEXT)

    def fixed(number: int, weights: Path, rank: int) -> VllmEngine:
        engine = launch(number, weights, rank)
        engine.routes = Fixed(engine.routes._at, engine.routes._key)
        return engine

    fleet, made = Fleet(fixed, 1, Served("base", base)), list[dict[str, float]]()
    try:
        for turn in range(given.rounds + 1):  # the first one warms up
            rates = {}
            for name in sorted(("bare", "gateway"), reverse=bool(turn % 2)):
                told = one_load(name, given, fleet, turn)
                rates[name] = told["tokens_per_sec"]
                say({"round": turn, "by": name, **told})
            made += [rates] if turn else []
    finally:
        fleet.close()
    say(ratio(*([rates[name] for rates in made] for name in ("gateway", "bare"))))


def one_load(by: str, given: argparse.Namespace, fleet: Fleet, turn: int) -> dict[str, float]:
    gateway = EngineGateway(fleet, NanoTalks(CONTEXT), "bench", CONTEXT)
    (routes,) = routes_of(fleet)
    bare = Bare(routes._at, routes._key)

    def ask(number: int) -> int:
        request = call(f"{turn}/{number}", f"task {turn} {number}")
        if by == "bare":
            return bare.tokens(request)
        (reply,) = gateway.generate([request])
        assert reply.failure is None, reply.failure
        gateway.finish([request.key])
        return reply.completion_tokens

    routes._ask("POST", "/reset_prefix_cache", None, 60.0)
    began, spent = time.monotonic(), time.process_time()
    with ThreadPoolExecutor(given.at_once) as pool:
        total = sum(pool.map(ask, range(given.calls)))
    assert total == given.calls * REPLY, "replies of another length"
    return {
        "tokens_per_sec": total / (time.monotonic() - began),
        "cpu_us_per_token": (time.process_time() - spent) / total * 1e6,
    }


def call(key: str, text: str) -> GenerateRequest:
    return GenerateRequest(
        key=key, task_key=text, sample_idx=0, turn=0, seed=0,
        messages=[{"role": "user", "content": text}], max_tokens=REPLY,
        max_context_tokens=CONTEXT, temperature=1.0, top_p=1.0,
    )  # fmt: skip


def routes_of(fleet: Fleet) -> list[Routes]:
    found = [replica.routes() for replica in fleet.replicas]
    return [one for one in found if one is not None]


class Clocked(PolicyChild):
    """A child that notes how long it wrote."""

    write_sec = 0.0

    def write(self, path: Path) -> None:
        began = time.monotonic()
        super().write(path)
        self.write_sec = time.monotonic() - began


class EnoughError(Exception):
    pass


def publish(given: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Returns the medians of the rounds, and the tokens a second under the newest adapter."""
    policy = f"hf:{wide(folder / 'base')}" if given.rank else "nano"
    base = place_of(policy)[0]
    served = Served("base", base if given.rank else untied(base, folder / "untied"))
    recipe = {"groups_per_step": 2, "num_generations": 2} | (
        {"lora_r": given.rank} if given.rank else {}
    )
    settings = TrainSettings(lora_rank=given.rank, corrected=True)
    launch = VllmLaunch(
        folder, context_tokens=CONTEXT, count=given.engines, precision=given.precision
    )
    fleet = Fleet(launch, given.engines, served, rank=given.rank)
    medians: dict[str, float] = {}
    try:
        with Clocked(threads=1, settings=settings) as child, suppress(EnoughError):
            child.load(policy)

            def provide(_: RolloutEvent) -> NoReturn:
                medians.update(publishing(given, child, fleet, folder / "out"))
                raise EnoughError

            child.train(TrainJob(recipe, 2, 1, folder / "out"), provide)
    finally:
        fleet.close()
    return medians


def publishing(
    given: argparse.Namespace, child: Clocked, fleet: Fleet, out: Path
) -> dict[str, float]:
    gateway = EngineGateway(fleet, NanoTalks(CONTEXT), "base", CONTEXT)
    publisher, made = EnginePublisher(child, fleet, gateway, out), list[dict[str, float]]()
    for turn in range(given.rounds + 1):  # the first one warms up
        began = time.monotonic()
        publisher.publish(turn)
        load_sec = time.monotonic() - began - child.write_sec
        first, warm = (answered(gateway, given.engines, f"{turn} {n}") for n in range(2))
        told = {
            "write_sec": child.write_sec, "load_sec": load_sec, "first_sec": first,
            "warm_sec": warm, "whole_sec": child.write_sec + load_sec + first,
        }  # fmt: skip
        made += [told] if turn else []
        say({"round": turn, "engines": given.engines, **told})
    assert not fleet.unpublished, "versions that were not served"
    folder = published_folder(out) / str(given.rounds)
    size = sum(one.stat().st_size for one in folder.iterdir())
    middle = {name: statistics.median(one[name] for one in made) for name in made[0]}
    middle["tokens_per_sec"] = sampled_per_sec(gateway, given.calls)
    say({"engines": given.engines, "bytes": size, "medians": middle})
    return middle


def sampled_per_sec(gateway: EngineGateway, count: int) -> float:
    """Asks for all replies at once; returns the sampled tokens a second."""
    calls = [call(f"load/{number}", f"task load {number}") for number in range(count)]
    began = time.monotonic()
    replies = gateway.generate(calls)
    sec = time.monotonic() - began
    assert not any(reply.failure for reply in replies), replies
    gateway.finish([request.key for request in calls])
    return sum(reply.completion_tokens for reply in replies) / sec


def answered(gateway: EngineGateway, engines: int, name: str) -> float:
    """Seconds until each engine has answered a call of its own."""
    calls = [call(f"{name}/{number}", f"task {name} {number}") for number in range(engines)]
    began = time.monotonic()
    replies = gateway.generate([replace(one, max_tokens=1) for one in calls])
    spent = time.monotonic() - began
    assert not any(reply.failure for reply in replies), replies
    gateway.finish([one.key for one in calls])
    return spent


def wide(folder: Path) -> Path:
    """A random base whose adapters of rank 128 have 33M numbers in 36 layers."""
    from transformers import Qwen3ForCausalLM

    from meta_agent.policies.engines.nano_files import nano_config, write_nano

    config = nano_config()
    config.num_hidden_layers, config.hidden_size, config.intermediate_size = 36, 384, 1152
    config.num_attention_heads, config.num_key_value_heads = 12, 6
    config.layer_types = ["full_attention"] * 36
    folder.mkdir()
    write_nano(Qwen3ForCausalLM(config), folder)
    return folder


def say(told: dict[str, Any]) -> None:
    print(json.dumps({**told, "load": round(os.getloadavg()[0], 1)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["seeds", "load", "publish"])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--engines", type=int, default=4)
    parser.add_argument("--rank", type=int, default=128)
    parser.add_argument("--precision", default="float32", help="of the engines of `publish`")
    parser.add_argument("--calls", type=int, default=256)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        {"seeds": seeds, "load": load, "publish": publish}[given.what](given, Path(folder))


if __name__ == "__main__":
    main()
