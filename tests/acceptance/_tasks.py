"""Smaller task files, for runs in which the measurements are not the point."""

from __future__ import annotations

import json
import os
from pathlib import Path


def few(tasks: Path, **sizes: int) -> Path:
    """The first so many tasks of each split, in a file beside the whole one."""
    kept, left = [], {"train": 1, **sizes}
    for line in tasks.read_text(encoding="utf-8").splitlines(keepends=True):
        split = json.loads(line)["split"]
        if left.get(split, 0) > 0:
            left[split] -= 1
            kept.append(line)
    name = "-".join(f"{split}{count}" for split, count in sorted(sizes.items()))
    path = tasks.with_name(f"toolz-{name}.jsonl")
    draft = path.with_suffix(f".{os.getpid()}")  # another worker may read it by now
    draft.write_text("".join(kept), encoding="utf-8")
    return draft.replace(path)
