"""Prints the names of classes and types that stand in more than one module of the package.

    python -m maintain.twins

Programs that run inside a sandbox (`*_guest.py`, `inside/`) are left out: they import nothing of
ours. Two of a name are right only if both mean the same, such as a protocol and its class.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "meta_agent"


def twins() -> dict[str, list[str]]:
    """Returns the modules of each name that is defined in two or more, most often first."""
    modules = defaultdict[str, list[str]](list)
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.endswith("_guest.py") or "/inside/" in name or name.endswith("harness/guest.py"):
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(name)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
                names = (target.id for target in node.targets if isinstance(target, ast.Name))
                for alias in filter(str.istitle, names):
                    modules[alias].append(name)
    several = {name: places for name, places in modules.items() if len(places) > 1}
    return dict(sorted(several.items(), key=lambda pair: (-len(pair[1]), pair[0])))


def main() -> None:
    """Prints a line for each name: the name, and the modules that define it."""
    for name, places in twins().items():
        print(f"{name:<16} {', '.join(places)}")


if __name__ == "__main__":
    main()
