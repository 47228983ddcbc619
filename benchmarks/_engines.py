"""What it takes to publish an adapter to vLLM servers, by the code of a training.

The variable META_AGENT_VLLM_PYTHON names the interpreter that has vLLM. What a policy child trains
is published to all servers from a rollout event, again and again. `write_sec` is the child's,
`load_sec` the servers', and `first_sec` until each has answered a call under the new name,
`warm_sec` for one more of each. `tokens_per_sec` is of `--calls` calls at once, and `--precision`
is the servers'. The adapter has 33M numbers in 504 tensors, as one of rank 16 for 4B weights has;
so that several servers fit here, its rank is 128 and the base small. `--rank 0`: nano's whole
weights.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from meta_agent.core.protocols import GenerateRequest
from meta_agent.policies.engines.talks import NanoTalks
from meta_agent.policies.fleet import EngineGateway, Fleet, Served
from meta_agent.policies.fleet.launch import VllmLaunch
from meta_agent.policies.training import PolicyChild, RolloutEvent, TrainJob, TrainSettings
from meta_agent.policies.training._wire import published_folder
from meta_agent.policies.training.policy import place_of
from meta_agent.policies.training.serving.publishing import EnginePublisher
from meta_agent.policies.training.serving.untied import untied

CONTEXT, REPLY = 256, 64


def call(key: str, text: str) -> GenerateRequest:
    return GenerateRequest(
        key=key, task_key=text, sample_idx=0, turn=0, seed=0,
        messages=[{"role": "user", "content": text}], max_tokens=REPLY,
        max_context_tokens=CONTEXT, temperature=1.0, top_p=1.0,
    )  # fmt: skip


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
        print({"round": turn, "engines": given.engines, **told}, file=sys.stderr, flush=True)
    assert not fleet.unpublished, "versions that were not served"
    folder = published_folder(out) / str(given.rounds)
    size = sum(one.stat().st_size for one in folder.iterdir())
    middle = {name: statistics.median(one[name] for one in made) for name in made[0]}
    middle["tokens_per_sec"] = sampled_per_sec(gateway, given.calls)
    print({"engines": given.engines, "bytes": size, "medians": middle}, file=sys.stderr, flush=True)
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


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engines", type=int, default=4)
    parser.add_argument("--rank", type=int, default=128)
    parser.add_argument("--precision", default="float32", help="of the engines")
    parser.add_argument("--calls", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=6)


def measure(given: argparse.Namespace) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        return publish(given, Path(folder))
