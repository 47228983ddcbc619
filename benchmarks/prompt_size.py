"""Evidence on disk against pasting it: tokens of one generation's prompts, and what stays in reach.

A generation is stored for each planted fault (and one without): a built-in harness is trained for
a few steps, rolled out and read by the loop's own steps. On the two faults of seed 0 the LLM team
works through its dialogues with a reader (`_reader.py`) that opens what a careful engineer would:
the report, the metrics, the indexes, one rollout of every failure mode, then the sources. The same
dialogues are counted again with all rollouts pasted into the first message and nothing fetched.

Tokens are bytes / 4 of what is sent, over all calls; `cl100k` counts them exactly by a tokenizer
that litellm brings, where it is there. For every fault, the line of evidence that gives it away is
searched in the files as an agent finds it (`_traces.py`); the control tells how many of those lines
stand there without the fault.

    python benchmarks/prompt_size.py --work DIR --out prompt_size.json
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _reader import Reader
from _traces import TRACES, Trace

from meta_agent.agents import LlmTeam
from meta_agent.config import RunConfig
from meta_agent.domains.nano.planted.faults import DEFAULT_SEED, FAULTS, fault
from meta_agent.domains.nano.sources import sources
from meta_agent.history import HarnessRepo
from meta_agent.settings import resolve
from meta_agent.steps.opening import FIRST_COMMIT, first_version, open_run
from meta_agent.steps.verbs._briefing import brief_for, situation
from meta_agent.steps.verbs._host import Host
from meta_agent.steps.verbs.collect import collect, read
from meta_agent.view import open_display
from meta_agent.workspace import init_workspace

CONTROL, SEED = "none", "seed 0"
BYTES_PER_TOKEN = 4
CANDIDATES = 3


@dataclass
class Stored:
    """One generation as an agent meets it."""

    name: str
    files: dict[str, bytes]
    reader: Reader | None = None
    sources: dict[str, bytes] = field(default_factory=dict)


def main() -> None:
    args = _arguments()
    with tempfile.TemporaryDirectory() as scratch:
        work = args.work or Path(scratch)
        faults = [each.name for each in FAULTS] if args.only is None else args.only
        seed = stored(SEED, work / "seed0", args)
        control = stored(CONTROL, work / CONTROL, args).files
        found = {name: _reach(TRACES[name], name, work, args, control) for name in faults}
    result = {"steps": args.steps, "sizes": sizes(seed), "traces": found}
    print(table(result))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=4, help="training steps of a generation")
    parser.add_argument("--only", metavar="FAULT", nargs="*", help="these faults")
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep the workspaces here")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write JSON here")
    return parser.parse_args()


# --- a generation -------------------------------------------------------------------------------


def stored(name: str, workspace: Path, args: argparse.Namespace) -> Stored:
    """Trains, rolls out and reads once; a second call finds it recorded."""
    planted = DEFAULT_SEED if name == SEED else () if name == CONTROL else (name,)
    files: Mapping[str, bytes] = sources("swe", "seed")
    for each in planted:
        files = fault(each).apply(files)
    workspace.parent.mkdir(parents=True, exist_ok=True)
    init_workspace(
        workspace,
        domain="swe",
        create_repo=lambda path: HarnessRepo.create(path, files, FIRST_COMMIT),
    )
    with workspace.with_suffix(".log").open("a") as log:
        return _read(name, dict(files), _config(workspace, args), log)


def _config(workspace: Path, args: argparse.Namespace) -> RunConfig:
    return resolve(
        {
            "domain": "swe",
            "workspace": workspace,
            "profile": "tiny",
            "train_steps": args.steps,
            "candidates": CANDIDATES,
            "threads": 1,
            "jobs": 1,
            "sandbox": "process",
        }
    )


def _read(name: str, files: dict[str, bytes], config: RunConfig, log: Any) -> Stored:
    with open_run(config, open_display(log, live=False), purpose="prompt-size") as run:
        collected = collect(run, first_version(run))
        reading = read(run, collected, 0, None)
        host = Host(run, collected, 0)
        brief = brief_for(run, collected, reading, 0, host, None, situation(run))
        evidence = dict(brief.files())
        if name != SEED:
            return Stored(name, evidence)
        reader = Reader(evidence)
        LlmTeam(reader, run=run.id, model_of=lambda role: "reader").propose(brief)
        return Stored(name, evidence, reader, files)


# --- sizes --------------------------------------------------------------------------------------


def sizes(seed: Stored) -> dict[str, Any]:
    """Tokens of one generation, either way, by each way of counting."""
    assert seed.reader is not None
    rollouts = "\n".join(
        data.decode() for path, data in sorted(seed.files.items()) if _is_rollout(path)
    )
    counts: dict[str, Callable[[str], int]] = {"bytes / 4": _by_bytes}
    exact = _tokenizer()
    if exact is not None:
        counts["cl100k"] = exact
    return {
        "calls": len(seed.reader.asked),
        "rollouts": sum(map(_is_rollout, seed.files)),
        "evidence_bytes": sum(map(len, seed.files.values())),
        "counted": {name: _both(seed.reader, rollouts, count) for name, count in counts.items()},
    }


def _both(reader: Reader, rollouts: str, count: Callable[[str], int]) -> dict[str, float]:
    pasted = count(rollouts)
    on_disk = [count(call.kept) + count(call.fetched) for call in reader.asked]
    inline = [count(call.kept) + (pasted if call.reads else 0) for call in reader.asked]
    return {
        "on_disk": sum(on_disk),
        "pasted": sum(inline),
        "ratio": sum(inline) / sum(on_disk),
        "largest_on_disk": max(on_disk),
        "largest_pasted": max(inline),
    }


def _is_rollout(path: str) -> bool:
    return path.startswith("rollouts/") and path.endswith(".md")


def _by_bytes(text: str) -> int:
    return len(text.encode()) // BYTES_PER_TOKEN


def _tokenizer() -> Callable[[str], int] | None:
    """OpenAI's cl100k from the files that litellm ships; None where they are not there."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None or importlib.util.find_spec("tiktoken") is None:
        return None
    folder = Path(spec.origin).parent / "litellm_core_utils" / "tokenizers"
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(folder))
    import tiktoken

    encoding = tiktoken.get_encoding("cl100k_base")
    return lambda text: len(encoding.encode(text, disallowed_special=()))


# --- what stays in reach ------------------------------------------------------------------------


def _reach(
    trace: Trace, name: str, work: Path, args: argparse.Namespace, control: Mapping[str, bytes]
) -> dict[str, Any]:
    files = stored(name, work / name, args).files
    found = trace.found(files)
    return {
        "what": trace.what,
        "where": found[0] if found else None,
        "line": found[1] if found else None,
        "in_control": trace.found(control) is not None,
    }


def table(result: Mapping[str, Any]) -> str:
    """The figures for people."""
    size, traces = result["sizes"], result["traces"]
    lines = [
        f"{size['calls']} calls; {size['rollouts']} rollouts, {size['evidence_bytes']} bytes of "
        "evidence on disk"
    ]
    for name, row in size["counted"].items():
        lines.append(
            f"tokens ({name}): {row['on_disk']:,} on disk, {row['pasted']:,} pasted, ratio "
            f"{row['ratio']:.1f}; largest prompt {row['largest_on_disk']:,} against "
            f"{row['largest_pasted']:,}"
        )
    for name, row in traces.items():
        where = f"{row['where']}: {row['line'][:100]}" if row["line"] else "NOT FOUND"
        lines.append(f"{name:20} {where}{'  (also without it)' if row['in_control'] else ''}")
    reached = sum(row["line"] is not None for row in traces.values())
    own = sum(row["line"] is not None and not row["in_control"] for row in traces.values())
    lines.append(f"evidence of {reached} of {len(traces)} faults in reach, {own} of them telling")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
