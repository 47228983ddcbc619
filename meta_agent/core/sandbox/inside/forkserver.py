"""The process that a host's process sandboxes are forked from; it loads the shared imports once.

It holds only this project's code, and its environment was cleared before it began. A forked child
closes every descriptor but its own pipes and enters the jail before it reads from them.
"""

from __future__ import annotations

import inspect  # noqa: F401 - these four for the guests, which import them
import os
import pathlib  # noqa: F401
import shutil  # noqa: F401
import tempfile  # noqa: F401
import traceback

from meta_agent.core.sandbox.inside._jail import Plan, chosen, enter
from meta_agent.core.sandbox.inside.forks import fork_on_orders
from meta_agent.core.sandbox.inside.frames import Json
from meta_agent.core.sandbox.inside.lockdown import lock
from meta_agent.core.sandbox.inside.processes import Here
from meta_agent.core.sandbox.inside.worker import MAX_DESCRIPTORS, main

Order = dict[str, Json]


def serve(descriptor: int) -> None:
    """Forks sandboxes, and says how they ended, as the host orders; exits once the host is gone."""
    os.umask(0o022)
    (plan, fenced, order), stdio = fork_on_orders(descriptor, _planned)
    try:
        become(plan, fenced, order, stdio)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _planned(order: Order) -> tuple[Plan, bool, Order]:
    """Returns the plan of a sandbox, and whether it gets fences, with the order for it."""
    return *chosen(Plan(order["folder"], order["interpreter"], order["stranger"])), order


def become(plan: Plan, fenced: bool, order: Order, stdio: list[int]) -> None:
    """Turns the forked process into a sandbox's worker program, restricted; never returns."""
    os.setsid()
    for target, descriptor in enumerate(stdio):
        os.dup2(descriptor, target)
    os.closerange(len(stdio), MAX_DESCRIPTORS)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(f"{plan.folder}/work")
    fences = enter(plan, fenced, order["limits"])
    fences += lock(plan.folder, "files" in fences)
    Here.fences, Here.stranger = tuple(fences), plan.stranger
    main()
