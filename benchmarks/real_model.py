"""Weights, harness, or both: a real model on a task that its format hides, at equal attempts.

SmolLM2-135M-Instruct reads a sentence and has to reply with one JSON object
(`examples/extraction`), or answers public tasks (`--tasks reasoning-gym:...`). Three ways spend the
same number of attempts:

    weights   one long training under the shipped harness
    harness   the search with frozen weights
    both      the search with frozen weights on half of the attempts, then one training under the
              harness that it hands over, with the other half

Each is measured on the same vault tasks before and after. Strict success is the grader's: the whole
reply is the answer. Lenient success also takes an answer with text around it.

    python benchmarks/real_model.py --out DIR [--budget 640] [--seeds 0,1,2] [--ways weights,both]
        [--tasks reasoning-gym:NAME:PARAMETER=VALUE [--python PYTHON]]

A second call goes on where the first one stopped. Not covered: a search that trains each idea.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from meta_agent.core.ledger import Ledger
from meta_agent.core.protocols import Message
from meta_agent.core.resources import shipped_harness
from meta_agent.core.rollouts import RolloutStore
from meta_agent.reports import RunState, reduce

EXAMPLE: Final = Path(__file__).parents[1] / "examples/extraction"
RECIPE: Final = {"learning_rate": "3e-4", "groups_per_step": "4", "num_generations": "8"}
ASKED: Final = "Extract name, city, item, colour and count as a JSON object: "
TRAINED: Final = ("--strategy", "static", "--lora-rank", "16", "--train-steps", "5")
FROZEN: Final = ("--train-steps", "0", "--generations", "4")
_OBJECT: Final = re.compile(r"\{[^{}]*\}")


def rows() -> list[dict[str, Any]]:
    """Returns the example's tasks. Each has its split."""
    return [json.loads(line) for line in (EXAMPLE / "tasks.jsonl").read_text().splitlines()]


def write_start(out: Path) -> None:
    """Writes the starting harness, which is the shipped one with `RECIPE`."""
    for name, data in shipped_harness("chat/open").items():
        if name.endswith("recipe.toml"):
            lines = data.decode()
            for key, value in RECIPE.items():
                lines = re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", lines)
            data = lines.encode()
        place = out / "start" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


@dataclass
class Bench:
    """The runs of one seed."""

    out: Path
    tasks: Sequence[str]  # the flags that name them
    seed: int
    budget: int
    threads: int

    def weights(self) -> tuple[list[RunState], Path]:
        """Makes one long training under the start."""
        place = self.out / f"weights-{self.seed}"
        return [self.evolve(place, self.out / "start", self.budget, *TRAINED)], place

    def harness(self) -> tuple[list[RunState], Path]:
        """Makes a search with frozen weights from the start."""
        place = self.out / f"harness-{self.seed}"
        return [self.evolve(place, self.out / "start", self.budget, *FROZEN)], place

    def both(self) -> tuple[list[RunState], Path]:
        """Makes a search with half of the attempts, then a training under what it handed over."""
        place, half = self.out / f"both-{self.seed}-harness", self.budget // 2
        search = self.evolve(place, self.out / "start", half, *FROZEN)
        harness = self.out / f"both-{self.seed}-found"
        unpack(place, str(search.product["harness_commit"]), harness)
        place = self.out / f"both-{self.seed}-weights"
        return [search, self.evolve(place, harness, half, *TRAINED)], place

    def evolve(self, place: Path, harness: Path, budget: int, *settings: str) -> RunState:
        """Makes or resumes one run, and returns its state."""
        command = [sys.executable, "-m", "meta_agent", "evolve", "--policy", "smollm2"]
        command += [
            *self.tasks,
            "--workspace",
            f"{place}",
            "--harness",
            f"{harness}",
            "--seed",
            f"{self.seed}",
        ]
        command += ["--threads", f"{self.threads}", "--precision", "bfloat16"]
        command += ["--budget", f"{budget}", *settings]
        environment = {**os.environ, "OMP_NUM_THREADS": f"{self.threads}"}
        with Path(f"{place}.log").open("ab") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log, env=environment)
        with Ledger.open(place / "ledger.sqlite", owner_lock=False) as ledger:
            return reduce(ledger)

    def row(self, way: str) -> dict[str, Any]:
        """Makes the runs of one way, and returns its row of the table."""
        began = time.monotonic()
        states, place = getattr(self, way)()
        before, after = states[0].baseline, states[-1].final  # a long training measures no start
        assert after
        return {
            "seed": self.seed,
            "way": way,
            "before": before.clean_success if before else None,
            "after": after.clean_success,
            "lenient": lenient(place),
            "tasks": after.n,
            "attempts": sum(state.rollouts for state in states),
            "minutes": round((time.monotonic() - began) / 60, 1),
            "handed_over": [(state.handover or {}).get("standing") for state in states],
        }


def unpack(workspace: Path, commit: str, folder: Path) -> Path:
    """Writes the files of a commit of the workspace's harness to a folder."""
    git = ["git", "-C", f"{workspace / 'harness_repo'}", "archive", commit]
    archive = subprocess.run(git, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def lenient(workspace: Path) -> float:
    """Returns the share of the final vault attempts with the right answer anywhere in a reply."""
    store = RolloutStore(workspace / "rollouts")
    shards = [shard for name in store.names() if "-vault-" in name and (shard := store.find(name))]
    newest = max(shards, key=lambda shard: (store.directory / shard.rows.path).stat().st_mtime)
    attempts = list(store.read(newest))
    right: list[bool]
    if "lenient" in attempts[0].outcome_detail:
        right = [attempt.outcome_detail.get("lenient") == 1 for attempt in attempts]
    else:
        gold = {row["prompt"]: row["gold"] for row in rows()}
        right = [_holds(attempt.messages, gold) for attempt in attempts]
    return sum(right) / len(right)


def _holds(messages: Sequence[Message], gold: dict[str, Any]) -> bool:
    request = next(m["content"] for m in messages[::-1] if ASKED in str(m["content"]))
    replies = [str(m["content"]) for m in messages if m["role"] == "assistant"]
    for text in _OBJECT.findall(replies[-1]) if replies else ():
        try:
            if json.loads(text) == gold[request[request.rindex(ASKED) :].split("\n")[0]]:
                return True
        except (json.JSONDecodeError, KeyError):
            continue
    return False


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=lambda text: Path(text).absolute(), required=True)
    parser.add_argument("--budget", type=int, default=640)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--ways", default="weights,harness,both")
    parser.add_argument("--tasks", default="", help="of a public generator; else the JSON task")
    parser.add_argument("--python", default="", help="that has reasoning-gym, if it is another")
    parser.add_argument("--threads", type=int, default=1, help="of one run; two runs fit beside")
    asked = parser.parse_args()
    write_start(asked.out)
    tasks = ["--tasks", f"{EXAMPLE / 'tasks.jsonl'}", "--grade", f"{EXAMPLE / 'grader.py'}"]
    if asked.tasks:
        tasks = ["--tasks", asked.tasks, *(["--python", asked.python] if asked.python else [])]
    for seed in map(int, asked.seeds.split(",")):
        bench = Bench(asked.out, tasks, seed, asked.budget, asked.threads)
        for way in asked.ways.split(","):
            print(json.dumps(bench.row(way)), flush=True)


if __name__ == "__main__":
    main()
