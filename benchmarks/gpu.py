"""Everything that only a GPU can show, by one command: prints a table for the log.

    python benchmarks/gpu.py [--smollm2 FOLDER] [--minutes 10] [--tiny]

* Trainings of random weights in the shapes of Qwen3-0.6B and Qwen3-4B, adapters and full, with rows
  of 2k, 8k and 16k tokens. Our trainer is built by the function that a run calls. Plain TRL then
  takes the same rows in the same process, one row at a time. Both compute in bfloat16, and the
  second of two steps is timed.
* `predicted` is what `memory.predict` says of these weights. `run needs` is what `placing` demands
  before a run: it assumes weights that were trained before, which are in float32.
* `vllm`: one server, to which trained adapters are published.
* `smollm2`: GRPO steps on SmolLM2 in the given folder (`doctor --policy smollm2 --fetch`).
  The row says the mean reward of the first and of the last steps, and the seconds of the last one.

A model's operations a token are 6 (adapters: 4) times its parameters, and causal attention. MFU
divides them by the card's data sheet, or by the rate of a product of large matrices if the card is
not listed; the rows `weights` say that rate. A row that fails says why, and the others go on.
`--tiny` takes toy shapes and needs no GPU.

Not covered: several GPUs, and what the allocator loses. Without a GPU `peak` is that of the whole
process, and says nothing about the prediction.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from _gpu_sizes import CARD, TOY, Size

from meta_agent.core.errors import PreflightError
from meta_agent.policies.served.vllm_server import require_vllm

CHECKS: Final = Path(__file__).with_name("_gpu_checks.py")
COLUMNS: Final = (
    *("sec", "tokens/s", "MFU %", "TRL tokens/s", "TRL MFU %"),
    *("peak GiB", "predicted GiB", "run needs GiB", "TRL peak GiB"),
)


class Check(NamedTuple):
    """One process, and the rows that it prints."""

    rows: tuple[str, ...]
    settings: dict[str, Any]


def checks_of(given: argparse.Namespace, size: Size, folder: Path) -> list[Check]:
    """Returns the checks in the order in which they run: the largest model is last."""
    checks = []
    for model in size.models:
        place = {"model": model, "place": str(folder / model)}
        checks.append(Check((f"{model} weights",), {"check": "weights", **place}))
        for mode in ("adapters", "full"):
            rows = tuple(f"{model} {mode} {length}" for length in size.lengths)
            checks.append(Check(rows, {"check": "training", "mode": mode, **place}))
    toy = folder / next(iter(size.models)) if given.tiny else ""
    learner = {"check": "learning", "place": str(given.smollm2 or toy)}
    others = [Check(("smollm2",), learner), Check(("vllm",), {"check": "vllm"})]
    return [*checks[:3], *others, *checks[3:]]


def obstacle(check: Check) -> str:
    """Returns why a check cannot run here, or nothing."""
    if check.settings["check"] == "learning" and not check.settings["place"]:
        return "not run: give --smollm2 FOLDER"
    if check.settings["check"] == "vllm":
        try:
            require_vllm()
        except PreflightError as error:
            return f"not run: {error}"
    return ""


def measured(check: Check, folder: Path, tiny: bool, sec: float) -> Iterator[dict[str, Any]]:
    """Yields each row of a check. A row that did not come says why."""
    missing, reason = list(check.rows), obstacle(check) or ("" if sec > 0 else "not run: no time")
    log = folder / f"{check.rows[0]}.log".replace(" ", "-")
    if not reason:
        settings = {"place": str(folder), "tiny": tiny, **check.settings}
        argv = [sys.executable, str(CHECKS), json.dumps(settings)]
        gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
        variables = {"TMPDIR": str(folder), "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": gpu}
        with (
            log.open("w") as errors,
            subprocess.Popen(
                argv, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | variables
            ) as process,
        ):
            clock = threading.Timer(sec, process.terminate)
            clock.start()
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith('{"check"'):  # a library may print too
                    row = json.loads(line)
                    missing.remove(row["check"])
                    yield row
        clock.cancel()
        last = (log.read_text(errors="replace").strip().splitlines() or ["nothing was printed"])[-1]
        late = f"stopped after {sec:.0f} s: " if process.returncode == -15 else ""
        reason = f"failed: {late}exit code {process.returncode}: {last[:300]}"
    for name in missing:
        yield {"check": name, "note": reason, "figures": {}}


def line_of(row: dict[str, Any]) -> str:
    """Returns a row of the table."""
    cells = [f"{row['figures'][name]:.4g}" if name in row["figures"] else "" for name in COLUMNS]
    return f"| {' | '.join([row['check'], *cells, row['note'].replace('|', '/')])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smollm2", type=Path, help="folder of the converted model")
    parser.add_argument("--minutes", type=float, default=10.0, help="no check runs longer")
    parser.add_argument("--tiny", action="store_true", help="toy shapes, on any machine")
    given = parser.parse_args()
    deadline = time.monotonic() + 60 * given.minutes
    print(f"| {' | '.join(['check', *COLUMNS, 'note'])} |\n{'|---' * (len(COLUMNS) + 2)}|")
    with tempfile.TemporaryDirectory() as folder:
        for check in checks_of(given, TOY if given.tiny else CARD, Path(folder)):
            left_sec = deadline - time.monotonic()
            for row in measured(check, Path(folder), given.tiny, left_sec):
                print(line_of(row), flush=True)


if __name__ == "__main__":
    main()
